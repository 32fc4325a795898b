//! Stores that fail, nodes that go silent, clocks that are set.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Clock, ManualClock};
use punctual_durable::{
    Done, Enqueued, Error, Event, Exchange, Filter, JobContext, JobId, JobState, KindOptions, MemoryStore,
    NewJob, NodeId, Stop, Store, TimeSource, Timestamp,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, gated, mail, recorder};
use crate::flaky::Flaky;

#[test]
fn a_node_that_cannot_renew_asks_for_nothing_once_its_lease_is_over() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.refuse_renewals(true);
    bench.clock.advance(599 * SECOND);
    assert_eq!(flaky.claims(), 1, "the first sweep");
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(SECOND / 2);
    assert_eq!((calls.try_iter().count(), flaky.claims()), (1, 2), "it is still valid");
    bench.clock.advance(SECOND);
    jobs.enqueue(mail("b")).send().unwrap();
    bench.clock.advance(60 * SECOND);
    assert_eq!((calls.try_iter().count(), flaky.claims()), (0, 2));
    bench.end(jobs);
}

#[test]
fn the_jobs_of_a_node_that_went_silent_are_run_by_another() {
    let bench = Bench::new();
    // A node that claims and is never heard of again.
    let ghost = NodeId::random();
    bench.store.renew(ghost, 300 * SECOND).unwrap();
    let id = bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap()[0].id();
    let kinds: Arc<[String]> = Arc::new(["mail".to_owned()]);
    let held = bench.store.exchange(ghost, Exchange::new(kinds).sweep(1)).unwrap().claimed;
    assert_eq!(held.len(), 1);
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    bench.clock.advance(299 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "its lease protects it");
    bench.clock.advance(301 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    let record = bench.store.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.crashes, record.attempt), (JobState::Done, 1, 1));
    bench.end(jobs);
}

/// The fence tells them apart, here and in the store.
#[test]
fn an_attempt_from_before_the_lease_lapsed_does_not_pass_for_the_one_after() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (say, said) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        let slept = cx.sleep(750 * SECOND);
        say.send(slept.err())?;
        slept?;
        Ok(Done)
    };
    let stale = Arc::new(AtomicU32::new(0));
    let count = stale.clone();
    let observe = move |event: &Event<'_>| {
        count.fetch_add(u32::from(matches!(event, Event::Stale { .. })), Ordering::SeqCst);
    };
    let jobs = bench.on(flaky.clone()).observe(observe).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    flaky.refuse_renewals(true);
    bench.clock.advance(700 * SECOND);
    let ghost = NodeId::random();
    bench.store.renew(ghost, SECOND).unwrap();
    assert_eq!(bench.store.rescue(ghost, 9).unwrap().len(), 1, "the lease was over at 600");
    bench.store.leave(ghost).unwrap();
    flaky.refuse_renewals(false);
    // The node has its lease back, and claims the job again, before the first attempt is over.
    bench.clock.advance(45 * SECOND);
    assert_eq!((bench.state(id), said.try_iter().count()), (JobState::Claimed, 0));
    bench.clock.advance(15 * SECOND);
    assert_eq!((said.try_iter().collect::<Vec<_>>(), stale.load(Ordering::SeqCst)), (vec![None], 1));
    jobs.cancel(id).unwrap();
    bench.clock.wait_until_idle();
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [Some(Stop::Cancelled)], "the second one can be reached");
    assert_eq!(bench.state(id), JobState::Cancelled);
    bench.end(jobs);
}

/// Others begin at 600 seconds; so there are 100 left to end in.
#[test]
fn exclusive_handlers_are_asked_to_stop_before_others_may_begin() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (say, said) = channel();
    let (clock, start) = (bench.clock.clone(), bench.clock.now());
    let handler = move |mail: Mail, cx: &JobContext| {
        let slept = cx.sleep(5_000 * SECOND);
        say.send((mail.to, cx.attempt(), slept.err(), clock.now().since(start).as_secs()))?;
        slept?;
        Ok(Done)
    };
    let (fly, flown) = channel();
    let later = move |_: Mail, cx: JobContext| {
        fly.send(cx.attempt()).unwrap();
        async move {
            cx.sleep_async(5_000 * SECOND).await?;
            Ok(Done)
        }
    };
    let exclusive = || KindOptions::new().exclusive();
    let jobs = bench.on(flaky.clone()).concurrency(3).handle("mail", handler.clone());
    let jobs = jobs.handle_with("alone", exclusive(), handler).handle_async_with("async", exclusive(), later);
    let jobs = jobs.start().unwrap();
    let ids = ["mail", "alone", "async"].map(|kind| jobs.enqueue_as(kind, mail(kind)).send().unwrap().id());
    bench.clock.advance(1_000 * SECOND);
    assert_eq!(said.try_iter().count(), 0, "the lease is renewed");
    flaky.refuse_renewals(true);
    bench.clock.advance(499 * SECOND);
    assert_eq!((said.try_iter().count(), flown.try_iter().collect::<Vec<_>>()), (0, vec![1]));
    bench.clock.advance(SECOND);
    let told = |at| ("alone".to_owned(), 1, Some(Stop::LeaseLost), at);
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [told(1_500)]);
    let states = ids.map(|id| bench.state(id));
    assert_eq!(states[0], JobState::Claimed, "the other goes on");
    flaky.refuse_renewals(false);
    bench.clock.advance(60 * SECOND);
    assert_eq!(flown.try_iter().collect::<Vec<_>>(), [1], "dropped, and run again, uncharged");
    // A renewal that hangs is none.
    let go_on = flaky.hang_renewal();
    bench.clock.jump(800 * SECOND);
    let (to, attempt, stop, _) = said.recv().unwrap();
    assert_eq!((to.as_str(), attempt, stop), ("alone", 1, Some(Stop::LeaseLost)));
    go_on.send(()).unwrap();
    bench.clock.wait_until_idle();
    jobs.shutdown(Duration::ZERO).unwrap();
    bench.clock.wait_until_idle();
    bench.store.verify();
}

#[test]
fn a_node_whose_lease_lapsed_while_jobs_wait_rests_and_comes_back() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.refuse_renewals(true);
    bench.clock.advance(650 * SECOND);
    bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap();
    bench.clock.advance(100 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "somebody else may hold it by now");
    flaky.refuse_renewals(false);
    bench.clock.advance(2 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    bench.end(jobs);
}

#[test]
fn nothing_starts_on_a_node_whose_lease_has_lapsed() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let id = jobs.enqueue(mail("a")).after(700 * SECOND).send().unwrap().id();
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    bench.clock.advance(699 * SECOND);
    assert_eq!(calls.try_iter().count(), 0);
    // Claimable again in the store, but the lease was lost at 600 seconds and only a renewal brings it back.
    flaky.fail_with(None);
    bench.clock.advance(2 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("a".to_owned(), 700 * SECOND)], "renewed in time");
    assert_eq!(bench.state(id), JobState::Done);
    bench.end(jobs);
}

#[test]
fn outcomes_are_kept_while_the_store_is_down_and_recorded_when_it_is_back() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, gate) = gated();
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    gate.go_on.send(()).unwrap();
    bench.clock.advance(10 * SECOND);
    assert_eq!(bench.state(id), JobState::Claimed);
    flaky.fail_with(None);
    bench.clock.advance(2 * SECOND);
    assert_eq!(bench.state(id), JobState::Done);
    bench.end(jobs);
}

#[test]
fn an_exchange_whose_answer_was_lost_loses_no_job() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.lose_next_answer();
    let ids: Vec<JobId> =
        jobs.enqueue_many([mail("a"), mail("b")]).unwrap().into_iter().map(Enqueued::id).collect();
    bench.clock.advance(SECOND);
    assert_eq!(calls.try_iter().count(), 2);
    for id in ids {
        let record = bench.store.job(id).unwrap().unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Done, 1, 0));
    }
    bench.end(jobs);
}

#[test]
fn one_report_that_can_never_be_recorded_does_not_hold_up_the_others() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let handler = move |mail: Mail, _: &JobContext| {
        if mail.to == "poison" && count.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err("poison".into());
        }
        Ok(Done)
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let observe = move |event: &Event<'_>| {
        if matches!(event, Event::Unrecorded { .. }) {
            tell.lock().unwrap().push(event.to_string());
        }
    };
    let jobs = bench.on(flaky.clone()).observe(observe).handle("mail", handler).start().unwrap();
    flaky.refuse_what_says("poison");
    let names = ["a", "b", "poison", "c", "d"];
    let ids: Vec<_> = jobs.enqueue_many(names.map(mail)).unwrap().into_iter().map(Enqueued::id).collect();
    bench.clock.advance(60 * SECOND);
    for id in &ids {
        assert_eq!(bench.state(*id), JobState::Done, "given up once, then run again");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let expected = format!(
        "the outcome of mail job {} cannot be recorded, so it will be run again: there is something in this batch",
        ids[2]
    );
    assert_eq!(*told.lock().unwrap(), [expected]);
    bench.end(jobs);
}

/// However long it lasts, and whether they may be run again or not.
#[test]
fn jobs_are_not_run_again_because_the_store_refuses_every_report_for_a_while() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let broken = flaky.clone();
    let breaking = move |mail: Mail, cx: &JobContext| {
        broken.fail_with(Some(|| Error::broken("no such table")));
        handler(mail, cx)
    };
    let once = KindOptions::new().at_most_once();
    let jobs = bench.on(flaky.clone()).handle("mail", breaking.clone()).handle_with("once", once, breaking);
    let jobs = jobs.start().unwrap();
    let ids = ["mail", "once"].map(|kind| {
        let id = jobs.enqueue_as(kind, mail(kind)).send().unwrap().id();
        bench.clock.advance(300 * SECOND);
        assert_eq!(calls.try_iter().count(), 1);
        flaky.fail_with(None);
        bench.clock.advance(60 * SECOND);
        id
    });
    assert_eq!(calls.try_iter().count(), 0);
    for id in ids {
        let record = bench.store.job(id).unwrap().unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Done, 1, 0));
    }
    bench.end(jobs);
}

/// Not even that it failed can be said of it.
#[test]
fn a_job_that_may_run_once_is_not_run_again_while_nothing_can_be_recorded_of_it() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let once = KindOptions::new().at_most_once();
    let jobs = bench.on(flaky.clone()).handle_with("mail", once, handler).start().unwrap();
    flaky.refuse_reports(true);
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(700 * SECOND);
    assert_eq!((bench.state(id), calls.try_iter().count()), (JobState::Claimed, 1));
    flaky.refuse_reports(false);
    bench.clock.advance(60 * SECOND);
    let record = bench.store.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.crashes), (JobState::Dead, 1, 0));
    assert!(record.note.unwrap().contains("could not be recorded: no such table"));
    assert_eq!(calls.try_iter().count(), 0);
    bench.end(jobs);
}

/// It leaves; the job is run by another.
#[test]
fn a_node_that_leaves_gives_up_a_report_that_is_refused_again() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler.clone()).start().unwrap();
    flaky.refuse_reports(true);
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!(jobs.shutdown(Duration::ZERO).unwrap(), 0);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    bench.clock.advance(2 * SECOND);
    assert_eq!((bench.state(id), calls.try_iter().count()), (JobState::Done, 2));
    bench.end(jobs);
}

#[test]
fn one_report_that_cannot_be_recorded_now_does_not_hold_up_the_others() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let handler = |mail: Mail, cx: &JobContext| {
        if mail.to.starts_with("stuck") {
            cx.then(cx.client().enqueue_as("none", "stuck"))?;
        }
        Ok(Done)
    };
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    flaky.stall_what_says(Some("stuck"));
    let send = |names: &[&str]| {
        let sent = jobs.enqueue_many(names.iter().map(|name| mail(name))).unwrap();
        sent.into_iter().map(Enqueued::id).collect::<Vec<_>>()
    };
    let first = send(&["a", "b", "stuck", "c", "d"]);
    bench.clock.advance(10 * SECOND);
    let second = send(&["e", "f", "stuck, too", "g"]);
    bench.clock.advance(10 * SECOND);
    let done = |ids: &[JobId]| ids.iter().map(|id| bench.state(*id) == JobState::Done).collect::<Vec<_>>();
    assert_eq!(done(&first), [true, true, false, true, true]);
    assert_eq!(done(&second), [true, true, false, true]);
    flaky.stall_what_says(None);
    bench.clock.advance(10 * SECOND);
    for id in first.into_iter().chain(second) {
        let record = bench.store.job(id).unwrap().unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Done, 1, 0));
    }
    assert_eq!(jobs.find(&Filter::new().kind("none")).unwrap().len(), 2);
    bench.end(jobs);
}

#[test]
fn a_job_that_may_run_once_is_dead_if_its_outcome_can_never_be_recorded() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let handler = move |_: Mail, _: &JobContext| {
        count.fetch_add(1, Ordering::SeqCst);
        Err("poison".into())
    };
    let once = KindOptions::new().at_most_once();
    let jobs = bench.on(flaky.clone()).handle_with("mail", once, handler).start().unwrap();
    flaky.refuse_what_says("poison");
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(60 * SECOND);
    let record = bench.store.job(id).unwrap().unwrap();
    assert_eq!((record.state, runs.load(Ordering::SeqCst)), (JobState::Dead, 1));
    let note = record.note.unwrap();
    assert!(note.contains("could not be recorded: there is something"), "{note}");
    bench.end(jobs);
}

#[test]
fn a_store_that_panics_is_tried_again() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    flaky.fail_with(Some(|| panic!("a bug in the store")));
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.fail_with(None);
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(2 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    bench.end(jobs);
}

#[test]
fn a_claimed_job_is_given_back_if_the_lease_lapses_before_it_starts() {
    let bench = Bench::new();
    let wall = Wall(bench.clock.clone(), Arc::new(AtomicI64::new(0)));
    let store = Arc::new(MemoryStore::with_time(wall.clone()));
    let flaky = Arc::new(Flaky::new(store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap().id();
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(store.job(id).unwrap().unwrap().state, JobState::Claimed);
    // The clock is set back, so that it waits; the store goes away, so that the lease of 600 seconds lapses.
    wall.1.store(-1_000_000_000, Ordering::SeqCst);
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    bench.clock.advance(700 * SECOND);
    wall.1.store(0, Ordering::SeqCst);
    bench.clock.advance(5 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "due, but somebody else may hold it by now");
    flaky.fail_with(None);
    bench.clock.advance(5 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    let record = store.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.crashes), (JobState::Done, 1, 0));
    jobs.shutdown(Duration::ZERO).unwrap();
}

/// A lease that is valid now says nothing of a claim from before it lapsed.
#[test]
fn a_job_claimed_under_a_lease_that_lapsed_does_not_start_under_the_next() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (begin, begun) = channel();
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let handler = move |_: Mail, cx: &JobContext| {
        for _ in 0..2 {
            begin.send(cx.id())?;
            wait.lock().unwrap().recv()?;
            cx.log("something to be told, so that the node is busy with that when the store is back");
        }
        Ok(Done)
    };
    let jobs = bench.on(flaky.clone()).concurrency(1).handle("mail", handler).start().unwrap();
    let waits = jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap().id();
    // It is claimed a few milliseconds before it is due; but then another one has the only worker.
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(bench.state(waits), JobState::Claimed);
    let runs = jobs.enqueue(mail("b")).send().unwrap().id();
    assert_eq!(begun.recv().unwrap(), runs);
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    go_on.send(()).unwrap();
    assert_eq!(begun.recv().unwrap(), runs);
    bench.clock.jump(700 * SECOND);
    let ghost = NodeId::random();
    bench.store.renew(ghost, 1_000 * HOUR).unwrap();
    assert_eq!(bench.store.rescue(ghost, 9).unwrap().len(), 2, "the lease was over at 600");
    let kinds: Arc<[String]> = Arc::new(["mail".to_owned()]);
    assert_eq!(bench.store.exchange(ghost, Exchange::new(kinds).sweep(2)).unwrap().claimed.len(), 2);
    // The lease is granted again, and before the node gets round to anything else the worker is free.
    let renewed = flaky.tell_renewals();
    flaky.refuse_exchanges(true);
    flaky.fail_with(None);
    while renewed.try_recv().is_err() {
        bench.clock.jump(SECOND);
        std::thread::yield_now();
    }
    go_on.send(()).unwrap();
    drop(go_on);
    bench.clock.wait_until_idle();
    assert_eq!(begun.try_iter().collect::<Vec<_>>(), [], "the ghost has it");
    flaky.refuse_exchanges(false);
    bench.clock.advance(10 * SECOND);
    for id in [waits, runs] {
        assert_eq!(bench.store.job(id).unwrap().unwrap().owner, Some(ghost));
    }
    jobs.shutdown(Duration::ZERO).unwrap();
}

/// What is left is rescued after the next one, and until then others have their turn.
#[test]
fn a_rescue_that_fails_is_no_failed_renewal() {
    let bench = Bench::new();
    let ghost = NodeId::random();
    bench.store.renew(ghost, HOUR).unwrap();
    let id = bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap()[0].id();
    let kinds: Arc<[String]> = Arc::new(["mail".to_owned()]);
    assert_eq!(bench.store.exchange(ghost, Exchange::new(kinds).sweep(1)).unwrap().claimed.len(), 1);
    bench.store.leave(ghost).unwrap();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    flaky.refuse_rescues(true);
    let renewed = flaky.tell_renewals();
    let (tell, failures) = channel();
    let observe = move |event: &Event<'_>| {
        if let Event::StoreFailed(error) = event {
            let _ = tell.send(error.to_string());
        }
    };
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).observe(observe).handle("mail", handler).start().unwrap();
    bench.clock.advance(500 * SECOND);
    assert_eq!(renewed.try_iter().count(), 3, "at 0, 200 and 400");
    assert_eq!(failures.try_iter().collect::<Vec<_>>(), ["not now"; 3]);
    assert_eq!((calls.try_iter().count(), bench.state(id)), (0, JobState::Claimed));
    flaky.refuse_rescues(false);
    bench.clock.advance(100 * SECOND);
    assert_eq!((calls.try_iter().count(), bench.state(id)), (1, JobState::Done));
    bench.end(jobs);
}

#[test]
fn a_clock_that_is_set_back_starts_nothing_early_and_set_forward_again_nothing_late() {
    let bench = Bench::new();
    let wall = Wall(bench.clock.clone(), Arc::new(AtomicI64::new(0)));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_time(wall.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(store.clone()).handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap();
    // Claimed a few milliseconds before it is due; then the clock is set back.
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(store.find(&Filter::new().state(JobState::Claimed)).unwrap().len(), 1);
    wall.1.store(-100_000_000, Ordering::SeqCst);
    bench.clock.advance(20 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "not due by the store's clock");
    wall.1.store(0, Ordering::SeqCst);
    bench.clock.advance(SECOND);
    assert_eq!(calls.try_iter().count(), 1, "noticed within a second");
    jobs.shutdown(Duration::ZERO).unwrap();
}

/// A time of day that can be set.
#[derive(Clone, Debug)]
struct Wall(ManualClock, Arc<AtomicI64>);

impl TimeSource for Wall {
    fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(self.0.timestamp().as_micros() + self.1.load(Ordering::SeqCst))
    }
}
