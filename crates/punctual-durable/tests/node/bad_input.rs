//! What is wrong is told in clear words, and costs nobody else anything.

use punctual_durable::{Cadence, Done, JobContext, JobState, NewJob, NewSchedule, OnConflict, Store};

use crate::bench::{Bench, HOUR, Mail, mail};

#[test]
fn each_bad_job_is_refused_with_what_is_wrong_and_how_much_is_allowed() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    let long = "x".repeat(NewJob::MAX_PAYLOAD);
    let taken = jobs.enqueue(mail("a")).after(HOUR).unique("k").send().unwrap().id();
    let said = [
        (jobs.enqueue(mail(&long)).send(), "has 1048585 bytes, the most is 1048576"),
        (jobs.enqueue_as("", 1).send(), "the kind is empty"),
        (jobs.enqueue_as("a\u{7}b", 1).send(), "the kind \"a\\u{7}b\" contains a control character"),
        (jobs.enqueue(mail("a")).queue("").send(), "the queue is empty"),
        (jobs.enqueue(mail("a")).max_attempts(0).send(), "max_attempts 0 could never run"),
        (jobs.enqueue(7_u8).send(), "no kind has been declared for payloads of type u8"),
        (jobs.enqueue(mail("a")).unique("").send(), "the unique key is empty"),
        (jobs.enqueue(mail("a")).then(jobs.enqueue_as("", 1)).send(), "the kind is empty"),
    ];
    for (answer, message) in said {
        let error = answer.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(message), "{error}");
    }
    let error = jobs.enqueue(mail("a")).unique_or("k", OnConflict::Reject).send().unwrap_err();
    let whole = format!("the unique key \"k\" belongs to job {taken}");
    assert!(error.is_conflict(), "{error}");
    assert_eq!(error.to_string(), whole);
    for (expression, zone, word) in [("0 9 * * *", "Europe/Belrin", "Belrin"), ("0 25 * * *", "UTC", "25")] {
        let error = jobs.schedule("s").cron(expression, zone).unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(word), "{error}");
    }
    let mut gone = Cadence::cron("0 9 * * *", "UTC").unwrap();
    if let Cadence::Cron { zone, .. } = &mut gone {
        *zone = "Atlantis/Poseidonis".to_owned();
    }
    let error =
        bench.store.save_schedule(NewSchedule::new("s", gone, NewJob::new("mail", "{}"))).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("Atlantis"), "{error}");
    assert_eq!(bench.store.find(&punctual_durable::Filter::new()).unwrap().len(), 1);
    bench.end(jobs);
}

#[test]
fn payloads_that_cannot_be_read_are_set_aside_and_the_others_of_the_batch_are_run() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    let deep = "[".repeat(100_000);
    let payloads = ["{\"to\":\"a\"}", "", "nonsense", "{\"to\":7}", "null", deep.as_str(), "{\"to\":\"b\"}"];
    let batch = payloads.map(|payload| NewJob::new("mail", payload)).to_vec();
    let ids: Vec<_> = jobs.send(batch).unwrap().into_iter().map(|answer| answer.id()).collect();
    bench.clock.advance(HOUR);
    for (place, id) in ids.iter().enumerate() {
        let record = jobs.job(*id).unwrap().unwrap();
        if [0, 6].contains(&place) {
            assert_eq!(record.state, JobState::Done);
        } else {
            assert_eq!((record.state, record.attempt), (JobState::Dead, 1), "trying again makes no sense");
            assert!(record.note.unwrap().contains("the payload cannot be read"));
            assert_eq!(record.payload.as_deref(), Some(payloads[place]), "it is there to be looked at");
        }
    }
    bench.end(jobs);
}

/// Whatever somebody writes into one row: it is dealt with, or it waits, and all others are run.
#[cfg(feature = "sqlite")]
#[test]
fn a_poisoned_row_does_not_stop_the_others() {
    use punctual_durable::{Filter, Jobs, SqliteStore};
    let columns = [
        "state",
        "due",
        "version",
        "attempt",
        "crashes",
        "max_attempts",
        "max_crashes",
        "on_lost",
        "timeout",
        "uniq",
        "created",
        "owner",
        "fence",
        "claimed",
        "cancel",
        "finished",
        "note",
        "series",
        "nominal",
        "parent",
        "follow",
        "payload",
        "line",
    ];
    let values = ["'nonsense'", "x'ff00fe'", "-1", "9223372036854775807", "1e300", "''"];
    let folder = crate::folder::Folder::new();
    for column in columns {
        let path = folder.file(&format!("{column}.db"));
        let clock = punctual::ManualClock::new();
        let store = std::sync::Arc::new(SqliteStore::open_with_time(&path, clock.clone()).unwrap());
        let good = |n: usize| NewJob::new("mail", format!("{{\"to\":\"{n}\"}}"));
        let file = rusqlite::Connection::open(&path).unwrap();
        let mut healthy = Vec::new();
        for (n, value) in values.iter().enumerate() {
            let ids: Vec<_> = store.enqueue(vec![good(n), good(n), good(n)]).unwrap();
            let poison = format!("UPDATE OR IGNORE punctual_job SET {column} = {value} WHERE id = ?1");
            file.execute(&poison, [ids[1].id().as_i64()]).unwrap();
            healthy.extend([ids[0].id(), ids[2].id()]);
        }
        let failures = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = failures.clone();
        let observe = move |event: &punctual_durable::Event<'_>| {
            if let punctual_durable::Event::StoreFailed(error) = event {
                eprintln!("{error}");
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        };
        let jobs = Jobs::on(store.clone()).clock(clock.clone()).lease(HOUR).poll_interval(HOUR / 60);
        let jobs = jobs.observe(observe).handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
        clock.advance(HOUR / 6);
        for id in healthy {
            let record = store.job(id).unwrap().unwrap();
            assert_eq!(record.state, JobState::Done, "{column}: job {id}");
        }
        assert_eq!(failures.load(std::sync::atomic::Ordering::SeqCst), 0, "{column}");
        // What can be looked at can be looked at.
        let all = store.find(&Filter::new()).unwrap();
        for job in &all {
            store.cancel(vec![job.id]).unwrap();
            store.failures(job.id).unwrap();
            store.log(job.id).unwrap();
        }
        jobs.doctor().unwrap();
        store.upcoming(store.now(), HOUR, 3, 10).unwrap();
        let copy = punctual_durable::MemoryStore::new();
        let moved = punctual_durable::transfer(&*store, &copy);
        assert!(moved.is_ok() || moved.unwrap_err().is_invalid(), "{column}");
        jobs.shutdown(std::time::Duration::ZERO).unwrap();
    }
}
