//! Who enqueues rings along, in the same call.

use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use punctual_durable::{
    Due, Enqueued, Filter, Lane, NewJob, OnConflict, OnLost, PostgresStore, Store, Ticket, Timestamp,
};
use punctual_testbed::{Postgres, Settings};

use crate::{Database, work};

/// What is said, to whoever listens on this connection, until `expected` have been heard or nothing is said any more.
fn heard(listener: &mut Client, expected: usize) -> Vec<String> {
    // Whatever was told before this is asked is heard by the time it is answered.
    listener.batch_execute("SELECT 1").unwrap();
    let mut notifications = listener.notifications();
    let mut messages = Vec::new();
    let mut iter = notifications.iter();
    while let Some(notification) = iter.next().unwrap() {
        messages.push(notification.payload().to_owned());
    }
    drop(iter);
    if messages.len() < expected {
        let mut late = notifications.timeout_iter(Duration::from_secs(60));
        while messages.len() < expected {
            messages.push(late.next().unwrap().expect("somebody rings").payload().to_owned());
        }
    }
    messages
}

fn bells(sql: &mut Client) -> i64 {
    let bells = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name = 'punctual bell'";
    sql.query_one(bells, &[]).unwrap().get(0)
}

#[test]
fn what_is_due_soon_is_told_by_the_call_that_enqueues_it_when_it_is_kept() {
    let database = Database::new();
    let store = database.open();
    let (mut listener, mut sql) = (database.client(), database.client());
    listener.batch_execute("LISTEN punctual").unwrap();
    store.enqueue(vec![work().due(Due::After(Duration::from_secs(86_400)))]).unwrap();
    let error = store.enqueue(vec![NewJob::new("", "{}")]).unwrap_err();
    assert!(error.is_invalid(), "{error}");
    store.enqueue(vec![work(), work()]).unwrap();
    assert_eq!(heard(&mut listener, 1).len(), 1, "once, and nothing of what is due tomorrow");
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 3);
    assert_eq!(bells(&mut sql), 0, "nobody else had to ring");
}

#[test]
fn however_soon_after_another_somebody_rings_for_every_call() {
    let database = Database::new();
    let store = database.open();
    let mut listener = database.client();
    listener.batch_execute("LISTEN punctual").unwrap();
    for _ in 0..50 {
        heard(&mut listener, 0);
        store.enqueue(vec![work()]).unwrap();
        assert!(!heard(&mut listener, 1).is_empty());
    }
}

#[test]
fn ringing_along_changes_neither_answers_nor_jobs() {
    let batch = || {
        let mut limited = work().due(Due::After(Duration::from_secs(3)));
        limited.limits.timeout = Some(Duration::from_secs(7));
        let mut late = work().due(Due::At(Timestamp::EPOCH));
        (late.limits.max_attempts, late.limits.max_crashes, late.limits.on_lost) = (3, 2, OnLost::Fail);
        vec![work().lane(Lane::Urgent).queue("mail").then(work().queue("after")), limited, late]
    };
    let mut all = Vec::new();
    for along in [true, false] {
        let database = Database::new();
        let store = database.open();
        let answers = if along {
            store.enqueue(batch()).unwrap()
        } else {
            let mut mine = database.client();
            let mut transaction = mine.transaction().unwrap();
            let answers = store.enqueue_in(&mut transaction, batch()).unwrap();
            transaction.commit().unwrap();
            answers
        };
        let ticket = |answer: &Enqueued| match answer {
            Enqueued::New(ticket) => *ticket,
            other => panic!("{other:?}"),
        };
        let tickets: Vec<Ticket> = answers.iter().map(ticket).collect();
        let mut jobs = store.find(&Filter::new()).unwrap();
        for (job, ticket) in jobs.iter_mut().zip(&tickets) {
            assert_eq!(
                (job.id, job.version, job.due, job.lane),
                (ticket.id, ticket.version, ticket.due, ticket.lane)
            );
            // The rest is the same wherever and whenever.
            if job.due != Timestamp::EPOCH {
                job.due = Timestamp::EPOCH.after(job.due.since(job.created));
            }
            job.created = Timestamp::EPOCH;
        }
        all.push(jobs);
    }
    assert_eq!(all[0].len(), 3);
    assert_eq!(all[0], all[1]);
}

#[test]
fn jobs_that_are_refused_are_not_told_of() {
    let database = Database::new();
    let store = database.open();
    let (mut listener, mut sql) = (database.client(), database.client());
    listener.batch_execute("LISTEN punctual").unwrap();
    sql.batch_execute("ALTER TABLE punctual.job ADD CHECK (payload <> 'no')").unwrap();
    let error = store.enqueue(vec![work(), NewJob::new("work", "no")]).unwrap_err();
    assert!(error.is_broken(), "{error:?}");
    assert_eq!(heard(&mut listener, 0), [""; 0]);
    assert_eq!(store.find(&Filter::new()).unwrap(), []);
}

/// Somebody else might be told that the key is taken, by a job that is not on the disk yet.
#[test]
fn jobs_with_keys_are_told_of_when_they_are_on_the_disk() {
    let database = Database::new();
    let store = database.open();
    let (mut listener, mut sql) = (database.client(), database.client());
    listener.batch_execute("LISTEN punctual").unwrap();
    store.enqueue(vec![work(), work().unique("k", OnConflict::Keep)]).unwrap();
    assert_eq!(heard(&mut listener, 1).len(), 1);
    assert_eq!(bells(&mut sql), 1, "by the thread");
}

#[test]
fn who_has_been_answered_has_jobs_that_survive_the_death_of_the_server() {
    // Nobody else brings the log to the disk before the server dies.
    let server = Postgres::start(
        Settings::fast().option("synchronous_commit", "on").option("wal_writer_delay", "10s"),
    );
    let url = server.fresh_database();
    let store = PostgresStore::open(&url).unwrap();
    for n in 1..=5 {
        let along = PostgresStore::open(&url).unwrap();
        let accepted = along.enqueue(vec![work()]).unwrap();
        server.stop_immediate();
        server.restart();
        // The connection is broken, and this only looks.
        let jobs = store.find(&Filter::new()).unwrap();
        assert_eq!((jobs.len(), jobs.last().unwrap().id), (n, accepted[0].id()));
    }
}
