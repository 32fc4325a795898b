//! Who enqueues rings along, in the same call.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use punctual_durable::{
    Done, Due, Exchange, Filter, JobContext, JobId, JobState, Jobs, Lane, NewJob, News, OnConflict, OnLost,
    PostgresStore, QueueChange, Store, Ticket, Timestamp,
};
use punctual_testbed::{Postgres, Settings};

use crate::{Database, Hand, kinds, new_ticket, work};

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

/// What is told to whoever asks this store for news.
fn news(store: &PostgresStore) -> Receiver<News> {
    let (sender, receiver) = channel();
    store.on_news(Arc::new(move |news| sender.send(news.clone()).is_ok()));
    receiver
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
        let tickets: Vec<Ticket> = answers.iter().map(new_ticket).collect();
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

#[test]
fn who_rings_along_names_few_jobs_of_one_line_and_they_are_heard_as_they_are() {
    let database = Database::new();
    let hearer = database.open();
    let heard_news = news(&hearer);
    database.await_listeners(1);
    let mut listener = database.client();
    listener.batch_execute("LISTEN punctual").unwrap();
    let soon = |n: u64| work().due(Due::After(Duration::from_millis(n)));
    let odd = || NewJob::new("work n 1|2 'x'", "{}").lane(Lane::Background);
    let batches = [
        (vec![work()], true),
        (vec![odd()], true),
        (vec![odd(), odd()], true),
        ((0..100).map(soon).collect(), true),
        ((0..101).map(soon).collect(), false),
        (vec![work(), work().lane(Lane::Urgent)], false),
        (vec![work(), work().queue("mail")], false),
    ];
    for (jobs, named) in batches {
        // One that has not rung yet does so in the call.
        let store = database.open();
        let tickets: Vec<Ticket> = store.enqueue(jobs.clone()).unwrap().iter().map(new_ticket).collect();
        let said = heard(&mut listener, 1);
        assert_eq!(said.len(), 1);
        let (origin, said) = said[0].split_at(16);
        assert!(origin.bytes().all(|byte| byte.is_ascii_hexdigit()), "{origin}");
        let mut expected = format!("n {}", tickets[0].lane.index());
        for ticket in &tickets {
            expected += &format!(" {} {}", ticket.id.as_i64(), ticket.due.as_micros());
        }
        expected += &format!("|{}", jobs[0].kind);
        assert_eq!(said, if named { expected.as_str() } else { "" });
        let is_it = |news: &News| match news {
            News::New(kind, heard) => *kind == jobs[0].kind && *heard == tickets,
            other => *other == News::Jobs,
        };
        let mut heard = heard_news.iter().skip_while(|news| named && *news == News::Jobs);
        assert!(heard.next().is_some_and(|news| is_it(&news)), "{said}");
    }
}

#[test]
fn a_process_that_only_enqueues_does_not_listen_until_somebody_wants_to_hear() {
    let server = Postgres::start(Settings::fast().option("log_statement", "all"));
    let url = server.fresh_database();
    let (store, other) = (PostgresStore::open(&url).unwrap(), PostgresStore::open(&url).unwrap());
    let mut listener = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    // In other words than the store says it.
    listener.batch_execute("listen punctual").unwrap();
    store.enqueue(vec![work().unique("k", OnConflict::Keep)]).unwrap();
    assert_eq!(heard(&mut listener, 1).len(), 1);
    assert_eq!(bells(&mut listener), 1, "the thread has rung");
    let listens = || server.log().matches("LISTEN punctual").count();
    assert!(server.log().contains("NOTIFY punctual"), "what is said is in the log");
    assert_eq!(listens(), 0);
    let heard_news = news(&store);
    assert_eq!(heard_news.recv().unwrap(), News::Jobs, "something may have been missed before");
    assert_eq!(listens(), 1);
    let ticket = new_ticket(&other.enqueue(vec![work()]).unwrap()[0]);
    assert_eq!(heard_news.recv().unwrap(), News::New("work".to_owned(), vec![ticket]));
    store.enqueue(vec![work().unique("l", OnConflict::Keep)]).unwrap();
    other.tell_news(News::Over(vec![JobId::from_i64(7)]));
    assert_eq!(heard_news.recv().unwrap(), News::Over(vec![JobId::from_i64(7)]), "and nothing of its own");
    assert_eq!(listens(), 1);
}

/// Somebody who hears of a job has not looked at its line.
#[test]
fn a_job_of_a_line_that_nobody_has_looked_at_is_claimed_by_its_ticket() {
    let database = Database::new();
    let (hand, teller) = (Hand::new(&database), database.open());
    let claim = |hand: &Hand, tickets: &[Ticket]| {
        hand.store.exchange(hand.id, Exchange::new(kinds()).claims(tickets.to_vec())).unwrap().claimed
    };
    let enqueue = |job: NewJob| new_ticket(&teller.enqueue(vec![job]).unwrap()[0]);
    let (mail, foreign) =
        (enqueue(work().queue("mail").lane(Lane::Low)), enqueue(NewJob::new("foreign", "{}")));
    let later = enqueue(work().due(Due::After(Duration::from_secs(3_600))));
    let claimed = claim(&hand, &[foreign, mail, later]);
    let seen: Vec<_> =
        claimed.iter().map(|job| (job.id, job.queue.as_str(), job.lane, job.attempt)).collect();
    assert_eq!(seen, [(mail.id, "mail", Lane::Low, 1), (later.id, "default", Lane::Normal, 1)]);
    assert!(claimed.iter().all(|job| job.kind == "work" && job.owner == Some(hand.id)));
    assert_eq!(claim(&hand, &[mail, later]), [], "once");

    let other = Hand::new(&database);
    let (theirs, locked, free) = (enqueue(work()), enqueue(work()), enqueue(work()));
    assert_eq!(claim(&other, &[theirs]).len(), 1);
    let mut sql = database.client();
    let mut transaction = sql.transaction().unwrap();
    transaction.execute("SELECT FROM punctual.job WHERE id = $1 FOR UPDATE", &[&locked.id.as_i64()]).unwrap();
    let ids = |hand: &Hand, tickets: &[Ticket]| -> Vec<JobId> {
        claim(hand, tickets).iter().map(|job| job.id).collect()
    };
    assert_eq!(ids(&hand, &[theirs, locked, free]), [free.id], "what others have is left to them");
    transaction.rollback().unwrap();
    assert_eq!(ids(&hand, &[locked]), [locked.id]);
    let old = enqueue(work().queue("mail").lane(Lane::Low));
    let swept: Vec<JobId> = hand.sweep(9).claimed.iter().map(|job| job.id).collect();
    assert_eq!(swept, [old.id], "its line is looked at like others");
}

#[test]
fn a_ticket_claims_nothing_of_a_queue_that_is_paused_or_full() {
    let database = Database::new();
    let (hand, teller) = (Hand::new(&database), database.open());
    let enqueue = |queue: &str| new_ticket(&teller.enqueue(vec![work().queue(queue)]).unwrap()[0]);
    let ids = |tickets: &[Ticket]| -> Vec<JobId> {
        let exchange = Exchange::new(kinds()).claims(tickets.to_vec());
        hand.store.exchange(hand.id, exchange).unwrap().claimed.iter().map(|job| job.id).collect()
    };
    let (paused, first, second) = (enqueue("paused"), enqueue("narrow"), enqueue("narrow"));
    teller.set_queue("paused", QueueChange::Pause("for a while".to_owned())).unwrap();
    assert_eq!(ids(&[paused]), []);
    teller.set_queue("narrow", QueueChange::Limit(Some(1))).unwrap();
    let open = enqueue("open");
    assert_eq!(ids(&[paused, first, second, open]), [first.id, open.id]);
    assert_eq!(ids(&[second, paused]), []);
    teller.set_queue("narrow", QueueChange::Limit(None)).unwrap();
    teller.set_queue("paused", QueueChange::Resume).unwrap();
    assert_eq!(ids(&[second, paused]), [second.id, paused.id]);
}

/// A hint may be made up by anybody.
#[test]
fn a_job_that_is_claimed_an_hour_early_because_of_a_false_hint_is_given_back() {
    let database = Database::new();
    let (sender, receiver) = channel();
    let node = Jobs::open(&database.url)
        .unwrap()
        .handle("work", move |_: serde_json::Value, cx: &JobContext| {
            sender.send(cx.id())?;
            Ok(Done)
        })
        .start()
        .unwrap();
    database.await_listeners(1);
    let store = database.open();
    let later = work().due(Due::After(Duration::from_secs(3_600)));
    let ticket = new_ticket(&store.enqueue(vec![later]).unwrap()[0]);
    let hint = format!("NOTIFY punctual, '0123456789abcdefn 1 {} 0|work'", ticket.id.as_i64());
    database.client().batch_execute(&hint).unwrap();
    // It has been claimed, and given back: each counts as a change.
    let job = loop {
        let job = store.job(ticket.id).unwrap().unwrap();
        if job.version >= ticket.version + 2 {
            break job;
        }
        std::thread::yield_now();
    };
    assert_eq!((job.state, job.attempt, job.due), (JobState::Scheduled, 0, ticket.due));
    let now = store.enqueue(vec![work()]).unwrap()[0].id();
    assert_eq!(receiver.recv().unwrap(), now, "others are run, and this one is not");
    drop(node);
    assert!(receiver.try_recv().is_err());
}
