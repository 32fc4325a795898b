//! A request to another thread and its answer.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use rustix::thread::futex;

use crate::args::Args;
use crate::line::Line;
use crate::{Outcome, Trouble, clock, sample};

/// Odd: the other's turn. Even: ours.
fn measure(args: &Args, wait: fn(&AtomicU32, u32), wake: fn(&AtomicU32)) -> Result<Vec<u64>, Trouble> {
    let n: u32 = args.get("n", 20_000)?;
    let turn: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    thread::spawn(move || {
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
pub(crate) fn parked(args: &Args) -> Outcome {
    let wait = |turn: &AtomicU32, while_at: u32| {
        while turn.load(SeqCst) == while_at {
            // Interrupted, or changed in the meantime: look again.
            let _ = futex::wait(turn, futex::Flags::PRIVATE, while_at, None);
        }
    };
    let wake = |turn: &AtomicU32| {
        let _ = futex::wake(turn, futex::Flags::PRIVATE, 1);
    };
    Ok(sample::distribution(Line::new(), measure(args, wait, wake)?))
}

/// Both keep a processor each. On a machine with one, this takes a time slice each way.
pub(crate) fn spinning(args: &Args) -> Outcome {
    let wait = |turn: &AtomicU32, while_at: u32| {
        while turn.load(SeqCst) == while_at {
            spin_loop();
        }
    };
    Ok(sample::distribution(Line::new(), measure(args, wait, |_| ())?))
}
