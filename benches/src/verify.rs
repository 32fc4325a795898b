//! What every pool must get right, checked beside each measurement and outside of its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::peer::{Peer, Producer};
use crate::tally::Tally;
use crate::{Trouble, clock, failed};

/// How long a pool may take for what should take a fraction of a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(50);

/// Cancelled tasks do not run, others do.
pub(crate) fn cancels<P: Peer>(peer: &P) -> Result<(), Trouble> {
    const TASKS: usize = 400;
    const DELAY: Duration = Duration::from_millis(150);
    let tally = Tally::leaked(TASKS);
    let mut producer = peer.producer();
    let begun = clock::now();
    let handles: Vec<_> = (0..TASKS).map(|task| producer.schedule(DELAY, move || tally.mark(task))).collect();
    for (task, handle) in handles.into_iter().enumerate() {
        match task % 2 {
            0 => producer.leave(handle),
            _ => {
                producer.cancel(handle)?;
            }
        }
    }
    // On a machine that stood still for so long, a cancel may rightly have come too late.
    let in_time = clock::now() - begun < DELAY.as_nanos() as u64 * 2 / 3;
    let is_over = Arc::new(AtomicUsize::new(0));
    let signal = Arc::clone(&is_over);
    let sentinel = producer.schedule(DELAY + Duration::from_millis(20), move || {
        signal.store(1, Relaxed);
    });
    producer.leave(sentinel);
    let all_ran = || (0..TASKS).step_by(2).all(|task| tally.runs(task) == 1);
    if !clock::eventually(PATIENCE, || is_over.load(Relaxed) == 1 && all_ran()) {
        return failed("a task that was not cancelled did not run");
    }
    match (1..TASKS).step_by(2).filter(|task| tally.runs(*task) > 0).count() {
        ran if ran > 0 && in_time => failed(format!("{ran} of {} cancelled tasks ran", TASKS / 2)),
        _ => Ok(()),
    }
}

/// What was seen of the order of starts with one worker.
#[derive(Debug)]
pub(crate) struct Order {
    /// Starts that came after one with a later deadline.
    pub(crate) disorder: usize,
    /// The most that any task started before its deadline, in nanoseconds.
    pub(crate) early: u64,
}

/// One task: the interval in which its deadline must be, and what came of it.
#[derive(Debug, Default)]
struct Seen {
    earliest: AtomicU64,
    latest: AtomicU64,
    start: AtomicU64,
    turn: AtomicUsize,
}

/// Tasks run in the order of their deadlines, equal ones in that of their arrival, and none runs early.
///
/// The pool reads its clock somewhere within `schedule`, so the deadline is known up to the length of that call:
/// a start is out of order if its latest deadline is before the earliest one of an earlier start. Tasks that
/// started while others were still being scheduled prove nothing and are left out.
pub(crate) fn order<P: Peer>(peer: &P, spread: Duration) -> Result<Order, Trouble> {
    const TASKS: usize = 5_000;
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let lead = if spread.is_zero() { Duration::ZERO } else { Duration::from_millis(40) };
    let all: &'static [Seen] = Vec::leak((0..TASKS).map(|_| Seen::default()).collect());
    let tally = Tally::leaked(TASKS);
    let mut random = fastrand::Rng::with_seed(7);
    let mut producer = peer.producer();
    for (task, seen) in all.iter().enumerate() {
        let delay = lead + Duration::from_nanos(random.u64(..=spread.as_nanos() as u64));
        seen.earliest.store(clock::now() + delay.as_nanos() as u64, Relaxed);
        let handle = producer.schedule(delay, move || {
            all[task].start.store(clock::now(), Relaxed);
            all[task].turn.store(TURN.fetch_add(1, Relaxed), Relaxed);
            tally.mark(task);
        });
        producer.leave(handle);
        seen.latest.store(clock::now() + delay.as_nanos() as u64, Relaxed);
    }
    let scheduled = clock::now();
    tally.wait(PATIENCE)?;
    let mut by_turn: Vec<&Seen> = all.iter().collect();
    by_turn.sort_unstable_by_key(|seen| seen.turn.load(Relaxed));
    let early = all.iter().map(|seen| seen.earliest.load(Relaxed).saturating_sub(seen.start.load(Relaxed)));
    let early = early.max().unwrap_or(0);
    let (mut high, mut disorder) = (0, 0);
    for seen in by_turn {
        // With no delay at all everything is due when it arrives, and arrival is the order.
        if spread.is_zero() || seen.start.load(Relaxed) > scheduled {
            disorder += usize::from(seen.latest.load(Relaxed) < high);
            high = high.max(seen.earliest.load(Relaxed));
        }
    }
    check::<P>(Order { disorder, early })
}

fn check<P: Peer>(order: Order) -> Result<Order, Trouble> {
    early::<P>(order.early)?;
    match order.disorder {
        0 => Ok(order),
        _ if !P::EXACT => Ok(order),
        n => failed(format!("{n} tasks started after one with a later deadline")),
    }
}

/// Fails if `nanos` is earlier than the peer says of itself that it may be.
pub(crate) fn early<P: Peer>(nanos: u64) -> Result<(), Trouble> {
    match Duration::from_nanos(nanos) <= P::EARLY {
        true => Ok(()),
        false => failed(format!("a task started {nanos} ns before its deadline")),
    }
}
