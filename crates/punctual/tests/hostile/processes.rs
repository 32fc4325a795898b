//! What would end the process, each in one of its own: several destructors that panic together, and threads that wait for
//! themselves on their way out.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use punctual::{Executor, ManualClock, Observer, OnDrop, Panic, Place, TaskHandle};

use crate::Bomb;
use crate::support::{HOUR, Log, PATIENCE, STEP, eventually, finish};

/// Runs the ignored test of that name, as one of these `ways`, and expects it to end as tests do that pass.
#[track_caller]
fn survives(test: &str, ways: &[&str]) {
    for way in ways {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", &format!("processes::{test}"), "--ignored", "--nocapture"]);
        let output = child.env("PUNCTUAL_CHILD", way).output().unwrap();
        let (out, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{way}: {out}\n{errors}");
    }
}

fn way() -> String {
    std::env::var("PUNCTUAL_CHILD").unwrap_or_default()
}

// ---- destructors that panic together

struct Told(Log<Place>);

impl Observer for Told {
    fn contained(&self, place: Place, _: &Panic) {
        self.0.add(place);
    }
}

/// A future that panics when it is dropped, and that somebody may still wake.
fn pending(wakers: Arc<Mutex<Option<Waker>>>) -> impl Future<Output = ()> + Send + 'static {
    let bomb = Bomb;
    poll_fn(move |context| {
        let _ = &bomb;
        *wakers.lock().unwrap() = Some(context.waker().clone());
        Poll::Pending
    })
}

#[test]
#[ignore = "run by the test below"]
fn cancel_what_panics_throughout() {
    let (clock, log, wakers) = (ManualClock::new(), Log::new(), Arc::default());
    let builder = Executor::builder().clock(clock.clone()).observer(Told(log.clone()));
    let pool = builder.build().unwrap();
    let (bomb, plan) = (Bomb, Bomb);
    let inner = Arc::clone(&wakers);
    let make = move || {
        let _ = &bomb;
        pending(Arc::clone(&inner))
    };
    let task: TaskHandle<()> = match &*way() {
        "calendar" => {
            let calendar = move |wall: SystemTime| {
                let _ = &plan;
                Some(wall + STEP)
            };
            pool.task_async(make).calendar(calendar).start().unwrap()
        }
        "next by" => {
            let next = move |_| {
                let _ = &plan;
                None
            };
            pool.task_async(make).after(STEP).next_by(next).start().unwrap()
        }
        _ => {
            std::mem::forget(plan);
            pool.task_async(make).after(STEP).every(HOUR).start().unwrap()
        }
    };
    clock.advance(STEP);
    assert!(wakers.lock().unwrap().is_some(), "it was polled");
    assert!(task.cancel());
    assert_eq!(log.entries(), [Place::Destructor], "one is heard");
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    finish(&pool);
}

#[test]
fn a_future_beside_what_makes_it_and_what_plans_it_may_all_panic_when_they_are_dropped() {
    survives("cancel_what_panics_throughout", &["rate", "calendar", "next by"]);
}

// ---- threads on their way out

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// What a worker does with an executor when its thread ends, once it may; and tells what came of it.
struct Kept {
    pool: Option<Executor>,
    go: Receiver<()>,
    act: fn(Executor) -> bool,
    acted: Sender<bool>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.go.recv().unwrap();
        let pool = self.pool.take().unwrap();
        self.acted.send((self.act)(pool)).unwrap();
    }
}

/// Leaves an executor with the only thread of its pool.
fn leave_with_worker(pool: &Executor, act: fn(Executor) -> bool) -> (Sender<()>, Receiver<bool>) {
    let ((start, go), (acted, answer)) = (channel(), channel());
    let kept = Kept { pool: Some(pool.clone()), go, act, acted };
    pool.submit(move || KEPT.set(Some(kept))).unwrap().join().unwrap();
    (start, answer)
}

#[test]
#[ignore = "run by the test below"]
fn use_the_pool_of_a_thread_that_ends() {
    let clock = ManualClock::new();
    let builder = Executor::builder().clock(clock.clone()).on_drop(OnDrop::Join);
    let pool = builder.core_threads_time_out().keep_alive(STEP).build().unwrap();
    let act: fn(Executor) -> bool = match &*way() {
        // The pool is over, and so is the wait for it, except for this very thread.
        "wait" => |pool| {
            let _ = pool.await_termination(HOUR);
            pool.is_terminated()
        },
        // It asks for another thread, which joins those that have ended.
        "submit" => |pool| pool.submit(|| 7).unwrap().join().unwrap() == 7,
        _ => |pool| {
            drop(pool);
            true
        },
    };
    let (start, answer) = leave_with_worker(&pool, act);
    if way() == "submit" {
        clock.advance(STEP);
    } else {
        pool.shutdown();
    }
    eventually("the worker is gone", || pool.stats().pool_size == 0);
    if way() == "submit" {
        start.send(()).unwrap();
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(true));
        assert!(pool.submit(|| ()).unwrap().join_timeout(Duration::MAX).is_ok());
        finish(&pool);
    } else {
        eventually("it is terminated", || pool.is_terminated());
        drop(pool);
        start.send(()).unwrap();
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(true));
    }
}

#[test]
fn a_thread_on_its_way_out_does_not_wait_for_itself() {
    survives("use_the_pool_of_a_thread_that_ends", &["drop", "submit", "wait"]);
}
