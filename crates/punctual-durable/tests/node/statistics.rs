//! What nodes count, and what the doctor says.

use std::time::{Duration, SystemTime};

use punctual_durable::{Backoff, Done, Ending, JobContext, JobError, KindOptions, Outcome, Severity};

use crate::bench::{Bench, HOUR, Mail, SECOND, mail};

#[test]
fn attempts_are_counted_by_minute_and_ending_and_the_last_ones_when_the_node_leaves() {
    let bench = Bench::new();
    let options = KindOptions::new().max_attempts(2).backoff(Backoff::fixed(60 * SECOND));
    let handler = |mail: Mail, cx: &JobContext| match mail.to.as_str() {
        "done" => {
            cx.sleep(SECOND)?;
            Ok(Done)
        }
        "snooze" if cx.record().version < 3 => Ok(Outcome::Snooze(SECOND)),
        "snooze" => Ok(Outcome::Discard("moot".to_owned())),
        to => Err(JobError::from(format!("no {to} at 10.0.0.{}", cx.attempt()))),
    };
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    for to in ["done", "done", "snooze", "bread"] {
        jobs.enqueue(mail(to)).send().unwrap();
    }
    bench.clock.advance(20 * SECOND);
    let tallies = jobs.tallies(SystemTime::UNIX_EPOCH).unwrap();
    let seen: Vec<_> = tallies.iter().map(|tally| (tally.ending, tally.count())).collect();
    let first = [(Ending::Done, 2), (Ending::Retried, 1), (Ending::Discarded, 1), (Ending::Snoozed, 1)];
    assert_eq!(seen, first);
    // A second is in the bucket up to 1.024 s; two threads, so none is later than that.
    assert_eq!(tallies[0].ran.quantile(1.0), Some(Duration::from_micros(1_024_000)));
    assert!(tallies[0].late.quantile(1.0) <= Some(Duration::from_micros(1_024_000)));
    bench.clock.advance(45 * SECOND);
    let client = jobs.client();
    jobs.shutdown(Duration::ZERO).unwrap();
    let tallies = client.tallies(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(tallies.last().map(|tally| (tally.ending, tally.count())), Some((Ending::Dead, 1)));
    assert_ne!(tallies.last().unwrap().minute, tallies[0].minute);
    let errors = client.errors(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!((errors.len(), errors[0].count, errors[0].example.as_str()), (1, 2, "no bread at 10.0.0.2"));
    assert!(errors[0].first < errors[0].last);
    bench.store.verify();
}

#[test]
fn what_was_counted_is_trimmed_with_the_history() {
    let bench = Bench::new();
    let handler = |_: Mail, _: &JobContext| Ok(Done);
    let jobs = bench.jobs().retain(HOUR).handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(20 * SECOND);
    assert_eq!(jobs.tallies(SystemTime::UNIX_EPOCH).unwrap().len(), 1);
    bench.clock.advance(2 * HOUR);
    assert_eq!(jobs.tallies(SystemTime::UNIX_EPOCH).unwrap(), []);
    bench.end(jobs);
}

#[test]
fn the_doctor_tells_what_stands_still_and_why() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    let complaints = || {
        let findings = jobs.doctor().unwrap();
        // The clock of the test is in the year 2000.
        let bad = findings.iter().filter(|f| f.severity > Severity::Info && f.check != "clock");
        bad.map(ToString::to_string).collect::<Vec<_>>()
    };
    bench.clock.wait_until_idle();
    assert_eq!(complaints(), [] as [&str; 0]);
    assert!(jobs.doctor().unwrap().iter().any(|finding| finding.check == "clock"));
    jobs.enqueue_as("foreign", 1).send().unwrap();
    jobs.enqueue_as("foreign", 1).queue("later").after(HOUR).send().unwrap();
    jobs.pause("mails", "the server is down").unwrap();
    jobs.limit("shut", Some(0)).unwrap();
    for queue in ["mails", "shut"] {
        jobs.enqueue(mail("a")).queue(queue).send().unwrap();
    }
    let said = complaints();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("warning: paused queue: \"mails\"") && said[0].contains("server is down"));
    assert!(said[1].starts_with("warning: closed queue: \"shut\" has a limit of 0"), "{said:?}");
    assert!(said[2].starts_with("warning: unhandled kind: jobs of the kind \"foreign\""), "{said:?}");
    jobs.schedule("s").every(SECOND).job_as("foreign", 1).save().unwrap();
    bench.clock.advance(2 * SECOND);
    assert!(complaints().iter().any(|said| said.contains("the schedule \"s\"")));
    bench.end(jobs);
}

#[test]
fn the_doctor_tells_of_a_backlog_and_of_the_dead() {
    let bench = Bench::new();
    let handler = |mail: Mail, cx: &JobContext| match mail.to.as_str() {
        "dead" => Err(JobError::permanent("no")),
        _ => {
            cx.sleep(HOUR)?;
            Ok(Done)
        }
    };
    let jobs = bench.jobs().concurrency(1).handle("mail", handler).start().unwrap();
    for to in ["dead", "slow", "waits"] {
        jobs.enqueue(mail(to)).send().unwrap();
    }
    bench.clock.advance(90 * SECOND);
    let findings = jobs.doctor().unwrap();
    let find = |check| {
        findings.iter().find(|finding| finding.check == check).unwrap_or_else(|| panic!("{findings:?}"))
    };
    assert!(find("backlog").message.contains("for 90 seconds"), "{findings:?}");
    assert_eq!(find("dead jobs").severity, Severity::Info);
    assert!(findings.is_sorted_by(|a, b| a.severity >= b.severity), "the worst first");
    bench.clock.advance(3 * HOUR);
    bench.end(jobs);
}

#[cfg(feature = "sqlite")]
#[test]
fn the_doctor_finds_what_somebody_has_done_to_the_file() {
    use punctual_durable::{NewJob, SqliteStore, Store};
    let folder = crate::folder::Folder::new();
    let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
    let chain = NewJob::new("mail", "{}").then(NewJob::new("mail", "{}"));
    store.enqueue(vec![chain, NewJob::new("other", "{}").queue("q")]).unwrap();
    let cadence = punctual_durable::Cadence::Every(SECOND);
    store.save_schedule(punctual_durable::NewSchedule::new("s", cadence, NewJob::new("mail", "{}"))).unwrap();
    let cadence = punctual_durable::Cadence::Delay(SECOND);
    store.save_schedule(punctual_durable::NewSchedule::new("d", cadence, NewJob::new("mail", "{}"))).unwrap();
    let bad = || {
        let findings = store.check().unwrap().into_iter().filter(|finding| finding.severity > Severity::Info);
        findings.map(|finding| finding.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(bad(), [] as [&str; 0]);
    let file = rusqlite::Connection::open(folder.file("jobs.db")).unwrap();
    for (harm, word) in [
        ("UPDATE punctual_job SET follow = '[{' WHERE id = 1", "what follows job 1 cannot be read"),
        ("UPDATE punctual_schedule SET next = NULL", "the schedule \"d\" waits for the end of an occurrence"),
        ("UPDATE punctual_schedule SET definition = '{}'", "the schedule \"s\" cannot be read"),
        ("DELETE FROM punctual_queue WHERE name = 'q'", "1 lines are of queues that do not exist"),
        ("DELETE FROM punctual_line WHERE queue = 'q'", "1 jobs are in lines that do not exist"),
        ("UPDATE punctual_job SET state = 1, owner = id", "held by 2 nodes"),
        ("UPDATE punctual_meta SET value = 9 WHERE name = 'schema'", "version 9"),
    ] {
        file.execute(harm, []).unwrap();
        let said = bad();
        assert!(said.iter().any(|said| said.contains(word)), "{harm}: {said:#?}");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn the_doctor_names_what_is_missing_in_the_file() {
    use punctual_durable::{Jobs, SqliteStore, Store};
    let folder = crate::folder::Folder::new();
    let store = std::sync::Arc::new(SqliteStore::open(folder.file("jobs.db")).unwrap());
    let jobs = Jobs::on(store.clone()).start().unwrap();
    let file = rusqlite::Connection::open(folder.file("jobs.db")).unwrap();
    for (harm, words) in [
        ("DROP INDEX punctual_job_claimed", "error: schema: the index punctual_job_claimed is missing"),
        ("DROP INDEX punctual_job_waiting", "error: schema: the index punctual_job_waiting is missing"),
        ("DROP TABLE punctual_queue", "error: schema: the table punctual_queue is missing"),
    ] {
        file.execute(harm, []).unwrap();
        let said: Vec<String> = store.check().unwrap().iter().map(ToString::to_string).collect();
        assert!(said.contains(&words.to_owned()), "{harm}: {said:#?}");
        // Who cannot look into what is not there says so much, and does not fail.
        assert_eq!(jobs.doctor().unwrap()[0].severity, Severity::Error);
    }
}
