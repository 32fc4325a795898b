//! Jobs in the caller's own transactions, from Rust and from SQL.

use std::sync::mpsc::channel;
use std::time::Duration;

use punctual_durable::{
    Done, Event, Filter, JobContext, JobState, Jobs, Lane, NewJob, OnConflict, QueueChange, Store,
};

use crate::{Database, Hand, work};

#[test]
fn jobs_enqueued_in_a_transaction_share_its_fate() {
    let database = Database::new();
    let store = database.open();
    let count = || store.find(&Filter::new()).unwrap().len();
    let mut mine = database.client();
    mine.batch_execute("CREATE TABLE sale (customer integer)").unwrap();

    let mut transaction = mine.transaction().unwrap();
    store.enqueue_in(&mut transaction, vec![work(), work()]).unwrap();
    transaction.rollback().unwrap();
    assert_eq!(count(), 0);

    let mut transaction = mine.transaction().unwrap();
    transaction.execute("INSERT INTO sale VALUES (7)", &[]).unwrap();
    let keyed = || work().unique("k", OnConflict::Reject);
    let accepted = store.enqueue_in(&mut transaction, vec![keyed()]).unwrap();
    assert_eq!(store.job(accepted[0].id()).unwrap(), None, "not yet");
    let error = store.enqueue_in(&mut transaction, vec![work(), keyed()]).unwrap_err();
    assert!(error.is_conflict() && error.to_string().contains("\"k\""), "{error}");
    assert!(store.enqueue_in(&mut transaction, vec![NewJob::new("", "{}")]).unwrap_err().is_invalid());
    transaction.commit().unwrap();
    assert_eq!(count(), 1, "the batch that was refused left nothing, and the rest went on");
    assert_eq!(mine.query("SELECT FROM sale", &[]).unwrap().len(), 1);

    let elsewhere = Database::new();
    let mut other = elsewhere.client();
    let mut transaction = other.transaction().unwrap();
    assert!(store.enqueue_in(&mut transaction, vec![work()]).unwrap_err().is_broken(), "no tables there");
    transaction.batch_execute("SELECT 1").unwrap();
}

#[test]
fn the_asynchronous_driver_can_do_the_same() {
    let database = Database::new();
    let store = database.open();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ids = runtime.block_on(async {
        let (mut mine, connection) =
            tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let mut transaction = mine.transaction().await.unwrap();
        store.enqueue_in_async(&mut transaction, vec![work()]).await.unwrap();
        transaction.rollback().await.unwrap();
        let mut transaction = mine.transaction().await.unwrap();
        let keyed = || work().unique("k", OnConflict::Reject);
        let accepted = store.enqueue_in_async(&mut transaction, vec![keyed(), work()]).await.unwrap();
        assert!(store.enqueue_in_async(&mut transaction, vec![keyed()]).await.unwrap_err().is_conflict());
        transaction.commit().await.unwrap();
        accepted
    });
    let found: Vec<_> = store.find(&Filter::new()).unwrap().iter().map(|job| job.id).collect();
    assert_eq!(found, ids.iter().map(|accepted| accepted.id()).collect::<Vec<_>>());
}

/// The first job of a kind, a queue and a lane makes their line, for which others would have to wait.
#[test]
fn whoever_enqueues_by_sql_where_nobody_did_and_takes_long_keeps_nobody_waiting() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let (mut mine, mut other) = (database.client(), database.client());
    other.batch_execute("SET lock_timeout = '10s'").unwrap();
    let call = "SELECT punctual.enqueue('work', queue => 'fresh', lane => 'low')";
    let mut transaction = mine.transaction().unwrap();
    let first: i64 = transaction.query_one(call, &[]).unwrap().get(0);
    let second: i64 = transaction.query_one(call, &[]).unwrap().get(0);
    let taken_back: i64 = transaction.query_one(call, &[]).unwrap().get(0);
    let word: String = transaction.query_one("SELECT punctual.cancel($1)", &[&taken_back]).unwrap().get(0);
    assert_eq!(word, "cancelled");
    let by_sql: i64 = other.query_one(call, &[]).unwrap().get(0);
    let by_rust = hand.store.enqueue(vec![work().queue("fresh").lane(Lane::Low)]).unwrap()[0].id();
    hand.store.set_queue("fresh", QueueChange::Limit(Some(9))).unwrap();
    transaction.commit().unwrap();
    let mut claimed = hand.sweep(9).claimed;
    claimed.sort_unstable_by_key(|job| job.id);
    let ids: Vec<i64> = claimed.iter().map(|job| job.id.as_i64()).collect();
    assert_eq!(ids, [first, second, by_sql, by_rust.as_i64()]);
    assert!(claimed.iter().all(|job| (job.queue.as_str(), job.lane) == ("fresh", Lane::Low)));
    let cancelled = hand.store.find(&Filter::new().state(JobState::Cancelled)).unwrap();
    assert_eq!((cancelled.len(), cancelled[0].queue.as_str()), (1, "fresh"));

    let mut transaction = mine.transaction().unwrap();
    let call =
        "SELECT punctual.enqueue('work', queue => 'never', unique_key => 'k', on_conflict => 'replace')";
    let id: i64 = transaction.query_one(call, &[]).unwrap().get(0);
    assert_eq!(
        transaction.query_one(call, &[]).unwrap().get::<_, i64>(0),
        id,
        "replaced before it has a line"
    );
    transaction.rollback().unwrap();
    assert_eq!(hand.store.queues().unwrap().len(), 1);
    assert_eq!(mine.query("SELECT FROM punctual.arriving", &[]).unwrap().len(), 0);
}

#[test]
fn any_language_can_enqueue_cancel_and_reschedule() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let mut sql = database.client();
    let id = |sql: &mut postgres::Client, call: &str| -> i64 {
        sql.query_one(&format!("SELECT {call}"), &[]).unwrap().get(0)
    };
    let word = |sql: &mut postgres::Client, call: String| -> String {
        sql.query_one(&format!("SELECT {call}"), &[]).unwrap().get(0)
    };
    let first = id(&mut sql, "punctual.enqueue('work', '{\"n\": 1}', lane => 'urgent', timeout => '5s')");
    let later =
        id(&mut sql, "punctual.enqueue('work', delay => '1 hour', unique_key => 'k', queue => 'mail')");
    assert_eq!(id(&mut sql, "punctual.enqueue('work', unique_key => 'k')"), later);
    let held = hand.sweep(9).claimed;
    assert_eq!(held.len(), 1);
    let job = &held[0];
    assert_eq!((job.id.as_i64(), job.payload.as_deref()), (first, Some("{\"n\": 1}")));
    assert_eq!(
        (job.lane, job.limits.timeout),
        (punctual_durable::Lane::Urgent, Some(Duration::from_secs(5)))
    );
    assert_eq!(job.limits.max_attempts, punctual_durable::Limits::default().max_attempts);

    assert_eq!(word(&mut sql, format!("punctual.cancel({first})")), "requested");
    assert_eq!(hand.store.renew(hand.id, crate::LEASE).unwrap().cancels, [job.id]);
    let moved: bool = sql
        .query_one(&format!("SELECT punctual.reschedule({later}, now() - interval '1 day')"), &[])
        .unwrap()
        .get(0);
    assert!(moved);
    assert_eq!(hand.sweep(9).claimed[0].id.as_i64(), later, "it is found although it was due long ago");
    let waits = id(&mut sql, "punctual.enqueue('work')");
    assert_eq!(word(&mut sql, format!("punctual.cancel({waits})")), "cancelled");
    assert_eq!(word(&mut sql, format!("punctual.cancel({waits})")), "cancelled");
    assert_eq!(word(&mut sql, "punctual.cancel(4711)".to_owned()), "unknown");
    assert_eq!(
        hand.store.job(punctual_durable::JobId::from_i64(waits)).unwrap().unwrap().state,
        JobState::Cancelled
    );
    let state = word(&mut sql, format!("state FROM punctual.jobs WHERE id = {waits}"));
    assert_eq!(state, "cancelled", "and it can be read");

    let mut transaction = sql.transaction().unwrap();
    transaction.query("SELECT punctual.enqueue('work')", &[]).unwrap();
    transaction.rollback().unwrap();
    assert_eq!(hand.sweep(9).claimed, []);
}

#[test]
fn what_makes_no_sense_in_sql_is_refused_with_its_value() {
    let database = Database::new();
    drop(database.open());
    let mut sql = database.client();
    for (call, message) in [
        ("punctual.enqueue('')", "the kind is empty"),
        ("punctual.enqueue(NULL)", "the kind is empty"),
        ("punctual.enqueue(E'a\\nb')", "control character"),
        ("punctual.enqueue(repeat('x', 300))", "300 bytes, the most is 255"),
        ("punctual.enqueue('k', lane => 'slow')", "\"slow\""),
        ("punctual.enqueue('k', on_conflict => 'fight')", "\"fight\""),
        ("punctual.enqueue('k', on_lost => 'cry')", "\"cry\""),
        ("punctual.enqueue('k', max_attempts => 0)", "max_attempts 0"),
        ("punctual.enqueue('k', due => now(), delay => '1s')", "not both"),
        ("punctual.enqueue('k', to_jsonb(repeat('x', 1048577)))", "the most is 1048576"),
        ("punctual.reschedule(1, NULL)", "some time"),
    ] {
        let error = sql.query(&format!("SELECT {call}"), &[]).unwrap_err();
        let text = error.as_db_error().unwrap().message().to_owned();
        assert!(text.contains(message), "{call}: {text}");
    }
    sql.query("SELECT punctual.enqueue('k', unique_key => 'taken')", &[]).unwrap();
    let error =
        sql.query("SELECT punctual.enqueue('k', unique_key => 'taken', on_conflict => 'reject')", &[]);
    assert_eq!(error.unwrap_err().code().unwrap().code(), "PU001");
}

#[test]
fn an_occurrence_cancelled_in_sql_lets_its_schedule_go_on() {
    use punctual_durable::{Cadence, NewSchedule, ScheduleChange};
    let database = Database::new();
    let store = database.open();
    let (sender, receiver) = channel();
    let delay = Cadence::Delay(Duration::from_millis(1));
    let job = work().due(punctual_durable::Due::Now);
    store.save_schedule(NewSchedule::new("s", delay, job)).unwrap();
    store.set_schedule("s", ScheduleChange::Pause("not yet".to_owned())).unwrap();
    store.set_schedule("s", ScheduleChange::Trigger).unwrap();
    let id = store.find(&Filter::new()).unwrap()[0].id;
    let answer: String =
        database.client().query_one(&format!("SELECT punctual.cancel({id})"), &[]).unwrap().get(0);
    assert_eq!(answer, "requested");
    store.set_schedule("s", ScheduleChange::Resume).unwrap();
    let jobs = Jobs::on(store.clone())
        .handle("work", move |_: serde_json::Value, cx: &JobContext| {
            sender.send(cx.id())?;
            Ok(Done)
        })
        .start()
        .unwrap();
    assert_ne!(receiver.recv().unwrap(), id, "the next one runs, that one did not");
    drop(jobs);
    assert_eq!(store.job(id).unwrap().unwrap().state, JobState::Cancelled);
}

/// Whoever does something with a job in a transaction of his own, and takes his time, keeps no node from reporting.
#[test]
fn a_transaction_that_does_not_end_keeps_no_node_waiting() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let keyed = |policy| work().unique("k", policy).due(punctual_durable::Due::Now);
    hand.store.enqueue(vec![keyed(OnConflict::Keep), work()]).unwrap();
    let answer = hand.sweep(2);
    let mut mine = database.client();
    let mut transaction = mine.transaction().unwrap();
    for policy in [OnConflict::Keep, OnConflict::Replace] {
        let accepted = hand.store.enqueue_in(&mut transaction, vec![keyed(policy)]).unwrap();
        assert_eq!(accepted, [punctual_durable::Enqueued::Existing(answer.claimed[0].id)]);
    }
    let second = answer.claimed[1].id;
    let said: String =
        transaction.query_one(&format!("SELECT punctual.cancel({second})"), &[]).unwrap().get(0);
    assert_eq!(said, "requested");
    let done = hand.done(&answer, 0);
    assert_eq!(done.recorded, [punctual_durable::Recorded::Over(JobState::Done); 2]);
    transaction.commit().unwrap();
    assert_eq!(hand.store.job(second).unwrap().unwrap().state, JobState::Done, "it was too late");
}

/// What a job wants to follow it waits for whoever is about to take its unique key; the job itself waits, and no other.
#[test]
fn a_key_in_a_transaction_that_does_not_end_holds_up_nobody_else() {
    let database = Database::new();
    let store = database.open();
    let mut mine = database.client();
    let mut transaction = mine.transaction().unwrap();
    store.enqueue_in(&mut transaction, vec![work().unique("k", OnConflict::Keep)]).unwrap();
    let (say, called) = channel();
    let handler = move |follow: bool, cx: &JobContext| {
        if follow {
            cx.then(cx.client().enqueue_as("follow", false).unique("k"))?;
        }
        say.send(cx.id())?;
        Ok(Done)
    };
    let (tell, recorded) = channel();
    let observe = move |event: &Event<'_>| {
        if let Event::Recorded { id, .. } = event {
            let _ = tell.send(*id);
        }
    };
    let jobs = Jobs::on(store.clone()).observe(observe).handle("follow", handler).start().unwrap();
    let stuck = jobs.enqueue(true).send().unwrap().id();
    assert_eq!(called.recv().unwrap(), stuck);
    let mut others: Vec<_> = (0..10).map(|_| jobs.enqueue(false).send().unwrap().id()).collect();
    let mut done: Vec<_> = recorded.iter().take(10).collect();
    others.sort_unstable();
    done.sort_unstable();
    assert_eq!(done, others);
    transaction.commit().unwrap();
    assert_eq!(recorded.recv().unwrap(), stuck);
    let note = store.job(stuck).unwrap().unwrap().note.unwrap();
    assert!(note.contains("\"k\""), "{note}");
    assert_eq!(jobs.shutdown(Duration::ZERO).unwrap(), 0);
}
