//! What a node holds is in its row, whoever wrote that last: what is not there nobody would rescue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock as _, ManualClock, SystemClock};
use punctual_durable::{Exchange, JobId, PostgresStore, QueueChange, Store};
use punctual_testbed::{Postgres, Settings};

use crate::{Database, Hand, LEASE, kinds, new_ticket, work};

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
fn what_is_claimed_by_name_is_in_the_row_whoever_has_written_it() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let twin = Hand { store: database.open(), id: hand.id };
    let teller = database.open();
    let mut all = BTreeSet::new();
    let mut claim = |place: &Hand, count: usize| {
        let tickets: Vec<_> = teller.enqueue(vec![work(); count]).unwrap().iter().map(new_ticket).collect();
        let ids: Vec<JobId> = tickets.iter().map(|ticket| ticket.id).collect();
        all.extend(&ids);
        let twice = [tickets.clone(), tickets].concat();
        let answer = place.store.exchange(place.id, Exchange::new(kinds()).claims(twice)).unwrap();
        assert_eq!(answer.claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids, "in their order");
        assert!(answer.claimed.is_sorted_by(|a, b| a.fence < b.fence));
        assert_eq!(held(&database), all);
        answer
    };
    claim(&hand, 1);
    claim(&hand, 1);
    claim(&hand, 7);
    claim(&twin, 2);
    claim(&hand, 2);
    hand.store.renew(hand.id, LEASE).unwrap();
    claim(&hand, 1);
    claim(&hand, 120);
    let last = claim(&hand, 3);
    hand.done(&last, 0);
    assert_eq!(
        held(&database),
        all.difference(&last.claimed.iter().map(|job| job.id).collect()).copied().collect()
    );
}

/// Though it has claimed before, and nobody has touched its row.
#[test]
fn whose_lease_is_over_claims_nothing_by_name() {
    let (database, clock) = (Database::new(), ManualClock::new());
    let hand = Hand::on(PostgresStore::open_with_time(&database.url, clock.clone()).unwrap().into());
    let claim = |ticket| {
        hand.store.exchange(hand.id, Exchange::new(kinds()).claims(vec![ticket])).unwrap().claimed.len()
    };
    let ticket = || new_ticket(&hand.store.enqueue(vec![work()]).unwrap()[0]);
    assert_eq!((claim(ticket()), claim(ticket())), (1, 1));
    clock.advance(LEASE - Duration::from_micros(1));
    assert_eq!(claim(ticket()), 1);
    clock.advance(Duration::from_micros(1));
    let late = ticket();
    assert_eq!((claim(late), held(&database).len()), (0, 3));
    hand.store.renew(hand.id, LEASE).unwrap();
    assert_eq!((claim(late), held(&database).len()), (1, 4));
}

/// Who has heard of a job claims it without looking at anything else; where that will not do, it is not tried again soon.
#[test]
fn a_claim_by_name_is_one_plain_statement_unless_a_queue_is_held_back() {
    let server = Postgres::start(Settings::fast().option("log_statement", "all"));
    let url = server.fresh_database();
    let hand = Hand::on(PostgresStore::open(&url).unwrap().into());
    let mut database = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    let claim = || {
        let ticket = new_ticket(&hand.store.enqueue(vec![work()]).unwrap()[0]);
        hand.store.exchange(hand.id, Exchange::new(kinds()).claims(vec![ticket])).unwrap().claimed.len()
    };
    let calls = || {
        let log = server.log();
        (log.matches("WITH start AS MATERIALIZED").count(), log.matches("FROM punctual.exchange(").count())
    };
    assert_eq!((claim(), calls()), (1, (0, 1)), "where its row is, is not known yet");
    assert_eq!((claim(), calls()), (1, (1, 1)));
    assert_eq!((claim(), calls()), (1, (2, 1)));
    hand.store.renew(hand.id, LEASE).unwrap();
    assert_eq!((claim(), calls()), (1, (2, 2)), "it has moved");
    assert_eq!((claim(), calls()), (1, (3, 2)));
    database.batch_execute("UPDATE punctual.node SET until = until").unwrap();
    assert_eq!((claim(), calls()), (1, (4, 3)), "and once more, unheard of");
    assert_eq!((claim(), calls()), (1, (5, 3)));
    let other = Hand::on(Arc::clone(&hand.store));
    assert_eq!((claim(), calls()), (1, (6, 3)), "another node has its own row");
    assert_eq!(other.sweep(1).claimed.len(), 0);
    assert_eq!((claim(), calls()), (1, (6, 5)));
    hand.store.set_queue("narrow", QueueChange::Limit(Some(1))).unwrap();
    let clock = SystemClock::new();
    let before = clock.now();
    assert_eq!((claim(), calls()), (1, (7, 6)));
    let again = (claim(), calls());
    // On a machine that takes longer this says nothing.
    if clock.now().since(before) < Duration::from_secs(1) {
        assert_eq!(again, (1, (7, 7)), "not for a second");
    }
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
