//! `punctual demo`: the engine at work.
//!
//! A periodic task plans others, each to run a little later at an instant of its own, spread evenly; each of those
//! measures how late it is. All of it is the public API of the library: what is seen here is what a program gets.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use punctual::{Clock, Executor, TaskContext, Tick};

use super::complain;
use crate::args::DemoArgs;
use crate::exit::Exit;
use crate::file::show;

/// How often tasks are planned, and how far ahead.
const ROUND: Duration = Duration::from_millis(10);
const AHEAD: Duration = Duration::from_millis(500);
/// How often the picture is drawn on a terminal, and told elsewhere.
const FRAME: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(1);
const BAR: usize = 50;

/// Upper bounds of the buckets, in microseconds; a last one has no bound.
const BOUNDS: [u64; 16] =
    [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000];

/// How late tasks were. Recording takes two atomic additions and no lock.
#[derive(Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    max: AtomicU64,
    /// Tasks that ran before their time. There are none, but who would believe it without looking?
    early: AtomicU64,
}

/// The numbers at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Picture {
    counts: [u64; BOUNDS.len() + 1],
    max: Duration,
    early: u64,
}

impl Histogram {
    // Relaxed throughout: the numbers are read by eye, and the last time after the workers have been joined.
    fn record(&self, deadline: Tick, now: Tick) {
        if now < deadline {
            self.early.fetch_add(1, Relaxed);
        }
        let lateness = now.since(deadline);
        let nanos = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| bound * 1_000 <= nanos);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.max.fetch_max(nanos, Relaxed);
    }

    fn picture(&self) -> Picture {
        let counts = std::array::from_fn(|index| self.buckets[index].load(Relaxed));
        Picture { counts, max: Duration::from_nanos(self.max.load(Relaxed)), early: self.early.load(Relaxed) }
    }
}

impl Picture {
    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bound that so many of a thousand stay below.
    fn below(&self, per_mille: u64) -> String {
        let total = self.total();
        let mut seen = 0;
        for (count, bound) in self.counts.iter().zip(BOUNDS) {
            seen += count;
            if u128::from(seen) * 1_000 >= u128::from(total) * u128::from(per_mille) {
                return format!("< {}", show(Duration::from_micros(bound)));
            }
        }
        format!("<= {}", show(self.max))
    }

    fn bars(&self) -> Vec<String> {
        let most = self.counts.iter().copied().max().unwrap_or(0).max(1);
        let last = self.counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let mut lines = Vec::new();
        for (index, count) in self.counts.iter().enumerate().take(last + 1) {
            let label = match BOUNDS.get(index) {
                Some(bound) => format!("< {}", show(Duration::from_micros(*bound))),
                None => "more".to_owned(),
            };
            // At least a dot for whatever is there.
            let length = usize::try_from(u128::from(*count) * BAR as u128 / u128::from(most)).unwrap_or(BAR);
            let bar = if length == 0 && *count > 0 { "·".to_owned() } else { "█".repeat(length) };
            lines.push(format!("{label:>8}  {count:>9}  {bar}"));
        }
        lines
    }

    fn summary(&self) -> String {
        let shown = [(500, "half"), (900, "90 %"), (990, "99 %"), (999, "99.9 %")];
        let shown = shown.map(|(per_mille, name)| format!("{name} {}", self.below(per_mille)));
        format!("late: {}, the latest {}", shown.join(", "), show(self.max))
    }
}

/// Plans tasks and shows how late they are.
pub(crate) fn demo(args: &DemoArgs) -> Exit {
    match perform(args) {
        Ok(()) => Exit::Done,
        Err(error) => {
            complain(&format!("punctual: {error}\n"));
            Exit::Unable
        }
    }
}

fn perform(args: &DemoArgs) -> Result<(), String> {
    let pool = Executor::builder()
        .core_threads(usize::from(args.workers))
        .thread_name("demo")
        .build()
        .map_err(|error| error.to_string())?;
    let histogram = Arc::new(Histogram::default());
    let clock = pool.clock();
    let begin = clock.now();
    let mut planner = Planner { histogram: Arc::clone(&histogram), begin, rate: args.rate, planned: 0 };
    let scheduler = pool.scheduler();
    let planning = pool
        .task(move || planner.plan(&scheduler))
        .name("planner")
        .every(ROUND)
        .start()
        .map_err(|error| error.to_string())?;
    let mut stage = Stage { is_live: std::io::stdout().is_terminal(), drawn: 0 };
    let frame = if stage.is_live { FRAME } else { LINE };
    let end = begin.after(args.time());
    let mut next = begin;
    while clock.now() < end {
        next = next.after(frame).min(end);
        wait(&clock, next);
        let elapsed = clock.now().since(begin);
        stage.show(&histogram.picture(), elapsed, pool.stats().queued);
    }
    planning.cancel();
    pool.close().map_err(|error| error.to_string())?;
    stage.finish(&histogram.picture(), args);
    Ok(())
}

/// The main thread is no task: it waits as one, outside.
fn wait(clock: &Arc<dyn Clock>, until: Tick) {
    let _ = TaskContext::current().sleep(until.since(clock.now()));
}

/// Plans every task that is to run a while from now.
struct Planner {
    histogram: Arc<Histogram>,
    begin: Tick,
    rate: u32,
    planned: u64,
}

impl Planner {
    fn plan(&mut self, scheduler: &punctual::Scheduler) {
        let clock = scheduler.clock();
        let until = clock.now().since(self.begin);
        let wanted = until.as_nanos() * u128::from(self.rate) / 1_000_000_000;
        while u128::from(self.planned) < wanted {
            // The n-th task has its own place on the grid of the rate.
            let place = u128::from(self.planned) * 1_000_000_000 / u128::from(self.rate);
            let place = Duration::from_nanos(u64::try_from(place).unwrap_or(u64::MAX));
            let deadline = self.begin.after(AHEAD).after(place);
            let (histogram, clock) = (Arc::clone(&self.histogram), Arc::clone(&clock));
            let body = move || histogram.record(deadline, clock.now());
            if scheduler.task(body).first(deadline).start().is_err() {
                return;
            }
            self.planned += 1;
        }
    }
}

struct Stage {
    is_live: bool,
    drawn: usize,
}

impl Stage {
    fn show(&mut self, picture: &Picture, elapsed: Duration, pending: usize) {
        let total = picture.total();
        let rate = total as f64 / (elapsed.saturating_sub(AHEAD).as_secs_f64()).max(0.001);
        let head = format!(
            "{:>5.1} s  {total} tasks run, {rate:.0} a second, {pending} pending",
            elapsed.as_secs_f64()
        );
        if self.is_live {
            let mut lines = vec![head, picture.summary(), String::new()];
            lines.extend(picture.bars());
            self.draw(&lines);
        } else {
            say(&format!("{head}; {}\n", picture.summary()));
        }
    }

    fn draw(&mut self, lines: &[String]) {
        let mut text = String::from("\x1b[?2026h");
        if self.drawn > 0 {
            text += &format!("\x1b[{}A\r\x1b[J", self.drawn);
        }
        for line in lines {
            text += line;
            text.push('\n');
        }
        self.drawn = lines.len();
        say(&(text + "\x1b[?2026l"));
    }

    fn finish(&mut self, picture: &Picture, args: &DemoArgs) {
        let threads = if args.workers == 1 { "thread" } else { "threads" };
        let early = if picture.early == 0 { "none".to_owned() } else { picture.early.to_string() };
        let head = format!("{} tasks on {} {threads}, {early} early", picture.total(), args.workers);
        let mut lines = vec![head, picture.summary(), String::new()];
        lines.extend(picture.bars());
        if self.is_live {
            self.draw(&lines);
        } else {
            say(&(lines.join("\n") + "\n"));
        }
    }
}

/// A reader that has heard enough is no reason to stop: the demonstration is short.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(lateness: &[u64]) -> Picture {
        let histogram = Histogram::default();
        lateness.iter().for_each(|micros| {
            histogram.record(Tick::ZERO, Tick::ZERO.after(Duration::from_micros(*micros)))
        });
        histogram.picture()
    }

    #[test]
    fn every_lateness_has_its_bucket() {
        let picture = picture(&[0, 4, 5, 9, 999, 1_000, 499_999, 500_000, 10_000_000]);
        assert_eq!(picture.total(), 9);
        assert_eq!((picture.counts[0], picture.counts[1]), (2, 2));
        assert_eq!(
            (picture.counts[7], picture.counts[8], picture.counts[15], picture.counts[16]),
            (1, 1, 1, 2)
        );
        assert_eq!((picture.max, picture.early), (Duration::from_secs(10), 0));
    }

    #[test]
    fn shares_are_the_bounds_that_they_stay_below() {
        let many: Vec<u64> = (0..1_000).map(|n| if n < 990 { 3 } else { 300 }).collect();
        let picture = picture(&many);
        assert_eq!((picture.below(990), picture.below(999)), ("< 5us".to_owned(), "< 500us".to_owned()));
        assert_eq!(super::Histogram::default().picture().below(500), "< 5us");
    }

    #[test]
    fn whatever_is_there_is_seen() {
        let mut many = vec![3; 10_000];
        many.push(70);
        let bars = picture(&many).bars();
        assert_eq!(bars.len(), 5);
        assert!(bars[4].ends_with('·') && bars[0].ends_with('█') && bars[1].ends_with("0  "), "{bars:#?}");
    }
}
