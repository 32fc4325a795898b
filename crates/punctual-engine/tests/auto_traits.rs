//! What the types promise without a word: a change here is a breaking one.

use std::panic::{RefUnwindSafe, UnwindSafe};

use punctual_engine::{
    Entry, Fired, RunState, RunTimes, Schedule, ShutdownPolicy, TaskKey, Tick, TimerQueue,
};

fn shared<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}
fn sent<T: Send>() {}

#[test]
fn types_cross_threads_if_their_values_do() {
    shared::<TimerQueue<u64>>();
    shared::<Fired<u64>>();
    shared::<Entry<'static, u64>>();
    shared::<(TaskKey, Tick, Schedule, RunTimes, RunState, ShutdownPolicy)>();
    // What can be sent can be queued, even if it cannot be shared.
    sent::<TimerQueue<std::cell::Cell<u64>>>();
    sent::<Fired<std::cell::Cell<u64>>>();
}

/// The queue is made in a `static` without an initialiser that runs.
#[test]
fn an_empty_queue_is_a_constant() {
    const EMPTY: TimerQueue<u64> = TimerQueue::new();
    assert!(EMPTY.is_empty());
    assert_eq!(format!("{EMPTY:?}"), "TimerQueue { len: 0, next_deadline: None, .. }");
}
