//! What a node holds is in its row, whoever wrote that last: what is not there nobody would rescue.

use std::collections::BTreeSet;

use punctual_durable::{JobId, Store};

use crate::{Database, Hand, LEASE, work};

/// The ids in the rows of all nodes.
fn held(database: &Database) -> BTreeSet<JobId> {
    let sql = "SELECT unnest(held) FROM punctual.node";
    let rows = database.client().query(sql, &[]).unwrap();
    rows.iter().map(|row| JobId::from_i64(row.get(0))).collect()
}

#[test]
fn a_row_that_another_connection_has_written_is_not_written_over() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let twin = Hand { store: database.open(), id: hand.id };
    let ids: BTreeSet<JobId> =
        hand.store.enqueue(vec![work(); 8]).unwrap().iter().map(|accepted| accepted.id()).collect();
    let mut claimed = BTreeSet::new();
    for (turn, place) in [&hand, &hand, &twin, &hand, &twin, &twin, &hand, &hand].into_iter().enumerate() {
        let answer = place.sweep(1);
        claimed.extend(answer.claimed.iter().map(|job| job.id));
        assert_eq!((claimed.len(), held(&database)), (turn + 1, claimed.clone()));
    }
    assert_eq!(claimed, ids);
    // A renewal writes the row, too, and one that has been forgotten is another row.
    hand.store.renew(hand.id, LEASE).unwrap();
    let more = hand.store.enqueue(vec![work()]).unwrap()[0].id();
    let answer = hand.sweep(1);
    assert!(held(&database).contains(&more) && held(&database).len() == 9);
    hand.done(&answer, 0);
    assert_eq!(held(&database), ids);
}

#[test]
fn what_is_done_and_what_is_claimed_change_the_row_together() {
    let database = Database::new();
    let hand = Hand::new(&database);
    hand.store.enqueue(vec![work(); 40]).unwrap();
    let mut answer = hand.sweep(10);
    for _ in 0..3 {
        assert_eq!(held(&database), answer.claimed.iter().map(|job| job.id).collect());
        answer = hand.done(&answer, 10);
    }
    hand.done(&answer, 0);
    assert_eq!(held(&database), BTreeSet::new());
}

/// Somebody who holds a snapshot keeps every version of the row. A node finds its own without walking over them.
#[test]
fn a_node_finds_its_row_however_many_versions_there_are() {
    const ROUNDS: i64 = 100;
    let database = Database::alone();
    let hand = Hand::new(&database);
    let mut holder = database.client();
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual.job").unwrap();
    for _ in 0..ROUNDS {
        hand.store.enqueue(vec![work()]).unwrap();
        let answer = hand.sweep(1);
        hand.done(&answer, 0);
    }
    drop(hand);
    let mut watcher = database.client();
    let mut ask = |sql: &str| watcher.query_one(sql, &[]).unwrap().get::<_, i64>(0);
    while ask(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'punctual%'",
    ) > 0
    {
        std::thread::yield_now();
    }
    let searches = ask("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'node_pkey'");
    assert!(searches < ROUNDS / 4, "{searches} searches in {} exchanges", 2 * ROUNDS);
    holder.batch_execute("COMMIT").unwrap();
}
