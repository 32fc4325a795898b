//! W9: the longest single call while `n` tasks with horizons from milliseconds to hours pass through.
//!
//! Time is stepped by hand, so a run is the same operations in the same order every time. It is made several times,
//! and each operation counts with the shortest time it ever took: what the operating system did to one pass it does
//! not do to the same operation of the next, while a pause that the structure makes comes back every time.

use std::time::Duration;

use punctual::{Executor, ManualClock, TaskHandle};
use punctual_engine::{ReferenceHeap, TaskKey, Tick, TimerQueue};

use crate::args::Args;
use crate::line::Line;
use crate::peer::Peer;
use crate::{Outcome, Trouble, clock, failed};

/// The structures by themselves, beside the pool.
pub(crate) const ENGINES: [&str; 2] = ["engine", "engine-heap"];

/// From 2¹⁶ ns to 2⁴⁴ ns: 65 µs to 5 hours, every magnitude as often as any other.
fn horizon(random: &mut fastrand::Rng) -> u64 {
    let bits = random.u32(16..44);
    (1 << bits) + random.u64(..1 << bits)
}

/// The shortest time each operation took in any pass, by kind.
#[derive(Default)]
struct Fastest {
    insert: Vec<u32>,
    cancel: Vec<u32>,
    pop: Vec<u32>,
}

/// Times of one kind, in the order of the operations.
fn note(fastest: &mut Vec<u32>, at: usize, nanos: u64) {
    let nanos = u32::try_from(nanos).unwrap_or(u32::MAX);
    match fastest.get_mut(at) {
        Some(best) => *best = nanos.min(*best),
        None => fastest.push(nanos),
    }
}

impl Fastest {
    fn line(&self) -> Line {
        let kinds = [("insert_us", &self.insert), ("cancel_us", &self.cancel), ("pop_us", &self.pop)];
        let longest =
            kinds.map(|(key, nanos)| (key, nanos.iter().max().map(|nanos| f64::from(*nanos) / 1000.0)));
        let of_all = longest.iter().filter_map(|(_, longest)| *longest).fold(0.0, f64::max);
        let line = Line::new().put("longest_us", of_all);
        longest.into_iter().fold(line, |line, (key, longest)| match longest {
            Some(longest) => line.put(key, longest),
            None => line,
        })
    }
}

#[inline]
fn timed<T>(body: impl FnOnce() -> T) -> (u64, T) {
    let start = clock::now();
    let result = body();
    (clock::now() - start, result)
}

/// What the two structures of the engine have in common.
trait Structure {
    fn new() -> Self;
    fn insert(&mut self, deadline: Tick, number: u64) -> TaskKey;
    fn cancel(&mut self, key: TaskKey) -> bool;
    fn pop_due(&mut self, now: Tick) -> Option<Tick>;
    fn next(&self) -> Option<Tick>;
}

macro_rules! structure {
    ($name:ident) => {
        impl Structure for $name<[u64; 2]> {
            fn new() -> Self {
                Self::new()
            }
            fn insert(&mut self, deadline: Tick, number: u64) -> TaskKey {
                self.insert(deadline, number, [number; 2])
            }
            fn cancel(&mut self, key: TaskKey) -> bool {
                self.cancel(key).is_some()
            }
            fn pop_due(&mut self, now: Tick) -> Option<Tick> {
                self.pop_due(now).map(|fired| fired.deadline)
            }
            fn next(&self) -> Option<Tick> {
                self.next_deadline()
            }
        }
    };
}

structure!(TimerQueue);
structure!(ReferenceHeap);

pub(crate) fn engine(name: &str, args: &Args) -> Outcome {
    if args.workload != "pause" {
        return Err(Trouble::Unsupported("a structure, not a pool"));
    }
    match name {
        "engine" => measure::<TimerQueue<[u64; 2]>>(args),
        _ => measure::<ReferenceHeap<[u64; 2]>>(args),
    }
}

fn measure<S: Structure>(args: &Args) -> Outcome {
    let n: usize = args.get("n", 1_000_000)?;
    let mut fastest = Fastest::default();
    for _ in 0..args.get("passes", 3)? {
        pass::<S>(n, &mut fastest)?;
    }
    Ok(fastest.line())
}

/// Fills with `n`, then holds the number: each step serves what is due, cancels one and replaces both. At the end all
/// that is left passes through.
fn pass<S: Structure>(n: usize, fastest: &mut Fastest) -> Result<(), Trouble> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut queue = S::new();
    let mut keys = Vec::with_capacity(n);
    let [mut inserts, mut cancels, mut pops] = [0; 3];
    let (mut now, mut fired, mut cancelled) = (0, 0, 0);
    let mut insert = |queue: &mut S, random: &mut fastrand::Rng, now: u64| {
        let deadline = Tick::from_nanos(now + horizon(random));
        let (nanos, key) = timed(|| queue.insert(deadline, inserts as u64));
        note(&mut fastest.insert, inserts, nanos);
        inserts += 1;
        key
    };
    for _ in 0..n {
        keys.push(insert(&mut queue, &mut random, now));
    }
    for step in 0..n {
        now = queue.next().map_or(now, |next| next.as_nanos().max(now));
        let (nanos, deadline) = timed(|| queue.pop_due(Tick::from_nanos(now)));
        note(&mut fastest.pop, pops, nanos);
        pops += 1;
        if deadline.is_none_or(|deadline| deadline.as_nanos() > now) {
            return failed("something other than the earliest came out");
        }
        fired += 1;
        let at = random.usize(..n);
        let (nanos, was_there) = timed(|| queue.cancel(keys[at]));
        note(&mut fastest.cancel, cancels, nanos);
        cancels += 1;
        cancelled += usize::from(was_there);
        let new = insert(&mut queue, &mut random, now);
        keys[at] = new;
        if was_there {
            keys[step] = insert(&mut queue, &mut random, now);
        }
    }
    let (mut last, all) = (0, inserts);
    while let (nanos, Some(deadline)) = timed(|| queue.pop_due(Tick::MAX)) {
        note(&mut fastest.pop, pops, nanos);
        pops += 1;
        fired += 1;
        if deadline.as_nanos() < last {
            return failed("the order is not that of the deadlines");
        }
        last = deadline.as_nanos();
    }
    match fired + cancelled == all {
        true => Ok(()),
        false => failed(format!("{all} went in, {fired} fired and {cancelled} were cancelled")),
    }
}

/// The pool as a whole, which only we can step by hand: `schedule` and `cancel`. What a worker takes out between two
/// steps is one call of the engine for each, and is measured there.
pub(crate) fn run<P: Peer>(args: &Args) -> Outcome {
    if args.peer != "punctual" {
        return Err(Trouble::Unsupported("its clock cannot be stepped"));
    }
    let n: usize = args.get("n", 1_000_000)?;
    let mut fastest = Fastest::default();
    for _ in 0..args.get("passes", 3)? {
        pool_pass(n, &mut fastest)?;
    }
    Ok(fastest.line())
}

fn pool_pass(n: usize, fastest: &mut Fastest) -> Result<(), Trouble> {
    const STEPS: usize = 200;
    let mut random = fastrand::Rng::with_seed(3);
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build().expect("sound settings");
    // Its thread is there, as in every other workload: to start one takes longer than any call.
    pool.prestart_all_core_threads();
    let mut handles: Vec<TaskHandle<()>> = Vec::with_capacity(n);
    let [mut inserts, mut cancels] = [0; 2];
    let mut insert = |random: &mut fastrand::Rng| {
        let delay = Duration::from_nanos(horizon(random));
        let (nanos, handle) = timed(|| pool.schedule(delay, || ()).expect("running"));
        note(&mut fastest.insert, inserts, nanos);
        inserts += 1;
        handle
    };
    for _ in 0..n {
        handles.push(insert(&mut random));
    }
    let mut cancelled = 0;
    for step in 0..STEPS {
        // Longer and longer steps, to five hours in all.
        clock.jump(Duration::from_nanos(1 << (16 + step * 28 / STEPS)));
        clock.wait_until_idle();
        for _ in 0..n / STEPS {
            let at = random.usize(..n);
            let (nanos, was_there) = timed(|| handles[at].cancel());
            note(&mut fastest.cancel, cancels, nanos);
            cancels += 1;
            cancelled += u64::from(was_there);
            handles[at] = insert(&mut random);
        }
    }
    clock.jump(Duration::from_nanos(1 << 46));
    clock.wait_until_idle();
    let stats = pool.stats();
    drop(pool.shutdown_now());
    match stats.completed + cancelled == inserts as u64 && stats.cancelled == cancelled {
        true => Ok(()),
        false => failed(format!("{inserts} went in and {cancelled} were cancelled, but: {stats}")),
    }
}
