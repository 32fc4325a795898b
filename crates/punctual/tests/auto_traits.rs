//! What every public type promises without saying so: `Send`, `Sync`, `UnwindSafe`, `RefUnwindSafe` and `Unpin`.
//! It compiles, or a promise has changed.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};

use punctual::*;

/// `Send` and no more: neither `Sync` nor `RefUnwindSafe`.
type OnlySend = Cell<u8>;
type Ref = &'static OnlySend;

macro_rules! all_of {
    ($($traits:ident)+: $($types:ty),+ $(,)?) => {
        const _: fn() = || {
            fn check<T: ?Sized $(+ $traits)+>() {}
            $(check::<$types>();)+
        };
    };
}

/// Fails to compile, for being ambiguous, if the type has the trait.
macro_rules! none_of {
    ($trait:ident: $($type:ty),+ $(,)?) => {
        $(const _: fn() = || {
            trait Ambiguous<A> {
                fn item() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            struct Has;
            impl<T: ?Sized + $trait> Ambiguous<Has> for T {}
            let _ = <$type as Ambiguous<_>>::item;
        };)+
    };
}

// Plain data, and grips on what is shared: everything, everywhere.
all_of!(Send Sync UnwindSafe RefUnwindSafe Unpin:
    // The executor and its family.
    Executor, Scheduler, Timer, UnrunTask, WorkerThread, TaskContext, ManualClock, SystemClock, Parker,
    // Errors.
    Panic, Message, TaskError, WaitError, InvokeAllError, InvokeAnyError<u8>, Rejected<u8>, RejectReason, Abandoned,
    Interrupted, InvalidArgument, TimerError, TimeoutError,
    // Timers.
    Sleep, Interval, MissedTicks,
    // Settings and pictures.
    Keep, Leftover, OnCancel, OnDrop, Place, RunState, Schedule, ShutdownPolicy, When, Tick, Remaining, DelayKey,
    Delayed<u8>, QueuedTask, Stats, Lateness, TaskId, TaskState,
    // Policies, and what is seen of tasks that have them.
    Backoff, Jitter, Missed, MissedRule, OnFailure, Overlap, Priority, Spread, Steered, FailedRun, TaskView, TaskRemote,
    UnobservedFailure, RunTimes,
);

#[cfg(target_os = "linux")]
all_of!(Send Sync UnwindSafe RefUnwindSafe Unpin: BootClock);

#[cfg(feature = "cron")]
all_of!(Send Sync UnwindSafe RefUnwindSafe Unpin:
    Cron, CronOptions, CronSchedule, CronError, CronErrorKind, DayRule, Gap, WallOverlap, ClockChange, Occurrence,
    Occurrences<'static>, Upcoming<'static>,
);

// A value that is moved from thread to thread need not be shareable: whoever holds a handle takes it out.
all_of!(Send Sync UnwindSafe RefUnwindSafe Unpin:
    TaskHandle<OnlySend>, CancelOnDrop<OnlySend>, FutureTask<OnlySend>, CompletionQueue<OnlySend>,
    DelayQueue<OnlySend>,
);

// What borrows from an executor, or holds closures and traits of the user's.
all_of!(Send Sync Unpin:
    Builder, Rejection, TaskInfo<'static>, RunOutcome<'static>, TaskBuilder<'static, u8>, PeriodicBuilder<'static, u8>,
    TaskBuilder<'static, u8, Async>, PeriodicBuilder<'static, u8, Async>, RetryBuilder<'static, u8>, Blocking,
);
all_of!(UnwindSafe RefUnwindSafe:
    TaskInfo<'static>, RunOutcome<'static>, TaskBuilder<'static, u8>, PeriodicBuilder<'static, u8>,
    RetryBuilder<'static, u8>,
);
none_of!(UnwindSafe: Builder, Rejection);

// The traits for code of the user's.
all_of!(
    Send Sync: dyn Clock, dyn Calendar, dyn Observer, dyn Decorator, dyn Spawner, dyn RejectionHandler, dyn Runtime
);
all_of!(Send Unpin: RunOn<OnlySend>);
all_of!(Send: dyn Decoration);
none_of!(Sync: dyn Decoration);

// What carries a closure or a value in the open is as good as that is.
all_of!(Send: Rejected<OnlySend>, Delayed<OnlySend>, TaskBuilder<'static, OnlySend>, InvokeAnyError<OnlySend>);
none_of!(Sync: Rejected<OnlySend>, Delayed<OnlySend>, TaskBuilder<'static, OnlySend>, InvokeAnyError<OnlySend>);
none_of!(Send: Rejected<Ref>, Delayed<Ref>, TaskBuilder<'static, Ref>, PeriodicBuilder<'static, Ref>);

// And a queue of what must stay on its thread stays there with it.
none_of!(Send: DelayQueue<Ref>);
none_of!(Sync: DelayQueue<Ref>);

/// A handle is a future, and may be awaited where it lies.
#[test]
fn a_handle_is_a_future_that_needs_no_pin() {
    fn future<F: Future + Unpin + Send>(_: &F) {}
    let pool = Executor::new(1);
    let handle = pool.submit(|| 7).unwrap();
    future(&handle);
    assert_eq!(std::panic::catch_unwind(|| handle.join().unwrap()).unwrap(), 7);
    pool.close().unwrap();
}
