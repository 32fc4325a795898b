//! Copies that are killed, and made again.

use std::sync::mpsc::channel;

use punctual_durable::{Filter, JobRecord, Store, export, import, transfer};
use punctual_testbed::Postgres;

use crate::cycles;
use crate::folder::Folder;
use crate::node::Node;
use crate::place::Place;
use crate::program::{Act, Orders};
use crate::world::World;

/// Some pages.
const JOBS: usize = 1_000;

/// In their order, as far as they are the same wherever they are kept.
fn jobs(store: &dyn Store) -> Vec<String> {
    let told = |job: JobRecord| {
        format!("{:?}", (job.queue, job.state, job.payload, job.unique, job.then, job.created))
    };
    store.find(&Filter::new().limit(usize::MAX)).unwrap().into_iter().map(told).collect()
}

/// Kills whoever copies, in the middle, and has it copied again.
fn copy_with_deaths(orders: &Orders, to: &Place) {
    let (source, target) = (orders.place.open().unwrap(), to.open().unwrap());
    let count = |store: &dyn Store| store.find(&Filter::new().limit(usize::MAX)).unwrap().len();
    let (all, (sender, _lines)) = (count(&*source), channel());
    let orders = Orders { copy_to: Some(to.clone()), ..orders.clone() };
    let mut deaths = 0;
    while count(&*target) < all && deaths < cycles() {
        let until = (count(&*target) + fastrand::usize(..250)).min(all);
        let copier = Node::spawn(&orders, &sender);
        while count(&*target) < until {
            std::thread::yield_now();
        }
        copier.kill();
        deaths += 1;
    }
    transfer(&*source, &*target).unwrap();
    assert_eq!(transfer(&*source, &*target).unwrap().jobs, 0, "that was all");
    assert_eq!(jobs(&*target), jobs(&*source));
    println!("chaos: {deaths} copiers killed, {all} jobs, each once");
}

#[test]
fn a_copy_that_is_killed_and_made_again_has_everything_once() {
    let world = World::sqlite();
    let job = |n: usize| {
        let mut job =
            World::chain().queue(format!("queue {}", n % 3)).unique(n.to_string(), Default::default());
        job.payload = n.to_string();
        job
    };
    let ids: Vec<_> =
        world.store.enqueue((0..JOBS).map(job).collect()).unwrap().iter().map(|it| it.id()).collect();
    world.store.cancel(ids.into_iter().step_by(7).collect()).unwrap();
    world.store.enqueue(vec![World::job(Act::Plain)]).unwrap();
    let folder = Folder::new();
    let server = Place::Postgres(Postgres::shared().fresh_database());
    let back = Place::Sqlite(folder.file("back.db"));
    copy_with_deaths(&world.orders(), &server);
    copy_with_deaths(&Orders { place: server.clone(), ..world.orders() }, &back);
    let (mut file, read) = (Vec::new(), Place::Sqlite(folder.file("read.db")).open().unwrap());
    export(&*server.open().unwrap(), &mut file).unwrap();
    import(file.as_slice(), &*read).unwrap();
    for copy in [back.open().unwrap(), read] {
        assert_eq!(jobs(&*copy), jobs(&*world.store));
    }
    Postgres::shared().drop_database(server.url());
}
