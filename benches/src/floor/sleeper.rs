//! One thread that sleeps to each deadline in turn, with `clock_nanosleep`.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::args::Args;
use crate::line::Line;
use crate::workload::{idle, lateness, periodic};
use crate::{Outcome, clock, os, sample};

/// Sleeps to instants of our clock, which the kernel counts from another zero.
struct Sleeper {
    offset: u64,
}

impl Sleeper {
    fn with_slack(nanos: u64) -> Self {
        set_current_timer_slack(NonZeroU64::new(nanos)).expect("Linux has a timer slack");
        let kernel = clock_gettime(ClockId::Monotonic);
        Self { offset: kernel.tv_sec as u64 * 1_000_000_000 + kernel.tv_nsec as u64 - clock::now() }
    }

    fn sleep_until(&self, instant: u64) {
        let at = instant + self.offset;
        let at = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        while clock::now() < instant {
            // A signal, or the difference between the two zeros, may end it early.
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
        }
    }

    /// Lateness at each of `instants`, which are in order.
    fn serve(&self, instants: impl Iterator<Item = u64>) -> Vec<u64> {
        let late = instants.map(|instant| {
            self.sleep_until(instant);
            clock::now() - instant
        });
        late.collect()
    }
}

pub(crate) fn lateness(slack: u64, args: &Args) -> Outcome {
    let (start, _, mut instants) = lateness::instants(args)?;
    instants.sort_unstable();
    let sleeper = Sleeper::with_slack(slack);
    sleeper.sleep_until(start);
    let cpu = os::cpu();
    let late = sleeper.serve(instants.into_iter());
    let cpu = os::cpu() - cpu;
    Ok(sample::distribution(Line::new(), late).put("cpu_ms", cpu as f64 / 1e6))
}

pub(crate) fn periodic(slack: u64, args: &Args) -> Outcome {
    let grid = periodic::Grid::from(args)?;
    let sleeper = Sleeper::with_slack(slack);
    sleeper.sleep_until(grid.base);
    let cpu = os::cpu();
    let turns = (0..grid.runs()).flat_map(|run| (0..grid.n).map(move |task| grid.deadline(task, run)));
    let late = sleeper.serve(turns);
    let cpu = (os::cpu() - cpu) as f64 / late.len() as f64;
    Ok(sample::distribution(Line::new(), late).put("cpu_ns", cpu))
}

/// A thread that sleeps for an hour.
pub(crate) fn idle(args: &Args) -> Outcome {
    std::thread::spawn(|| clock::sleep(Duration::from_secs(3600)));
    idle::watch(args)
}
