//! Failures that nobody has looked at.

use std::process::Command;
use std::sync::mpsc;

use punctual::{
    Backoff, CompletionQueue, Executor, ManualClock, Observer, OnFailure, Overlap, TaskContext,
    UnobservedFailure,
};

use crate::bodies::SECOND;
use crate::support::{Gate, HOUR, Log, finish};

/// A pool that notes its failures.
fn noting(threads: usize) -> (Executor, ManualClock, Log<String>) {
    let (clock, log) = (ManualClock::new(), Log::new());
    let seen = log.clone();
    let sink = move |failure: &UnobservedFailure| seen.add(failure.to_string());
    let builder = Executor::builder().core_threads(threads).clock(clock.clone());
    (builder.unobserved(sink).build().unwrap(), clock, log)
}

fn boom() {
    panic!("boom")
}

const LOST: &str = "task #0 failed and nobody looked: the task panicked: boom";

#[test]
fn a_failure_is_told_when_the_handle_was_dropped_before_it() {
    let (pool, clock, log) = noting(1);
    drop(pool.schedule(SECOND, boom).unwrap());
    pool.execute(|| ()).unwrap();
    clock.advance(SECOND);
    assert_eq!(log.entries(), [LOST]);
    finish(&pool);
    assert_eq!(log.entries(), [LOST], "and once");
}

#[test]
fn a_failure_is_told_when_the_handle_is_dropped_unread() {
    let (pool, clock, log) = noting(1);
    let task = pool.submit(boom).unwrap();
    clock.wait_until_idle();
    task.wait().unwrap();
    assert!(task.is_done() && task.info().state().is_done());
    assert_eq!(log.entries(), [] as [&str; 0], "it may still be read");
    drop(task);
    assert_eq!(log.entries(), [LOST]);
    finish(&pool);
}

/// Each way to the outcome counts.
#[test]
fn a_failure_that_was_read_is_not_told() {
    let (pool, clock, log) = noting(1);
    assert!(pool.submit(boom).unwrap().join().is_err());
    assert!(pool.submit(boom).unwrap().join_timeout(SECOND).is_err());
    let [asked, tried, shown] = [(); 3].map(|()| pool.submit(boom).unwrap());
    clock.wait_until_idle();
    assert!(asked.failure().is_some());
    assert!(tried.try_join().unwrap().is_err());
    assert!(format!("{shown:?}").contains("boom"));
    drop((asked, tried, shown));
    let queue = CompletionQueue::new();
    queue.submit(&pool, boom).unwrap();
    assert!(queue.take().unwrap().unwrap().try_join().unwrap().is_err());
    let awaited = pool.submit(boom).unwrap();
    clock.wait_until_idle();
    let mut awaited = std::pin::pin!(awaited);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(awaited.as_mut().poll(&mut context).is_ready());
    assert!(
        pool.invoke_any(["no", "boom"].map(|text| move || if text == "no" {
            Err::<(), _>(text)
        } else {
            panic!("{text}")
        }))
        .is_err()
    );
    finish(&pool);
    assert_eq!(log.entries(), [] as [&str; 0]);
}

#[test]
fn what_did_not_fail_is_not_told() {
    let (pool, clock, log) = noting(1);
    drop(pool.submit(|| 7).unwrap());
    // The error of a body that runs once is its value, and whoever does not want it does not.
    drop(pool.submit(|| Err::<(), _>("no")).unwrap());
    pool.schedule(HOUR, boom).unwrap().cancel();
    drop(pool.schedule(HOUR, boom).unwrap().remove());
    drop(pool.task(boom).after(HOUR).every(HOUR).start().unwrap());
    clock.wait_until_idle();
    finish(&pool);
    assert_eq!(log.entries(), [] as [&str; 0]);
}

/// Nobody joins a series: it is said although there is a handle, and at once.
#[test]
fn a_periodic_task_that_stops_is_told_at_once() {
    let (pool, clock, log) = noting(1);
    let java = pool.schedule_at_fixed_rate(SECOND, SECOND, boom).unwrap();
    clock.advance(SECOND);
    assert_eq!(log.entries(), ["task #0 has stopped with run 1: the task panicked: boom"]);
    let builder = pool.task(|| Err::<(), _>("no answer")).name("beat").every(SECOND);
    let series = builder.on_failure(OnFailure::StopAfter(2)).start().unwrap();
    clock.wait_until_idle();
    assert_eq!(log.entries().len(), 1, "it goes on");
    clock.advance(SECOND);
    assert_eq!(log.entries()[1], "task #1 \"beat\" has stopped with run 2: the task failed: no answer");
    drop((java, series));
    finish(&pool);
    assert_eq!(log.entries().len(), 2);
}

#[test]
fn a_series_that_goes_on_is_not_told() {
    let (pool, clock, log) = noting(2);
    let body = || Err::<(), _>("no");
    let _going = pool.task(body).every(SECOND).on_failure(OnFailure::Continue).start().unwrap();
    let builder = pool.task(body).every(SECOND).on_failure(OnFailure::Continue).overlap(Overlap::Allow(2));
    let _shared = builder.start_shared().unwrap();
    let tried = pool.task(body).retry(Backoff::constant(SECOND).give_up_after(2)).start().unwrap();
    clock.advance(5 * SECOND);
    drop(tried);
    finish(&pool);
    assert_eq!(log.entries(), [] as [&str; 0]);
}

#[test]
fn a_shared_series_and_a_plan_that_end_by_a_failure_are_told_once() {
    let (pool, clock, log) = noting(2);
    let builder = pool.task(|| Err::<(), _>("no")).every(SECOND).overlap(Overlap::Allow(2));
    let _shared = builder.start_shared().unwrap();
    clock.wait_until_idle();
    assert_eq!(log.entries(), ["task #0 has stopped with run 1: the task failed: no"]);
    let _planned = pool.task(|| ()).next_by(|_| panic!("no plan")).start().unwrap();
    clock.wait_until_idle();
    assert_eq!(log.entries().len(), 2);
    assert!(log.entries()[1].ends_with("has stopped with run 1: the task panicked: no plan"));
    finish(&pool);
}

/// No handle can tell of it: the task was cancelled.
#[test]
fn a_panic_after_a_cancel_is_told() {
    let (pool, clock, log) = noting(1);
    let (gate, inner) = (Gate::new(), Gate::new());
    let held = gate.clone();
    let task = pool.submit(move || {
        held.pass();
        inner.open();
        boom();
    });
    let task = task.unwrap();
    gate.await_arrivals(1);
    assert!(task.cancel());
    gate.open();
    clock.wait_until_idle();
    assert_eq!(log.entries(), [LOST]);
    assert!(task.is_cancelled());
    finish(&pool);
    assert_eq!(log.entries().len(), 1);
}

#[test]
fn a_timeout_that_nobody_reads_is_told() {
    let (pool, clock, log) = noting(1);
    let body = || TaskContext::current().sleep(HOUR);
    drop(pool.task(body).name("slow").timeout(SECOND).start().unwrap());
    clock.advance(SECOND);
    let expected = "task #0 \"slow\" failed and nobody looked: the task took longer than its timeout of 1s";
    assert_eq!(log.entries(), [expected]);
    finish(&pool);
}

#[test]
fn observer_and_sink_are_both_told_and_may_do_as_they_like() {
    struct Rude(mpsc::Sender<UnobservedFailure>);
    impl Observer for Rude {
        fn unobserved(&self, failure: &UnobservedFailure) {
            self.0.send(failure.clone()).unwrap();
            panic!("rude");
        }
    }
    let (clock, (sender, told)) = (ManualClock::new(), mpsc::channel());
    let (pools, pool) = mpsc::channel::<Executor>();
    let pool = std::sync::Mutex::new(pool);
    let log = Log::new();
    let seen = log.clone();
    let sink = move |failure: &UnobservedFailure| {
        let pool = pool.lock().unwrap().recv().unwrap();
        seen.add((failure.run(), failure.is_periodic(), pool.tasks().len()));
        panic!("rude, too");
    };
    let builder =
        Executor::builder().core_threads(1).clock(clock.clone()).observer(Rude(sender)).unobserved(sink);
    let pool = builder.build().unwrap();
    pools.send(pool.clone()).unwrap();
    drop(pool.task(boom).name("it").start().unwrap());
    clock.wait_until_idle();
    assert_eq!(log.entries(), [(1, false, 0)]);
    let failure = told.try_recv().unwrap();
    assert_eq!((failure.name(), failure.id().number()), (Some("it"), 0));
    assert_eq!(failure.error().panic().unwrap().message(), "boom");
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    finish(&pool);
}

/// What the children of the test below do: a failure each, with nobody to hear of it.
#[test]
#[ignore = "run by the test below"]
fn child() {
    struct Deaf;
    impl Observer for Deaf {}
    let builder = Executor::builder();
    let builder = match std::env::var("PUNCTUAL_CHILD").as_deref() {
        Ok("observer") => builder.observer(Deaf),
        Ok("sink") => builder.unobserved(|_| ()),
        _ => builder,
    };
    let pool = builder.build().unwrap();
    drop(pool.task(|| panic!("two\nlines")).name("print").start::<()>().unwrap());
    pool.close().unwrap();
}

/// Without anybody who listens, and with an observer who does not, it is one line on standard error; with a sink there
/// is none.
#[test]
fn by_default_it_is_one_line_on_standard_error() {
    let line = "punctual: task #0 \"print\" failed and nobody looked: the task panicked: two lines";
    for (listener, expected) in [("nobody", vec![line]), ("observer", vec![line]), ("sink", vec![])] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "unobserved::child", "--ignored", "--nocapture"]);
        let output = child.env("PUNCTUAL_CHILD", listener).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("punctual:")).collect();
        assert_eq!(lines, expected, "{text}");
        assert!(output.status.success());
    }
}

/// The fallback takes the place of the body, and so does its panic.
#[test]
fn a_fallback_that_panics_is_told_unless_somebody_reads_it() {
    for (begun, reads) in [(false, false), (true, false), (true, true)] {
        let (pool, clock, log) = noting(1);
        let gate = Gate::new();
        if !begun {
            drop(crate::support::block_worker(&pool, &gate));
        }
        let inner = gate.clone();
        let handle = pool.submit_with_fallback(SECOND, move || inner.pass(), boom).unwrap();
        gate.await_arrivals(1);
        clock.jump(SECOND);
        assert!(handle.wait().is_ok());
        if reads {
            assert!(handle.failure().is_some());
        }
        let id = handle.id();
        drop(handle);
        gate.open();
        finish(&pool);
        let told = format!("task {id} failed and nobody looked: the task panicked: boom");
        assert_eq!(log.entries(), if reads { vec![] } else { vec![told] });
    }
}
