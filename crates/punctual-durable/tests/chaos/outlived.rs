//! How soon others do what a node that was killed had to do: the figures.
//!
//! A node holds some jobs and has room for more; further jobs come due all the time. It is killed. What it held is started
//! again when its lease is over and somebody looks for the dead, that is within a lease and a third of one; what only
//! waited is started by others as if nothing had happened. On one file the system itself says that the owner is gone,
//! and there is nothing to wait for.
//!
//! The long form has the lease and the pace of nodes as users have them, and prints what it measured. What is asserted is
//! the protocol: nobody starts again what a lease still protects, and everything is started.

use std::fmt;
use std::time::Duration;

use punctual_durable::{Due, JobId, JobRecord, TimeSource, Timestamp};

use crate::cycles;
use crate::program::{Act, THREADS};
use crate::shift::TrueTime;
use crate::side_log::{Entry, Run};
use crate::world::World;

/// Jobs that come due while the node dies, and how far apart.
const WAITING: (u32, Duration) = (300, Duration::from_millis(5));

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    rounds: usize,
    held: usize,
    waiting: usize,
    /// The longest from the kill until a job was started again that the node held.
    restarted: Duration,
    /// The latest start of a job that only waited.
    late: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, held, waiting, restarted, late } = self;
        write!(f, "{rounds} nodes killed: {held} jobs that they held started again within ")?;
        write!(f, "{:.2} s, {waiting} that waited at most ", restarted.as_secs_f64())?;
        write!(f, "{:.1} ms late", late.as_secs_f64() * 1e3)
    }
}

/// Kills node after node. `lease_end` says until when the store protects what this job's owner holds.
pub(crate) fn killed_nodes_are_outlived(
    mut world: World,
    lease_end: impl Fn(&World, &JobRecord) -> Option<Timestamp>,
) {
    let long = cycles() >= 100;
    let rounds = if long { 5 } else { 1 };
    if long {
        (world.lease, world.poll) = (Duration::from_secs(10), Duration::from_millis(100));
    }
    let mut figures = Figures { rounds, ..Figures::default() };
    for _ in 0..rounds {
        // All but one of its threads, so that it has room.
        let held = world.enqueue(vec![World::job(Act::Hold); THREADS - 1]);
        let dying = world.spawn();
        world.await_held(&held);
        let mut heir = world.spawn();
        heir.order("go");
        world.await_line("up");
        let waiting = world.enqueue(herd());
        world.await_records(WAITING.0 / 4);
        let killed = TrueTime.timestamp();
        dying.kill();
        let protected =
            world.records().iter().filter(|it| held.contains(&it.id)).find_map(|it| lease_end(&world, it));
        world.await_all();
        heir.end();
        for run in world.last_starts(&held) {
            let now = Timestamp::from_micros(run.now);
            assert!(
                protected.is_none_or(|until| now >= until),
                "{run:?} while the lease goes until {protected:?}"
            );
            figures.restarted = figures.restarted.max(now.since(killed));
        }
        // Those that were claimed already were held, too.
        for record in world.records().iter().filter(|it| waiting.contains(&it.id)) {
            let run = world.last_starts(&[record.id])[0];
            let (now, due) = (Timestamp::from_micros(run.now), Timestamp::from_micros(run.due));
            if record.crashes == 0 {
                figures.waiting += 1;
                figures.late = figures.late.max(now.since(due));
            } else {
                figures.held += 1;
                figures.restarted = figures.restarted.max(now.since(killed));
            }
        }
        figures.held += held.len();
    }
    world.verdict();
    assert!(figures.waiting > 0, "{figures}");
    println!("chaos: {figures}");
}

/// Jobs that come due one after the other.
fn herd() -> Vec<punctual_durable::NewJob> {
    (0..WAITING.0).map(|n| World::job(Act::Plain).due(Due::After(n * WAITING.1))).collect()
}

impl World {
    /// The last start of each of these jobs.
    fn last_starts(&self, ids: &[JobId]) -> Vec<Run> {
        let log = self.read_log();
        let last = |id: &JobId| {
            log.iter().rev().find_map(|entry| match entry {
                Entry::Started(run) if run.id == id.as_i64() => Some(*run),
                _ => None,
            })
        };
        ids.iter().filter_map(last).collect()
    }
}
