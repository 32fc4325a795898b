//! Processes that are stopped for longer than their lease, and go on.

use std::time::Duration;

use punctual_durable::JobState;

use crate::node::Node;
use crate::program::{Act, Orders};
use crate::tell;
use crate::world::World;

const LEASE: Duration = Duration::from_millis(200);

/// A stopped process still has its file: its jobs wait with it, and nobody runs them a second time.
#[test]
fn a_stopped_owner_of_a_file_keeps_it_and_its_outcome_counts() {
    let mut world = World::sqlite();
    let held = world.enqueue(vec![World::job(Act::Hold)])[0];
    let mut owner = Node::spawn(&Orders { lease: LEASE, ..world.orders() }, &world.sender);
    world.await_line("holding");
    let standby = world.spawn();
    world.await_line("standing by");
    owner.stop();
    world.enqueue_some(10);
    assert!(world.is_silent("claiming", 3 * LEASE), "the file is not given up");
    assert_eq!(world.store.job(held).unwrap().unwrap().state, JobState::Claimed);
    owner.resume();
    owner.order("go");
    world.await_all();
    let record = world.store.job(held).unwrap().unwrap();
    assert_eq!((record.state, record.crashes), (JobState::Done, 0));
    let seen = world.verdict();
    assert_eq!((seen.repeated, seen.refused), (0, 0));
    tell("an owner stopped for three leases", seen);

    // When it is gone for good, the other takes over.
    owner.kill();
    world.await_line("claiming");
    world.enqueue_some(5);
    world.await_all();
    standby.end();
    world.verdict();
}
