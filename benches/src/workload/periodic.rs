//! W5: `n` fixed-rate tasks with one period and spread phases, for `millis`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::args::Args;
use crate::line::Line;
use crate::peer::{self, Peer, Producer};
use crate::{Outcome, Trouble, clock, failed, os, sample, verify};

/// The grid of all tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) n: usize,
    pub(crate) period: u64,
    /// The deadline of the first run of the first task.
    pub(crate) base: u64,
    pub(crate) end: u64,
}

impl Grid {
    pub(crate) fn from(args: &Args) -> Result<Self, Trouble> {
        let n: usize = args.get("n", 10_000)?;
        let base = clock::now() + 200_000_000 + 4_000 * n as u64;
        let length = args.millis("millis", 5_000)?.as_nanos() as u64;
        Ok(Self { n, period: args.millis("period_ms", 100)?.as_nanos() as u64, base, end: base + length })
    }

    /// The deadline of run `run` of task `task`.
    pub(crate) fn deadline(&self, task: usize, run: usize) -> u64 {
        self.base + self.period * task as u64 / self.n as u64 + self.period * run as u64
    }

    /// Runs of each task in the window.
    pub(crate) fn runs(&self) -> usize {
        ((self.end - self.base) / self.period) as usize
    }
}

pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    let peer: P = peer::start_at_most(args.get("workers", 2)?);
    let grid = Grid::from(args)?;
    let runs = grid.runs();
    let starts: &'static [AtomicU64] = Vec::leak((0..grid.n * runs).map(|_| AtomicU64::new(0)).collect());
    let mut producer = peer.producer();
    for task in 0..grid.n {
        let mut run = 0;
        producer.every(
            clock::left(grid.deadline(task, 0)),
            Duration::from_nanos(grid.period),
            move || {
                if run < runs {
                    starts[task * runs + run].store(clock::now(), Relaxed);
                }
                run += 1;
            },
        )?;
    }
    let overrun = clock::now() > grid.base;
    clock::sleep(clock::left(grid.base));
    let cpu = os::cpu();
    clock::sleep(clock::left(grid.end));
    let cpu = os::cpu() - cpu;
    // Runs due in the window may be late, but come.
    let missing = || starts.iter().filter(|start| start.load(Relaxed) == 0).count();
    if !clock::eventually(verify::PATIENCE / 5, || missing() == 0) {
        return failed(format!("{} of {} runs are missing", missing(), starts.len()));
    }
    drop(producer);
    std::mem::forget(peer);
    let (mut late, mut early) = (Vec::with_capacity(starts.len()), 0);
    for (at, start) in starts.iter().enumerate() {
        let (deadline, start) = (grid.deadline(at / runs, at % runs), start.load(Relaxed));
        late.push(start.saturating_sub(deadline));
        early = deadline.saturating_sub(start).max(early);
    }
    verify::early::<P>(early)?;
    let line = sample::distribution(Line::new(), late);
    let line = line.put("cpu_ns", cpu as f64 / starts.len() as f64).put("early_us", early as f64 / 1000.0);
    Ok(line.put("overrun", f64::from(u8::from(overrun))))
}
