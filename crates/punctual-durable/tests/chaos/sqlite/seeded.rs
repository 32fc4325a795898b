//! Faults that are really there: does the checker notice?
//!
//! The tests at the end of `checker.rs` show that each rule finds a seeded line. These show the same of the whole harness:
//! the store is tampered with behind everybody's back, and the processes tell the truth of what then happens.

use punctual_durable::{Due, JobState};
use rusqlite::Connection;

use crate::checker::Violation;
use crate::node::Node;
use crate::program::{Act, Orders};
use crate::world::World;

fn tamper(world: &World, sql: &str) {
    let file = Connection::open(world.folder.file("jobs.db")).unwrap();
    file.busy_timeout(crate::PATIENCE).unwrap();
    assert_eq!(file.execute(sql, []).unwrap(), 1, "{sql}");
}

#[test]
fn a_job_that_is_lost_is_noticed() {
    let mut world = World::sqlite();
    let id = world.enqueue(vec![World::job(Act::Plain); 3])[1].as_i64();
    tamper(&world, &format!("DELETE FROM punctual_job WHERE id = {id}"));
    let node = world.spawn();
    world.await_all();
    node.end();
    assert_eq!(world.judge(), Err(vec![Violation::Lost { id }]));
}

#[test]
fn a_job_that_is_over_twice_is_noticed() {
    let mut world = World::sqlite();
    let id = world.enqueue(vec![World::job(Act::Plain)])[0].as_i64();
    let node = world.spawn();
    world.await_all();
    let again =
        format!("UPDATE punctual_job SET state = 0, payload = '{{\"act\":\"Plain\"}}' WHERE id = {id}");
    tamper(&world, &again);
    world.await_records(1);
    world.await_all();
    node.end();
    let wrong = world.judge().unwrap_err();
    assert!(wrong.contains(&Violation::OverTwice { id, times: 2 }), "{wrong:?}");
    assert!(wrong.iter().any(|it| matches!(it, Violation::StartedAfterTheEnd { .. })), "{wrong:?}");
}

#[test]
fn a_job_that_starts_early_is_noticed() {
    let mut world = World::sqlite();
    let hour = std::time::Duration::from_secs(3_600);
    let id = world.enqueue(vec![World::job(Act::Plain).due(Due::After(hour))])[0].as_i64();
    let orders = Orders { ahead: 2 * 3_600_000_000, lies: true, ..world.orders() };
    let node = Node::spawn(&orders, &world.sender);
    world.await_all();
    node.end();
    let wrong = world.judge().unwrap_err();
    assert!(
        matches!(wrong[..], [Violation::Early { id: early, micros }] if early == id && micros > 3_000_000_000)
    );
}

/// The claim is given to another while its holder is at work: the holder's report must be refused, and if it were
/// not, the checker would say so.
#[test]
fn a_claim_that_is_taken_away_is_refused_and_one_that_is_believed_all_the_same_is_noticed() {
    let mut world = World::sqlite();
    let id = world.enqueue(vec![World::job(Act::Hold)])[0];
    let mut node = world.spawn();
    world.await_line("holding");
    // As a rescue by another node, and its claim.
    let key = id.as_i64();
    tamper(&world, &format!("UPDATE punctual_job SET owner = 7, fence = fence + 1000 WHERE id = {key}"));
    node.order("go");
    world.await_line("its outcome was not recorded");
    assert_eq!(world.store.job(id).unwrap().unwrap().state, JobState::Claimed);
    tamper(&world, &format!("UPDATE punctual_job SET state = 2 WHERE id = {key}"));
    node.end();
    world.await_all();
    let wrong = world.judge().unwrap_err();
    assert!(
        wrong.iter().any(|it| matches!(it, Violation::StaleOutcome { id, .. } if *id == key)),
        "{wrong:?}"
    );
}

#[test]
fn a_successor_that_is_lost_is_noticed() {
    let mut world = World::sqlite();
    let ids = [World::chain(), World::job(Act::Plain)].map(|job| world.enqueue(vec![job])[0].as_i64());
    tamper(&world, &format!("UPDATE punctual_job SET follow = NULL WHERE id = {}", ids[0]));
    let node = world.spawn();
    world.await_all();
    node.end();
    assert_eq!(world.judge(), Err(vec![Violation::SuccessorMissing { id: ids[0] }]));
}

/// Another job is passed off as the successor of one that is not done yet; then the real one follows.
#[test]
fn a_successor_that_comes_too_soon_or_twice_is_noticed() {
    let mut world = World::sqlite();
    let held = World::job(Act::Hold).then(World::job(Act::Plain));
    let id = world.enqueue(vec![held])[0].as_i64();
    let mut node = world.spawn();
    world.await_line("holding");
    let successor = world.enqueue(vec![World::job(Act::Plain)])[0].as_i64();
    world.await_records(1);
    tamper(&world, &format!("UPDATE punctual_job SET parent = {id} WHERE id = {successor}"));
    node.order("go");
    world.await_all();
    node.end();
    let expected =
        [Violation::SuccessorTwice { id, times: 2 }, Violation::SuccessorTooSoon { id, successor }];
    assert_eq!(world.judge(), Err(expected.into()));
}
