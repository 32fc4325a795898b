//! Faults of nodes on one file.

mod clocks;
mod disk;
mod full;
mod seeded;
mod stops;
mod torn;

use crate::world::World;
use crate::{outlived, scenarios};

/// Two at a time: when the one that has the file is killed, the other takes over.
#[test]
fn nodes_killed_at_random_lose_nothing_and_record_everything_once() {
    scenarios::kills_at_random(World::sqlite(), 2);
}

#[test]
fn a_node_that_dies_between_any_two_steps_loses_nothing() {
    scenarios::deaths_between_steps(World::sqlite(), 3);
}

#[test]
fn what_a_killed_node_had_to_do_is_done_by_the_standby() {
    outlived::killed_nodes_are_outlived(World::sqlite(), |_, _| None);
}

#[test]
fn a_job_that_kills_its_process_dies_and_the_others_live() {
    scenarios::poison(World::sqlite());
}
