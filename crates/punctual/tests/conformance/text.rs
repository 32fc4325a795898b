//! How things print.

use std::time::Duration;

use punctual::{DelayQueue, Executor, FutureTask, ManualClock, Timer};

use crate::support::{Gate, HOUR, STEP, block_worker, finish, manual};

/// FT-038: the text of a handle says which task it is and where that is in its life, with the panic if there was
/// one.
#[test]
fn a_handle_prints_how_its_task_is_doing() {
    let (pool, _clock) = manual(1);
    let gate = Gate::new();
    let inner = gate.clone();
    let running = pool.task(move || inner.pass()).name("slow").start().unwrap();
    gate.await_arrivals(1);
    assert_eq!(format!("{running:?}"), r#"TaskHandle { id: TaskId(0), name: Some("slow"), state: Running }"#);
    let failing = pool
        .submit(|| {
            if true {
                panic!("boom {}", 1)
            }
        })
        .unwrap();
    let text = |state: &str| format!("TaskHandle {{ id: TaskId(1), name: None, state: {state} }}");
    assert_eq!(format!("{failing:?}"), text("Waiting"));
    gate.open();
    failing.wait().unwrap();
    assert!(format!("{running:?}").ends_with("state: Succeeded }"));
    assert_eq!(format!("{failing:?}"), text(r#"Failed, panic: "boom 1""#));
    let cancelled = pool.schedule(HOUR, || ()).unwrap();
    assert!(cancelled.cancel());
    assert!(format!("{cancelled:?}").ends_with("state: Cancelled }"));
    let removed = pool.schedule(HOUR, || ()).unwrap();
    drop(removed.remove());
    assert!(format!("{removed:?}").ends_with("state: Abandoned }"));
    finish(&pool);
}

/// FT-038: so does the text of a task without an executor.
#[test]
fn a_task_without_an_executor_prints_its_state() {
    let done = FutureTask::new(|| 7);
    assert_eq!(format!("{done:?}"), "FutureTask { state: Waiting }");
    assert!(done.run());
    assert_eq!(format!("{done:?}"), "FutureTask { state: Succeeded }");
    let failed = FutureTask::new(|| {
        if true {
            panic!("boom")
        }
    });
    assert!(failed.run());
    assert_eq!(format!("{failed:?}"), r#"FutureTask { state: Failed, panic: "boom" }"#);
    let cancelled = FutureTask::new(|| ());
    assert!(cancelled.cancel());
    assert_eq!(format!("{cancelled:?}"), "FutureTask { state: Cancelled }");
}

/// EX-002: a closure has no text of its own; the name given to its task is in everything printed about it.
#[test]
fn the_name_of_a_task_is_printed_wherever_the_task_is() {
    let (pool, _clock) = manual(1);
    let named = pool.task(|| ()).name("report").after(STEP).start().unwrap();
    let plain = pool.schedule(HOUR, || ()).unwrap();
    assert!(format!("{named:?}").contains(r#""report""#));
    let view: Vec<String> = pool.queue().iter().map(ToString::to_string).collect();
    assert_eq!(view, [r##"#0 "report" in 10ms"##, "#1 in 3600s"]);
    let unrun = [named.remove().unwrap(), plain.remove().unwrap()];
    assert_eq!(unrun.each_ref().map(ToString::to_string), [r##"#0 "report""##, "#1"]);
    assert!(format!("{:?}", unrun[0]).contains(r#""report""#));
    drop(unrun);
    finish(&pool);
}

/// TP-086: the text of a pool gives its state and how many threads, running, queued and completed tasks it has.
#[test]
fn a_pool_prints_its_state_and_numbers() {
    let (pool, clock) = manual(2);
    assert_eq!(pool.to_string(), "running, pool size = 0, active = 0, queued = 0, completed = 0");
    pool.submit(|| ()).unwrap().join().unwrap();
    let gate = Gate::new();
    let blocked = block_worker(&pool, &gate);
    for _ in 0..3 {
        drop(pool.schedule(HOUR, || ()).unwrap());
    }
    let text = "pool size = 2, active = 1, queued = 3, completed = 1";
    assert_eq!(pool.to_string(), format!("running, {text}"));
    assert_eq!(pool.scheduler().to_string(), format!("running, {text}"));
    pool.shutdown();
    assert_eq!(pool.to_string(), format!("shutting down, {text}"));
    gate.open();
    blocked.join().unwrap();
    drop(pool.shutdown_now());
    assert!(pool.await_termination(Duration::MAX));
    assert_eq!(pool.to_string(), "terminated, pool size = 0, active = 0, queued = 0, completed = 2");
    assert!(format!("{pool:?}").contains("completed: 2"));
    drop(clock);
    let timer = Timer::with_clock("t", ManualClock::new()).unwrap();
    assert!(format!("{timer:?}").contains("state: Running"));
    assert_eq!(timer.cancel(), 0);
    assert!(format!("{timer:?}").contains("state: Terminated"));
}

/// TP-086: a pool that has terminated prints no threads, whenever somebody looks.
#[test]
fn no_text_shows_a_terminated_pool_with_threads() {
    for _ in 0..20 {
        let pool = Executor::new(3);
        assert_eq!(pool.prestart_all_core_threads(), 3);
        pool.shutdown();
        loop {
            let text = pool.to_string();
            if text.starts_with("terminated") {
                assert_eq!(text, "terminated, pool size = 0, active = 0, queued = 0, completed = 0");
                break;
            }
            std::thread::yield_now();
        }
        assert!(pool.await_termination(Duration::MAX));
    }
}

/// DQ-001: the text of a delay queue has that of every element, due or not, in order; of an empty one it is `[]`.
#[test]
fn a_delay_queue_prints_its_elements() {
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    assert_eq!(format!("{queue:?}"), "[]");
    queue.push(HOUR, "third");
    queue.push(STEP, "first");
    queue.push(STEP, "second");
    clock.jump(STEP);
    assert_eq!(format!("{queue:?}"), r#"["first", "second", "third"]"#);
    queue.clear();
    assert_eq!(format!("{queue:?}"), "[]");
}
