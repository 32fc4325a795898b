//! Nobody looks from the beginning of a line, and nothing is missed: see `store/postgres/low.rs`.

use punctual_durable::{Due, Exchange, JobId, Peek, QueueChange, Store, Verdict};

use crate::{Database, Hand, kinds, work};

/// Makes the node learn that all before now is settled.
fn settle(hand: &Hand) {
    for _ in 0..3 {
        let id = hand.store.enqueue(vec![work()]).unwrap()[0].id();
        let answer = hand.sweep(9);
        assert_eq!(answer.claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
        hand.done(&answer, 0);
    }
}

fn ids(hand: &Hand) -> Vec<JobId> {
    hand.sweep(9).claimed.iter().map(|job| job.id).collect()
}

#[test]
fn a_transaction_that_commits_late_is_not_overlooked() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let mut mine = database.client();
    settle(&hand);
    let mut transaction = mine.transaction().unwrap();
    let late = hand.store.enqueue_in(&mut transaction, vec![work()]).unwrap()[0].id();
    settle(&hand);
    transaction.commit().unwrap();
    assert_eq!(ids(&hand), [late]);
}

#[test]
fn what_is_due_in_the_past_is_not_overlooked() {
    let database = Database::new();
    let (hand, other) = (Hand::new(&database), Hand::new(&database));
    settle(&hand);
    let past = || Due::At(punctual_durable::Timestamp::EPOCH);
    let old = other.store.enqueue(vec![work().due(past())]).unwrap()[0].id();
    assert_eq!(ids(&hand), [old], "accepted");
    settle(&hand);
    let given = other.store.enqueue(vec![work().due(past())]).unwrap()[0].id();
    let held = other.sweep(1).claimed.remove(0);
    assert_eq!(held.id, given);
    settle(&hand);
    let report = punctual_durable::Report::new(held.id, held.fence, Verdict::Release);
    other.store.exchange(other.id, Exchange::new(kinds()).reports(vec![report])).unwrap();
    assert_eq!(ids(&hand), [given], "given back");
    settle(&hand);
    let later = other.store.enqueue(vec![work().due(Due::After(crate::LEASE))]).unwrap()[0].id();
    settle(&hand);
    other.store.reschedule(later, past()).unwrap();
    assert_eq!(ids(&hand), [later], "moved");
}

/// Somebody who takes long over a job that is due in the past keeps nobody waiting.
#[test]
fn a_late_job_in_a_transaction_that_does_not_end_blocks_nobody() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let mut mine = database.client();
    let past = || work().due(Due::At(punctual_durable::Timestamp::EPOCH));
    let mut transaction = mine.transaction().unwrap();
    hand.store.enqueue_in(&mut transaction, vec![past()]).unwrap();
    let other = hand.store.enqueue(vec![past()]).unwrap()[0].id();
    let held = hand.sweep(9).claimed.remove(0);
    assert_eq!(held.id, other);
    let report = punctual_durable::Report::new(held.id, held.fence, Verdict::Release);
    hand.store.exchange(hand.id, Exchange::new(kinds()).reports(vec![report])).unwrap();
    assert_eq!(ids(&hand), [other]);
    transaction.commit().unwrap();
    assert_eq!(ids(&hand).len(), 1);
}

/// Longer than the patience of `low.rs`, by the clock of the server.
fn let_patience_end(database: &Database) {
    database.client().batch_execute("SELECT pg_sleep(0.3)").unwrap();
}

/// One that takes very long is passed over, so that it holds up nobody, and looked for when it has ended.
#[test]
fn a_transaction_that_commits_very_late_is_not_overlooked_either() {
    let database = Database::alone();
    let hand = Hand::new(&database);
    let overdue = || {
        let peek = Peek::new(kinds(), hand.store.now(), 9).after(hand.store.now());
        hand.store.peek(&peek).unwrap().overdue
    };
    let mut mine = database.client();
    settle(&hand);
    let mut transaction = mine.transaction().unwrap();
    let late = hand.store.enqueue_in(&mut transaction, vec![work()]).unwrap()[0].id();
    settle(&hand);
    let_patience_end(&database);
    settle(&hand);
    assert!(!overdue());
    transaction.commit().unwrap();
    assert!(overdue());
    assert_eq!(ids(&hand), [late]);
    assert!(!overdue());
}

/// Nobody looks at the line of a paused queue, also not when such a transaction ends: that is made up for.
#[test]
fn a_transaction_that_commits_very_late_into_a_paused_queue_is_not_overlooked_either() {
    let database = Database::alone();
    let hand = Hand::new(&database);
    let second = || work().queue("second");
    let mut mine = database.client();
    settle(&hand);
    hand.store.enqueue(vec![second()]).unwrap();
    assert_eq!(ids(&hand).len(), 1, "its line is known");
    let mut transaction = mine.transaction().unwrap();
    let late = hand.store.enqueue_in(&mut transaction, vec![second()]).unwrap()[0].id();
    settle(&hand);
    let_patience_end(&database);
    settle(&hand);
    hand.store.set_queue("second", QueueChange::Pause("for a while".to_owned())).unwrap();
    transaction.commit().unwrap();
    settle(&hand);
    hand.store.set_queue("second", QueueChange::Resume).unwrap();
    assert_eq!(ids(&hand), [late]);
}

/// What comes to wait then is due before all that was settled.
#[test]
fn after_the_clock_of_the_server_was_set_back_nothing_is_overlooked() {
    let database = Database::new();
    let hand = Hand::new(&database);
    settle(&hand);
    let set_back = |by: &str| {
        let sql = format!(
            "CREATE OR REPLACE FUNCTION punctual.clock() RETURNS bigint LANGUAGE sql VOLATILE AS \
             $$ SELECT (extract(epoch FROM clock_timestamp() - interval '{by}') * 1000000)::bigint $$"
        );
        database.client().batch_execute(&sql).unwrap();
    };
    set_back("5 minutes");
    let first = hand.store.enqueue(vec![work()]).unwrap()[0].id();
    let peek = Peek::new(kinds(), hand.store.now(), 9).after(hand.store.now());
    assert!(hand.store.peek(&peek).unwrap().overdue);
    assert_eq!(ids(&hand), [first]);
    settle(&hand);
    set_back("10 minutes");
    let second = hand.store.enqueue(vec![work()]).unwrap()[0].id();
    let found = [ids(&hand), ids(&hand)].concat();
    assert_eq!(found, [second], "by the second sweep at the latest");
    settle(&hand);
}

/// A held snapshot keeps entries of dead rows in the index. A sweep reads those since the last one, not all.
#[test]
fn a_held_snapshot_does_not_make_sweeps_dearer() {
    sweeps_read_little_while_somebody_holds(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual.job",
    );
}

/// The same of one who writes: nobody knows what it has added.
#[test]
fn a_transaction_that_writes_and_does_not_end_does_not_either() {
    sweeps_read_little_while_somebody_holds(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()",
    );
}

fn sweeps_read_little_while_somebody_holds(hold: &str) {
    const BATCHES: i64 = 20;
    const BATCH: usize = 100;
    // Transactions in other databases of the server have numbers, too.
    let database = Database::alone();
    let hand = Hand::new(&database);
    settle(&hand);
    let mut holder = database.client();
    holder.batch_execute(hold).unwrap();
    settle(&hand);
    let_patience_end(&database);
    settle(&hand);
    for _ in 0..BATCHES {
        hand.store.enqueue(vec![work(); BATCH]).unwrap();
        let answer = hand.sweep(BATCH);
        assert_eq!(answer.claimed.len(), BATCH);
        hand.done(&answer, 0);
    }
    // A session counts what it has read when it ends, at the latest.
    drop(hand);
    let mut watcher = database.client();
    let mut ask = |sql: &str| watcher.query_one(sql, &[]).unwrap().get::<_, i64>(0);
    while ask(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'punctual%'",
    ) > 0
    {
        std::thread::yield_now();
    }
    let read = ask("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'job_waiting'");
    let batch = i64::try_from(BATCH).unwrap();
    // From the beginning each time, it would be two looks at all batches so far.
    let from_the_beginning = batch * BATCHES * (BATCHES + 1);
    assert!(
        read < from_the_beginning / 3,
        "{read} entries were read, {from_the_beginning} from the beginning"
    );
    assert!(read >= batch * BATCHES, "the counter counts: {read}");
    holder.batch_execute("COMMIT").unwrap();
}

/// Where a snapshot is held, vacuum leaves word that a table full of dead rows has none at all, and then one index seems as
/// good as another to whoever plans. Jobs that are known by their ids were looked for in the index of those that wait, from
/// its beginning to its end, and the whole store stood still until the next analysis.
#[test]
fn jobs_can_be_found_by_their_ids_in_one_index_only() {
    let database = Database::new();
    drop(Hand::new(&database));
    let sql = "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = 'id' \
               WHERE i.indrelid = 'punctual.job'::regclass AND i.indpred IS NULL AND a.attnum = ANY (i.indkey)";
    let rows = database.client().query(sql, &[]).unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["job_pkey"]);
}
