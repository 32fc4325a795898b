//! Nodes whose machine is an hour off: the clock of the server is the only one.
//!
//! Nothing is early and nothing is an hour late, nobody is taken for dead who lives, and nobody lives an hour longer than
//! the server says. The processes log what the clock of the machine really shows, which is that of the server, too.

use std::time::Duration;

use punctual_testbed::Postgres;

use crate::node::Node;
use crate::program::{Act, Orders, THREADS};
use crate::shift::Shift;
use crate::tell;
use crate::world::World;

const HOUR: i64 = 3_600;

/// One node beside others with the right clock, its own set forward and back while it works. Leases are so long that none
/// lapses by itself: whoever starts a job again has been misled by a clock, and the strict rules find it. Each of the
/// others looks for the dead as soon as it comes.
#[test]
fn a_node_an_hour_off_is_neither_early_nor_late_and_is_not_taken_for_dead() {
    let mut world = World::postgres(Postgres::shared());
    let Some(shift) = Shift::make_in(&world.folder) else { return };
    world.leave.leases_lapse = false;
    world.lease = Duration::from_secs(600);
    world.start_series();
    for seconds in [HOUR, -HOUR] {
        shift.set(seconds);
        let mut off = Node::spawn(&Orders { shift: Some(shift.clone()), ..world.orders() }, &world.sender);
        world.await_line(&format!("the clock is {seconds} s off"));
        let held = world.enqueue(vec![World::job(Act::Hold); THREADS]);
        world.await_held(&held);
        for seconds in [seconds, -seconds] {
            shift.set(seconds);
            let right = world.spawn();
            world.enqueue_some(20);
            world.await_records(20);
            right.end();
        }
        // Alone, with jobs of its own that are due a little later.
        off.order("go");
        for seconds in [seconds, 0, -seconds] {
            shift.set(seconds);
            world.enqueue(vec![World::job(Act::Spawn); 20]);
            world.await_records(20);
        }
        off.end();
    }
    let right = world.spawn();
    world.await_all();
    right.end();
    let seen = world.verdict();
    assert_eq!((seen.repeated, seen.refused), (0, 0), "{seen}");
    assert!(world.records().iter().all(|job| job.crashes == 0));
    tell("nodes whose clocks are set an hour forward and back", seen);
}

/// Both ways round: the one who dies and the one who takes its place, an hour apart.
#[test]
fn a_dead_node_is_outlived_by_its_lease_and_not_by_an_hour() {
    let mut world = World::postgres(Postgres::shared());
    let Some(shift) = Shift::make_in(&world.folder) else { return };
    for (dying, heir) in [(HOUR, 0), (-HOUR, 0), (0, HOUR), (0, -HOUR), (HOUR, -HOUR), (-HOUR, HOUR)] {
        let held = world.enqueue(vec![World::job(Act::Hold)])[0];
        shift.set(dying);
        let node = Node::spawn(&Orders { shift: Some(shift.clone()), ..world.orders() }, &world.sender);
        world.await_held(&[held]);
        node.kill();
        shift.set(heir);
        let mut node = Node::spawn(&Orders { shift: Some(shift.clone()), ..world.orders() }, &world.sender);
        node.order("go");
        world.await_line(&format!("job {held} is done"));
        node.end();
        let record = world.store.job(held).unwrap().unwrap();
        assert!(record.crashes >= 1, "{dying} and {heir}: {record:?}");
    }
    world.await_all();
    tell("six nodes that die an hour apart", world.verdict());
}
