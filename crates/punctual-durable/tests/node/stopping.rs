//! How one job is stopped, and how a node is.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::Clock;
use punctual_durable::{
    Backoff, Cancelling, Client, Done, Error, Event, JobContext, JobState, KindOptions, NodeId, Stop, Store,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, gated, mail, parked, recorder};
use crate::flaky::Flaky;

#[test]
fn a_waiting_job_that_is_cancelled_never_runs() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).after(SECOND).send().unwrap().id();
    let moved = jobs.enqueue(mail("b")).after(SECOND).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Cancelled);
    jobs.reschedule(moved, punctual_durable::Due::After(HOUR)).unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("b".to_owned(), HOUR)]);
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Over(JobState::Cancelled));
    bench.end(jobs);
}

#[test]
fn a_running_job_is_told_that_it_was_cancelled() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        begin.send(())?;
        let stopped = cx.sleep(HOUR).unwrap_err();
        assert_eq!((stopped, cx.stopped()), (Stop::Cancelled, Some(Stop::Cancelled)));
        Err(stopped.into())
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Requested);
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(id), JobState::Cancelled);
    assert_eq!(jobs.failures(id).unwrap(), [], "it did as it was told");
    bench.end(jobs);
}

#[test]
fn a_cancel_by_another_process_arrives_with_the_next_renewal() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        begin.send(())?;
        cx.sleep(100 * HOUR)?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    bench.store.cancel(vec![id]).unwrap();
    bench.clock.advance(200 * SECOND);
    assert_eq!(bench.state(id), JobState::Cancelled);
    bench.end(jobs);
}

#[test]
fn a_job_that_takes_too_long_is_asked_to_stop_and_tried_again() {
    let bench = Bench::new();
    let options = KindOptions::new().timeout(SECOND).backoff(Backoff::fixed(SECOND)).max_attempts(2);
    let handler = |mail: Mail, cx: &JobContext| {
        cx.sleep(if mail.to == "slow" { 2 * SECOND } else { SECOND / 2 })?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    let slow = jobs.enqueue(mail("slow")).send().unwrap().id();
    let quick = jobs.enqueue(mail("quick")).send().unwrap().id();
    bench.clock.advance(10 * SECOND);
    assert_eq!((bench.state(slow), bench.state(quick)), (JobState::Dead, JobState::Done));
    let said: Vec<_> = jobs.failures(slow).unwrap().into_iter().map(|f| (f.attempt, f.message)).collect();
    let too_long = "the job took longer than its timeout".to_owned();
    assert_eq!(said, [(1, too_long.clone()), (2, too_long)]);
    bench.end(jobs);
}

#[test]
fn a_shutdown_gives_back_what_has_not_begun_and_waits_for_what_has() {
    let bench = Bench::new();
    let (handler, gate) = gated();
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let claimed = jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap().id();
    let later = jobs.enqueue(mail("b")).after(HOUR).send().unwrap().id();
    // Claimed a few milliseconds before it is due.
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(bench.state(claimed), JobState::Claimed);
    let runs = jobs.enqueue(mail("c")).send().unwrap().id();
    gate.begun.recv().unwrap();
    let stopping = std::thread::spawn(move || jobs.shutdown(HOUR).unwrap());
    // The clock stands still, so the patience never ends, and the claimed job never comes due.
    gate.go_on.send(()).unwrap();
    assert_eq!(stopping.join().unwrap(), 0);
    assert_eq!(bench.state(runs), JobState::Done);
    for id in [claimed, later] {
        let record = bench.store.job(id).unwrap().unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Scheduled, 0, 0));
    }
    bench.store.verify();
}

#[test]
fn a_shutdown_asks_what_runs_to_stop_and_does_not_charge_the_attempt() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        begin.send(())?;
        cx.sleep(100 * HOUR)?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    bench.clock.wait_until_idle();
    let (client, parked) = (jobs.client(), parked(&bench.clock));
    let stopping = std::thread::spawn(move || jobs.shutdown(HOUR).unwrap());
    // The shutdown waits for an hour on the clock, as soon as it is parked there, too.
    while self::parked(&bench.clock) <= parked {
        std::thread::yield_now();
    }
    bench.clock.jump(HOUR);
    assert_eq!(stopping.join().unwrap(), 0);
    let record = client.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.note), (JobState::Scheduled, 0, None));
    assert!(client.enqueue_as("mail", mail("b")).send().is_ok(), "the client goes on");
}

/// A rerun would be one too many. What has not begun is another matter.
#[test]
fn a_shutdown_is_no_reason_to_run_a_job_more_often_than_it_may() {
    let bench = Bench::new();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let start = || {
        let (sync, later) = (calls.clone(), calls.clone());
        let sync = move |mail: Mail, cx: &JobContext| {
            sync.lock().unwrap().push((mail.to, cx.attempt()));
            cx.sleep(100 * HOUR)?;
            Ok(Done)
        };
        let later = move |mail: Mail, cx: JobContext| {
            later.lock().unwrap().push((mail.to, cx.attempt()));
            async move {
                cx.sleep_async(100 * HOUR).await?;
                Ok(Done)
            }
        };
        let once = || KindOptions::new().at_most_once();
        let jobs = bench.jobs().concurrency(9).handle_with("once", once(), sync.clone());
        let jobs = jobs.handle_async_with("async", once(), later.clone());
        jobs.handle_with("twice", once().max_attempts(2), sync).handle_async("again", later).start().unwrap()
    };
    let mut jobs = start();
    let kinds = ["once", "async", "twice", "again"];
    let ids = kinds.map(|kind| jobs.enqueue_as(kind, mail(kind)).send().unwrap().id());
    let waits = jobs.enqueue_as("once", mail("waits")).after(HOUR).send().unwrap().id();
    bench.clock.wait_until_idle();
    for _ in 0..3 {
        jobs.shutdown(Duration::ZERO).unwrap();
        // Those that are not cooperative may need a moment.
        bench.clock.wait_until_idle();
        jobs = start();
        bench.clock.wait_until_idle();
    }
    let mut calls = std::mem::take(&mut *calls.lock().unwrap());
    calls.sort_unstable();
    let expected =
        [("again", 1); 4].into_iter().chain([("async", 1), ("once", 1), ("twice", 1), ("twice", 2)]);
    assert_eq!(calls, expected.map(|(to, attempt)| (to.to_owned(), attempt)).collect::<Vec<_>>());
    for id in &ids[..3] {
        let record = bench.store.job(*id).unwrap().unwrap();
        let told = Some("the node is shutting down".to_owned());
        assert_eq!((record.state, record.note), (JobState::Dead, told), "{}", record.kind);
    }
    assert_eq!(bench.state(waits), JobState::Scheduled);
    bench.end(jobs);
}

#[test]
fn a_shutdown_waits_for_a_store_that_is_away_for_a_moment() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, gate) = gated();
    let (tell, failures) = channel();
    let observe = move |event: &Event<'_>| {
        if let Event::StoreFailed(_) = event {
            let _ = tell.send(());
        }
    };
    let jobs = bench.on(flaky.clone()).observe(observe).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    flaky.fail_with(Some(|| Error::transient("restarting")));
    let stopping = std::thread::spawn(move || jobs.shutdown(100_000 * HOUR));
    gate.go_on.send(()).unwrap();
    // However often it is tried, it is in vain; and then the store is back.
    for _ in 0..10 {
        failures.recv().unwrap();
        bench.clock.jump(SECOND);
    }
    assert_eq!(bench.state(id), JobState::Claimed);
    flaky.fail_with(None);
    while !stopping.is_finished() {
        bench.clock.jump(SECOND);
        std::thread::yield_now();
    }
    assert_eq!(stopping.join().unwrap().unwrap(), 0);
    assert_eq!(bench.state(id), JobState::Done);
    bench.store.verify();
}

#[test]
fn a_node_does_not_leave_with_what_it_could_not_record() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, gate) = gated();
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    flaky.fail_with(Some(|| Error::transient("restarting")));
    gate.go_on.send(()).unwrap();
    bench.clock.wait_until_idle();
    let error = jobs.shutdown(Duration::ZERO).unwrap_err();
    assert!(error.is_transient(), "{error}");
    let heir = NodeId::random();
    bench.store.renew(heir, HOUR).unwrap();
    assert_eq!(bench.store.rescue(heir, 9).unwrap(), [], "its lease protects it");
    flaky.fail_with(None);
    bench.clock.advance(2 * SECOND);
    assert_eq!(bench.state(id), JobState::Done);
    bench.store.verify();
}

#[test]
fn a_handler_that_outlives_its_node_is_still_recorded_and_runs_nowhere_else() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let renewed = flaky.tell_renewals();
    let (handler, gate) = gated();
    let jobs = bench.on(flaky).concurrency(1).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    drop(jobs);
    let heir = NodeId::random();
    bench.store.renew(heir, 10 * HOUR).unwrap();
    // Its lease is renewed as long as it runs. (`jump`, because the handler waits for the test itself.)
    for _ in 0..20 {
        renewed.try_iter().count();
        bench.clock.jump(200 * SECOND);
        renewed.recv().unwrap();
        assert_eq!(bench.store.rescue(heir, 9).unwrap(), []);
    }
    gate.go_on.send(()).unwrap();
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(id), JobState::Done);
    bench.store.verify();
}

/// What stops it does not wait for the store.
#[test]
fn a_handler_that_takes_too_long_is_told_while_the_store_hangs() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (tell, told) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        tell.send(None)?;
        let stopped = cx.sleep(HOUR).unwrap_err();
        tell.send(Some(stopped))?;
        Err(stopped.into())
    };
    let options = KindOptions::new().timeout(5 * SECOND);
    let jobs = bench.on(flaky.clone()).handle_with("mail", options, handler).start().unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    assert_eq!(told.recv().unwrap(), None);
    bench.clock.wait_until_idle();
    let hung = flaky.hang_exchange();
    jobs.enqueue(mail("b")).send().unwrap();
    hung.begun.recv().unwrap();
    bench.clock.jump(5 * SECOND);
    assert_eq!(told.recv().unwrap(), Some(Stop::TimedOut));
    hung.go_on.send(()).unwrap();
    bench.clock.wait_until_idle();
    jobs.shutdown(Duration::ZERO).unwrap();
    bench.clock.wait_until_idle();
    bench.store.verify();
}

/// It goes on when the store does, and leaves.
#[test]
fn a_node_is_not_kept_for_ever_by_a_store_that_hangs() {
    for (dropped, patience) in [(false, 60 * SECOND), (false, Duration::ZERO), (true, Duration::ZERO)] {
        let bench = Bench::new();
        let flaky = Arc::new(Flaky::new(bench.store.clone()));
        let jobs =
            bench.on(flaky.clone()).handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
        let hung = flaky.hang_exchange();
        let id = jobs.enqueue(mail("a")).send().unwrap().id();
        hung.begun.recv().unwrap();
        let start = bench.clock.now();
        let stopping = std::thread::spawn(move || {
            if dropped {
                drop(jobs);
                return None;
            }
            Some(jobs.shutdown(patience).unwrap_err())
        });
        while !stopping.is_finished() {
            bench.clock.jump(SECOND);
            std::thread::yield_now();
        }
        let waited = bench.clock.now().since(start);
        assert!(waited >= patience.max(10 * SECOND), "{waited:?}");
        assert!(stopping.join().unwrap().is_none_or(|error| error.is_transient()));
        hung.go_on.send(()).unwrap();
        bench.clock.wait_until_idle();
        assert_eq!(bench.state(id), JobState::Scheduled, "it came too late");
        bench.store.verify();
    }
}

/// Clients do not keep a node alive.
#[test]
fn a_client_outlives_its_node() {
    let bench = Bench::new();
    let client: Client = {
        let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
        jobs.client()
    };
    let id = client.enqueue(mail("a")).send().unwrap().id();
    assert_eq!(bench.state(id), JobState::Scheduled);
}
