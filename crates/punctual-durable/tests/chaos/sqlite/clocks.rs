//! Clocks that are set, an hour forward and an hour back, while jobs wait.
//!
//! A file has no clock of its own: its time is that of the machine. So the rule is that of the machine: nothing starts
//! before its clock shows the due time, and everything does once it does.

use std::time::Duration;

use punctual_durable::Due;

use crate::program::{Act, Orders};
use crate::world::World;
use crate::{node::Node, tell};

const HOUR: i64 = 3_600_000_000;

#[test]
fn a_clock_set_forward_brings_jobs_due_and_one_set_back_makes_them_wait() {
    let mut world = World::sqlite();
    let in_half_an_hour = || World::job(Act::Plain).due(Due::After(Duration::from_secs(1_800)));
    let now = || World::job(Act::Plain);
    let mut node = world.spawn();
    world.enqueue(vec![now(), in_half_an_hour()]);
    world.await_records(1);
    node.order(&format!("clock {HOUR}"));
    world.await_records(1);

    // An hour behind: what is due by our clock is not by its own. What its own jobs spawn is due at once.
    node.order(&format!("clock {}", -HOUR));
    world.enqueue(vec![now()]);
    let long_ago = punctual_durable::Timestamp::EPOCH;
    world.enqueue(vec![World::job(Act::Spawn).due(Due::At(long_ago))]);
    world.await_records(2);
    assert_eq!(world.records().iter().filter(|job| !job.state.is_over()).count(), 1);
    node.order("clock 0");
    world.await_all();
    node.end();
    tell("a clock set three times", world.verdict());
}

#[test]
fn a_successor_whose_clock_is_an_hour_off_either_way_loses_nothing() {
    let mut world = World::sqlite();
    for ahead in [HOUR, -HOUR, 0] {
        let node = Node::spawn(&Orders { ahead, ..world.orders() }, &world.sender);
        world.enqueue_some(10);
        // By a clock that is behind nothing is due yet.
        world.enqueue(vec![World::job(Act::Spawn).due(Due::At(punctual_durable::Timestamp::EPOCH)); 4]);
        world.await_records(4);
        node.kill();
    }
    let node = world.spawn();
    // What was spawned by a clock ahead is due in an hour.
    for job in world.records() {
        let _ = world.store.reschedule(job.id, Due::After(Duration::ZERO)).unwrap();
    }
    world.await_all();
    node.end();
    tell("nodes with clocks an hour off", world.verdict());
}
