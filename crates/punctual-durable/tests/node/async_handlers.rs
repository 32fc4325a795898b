//! Async handlers: polled by the workers of the node, bounded, stopped, and never lost.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::Duration;

use punctual::{BoxedFuture, Executor, run_on};
use punctual_durable::{
    Backoff, Cancelling, Done, Filter, JobContext, JobError, JobState, KindOptions, NewJob, Outcome, Stop,
    Store,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, Unruly, mail, unruly};

/// Tells when it is dropped.
struct Guard(Sender<&'static str>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[test]
fn handlers_that_wait_hold_no_thread() {
    let bench = Bench::new();
    let slow = |_: Mail, cx: JobContext| async move {
        cx.sleep_async(HOUR).await?;
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(1).handle_async("slow", slow);
    let jobs = jobs.handle("quick", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    let slow: Vec<_> = (0..50).map(|_| jobs.enqueue_as("slow", mail("a")).send().unwrap().id()).collect();
    bench.clock.wait_until_idle();
    assert!(slow.iter().all(|id| bench.state(*id) == JobState::Claimed), "all at once, on one thread");
    let quick = jobs.enqueue_as("quick", mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(quick), JobState::Done, "and there is room for others");
    bench.clock.advance(HOUR);
    assert!(slow.iter().all(|id| bench.state(*id) == JobState::Done));
    bench.end(jobs);
}

#[test]
fn no_more_are_under_way_than_the_limit_and_the_threads_together() {
    for (limit, most) in [(0, 2), (3, 5)] {
        let bench = Bench::new();
        let running = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let counters = running.clone();
        let handler = move |_: Mail, cx: JobContext| {
            let counters = counters.clone();
            async move {
                let now = counters[0].fetch_add(1, Ordering::SeqCst) + 1;
                counters[1].fetch_max(now, Ordering::SeqCst);
                cx.sleep_async(SECOND).await?;
                counters[0].fetch_sub(1, Ordering::SeqCst);
                Ok(Done)
            }
        };
        let jobs = bench.jobs().async_limit(limit).handle_async("mail", handler).start().unwrap();
        jobs.enqueue_many(vec![mail("a"); 40]).unwrap();
        bench.clock.wait_until_idle();
        assert_eq!(running[0].load(Ordering::SeqCst), most, "as many as may be");
        bench.clock.advance(60 * SECOND);
        assert_eq!(jobs.find(&Filter::new().state(JobState::Done)).unwrap().len(), 40);
        assert_eq!(running[1].load(Ordering::SeqCst), most, "and never more");
        bench.end(jobs);
    }
}

#[test]
fn one_that_takes_too_long_is_dropped_where_it_waits_and_tried_again() {
    let bench = Bench::new();
    let (sender, events) = channel();
    let options = KindOptions::new().timeout(SECOND).backoff(Backoff::fixed(SECOND)).max_attempts(2);
    let handler = move |_: Mail, cx: JobContext| {
        let guard = Guard(sender.clone());
        async move {
            cx.sleep_async(HOUR).await.expect("it is not even told");
            drop(guard);
            Ok(Done)
        }
    };
    let jobs = bench.jobs().handle_async_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(10 * SECOND);
    assert_eq!(bench.state(id), JobState::Dead);
    assert_eq!(events.try_iter().count(), 2);
    let said: Vec<_> = jobs.failures(id).unwrap().into_iter().map(|failure| failure.message).collect();
    assert_eq!(said, ["the job took longer than its timeout"; 2]);
    bench.end(jobs);
}

#[test]
fn errors_that_panic_themselves_are_failures_like_others() {
    for ((no_text, no_end), said) in unruly() {
        let bench = Bench::new();
        let (sender, calls) = channel();
        let handler = move |_: Mail, _: JobContext| {
            sender.send(()).unwrap();
            async move { Err(Unruly { no_text, no_end }.into()) }
        };
        let once = KindOptions::new().at_most_once();
        let jobs = bench.jobs().handle_async_with("mail", once, handler).start().unwrap();
        let id = jobs.enqueue(mail("a")).send().unwrap().id();
        bench.clock.advance(HOUR);
        assert_eq!((bench.state(id), calls.try_iter().count()), (JobState::Dead, 1));
        assert_eq!(jobs.failures(id).unwrap()[0].message, said);
        bench.end(jobs);
    }
}

#[test]
fn one_that_is_cancelled_is_gone_before_that_is_recorded() {
    let bench = Bench::new();
    let (sender, events) = channel();
    let told = sender.clone();
    let handler = move |_: Mail, cx: JobContext| {
        let guard = Guard(sender.clone());
        async move {
            cx.sleep_async(HOUR).await?;
            drop(guard);
            Ok(Done)
        }
    };
    let observe = move |event: &punctual_durable::Event<'_>| {
        if let punctual_durable::Event::Recorded { state: JobState::Cancelled, .. } = event {
            let _ = told.send("recorded");
        }
    };
    let jobs = bench.jobs().observe(observe).handle_async("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Requested);
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(id), JobState::Cancelled);
    assert_eq!(events.try_iter().collect::<Vec<_>>(), ["dropped", "recorded"]);
    bench.end(jobs);
}

#[test]
fn a_cooperative_one_is_told_and_may_still_succeed() {
    let bench = Bench::new();
    let (sender, said) = channel();
    let handler = move |mail: Mail, cx: JobContext| {
        let sender = sender.clone();
        async move {
            let stop = cx.stop_requested().await;
            // It cleans up, which takes a moment, and cannot be waited for by a timer of its context any more.
            let again = cx.sleep_async(SECOND).await.unwrap_err();
            sender.send((stop, again)).unwrap();
            if mail.to == "succeed" { Ok(Done) } else { Err(stop.into()) }
        }
    };
    let options = KindOptions::new().cooperative();
    let jobs = bench.jobs().handle_async_with("mail", options, handler).start().unwrap();
    let [succeed, give_up] = ["succeed", "give up"].map(|to| jobs.enqueue(mail(to)).send().unwrap().id());
    bench.clock.wait_until_idle();
    for id in [succeed, give_up] {
        assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Requested);
    }
    bench.clock.wait_until_idle();
    assert_eq!((bench.state(succeed), bench.state(give_up)), (JobState::Done, JobState::Cancelled));
    assert_eq!(said.try_iter().collect::<Vec<_>>(), [(Stop::Cancelled, Stop::Cancelled); 2]);
    bench.end(jobs);
}

#[test]
fn panics_of_a_handler_its_polls_and_its_destructor_are_failures_or_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a destructor");
        }
    }
    let bench = Bench::new();
    let handler = |mail: Mail, cx: JobContext| {
        assert_ne!(mail.to, "at once", "no future at all");
        let bomb = mail.to.starts_with("bomb").then(|| Bomb);
        async move {
            cx.sleep_async(SECOND).await?;
            assert_ne!(mail.to, "poll", "in the middle");
            drop(bomb);
            Ok(Done)
        }
    };
    let options = KindOptions::new().max_attempts(1);
    let jobs = bench.jobs().handle_async_with("mail", options, handler).start().unwrap();
    let send = |to| jobs.enqueue(mail(to)).send().unwrap().id();
    let ids = ["at once", "poll", "bomb", "fine", "bomb that is cancelled"].map(send);
    let foul = bench.store.enqueue(vec![NewJob::new("mail", "{\"from\": 1}")]).unwrap()[0].id();
    bench.clock.wait_until_idle();
    jobs.cancel(ids[4]).unwrap();
    bench.clock.advance(HOUR);
    let dead = JobState::Dead;
    assert_eq!(ids.map(|id| bench.state(id)), [dead, dead, dead, JobState::Done, JobState::Cancelled]);
    let note = |id| bench.store.job(id).unwrap().unwrap().note.unwrap();
    for (id, said) in ids.into_iter().zip(["no future at all", "in the middle", "a destructor"]) {
        assert!(note(id).contains(said), "{}", note(id));
    }
    assert!(note(foul).contains("cannot be read"), "{}", note(foul));
    bench.end(jobs);
}

#[test]
fn one_that_nobody_can_wake_fails_instead_of_hanging() {
    let bench = Bench::new();
    let handler = |_: Mail, _: JobContext| pending::<Result<Outcome, JobError>>();
    let options = KindOptions::new().max_attempts(1);
    let jobs = bench.jobs().handle_async_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    let record = bench.store.job(id).unwrap().unwrap();
    assert_eq!(record.state, JobState::Dead);
    assert!(record.note.unwrap().contains("can never happen"));
    bench.end(jobs);
}

#[test]
fn a_shutdown_drops_what_waits_and_does_not_charge_the_attempt() {
    let bench = Bench::new();
    let handler = |mail: Mail, cx: JobContext| async move {
        let (mut stop, mut sleep) = (pin!(cx.stop_requested()), pin!(cx.sleep_async(HOUR)));
        let why = poll_fn(|context| match stop.as_mut().poll(context) {
            Poll::Ready(stop) => Poll::Ready(Some(stop)),
            Poll::Pending => sleep.as_mut().poll(context).map(|_| None),
        });
        assert_eq!(why.await, Some(Stop::Shutdown));
        if mail.to == "finish" { Ok(Done) } else { Err(Stop::Shutdown.into()) }
    };
    let plain = |_: Mail, cx: JobContext| async move {
        cx.sleep_async(HOUR).await?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle_async_with("heeds", KindOptions::new().cooperative(), handler);
    let jobs = jobs.handle_async("plain", plain).start().unwrap();
    let ids = [("heeds", "finish"), ("heeds", "stop"), ("plain", "a")]
        .map(|(kind, to)| jobs.enqueue_as(kind, mail(to)).send().unwrap().id());
    bench.clock.wait_until_idle();
    assert!(jobs.shutdown(Duration::ZERO).unwrap() <= 2, "only the cooperative ones may need a moment");
    bench.clock.wait_until_idle();
    let seen =
        ids.map(|id| bench.store.job(id).unwrap().unwrap()).map(|job| (job.state, job.attempt, job.note));
    let given_back = (JobState::Scheduled, 0, None);
    assert_eq!(seen, [(JobState::Done, 1, None), given_back.clone(), given_back]);
    bench.store.verify();
}

#[test]
fn a_runtime_of_ones_own_may_do_the_polling() {
    let bench = Bench::new();
    // Stands for tokio: threads of its own.
    let other = Executor::builder().core_threads(1).thread_name("other").build().unwrap();
    let (sender, threads) = channel();
    let handler = move |mail: Mail, cx: JobContext| {
        let (other, sender) = (other.scheduler().clone(), sender.clone());
        run_on(move |future: BoxedFuture| drop(other.spawn(future)), async move {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            sender.send(thread).unwrap();
            cx.then(cx.client().enqueue_as("elsewhere", 1))?;
            if mail.to == "panic" { panic!("over there") } else { Ok(Done) }
        })
    };
    let options = KindOptions::new().max_attempts(1);
    let jobs = bench.jobs().handle_async_with("mail", options, handler).start().unwrap();
    let ids = ["a", "panic"].map(|to| jobs.enqueue(mail(to)).send().unwrap().id());
    for _ in 0..2 {
        assert!(threads.recv().unwrap().starts_with("other"));
    }
    // The other runtime is not on the clock of the test: it says when it is done, by the outcome.
    while ids.iter().any(|id| !bench.state(*id).is_over()) {
        std::thread::yield_now();
    }
    assert_eq!(ids.map(|id| bench.state(id)), [JobState::Done, JobState::Dead]);
    assert!(bench.store.job(ids[1]).unwrap().unwrap().note.unwrap().contains("over there"));
    assert_eq!(jobs.find(&Filter::new().kind("elsewhere")).unwrap().len(), 1, "and follow-ups follow");
    bench.end(jobs);
}
