//! Models of one task: who ends it, who hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use loom::thread;
use punctual_engine::{TaskKey, Tick};

use super::{EndedEarly, Once, Task, TaskState, TypedRef, allocate_plain};
use crate::clock::{Clock, ManualClock};
use crate::error::{TaskError, WaitError};
use crate::loom_support::{Bell, Counted, Drops, STEP, explore};
use crate::park::Parker;
use crate::task::{Ended, Run};
use crate::task::{Turn, Verdict, wait_for};
use crate::unobserved::{Reporter, Sink};
use crate::{DelayQueue, FutureTask, Interrupted};

type Body = Once<Box<dyn FnOnce() -> Counted + Send>>;

/// A task whose body and value are counted when they are dropped.
fn task(bodies: &Drops, values: &Drops) -> TypedRef<Counted> {
    let (captured, value) = (bodies.counted(), values.counted());
    let body: Box<dyn FnOnce() -> Counted + Send> = Box::new(move || {
        drop(captured);
        value
    });
    let (owner, _) = allocate_plain::<_, Body>(Once(body));
    owner.into_typed()
}

/// A run that nobody looks at.
pub(super) const ALONE: Run<'static> = Run {
    observer: None,
    reporter: None,
    turn: Turn::NONE,
    started: Tick::ZERO,
    again: false,
    count: &|| (),
    judge: None,
};

fn perform(cell: &TypedRef<Counted>) -> Ended {
    cell.erase().perform(&ALONE)
}

fn cancel(cell: &dyn Task) -> bool {
    matches!(cell.end(TaskError::Cancelled, &mut |_| ()), EndedEarly::Yes(None))
}

#[test]
fn a_cancel_and_a_run_agree_on_one_outcome_and_drop_body_and_value_once() {
    explore(4, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let runner = {
            let cell = cell.clone();
            thread::spawn(move || !matches!(perform(&cell), Ended::Skipped))
        };
        let cancelled = cancel(cell.as_task());
        let dropped = bodies.get();
        let ran = runner.join().unwrap();
        assert!(cancelled || ran, "somebody ends it");
        assert!(ran || dropped == 1, "a task that waits holds nothing when its cancel returns");
        assert_eq!(bodies.get(), 1);
        match cell.take().expect("it is over") {
            Ok(value) => {
                assert!(ran && !cancelled && values.get() == 0);
                drop(value);
                assert!(matches!(cell.take(), Some(Err(TaskError::Taken))));
            }
            Err(error) => assert!(cancelled && error.is_cancelled() && cell.state() == TaskState::Cancelled),
        }
        assert_eq!(values.get(), 1);
    });
}

#[test]
fn of_a_run_a_cancel_and_a_completion_by_hand_one_wins() {
    explore(3, || {
        let (bodies, values, own) = (Drops::default(), Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let (first, second) = (cell.clone(), cell.clone());
        let offered = own.counted();
        let runner = thread::spawn(move || drop(perform(&first)));
        let completer = thread::spawn(move || second.complete(Ok(offered)).is_ok());
        let cancelled = cancel(cell.as_task());
        let completed = completer.join().unwrap();
        runner.join().unwrap();
        let succeeded = cell.state() == TaskState::Succeeded;
        assert!(!(cancelled && completed));
        assert_eq!(succeeded, !cancelled);
        assert_eq!((bodies.get(), own.get()), (1, usize::from(!completed)));
        drop(cell.take());
        assert_eq!((values.get(), own.get()), (1, 1));
    });
}

#[test]
fn a_future_is_woken_through_the_waker_it_was_polled_with_last() {
    explore(3, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let runner = {
            let cell = cell.clone();
            thread::spawn(move || drop(perform(&cell)))
        };
        let bell = Arc::new(Bell::default());
        let parker = Parker::current();
        let mut outcome = cell.poll(&Waker::from(Arc::clone(&bell)));
        while outcome.is_none() {
            outcome = cell.poll(&Waker::from(Arc::clone(&parker)));
            if outcome.is_none() {
                // Loom finds it if nobody wakes us.
                parker.park();
            }
        }
        assert!(matches!(outcome, Some(Ok(_))));
        runner.join().unwrap();
        assert_eq!(Arc::strong_count(&bell), 1, "a replaced waker is dropped");
    });
}

#[test]
fn a_listener_is_refused_or_woken_once() {
    explore(4, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let runner = {
            let cell = cell.clone();
            thread::spawn(move || drop(perform(&cell)))
        };
        let bell = Arc::new(Bell::default());
        let open = cell.listen(&Waker::from(Arc::clone(&bell)));
        runner.join().unwrap();
        assert_eq!(bell.get(), usize::from(open));
        assert_eq!(Arc::strong_count(&bell), 1);
    });
}

#[test]
fn whoever_waits_is_released_by_a_run_or_a_cancel() {
    explore(3, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let (first, second) = (cell.clone(), cell.clone());
        let clock = ManualClock::new();
        let runner = thread::spawn(move || drop(perform(&first)));
        let canceller = thread::spawn(move || cancel(second.as_task()));
        wait_for(cell.as_task(), None, &clock, None).unwrap();
        assert!(cell.state().is_done());
        runner.join().unwrap();
        canceller.join().unwrap();
    });
}

#[test]
fn a_wait_ends_with_its_task_or_its_time() {
    explore(3, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let clock = ManualClock::new();
        let time = clock.clone();
        let until = clock.now().after(STEP);
        let runner = {
            let cell = cell.clone();
            thread::spawn(move || drop(perform(&cell)))
        };
        let mover = thread::spawn(move || time.jump(STEP));
        match wait_for(cell.as_task(), None, &clock, Some(until)) {
            Ok(()) => assert!(cell.state().is_done()),
            Err(WaitError::Timeout) => assert!(clock.now() >= until),
            Err(other) => panic!("{other}"),
        }
        runner.join().unwrap();
        mover.join().unwrap();
    });
}

#[test]
fn an_interrupt_reaches_a_body_that_is_about_to_wait() {
    explore(3, || {
        let queue: DelayQueue<()> = DelayQueue::with_clock(ManualClock::new());
        let seen = Arc::new(AtomicUsize::new(0));
        let task = {
            let seen = Arc::clone(&seen);
            // Waits for ever unless it is interrupted, and loom would tell.
            Arc::new(FutureTask::new(move || {
                assert_eq!(queue.take(), Err(Interrupted));
                seen.fetch_add(1, Ordering::SeqCst);
            }))
        };
        let runner = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.run())
        };
        assert!(task.interrupt(), "nothing else ends it");
        let ran = runner.join().unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), usize::from(ran));
        assert!(task.is_cancelled());
    });
}

#[test]
fn a_task_is_freed_by_whoever_gives_it_up_last() {
    explore(4, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let others = [(); 2].map(|()| {
            let cell = cell.clone();
            thread::spawn(move || drop(cell.clone()))
        });
        drop(cell);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((bodies.get(), values.get()), (1, 1));
    });
}

#[test]
fn a_value_left_in_a_task_is_dropped_by_whoever_gives_it_up_last() {
    explore(4, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let runner = {
            let cell = cell.clone();
            thread::spawn(move || drop(perform(&cell)))
        };
        drop(cell);
        runner.join().unwrap();
        assert_eq!((bodies.get(), values.get()), (1, 1));
    });
}

#[test]
fn the_key_is_found_while_somebody_comes_to_wait() {
    explore(4, || {
        let (bodies, values) = (Drops::default(), Drops::default());
        let cell = task(&bodies, &values);
        let keys = [1, 2].map(|bits| TaskKey::from_bits(bits << 32));
        cell.header().set_queued(keys[0], Tick::ZERO);
        let bell = Arc::new(Bell::default());
        let listener = {
            let (cell, waker) = (cell.clone(), Waker::from(Arc::clone(&bell)));
            thread::spawn(move || assert!(cell.listen(&waker)))
        };
        let reader = {
            let cell = cell.clone();
            thread::spawn(move || assert!(keys.contains(&cell.header().key())))
        };
        cell.header().set_queued(keys[1], Tick::ZERO);
        assert_eq!(cell.header().key(), keys[1]);
        listener.join().unwrap();
        reader.join().unwrap();
        assert_eq!(cell.header().key(), keys[1], "the key was lost on the way to the extra");
        assert!(cancel(cell.as_task()));
        assert_eq!(bell.get(), 1);
    });
}

#[test]
fn a_failure_is_read_or_reported_once() {
    explore(3, || {
        let (bodies, values, reports) = (Drops::default(), Drops::default(), Arc::new(AtomicUsize::new(0)));
        let cell = task(&bodies, &values);
        let told = Arc::clone(&reports);
        let sink: Sink = Arc::new(move |_| {
            told.fetch_add(1, Ordering::SeqCst);
        });
        let runner = {
            let cell = cell.clone();
            thread::spawn(move || {
                let reporter = Arc::new(Reporter { observer: None, sink: Some(sink) });
                let judge = |_: Option<&TaskError>| Verdict::Fail(TaskError::Failed("no".into()));
                let ended = cell.erase().perform(&Run {
                    observer: None,
                    reporter: Some(&reporter),
                    turn: Turn::NONE,
                    started: Tick::ZERO,
                    again: false,
                    count: &|| (),
                    judge: Some(&judge),
                });
                assert!(matches!(ended, Ended::Finished));
            })
        };
        let read = cell.take().is_some();
        drop(cell);
        runner.join().unwrap();
        assert_eq!(reports.load(Ordering::SeqCst), usize::from(!read));
    });
}
