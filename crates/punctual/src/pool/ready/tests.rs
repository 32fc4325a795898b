use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::MOST;
use crate::{Executor, ManualClock, OnCancel, TaskHandle, TaskState, Tick};

const STEP: Duration = Duration::from_secs(1);
const MANY: usize = 5 * MOST;
/// The one that blocks: enough have been taken before it for more than a few to be laid out.
const BLOCKS: usize = 3 * MOST;

type Log = Arc<Mutex<Vec<usize>>>;

/// A pool that runs `MANY` tasks, one due after the other and all of them due now; the worker is at the one that blocks.
struct Blocked {
    pool: Executor,
    clock: ManualClock,
    ran: Log,
    tasks: Vec<TaskHandle<usize>>,
    go_on: Sender<()>,
}

impl Blocked {
    fn new(workers: usize) -> Self {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(workers).clock(clock.clone()).build().unwrap();
        pool.prestart_all_core_threads();
        clock.wait_until_idle();
        let ran = Log::default();
        let ((go_on, gate), (at_gate, arrived)) = (mpsc::channel(), mpsc::channel());
        let mut gate = Some((at_gate, gate));
        let mut schedule = |number: usize| {
            let (ran, gate) = (Arc::clone(&ran), (number == BLOCKS).then(|| gate.take()).flatten());
            let body = move || {
                ran.lock().unwrap().push(number);
                pass(gate);
                number
            };
            pool.schedule(STEP * number as u32, body).unwrap()
        };
        let tasks = (1..=MANY).map(&mut schedule).collect();
        clock.jump(STEP * MANY as u32);
        arrived.recv().unwrap();
        Self { pool, clock, ran, tasks, go_on }
    }

    fn laid_out(&self) -> usize {
        self.pool.pool().core.lock_alone().ready.count.load(Relaxed)
    }

    /// What has run when all of it has, with one worker.
    fn end(self) -> Vec<usize> {
        self.go_on.send(()).unwrap();
        self.clock.wait_until_idle();
        self.pool.close().unwrap();
        let ran = self.ran.lock().unwrap();
        ran.clone()
    }
}

fn pass(gate: Option<(Sender<()>, Receiver<()>)>) {
    if let Some((at_gate, gate)) = gate {
        at_gate.send(()).unwrap();
        gate.recv().unwrap();
    }
}

#[test]
fn what_is_laid_out_is_run_in_order() {
    let blocked = Blocked::new(1);
    assert!((1..=MOST).contains(&blocked.laid_out()), "{} are laid out", blocked.laid_out());
    assert_eq!(blocked.end(), Vec::from_iter(1..=MANY));
}

#[test]
fn whoever_looks_sees_what_is_laid_out_and_nobody_misses_it_after() {
    let blocked = Blocked::new(1);
    assert!(blocked.laid_out() > 0);
    assert_eq!(blocked.pool.stats().queued, MANY - BLOCKS);
    assert_eq!(blocked.laid_out(), 0, "it is in the queue");
    assert_eq!(blocked.pool.tasks().len(), MANY - BLOCKS + 1);
    assert_eq!(blocked.end(), Vec::from_iter(1..=MANY));
}

#[test]
fn what_is_cancelled_while_it_is_laid_out_is_gone() {
    let blocked = Blocked::new(1);
    assert!(blocked.laid_out() > 2);
    for task in &blocked.tasks[BLOCKS..BLOCKS + 2] {
        assert!(task.cancel());
        assert!(!task.is_queued());
    }
    let stats = blocked.pool.stats();
    assert_eq!((stats.queued, stats.cancelled), (MANY - BLOCKS - 2, 2));
    assert_eq!(blocked.end(), Vec::from_iter((1..=BLOCKS).chain(BLOCKS + 3..=MANY)));
}

#[test]
fn a_stop_returns_what_is_laid_out_in_order() {
    let blocked = Blocked::new(1);
    assert!(blocked.laid_out() > 0);
    let unrun = blocked.pool.shutdown_now();
    let ids: Vec<_> = unrun.iter().map(|task| task.id()).collect();
    let expected: Vec<_> = blocked.tasks[BLOCKS..].iter().map(TaskHandle::id).collect();
    assert_eq!(ids, expected);
    drop(unrun);
    assert!(blocked.tasks[BLOCKS..].iter().all(|task| task.state() == TaskState::Abandoned));
    assert_eq!(blocked.end(), Vec::from_iter(1..=BLOCKS));
}

/// No batch of the worker's own: a body that blocks holds nothing back.
#[test]
fn another_worker_takes_what_is_laid_out() {
    let blocked = Blocked::new(2);
    blocked.tasks.iter().filter(|task| task.id() != blocked.tasks[BLOCKS - 1].id()).for_each(|task| {
        task.wait().unwrap();
    });
    assert_eq!(blocked.tasks[BLOCKS - 1].state(), TaskState::Running);
    let mut ran = blocked.end();
    ran.sort_unstable();
    assert_eq!(ran, Vec::from_iter(1..=MANY));
}

/// Tasks that are laid out, and one in the inbox that is due before them; with what runs then.
fn with_an_early_one() -> (Blocked, Vec<usize>) {
    let blocked = Blocked::new(1);
    let (ran, long_ago) = (Arc::clone(&blocked.ran), Tick::ZERO.after(STEP));
    drop(blocked.pool.task(move || ran.lock().unwrap().push(0)).first(long_ago).start().unwrap());
    assert!(blocked.laid_out() > 0, "it is in the inbox");
    (blocked, Vec::from_iter((1..=BLOCKS).chain([0]).chain(BLOCKS + 1..=MANY)))
}

/// Invariant 4.
#[test]
fn what_is_in_the_inbox_and_due_before_comes_first() {
    let (blocked, expected) = with_an_early_one();
    assert_eq!(blocked.end(), expected);
}

/// Invariant 1: between the inbox and the queue nobody sees it.
#[test]
fn what_is_on_its_way_from_the_inbox_is_not_overtaken() {
    let (blocked, expected) = with_an_early_one();
    let guarded = &blocked.pool.pool().core;
    let (mut core, lane) = (guarded.lock_alone(), guarded.first_lane());
    lane.take_over(&mut lane.lock(), &mut core);
    assert_eq!(core.ready.count.load(Relaxed), 0, "taken back");
    core.sort_in();
    drop(core);
    assert_eq!(blocked.end(), expected);
}

/// Invariant 1: each run of the periodic task comes between two others that are laid out before it is queued.
#[test]
fn what_is_queued_late_comes_before_what_is_laid_out() {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(1).clock(clock.clone()).build().unwrap();
    pool.prestart_all_core_threads();
    let ran = Log::default();
    let log = |number: usize| {
        let ran = Arc::clone(&ran);
        move || ran.lock().unwrap().push(number)
    };
    // With odd numbers. In the first half it is not due, so there is something laid out when it is.
    let (mut number, noted) = (MANY - 1, Arc::clone(&ran));
    let beat = pool.schedule_at_fixed_rate(STEP * MANY as u32, 2 * STEP, move || {
        number += 2;
        noted.lock().unwrap().push(number - 1);
    });
    let beat = beat.unwrap();
    for number in (1..=2 * MANY).filter(|number| *number < MANY || number % 2 == 1) {
        drop(pool.schedule(STEP * number as u32, log(number)).unwrap());
    }
    clock.jump(STEP * 2 * MANY as u32);
    clock.wait_until_idle();
    beat.cancel();
    pool.close().unwrap();
    assert_eq!(*ran.lock().unwrap(), Vec::from_iter(1..=2 * MANY));
}

/// As in Java: a random program found that whoever looked round took it for one that was to be removed.
#[test]
fn what_was_cancelled_to_be_kept_stays_until_its_turn_though_others_are_to_be_removed() {
    let clock = ManualClock::new();
    let pool = Executor::builder().core_threads(1).clock(clock.clone()).on_cancel(OnCancel::KeepUntilDue);
    let pool = Arc::new(pool.build().unwrap());
    pool.prestart_all_core_threads();
    let (tell, told) = mpsc::channel();
    for _ in 0..MANY {
        let (tell, inside) = (tell.clone(), Arc::downgrade(&pool));
        drop(
            pool.schedule(STEP, move || tell.send(inside.upgrade().unwrap().stats().queued).unwrap())
                .unwrap(),
        );
    }
    assert!(pool.schedule(STEP, || ()).unwrap().cancel());
    pool.set_on_cancel(OnCancel::Remove);
    clock.advance(STEP);
    let queued: Vec<_> = told.try_iter().collect();
    assert_eq!(queued, Vec::from_iter((1..=MANY).rev()));
    pool.close().unwrap();
}
