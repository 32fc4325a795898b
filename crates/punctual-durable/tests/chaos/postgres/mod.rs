//! Faults of nodes that share a server.

mod clocks;
mod server;

use punctual_durable::{JobRecord, Timestamp};
use punctual_testbed::Postgres;

use crate::program::Act;
use crate::world::World;
use crate::{cycles, outlived, scenarios, tell};

#[test]
fn nodes_killed_at_random_lose_nothing_and_record_everything_once() {
    scenarios::kills_at_random(World::postgres(Postgres::shared()), 3);
}

/// Its jobs wait for its lease: fewer deaths than on a file, but for the long form.
#[test]
fn a_node_that_dies_between_any_two_steps_loses_nothing() {
    let times = if cycles() < 100 { 1 } else { 3 };
    scenarios::deaths_between_steps(World::postgres(Postgres::shared()), times);
}

#[test]
fn what_a_killed_node_had_to_do_is_done_by_others_when_its_lease_is_over() {
    let lease_end = |world: &World, job: &JobRecord| {
        let mut client = postgres::Client::connect(world.place.url(), postgres::NoTls).unwrap();
        let sql = "SELECT until FROM punctual.node WHERE id = $1";
        let until = client.query_opt(sql, &[&job.owner?.as_i64()]).unwrap()?;
        Some(Timestamp::from_micros(until.get(0)))
    };
    outlived::killed_nodes_are_outlived(World::postgres(Postgres::shared()), lease_end);
}

#[test]
fn a_job_that_kills_its_process_dies_and_the_others_live() {
    scenarios::poison(World::postgres(Postgres::shared()));
}

/// Others take what it held; when it goes on, its report is refused, and the outcome stays that of the other.
#[test]
fn a_stopped_node_loses_what_it_holds_and_its_stale_finish_is_refused() {
    let mut world = World::postgres(Postgres::shared());
    let held = world.enqueue(vec![World::job(Act::Hold)])[0];
    let mut stopped = world.spawn();
    world.await_line("holding");
    stopped.stop();
    let mut other = world.spawn();
    other.order("go");
    world.await_line(&format!("job {held} is done"));
    world.enqueue_some(10);
    world.await_records(5);
    stopped.resume();
    stopped.order("go");
    world.await_line("its outcome was not recorded");
    world.await_all();
    stopped.end();
    other.end();
    let record = world.store.job(held).unwrap().unwrap();
    assert!(record.crashes >= 1, "{record:?}");
    let seen = world.verdict();
    assert!(seen.refused >= 1, "{seen}");
    tell("a node stopped past its lease", seen);
}
