//! What would end the process, each in one of its own: several destructors that panic together, and threads that wait for
//! themselves on their way out.

use std::future::{Future, poll_fn};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::SystemTime;

use punctual::{Executor, ManualClock, Observer, Panic, Place, TaskHandle};

use crate::Bomb;
use crate::support::{HOUR, Log, STEP, finish};

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
