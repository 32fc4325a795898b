//! Processes that share one file.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use punctual::ManualClock;
use punctual_durable::{Done, JobContext, JobState, Jobs, KindOptions, NewJob, Store};

use crate::bench::{HOUR, Mail, SECOND, mail, recorder};

#[test]
fn a_standby_takes_over_when_the_file_is_free() {
    let folder = crate::folder::Folder::new();
    let clock = ManualClock::new();
    let open = || {
        let store = punctual_durable::SqliteStore::open_with_time(folder.file("jobs.db"), clock.clone());
        Jobs::on(Arc::new(store.unwrap())).clock(clock.clone()).poll_interval(SECOND).lease(60 * SECOND)
    };
    let (first_handler, first_calls) = recorder(&clock);
    let (second_handler, second_calls) = recorder(&clock);
    let first = open().handle("mail", first_handler).start().unwrap();
    clock.wait_until_idle();
    let second = open().handle("mail", second_handler).start().unwrap();
    second.enqueue(mail("a")).after(10 * SECOND).send().unwrap();
    second.enqueue(mail("b")).after(20 * SECOND).send().unwrap();
    clock.advance(15 * SECOND);
    assert_eq!((first_calls.try_iter().count(), second_calls.try_iter().count()), (1, 0));
    first.shutdown(Duration::ZERO).unwrap();
    clock.advance(5 * SECOND);
    assert_eq!(second_calls.try_iter().collect::<Vec<_>>(), [("b".to_owned(), 20 * SECOND)], "on time");
    second.shutdown(Duration::ZERO).unwrap();
}

#[cfg(unix)]
#[test]
fn what_another_process_enqueues_is_heard_at_once() {
    let folder = crate::folder::Folder::new();
    let (sender, calls) = channel();
    // A bell that was left by somebody who was killed.
    drop(std::os::unix::net::UnixDatagram::bind(folder.file("jobs.db-bell")).unwrap());
    // On the machine's clock, with a look every hour: without the bell this test would not end.
    let jobs = Jobs::open(&format!("sqlite:{}", folder.file("jobs.db").display()))
        .unwrap()
        .poll_interval(HOUR)
        .observe(move |event| sender.send(event.to_string()).unwrap())
        .handle("mail", |_: Mail, _: &JobContext| Ok(Done))
        .start()
        .unwrap();
    assert_eq!(calls.recv().unwrap(), "claiming jobs");
    let other = punctual_durable::SqliteStore::open(folder.file("jobs.db")).unwrap();
    for _ in 0..3 {
        let id = other.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap()[0].id();
        assert_eq!(calls.recv().unwrap(), format!("mail job {id} is done"));
    }
    jobs.shutdown(HOUR).unwrap();
    assert!(!folder.file("jobs.db-bell").exists(), "it is taken down");
}

/// On the machine's clock, with a look every hour: without news this test would not end.
#[cfg(target_os = "linux")]
#[test]
fn what_another_process_waits_for_is_told_at_once() {
    let folder = crate::folder::Folder::new();
    let url = format!("sqlite:{}", folder.file("jobs.db").display());
    let open = || Jobs::open(&url).unwrap().poll_interval(HOUR);
    let (events, heard) = channel();
    let (handler, gate) = crate::bench::gated();
    let jobs = open()
        .observe(move |event| drop(events.send(event.to_string())))
        .handle("mail", handler)
        .start()
        .unwrap();
    assert_eq!(heard.recv().unwrap(), "claiming jobs");
    let others = [(); 2].map(|()| open().declare::<Mail>("mail", KindOptions::new()).start().unwrap());
    for other in &others {
        let id = other.enqueue(mail("a")).send().unwrap().id();
        gate.begun.recv().unwrap();
        let waits = others.each_ref().map(|other| other.outcome(id));
        gate.go_on.send(()).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap().state, JobState::Done);
        }
        // Taken back by one, waited for by the other.
        let id = other.enqueue(mail("a")).after(HOUR).send().unwrap().id();
        let waits = others.each_ref().map(|other| other.outcome(id));
        other.cancel(id).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap().state, JobState::Cancelled);
        }
    }
    jobs.shutdown(HOUR).unwrap();
    let left: Vec<_> =
        std::fs::read_dir(folder.file("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("bell")), "{left:?}");
}
