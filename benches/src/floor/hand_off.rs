//! A request to another thread and its answer.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use rustix::thread::{CpuSet, futex, sched_getaffinity, sched_setaffinity};

use crate::args::Args;
use crate::line::Line;
use crate::{Outcome, Trouble, clock, sample};

/// Where the two threads run. Left to itself the kernel moves them about, and the figure with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Both on one processor.
    Together,
    /// Each on one of its own.
    Apart,
}

/// The processors of this process that the two threads are to have.
fn processors(place: Place) -> Result<[usize; 2], Trouble> {
    let allowed = sched_getaffinity(None).map_err(|error| Trouble::Failed(error.to_string()))?;
    let mut all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    match (all.next(), all.next(), place) {
        (Some(one), _, Place::Together) => Ok([one; 2]),
        (Some(one), Some(other), Place::Apart) => Ok([one, other]),
        _ => Err(Trouble::Unsupported("there is only one processor")),
    }
}

/// Best effort: where it is refused, the kernel decides.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// Odd: the other's turn. Even: ours.
fn measure(
    args: &Args,
    place: Place,
    wait: fn(&AtomicU32, u32),
    wake: fn(&AtomicU32),
) -> Result<Vec<u64>, Trouble> {
    let n: u32 = args.get("n", 20_000)?;
    let turn: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let [mine, other] = processors(place)?;
    pin(mine);
    thread::spawn(move || {
        pin(other);
        for at in 0.. {
            wait(turn, 2 * at);
            turn.fetch_add(1, SeqCst);
            wake(turn);
        }
    });
    let mut nanos = Vec::with_capacity(n as usize);
    for at in 0..n {
        let start = clock::now();
        turn.fetch_add(1, SeqCst);
        wake(turn);
        wait(turn, 2 * at + 1);
        nanos.push(clock::now() - start);
    }
    Ok(nanos)
}

/// Both sleep while it is not their turn.
fn parked(args: &Args, place: Place) -> Outcome {
    let wait = |turn: &AtomicU32, while_at: u32| {
        while turn.load(SeqCst) == while_at {
            // Interrupted, or changed in the meantime: look again.
            let _ = futex::wait(turn, futex::Flags::PRIVATE, while_at, None);
        }
    };
    let wake = |turn: &AtomicU32| {
        let _ = futex::wake(turn, futex::Flags::PRIVATE, 1);
    };
    Ok(sample::distribution(Line::new(), measure(args, place, wait, wake)?))
}

pub(crate) fn parked_together(args: &Args) -> Outcome {
    parked(args, Place::Together)
}

pub(crate) fn parked_apart(args: &Args) -> Outcome {
    parked(args, Place::Apart)
}

/// Both keep a processor each.
pub(crate) fn spinning(args: &Args) -> Outcome {
    let wait = |turn: &AtomicU32, while_at: u32| {
        while turn.load(SeqCst) == while_at {
            spin_loop();
        }
    };
    Ok(sample::distribution(Line::new(), measure(args, Place::Apart, wait, |_| ())?))
}
