//! Models of tasks that go by their marks: whoever comes together, one decides, all see the same, and nothing is left.

use std::sync::Arc;
use std::task::Waker;

use loom::thread;

use super::loom_cell::ALONE;
use super::{EndedEarly, Gone, Grip, Once, Task, TaskRef, TaskState, TypedRef, allocate_plain};
use crate::clock::ManualClock;
use crate::error::TaskError;
use crate::loom_support::{Bell, explore, pool};
use crate::pool::Tether;
use crate::task::Ended;

/// A task as its handle and the queue have it, and what the handle holds besides.
struct Parts {
    grip: Grip<u32>,
    queued: TaskRef,
    tether: Arc<Tether>,
}

/// A task that goes by its mark. The pool that it is said to be in never hears of it.
fn task() -> Parts {
    let executor = pool(&ManualClock::new(), 0).build().unwrap();
    let (owner, queued) = allocate_plain::<_, Once<fn() -> u32>>(Once(|| 7));
    let marked = owner.go_by_mark(executor.tethers()).expect("it has nothing to be dropped");
    let tether = Arc::clone(marked.tether());
    Parts { grip: owner.into_grip_by_mark(&marked, None), queued, tether }
}

/// Says whether it ran.
fn perform(task: &TaskRef) -> bool {
    !matches!(task.perform(&ALONE), Ended::Skipped)
}

/// What is left of a cancel that came first.
enum Cancelled {
    ByMark(Gone),
    ByWord,
}

fn cancel(grip: &Grip<u32>) -> Option<Cancelled> {
    if let Some(gone) = grip.by_mark().and_then(|task| task.cancel()) {
        return Some(Cancelled::ByMark(gone));
    }
    cancel_by_word(grip.as_task()).then_some(Cancelled::ByWord)
}

fn cancel_by_word(task: &dyn Task) -> bool {
    matches!(task.end(TaskError::Cancelled, &mut |_| ()), EndedEarly::Yes(None))
}

/// As whoever takes the task out of the queue does.
fn see_to(cancelled: Option<Cancelled>, queued: TaskRef) {
    match cancelled {
        Some(Cancelled::ByMark(gone)) => drop(gone.settle(queued)),
        _ => drop(queued),
    }
}

fn is_free(witness: &TypedRef<u32>) -> bool {
    witness.header().count.is_one()
}

#[test]
fn a_run_and_a_cancel_by_mark_agree_on_one_outcome() {
    explore(4, || {
        let Parts { grip, queued, .. } = task();
        let witness = grip.share();
        let runner = thread::spawn(move || perform(&queued));
        let cancelled = cancel(&grip);
        let state = witness.state();
        assert_eq!(cancelled.is_some(), state == TaskState::Cancelled, "{state:?}");
        // What is cancelled by its word was running: its mark was closed by nobody else.
        let runs = !matches!(cancelled, Some(Cancelled::ByMark(_)));
        let ends = if cancelled.is_some() { TaskState::Cancelled } else { TaskState::Succeeded };
        drop(cancelled);
        assert_eq!(runner.join().unwrap(), runs);
        assert_eq!(witness.state(), ends);
        drop(grip);
        assert!(is_free(&witness));
    });
}

#[test]
fn a_cancelled_task_is_settled_beside_the_drop_of_its_grip() {
    for has_witness in [true, false] {
        explore(4, move || {
            let Parts { grip, queued, tether } = task();
            let held = Arc::strong_count(&tether);
            let witness = has_witness.then(|| grip.share());
            let cancelled = cancel(&grip);
            assert!(matches!(cancelled, Some(Cancelled::ByMark(_))));
            let settler = thread::spawn(move || see_to(cancelled, queued));
            assert!(cancel(&grip).is_none() && grip.as_task().state() == TaskState::Cancelled);
            drop(grip);
            settler.join().unwrap();
            assert_eq!(Arc::strong_count(&tether), held - 1);
            if let Some(witness) = witness {
                assert!(witness.state() == TaskState::Cancelled && is_free(&witness));
            }
        });
    }
}

#[test]
fn of_two_cancels_one_by_the_mark_one_comes_first() {
    explore(4, || {
        let Parts { grip, queued, .. } = task();
        let witness = grip.share();
        let other = {
            let second = grip.clone();
            thread::spawn(move || cancel(&second).is_some())
        };
        let mine = cancel(&grip);
        assert_eq!(grip.as_task().state(), TaskState::Cancelled);
        let is_mine = mine.is_some();
        drop(grip);
        see_to(mine, queued);
        assert_ne!(other.join().unwrap(), is_mine);
        assert!(witness.state() == TaskState::Cancelled && is_free(&witness));
    });
}

#[test]
fn a_listener_beside_a_cancel_by_mark_is_refused_or_woken() {
    explore(4, || {
        let Parts { grip, queued, .. } = task();
        let bell = Arc::new(Bell::default());
        let listener = {
            let (task, waker) = (grip.share(), Waker::from(Arc::clone(&bell)));
            thread::spawn(move || task.listen(&waker))
        };
        let cancelled = cancel(&grip);
        assert!(cancelled.is_some());
        let open = listener.join().unwrap();
        assert_eq!(bell.get(), usize::from(open));
        drop(grip);
        see_to(cancelled, queued);
        assert_eq!(Arc::strong_count(&bell), 1);
    });
}

#[test]
fn whoever_looks_sees_a_task_that_is_cancelled_stay_so() {
    explore(4, || {
        let Parts { grip, queued, .. } = task();
        let witness = grip.share();
        let looker = {
            let task = grip.share();
            thread::spawn(move || {
                let first = task.state();
                (first, task.state())
            })
        };
        let cancelled = cancel(&grip);
        drop(grip);
        see_to(cancelled, queued);
        let seen = looker.join().unwrap();
        assert!(
            matches!(
                seen,
                (TaskState::Cancelled, TaskState::Cancelled)
                    | (TaskState::Waiting, TaskState::Waiting | TaskState::Cancelled)
            ),
            "{seen:?}"
        );
        assert!(is_free(&witness));
    });
}
