//! What is dropped when: bodies, decorations, values, payloads. Once, outside every lock, and whatever their
//! destructors do.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual::{
    Decoration, Executor, FutureTask, Keep, Leftover, ManualClock, Observer, OnCancel, Panic, Place,
    TaskContext, TaskHandle, TaskInfo, TaskState,
};

use crate::support::{Counter, Gate, HOUR, Log, STEP, block_worker, eventually, finish, manual};

const POLICIES: [OnCancel; 2] = [OnCancel::Remove, OnCancel::KeepUntilDue];

/// Does something when it is dropped.
struct OnDrop(Box<dyn FnMut() + Send>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A decoration with something to drop, which may panic when it is told of the cancel.
struct Luggage {
    _captured: OnDrop,
    told: Box<dyn FnMut() + Send>,
}

impl Decoration for Luggage {
    fn run(&mut self, body: &mut dyn FnMut()) {
        body();
    }

    fn cancelled(&mut self) {
        (self.told)();
    }
}

/// Records the places where panics were contained.
struct Contained(Log<Place>);

impl Observer for Contained {
    fn contained(&self, place: Place, _: &Panic) {
        self.0.add(place);
    }
}

/// A pool whose tasks are decorated with what `luggage` returns.
fn decorated(
    on_cancel: OnCancel,
    contained: &Log<Place>,
    luggage: impl Fn() -> Option<Luggage> + Send + Sync + 'static,
) -> (Executor, ManualClock) {
    let clock = ManualClock::new();
    let decorator = move |_: TaskInfo<'_>| luggage().map(|luggage| Box::new(luggage) as Box<dyn Decoration>);
    let builder = Executor::builder().clock(clock.clone()).observer(Contained(contained.clone()));
    (builder.on_cancel(on_cancel).decorator(decorator).build().unwrap(), clock)
}

/// Ways to be rid of a task that waits.
const RIDDANCES: [fn(&Executor, TaskHandle<()>); 8] = [
    |_, handle| assert!(handle.cancel()),
    |_, handle| assert!(handle.interrupt()),
    |_, handle| drop(handle.cancel_on_drop()),
    |_, handle| drop(handle.remove().unwrap()),
    |_, handle| assert!(handle.remove().unwrap().cancel()),
    |pool, handle| drop(pool.remove(handle.id()).unwrap()),
    |pool, _handle| drop(pool.shutdown_now()),
    |pool, _handle| {
        pool.set_after_shutdown(Leftover::Delayed, Keep::Cancel);
        pool.shutdown();
    },
];

fn keep(captured: OnDrop) -> impl FnMut() + Send + 'static {
    move || {
        let _ = &captured;
    }
}

type Submit = fn(&Executor, OnDrop) -> TaskHandle<()>;

/// Tasks that hold what they are given until they are dropped.
const SUBMISSIONS: [Submit; 3] = [
    |pool, captured| pool.schedule(HOUR, move || drop(captured)).unwrap(),
    |pool, captured| pool.schedule_at_fixed_rate(HOUR, HOUR, keep(captured)).unwrap(),
    |pool, captured| {
        let handle = pool.schedule_with_fixed_delay(Duration::ZERO, HOUR, keep(captured)).unwrap();
        eventually("it is queued again", || handle.runs() == 1 && handle.is_queued());
        handle
    },
];

/// ST-064: however a task that waits is got rid of, what it captured, and its decoration with what that
/// captured, has been dropped once when the call returns. Destructors and decorations may call back into the
/// pool.
#[test]
fn a_task_that_goes_takes_along_what_it_captured() {
    for (on_cancel, submit) in
        POLICIES.into_iter().flat_map(|policy| SUBMISSIONS.map(|submit| (policy, submit)))
    {
        for be_rid_of in RIDDANCES {
            let (drops, calls, slot) =
                (Counter::new(), Counter::new(), Arc::new(Mutex::new(None::<Executor>)));
            let call_back = {
                let (slot, calls) = (Arc::clone(&slot), calls.clone());
                move || {
                    let Some(pool) = slot.lock().unwrap().clone() else { return };
                    let _ = (pool.stats(), pool.queue(), pool.purge());
                    if let Ok(handle) = pool.schedule(HOUR, || ()) {
                        assert!(handle.cancel());
                    }
                    calls.hit();
                }
            };
            let dropped = {
                let (drops, call_back) = (drops.clone(), call_back.clone());
                move || {
                    drops.hit();
                    call_back();
                }
            };
            let bag = (Mutex::new(Some((dropped.clone(), call_back))), Log::new());
            let (pool, _clock) = decorated(on_cancel, &bag.1.clone(), move || {
                let (dropped, told) = bag.0.lock().unwrap().take()?;
                Some(Luggage { _captured: OnDrop(Box::new(dropped)), told: Box::new(told) })
            });
            *slot.lock().unwrap() = Some(pool.clone());
            let handle = submit(&pool, OnDrop(Box::new(dropped)));
            assert_eq!((drops.get(), calls.get()), (0, 0));
            be_rid_of(&pool, handle);
            assert_eq!((drops.get(), calls.get()), (2, 3));
            *slot.lock().unwrap() = None;
            finish(&pool);
        }
    }
}

/// A destructor or a decoration that panics is contained, told to the observer, and disturbs neither the call
/// that got rid of the task nor anybody who waits; everything else that was captured is dropped all the same.
#[test]
fn a_destructor_that_panics_is_contained() {
    for submit in SUBMISSIONS {
        for be_rid_of in RIDDANCES {
            let (contained, drops) = (Log::new(), Counter::new());
            let dropped = {
                let drops = drops.clone();
                move || {
                    drops.hit();
                    panic!("a destructor");
                }
            };
            let luggage = Mutex::new(Some(dropped.clone()));
            let (pool, clock) = decorated(OnCancel::Remove, &contained, move || {
                let captured = OnDrop(Box::new(luggage.lock().unwrap().take()?));
                Some(Luggage { _captured: captured, told: Box::new(|| panic!("a decoration")) })
            });
            let handle = submit(&pool, OnDrop(Box::new(dropped)));
            let bystander = pool.schedule(HOUR, || 7).unwrap();
            be_rid_of(&pool, handle);
            assert_eq!(drops.get(), 2);
            assert!(contained.entries().contains(&Place::Destructor));
            if !pool.is_shutdown() {
                clock.advance(HOUR);
                assert_eq!(bystander.join().unwrap(), 7);
            }
            finish(&pool);
        }
    }
}

/// The same for a task without an executor, in every way it can end before it is run.
#[test]
fn a_future_task_that_ends_unrun_drops_its_body_once() {
    let ways: [fn(FutureTask<u32>); 5] = [
        |task| assert!(task.cancel()),
        |task| assert!(task.interrupt()),
        |task| task.set(7).unwrap(),
        |task| assert!(task.fail(Panic::new("by hand"))),
        drop,
    ];
    for (end, panics) in ways.into_iter().flat_map(|end| [(end, false), (end, true)]) {
        let drops = Counter::new();
        let count = drops.clone();
        let captured = OnDrop(Box::new(move || {
            count.hit();
            assert!(!panics, "a destructor");
        }));
        end(FutureTask::new(move || {
            drop(captured);
            7
        }));
        assert_eq!(drops.get(), 1);
    }
}

/// A destructor that counts, and looks into the pool, which takes its lock.
fn nosy(pool: &Executor, drops: &Counter) -> OnDrop {
    let (pool, drops) = (pool.clone(), drops.clone());
    OnDrop(Box::new(move || {
        let _ = (pool.stats(), pool.queue(), pool.purge());
        drops.hit();
    }))
}

/// What becomes of the value of a task, which returns it when the gate opens.
const FATES: [fn(TaskHandle<OnDrop>, &Gate, &ManualClock); 6] = [
    // Nobody wants it: it is dropped by the worker.
    |handle, gate, _| {
        drop(handle);
        gate.open();
    },
    // Nobody takes it: it goes with the handle.
    |handle, gate, clock| {
        gate.open();
        clock.wait_until_idle();
        assert_eq!(handle.state(), TaskState::Succeeded);
        drop(handle);
    },
    |handle, gate, _| {
        gate.open();
        drop(handle.join().unwrap());
    },
    |handle, gate, clock| {
        gate.open();
        clock.wait_until_idle();
        drop(handle.try_join().unwrap().unwrap());
        assert!(matches!(handle.try_join().unwrap(), Err(punctual::TaskError::Taken)));
    },
    // It comes too late.
    |handle, gate, clock| {
        assert!(handle.cancel());
        gate.open();
        clock.wait_until_idle();
    },
    |handle, gate, clock| {
        drop(handle.cancel_on_drop());
        gate.open();
        clock.wait_until_idle();
    },
];

/// A value is dropped once, whether it is taken, left or unwanted, and outside every lock.
#[test]
fn a_value_is_dropped_once_and_unlocked() {
    for meet in FATES {
        let (pool, clock) = manual(1);
        let (gate, drops) = (Gate::new(), Counter::new());
        let (held, value) = (gate.clone(), nosy(&pool, &drops));
        let handle = pool.submit(move || {
            held.pass();
            value
        });
        gate.await_arrivals(1);
        assert_eq!(drops.get(), 0);
        meet(handle.unwrap(), &gate, &clock);
        clock.wait_until_idle();
        assert_eq!(drops.get(), 1);
        finish(&pool);
        assert_eq!(drops.get(), 1);
    }
}

/// The same for a task without an executor, and for values that compete for it.
#[test]
fn every_value_of_a_future_task_is_dropped_once() {
    let (pool, _clock) = manual(1);
    let drops = Counter::new();
    let (maker, count) = (pool.clone(), drops.clone());
    let task = FutureTask::repeatable(move || nosy(&maker, &count));
    assert!(task.run_and_reset() && task.run_and_reset());
    assert_eq!(drops.get(), 2);
    assert!(task.set(nosy(&pool, &drops)).is_ok());
    assert!(!task.run());
    assert_eq!(drops.get(), 2);
    drop(task.set(nosy(&pool, &drops)).unwrap_err());
    assert_eq!(drops.get(), 3);
    drop(task);
    assert_eq!(drops.get(), 4);
    finish(&pool);
}

/// A value whose destructor panics in the worker, because nobody wants it, costs neither the worker nor the
/// tasks behind it.
#[test]
fn an_unwanted_value_whose_destructor_panics_is_contained() {
    let let_go: [fn(TaskHandle<OnDrop>); 2] = [drop, |handle| assert!(handle.cancel())];
    for let_go in let_go {
        let contained = Log::new();
        let (pool, clock) = decorated(OnCancel::Remove, &contained, || None);
        let gate = Gate::new();
        let held = gate.clone();
        let handle = pool.submit(move || {
            held.pass();
            OnDrop(Box::new(|| panic!("a destructor")))
        });
        let behind = pool.submit(thread_id).unwrap();
        gate.await_arrivals(1);
        let_go(handle.unwrap());
        gate.open();
        let worker = behind.join().unwrap();
        clock.wait_until_idle();
        assert_eq!(contained.entries(), [Place::Destructor]);
        assert_eq!(pool.submit(thread_id).unwrap().join().unwrap(), worker, "it is the same thread");
        finish(&pool);
    }
}

fn thread_id() -> thread::ThreadId {
    thread::current().id()
}

/// The payload of a panic is dropped with the last who could ask for it, once; that its destructor panics in
/// turn costs nobody a thread.
#[test]
fn a_payload_whose_destructor_panics_is_contained() {
    let (pool, clock) = manual(1);
    let (drops, gate) = (Counter::new(), Gate::new());
    let payload = |panics: bool| {
        let drops = drops.clone();
        OnDrop(Box::new(move || {
            drops.hit();
            assert!(!panics, "a destructor");
        }))
    };
    let worker = pool.submit(thread_id).unwrap().join().unwrap();
    let kept = {
        let payload = payload(false);
        pool.submit(move || std::panic::panic_any(payload)).unwrap()
    };
    clock.wait_until_idle();
    let failure = kept.failure().unwrap();
    drop(kept);
    assert_eq!(drops.get(), 0);
    drop(failure);
    assert_eq!(drops.get(), 1);

    // The worker drops the one payload with its task, the other after the destructor that it came from.
    let (body, value) = (payload(true), payload(true));
    pool.execute(move || std::panic::panic_any(body)).unwrap();
    let (held, mut value) = (gate.clone(), Some(value));
    let unwanted = pool.submit(move || {
        held.pass();
        OnDrop(Box::new(move || std::panic::panic_any(value.take().unwrap())))
    });
    gate.await_arrivals(1);
    assert!(unwanted.unwrap().cancel());
    let behind = pool.submit(thread_id).unwrap();
    gate.open();
    assert_eq!(behind.join().unwrap(), worker);
    clock.wait_until_idle();
    assert_eq!(drops.get(), 3);
    finish(&pool);
}

/// While the destructor of a value that nobody wants takes its time, no task waits in the hands of that worker.
#[test]
fn a_value_that_nobody_wants_is_dropped_before_the_next_task_is_taken() {
    let (pool, clock) = manual(2);
    let (held, busy) = (Gate::new(), Gate::new());
    let inner = busy.clone();
    let other = pool.submit(move || inner.pass()).unwrap();
    busy.await_arrivals(1);
    let drops = held.clone();
    // Queued before the next, so that one worker comes from one to the other.
    let detached = pool.schedule(STEP, move || OnDrop(Box::new(move || drops.pass()))).unwrap();
    let open = held.clone();
    let next = pool.schedule(STEP, move || open.open()).unwrap();
    drop(detached);
    clock.jump(STEP);
    held.await_arrivals(1);
    busy.open();
    next.join().unwrap();
    other.join().unwrap();
    finish(&pool);
}

/// So is the failure that nobody can read told before it.
#[test]
fn a_failure_that_nobody_can_read_is_told_by_its_own_task() {
    let told = Log::new();
    let sink = told.clone();
    let builder = Executor::builder().core_threads(1).clock(ManualClock::new());
    let pool = builder.unobserved(move |_| sink.add(TaskContext::current().id())).build().unwrap();
    let gate = Gate::new();
    let first = block_worker(&pool, &gate);
    let failing = pool.submit(|| panic!("on purpose")).unwrap();
    let id = failing.id();
    drop::<TaskHandle<()>>(failing);
    let last = pool.submit(|| ()).unwrap();
    gate.open();
    first.join().unwrap();
    last.join().unwrap();
    assert_eq!(told.entries(), [Some(id)]);
    finish(&pool);
}
