//! Load, shared by nodes that can run so many jobs at once: capacity decides, not speed.
//!
//! Every handler waits until it is let go. So a round is over only when all the handlers that can run at once do, on all
//! nodes: whoever claimed more than it can run would keep the others waiting, and whoever claimed less would, too. What
//! is asserted does not depend on how fast anything is.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use punctual_durable::{Done, Filter, JobContext, JobId, JobState, Jobs, Store};

use crate::{Database, work};

/// Real time after which nodes that do nothing are taken for a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_millis(20);

/// A handler that waits; it goes on when this is dropped.
struct Waiting {
    node: usize,
    id: JobId,
    _hold: Sender<()>,
}

/// Nodes whose handlers wait.
struct Cluster {
    database: Database,
    sender: Sender<Waiting>,
    arrivals: Receiver<Waiting>,
}

impl Cluster {
    fn new() -> Self {
        let (sender, arrivals) = channel();
        Self { database: Database::new(), sender, arrivals }
    }

    /// A node that looks so often.
    fn join(&self, node: usize, threads: usize, poll: Duration) -> Jobs {
        let sender = self.sender.clone();
        Jobs::on(self.database.open())
            .concurrency(threads)
            .poll_interval(poll)
            .lease(9 * HOUR)
            .handle("work", move |_: serde_json::Value, cx: &JobContext| {
                let (hold, released) = channel();
                sender.send(Waiting { node, id: cx.id(), _hold: hold })?;
                let _ = released.recv();
                Ok(Done)
            })
            .start()
            .unwrap()
    }

    fn arrival(&self) -> Waiting {
        self.arrivals.recv_timeout(PATIENCE).expect("whoever has room takes work")
    }

    /// So many handlers that wait at the same time.
    fn arrivals(&self, count: usize) -> Vec<Waiting> {
        (0..count).map(|_| self.arrival()).collect()
    }

    fn enqueue(&self, jobs: usize) {
        self.database.open().enqueue(vec![work(); jobs]).unwrap();
    }

    /// Everything is done, at its first attempt.
    fn check(&self, jobs: usize) {
        let done = self.database.open().find(&Filter::new().limit(jobs + 1)).unwrap();
        assert_eq!(done.len(), jobs);
        for job in done {
            assert_eq!((job.state, job.attempt, job.crashes), (JobState::Done, 1, 0), "{job:?}");
        }
    }
}

fn counts(waiting: &[Waiting], nodes: usize) -> Vec<usize> {
    (0..nodes).map(|node| waiting.iter().filter(|it| it.node == node).count()).collect()
}

/// With handlers that all take as long as one round, every node has its share of the burst exactly.
#[test]
fn four_nodes_share_a_burst_exactly_by_what_they_can_run() {
    for threads in [[4, 4, 4, 4], [1, 2, 4, 8]] {
        const ROUNDS: usize = 12;
        let cluster = Cluster::new();
        let capacity: usize = threads.iter().sum();
        let nodes: Vec<Jobs> =
            threads.iter().enumerate().map(|(name, threads)| cluster.join(name, *threads, SOON)).collect();
        cluster.enqueue(ROUNDS * capacity);
        for round in 0..ROUNDS {
            let waiting = cluster.arrivals(capacity);
            assert_eq!(counts(&waiting, 4), threads, "in round {round}");
        }
        for node in nodes {
            assert_eq!(node.shutdown(PATIENCE).unwrap(), 0);
        }
        cluster.check(ROUNDS * capacity);
    }
}

/// All threads of the first are taken and nobody looks: it is joining that makes the second take its share.
#[test]
fn a_node_that_joins_takes_its_share_in_its_first_step() {
    const JOBS: usize = 40;
    let cluster = Cluster::new();
    cluster.enqueue(JOBS);
    let first = cluster.join(0, 4, HOUR);
    let mut waiting = cluster.arrivals(4);
    let second = cluster.join(1, 8, HOUR);
    waiting.extend(cluster.arrivals(8));
    assert_eq!(counts(&waiting, 2), [4, 8]);
    drop(waiting);
    (12..JOBS).for_each(|_| drop(cluster.arrival()));
    for node in [first, second] {
        assert_eq!(node.shutdown(PATIENCE).unwrap(), 0);
    }
    cluster.check(JOBS);
}

/// What it runs it ends; what it has claimed and not begun goes to the other, unharmed.
#[test]
fn a_node_that_leaves_drains_without_burning_attempts() {
    const JOBS: usize = 60;
    let cluster = Cluster::new();
    let first = cluster.join(0, 4, SOON);
    cluster.enqueue(JOBS);
    // Some rounds, so that it claims ahead of its threads.
    (0..3).for_each(|_| drop(cluster.arrivals(4)));
    let held = cluster.arrivals(4);
    let second = cluster.join(1, 4, SOON);
    let others = cluster.arrivals(4);
    assert_eq!((counts(&held, 2), counts(&others, 2)), (vec![4, 0], vec![0, 4]));
    let ids: Vec<JobId> = held.iter().map(|waiting| waiting.id).collect();
    let leaving = std::thread::spawn(move || first.shutdown(PATIENCE).unwrap());
    // Only the second starts anything while the first drains and after it.
    drop(others);
    for _ in 0..4 {
        let waiting = cluster.arrivals(4);
        assert_eq!(counts(&waiting, 2), [0, 4]);
    }
    drop(held);
    assert_eq!(leaving.join().unwrap(), 0);
    for _ in 0..(JOBS - 16 - 20) / 4 {
        assert_eq!(counts(&cluster.arrivals(4), 2), [0, 4]);
    }
    assert_eq!(second.shutdown(PATIENCE).unwrap(), 0);
    cluster.check(JOBS);
    let store = cluster.database.open();
    assert!(ids.iter().all(|id| store.job(*id).unwrap().unwrap().state == JobState::Done));
    let nodes = "SELECT count(*) FROM punctual.node";
    let nodes: i64 = cluster.database.client().query_one(nodes, &[]).unwrap().get(0);
    assert_eq!(nodes, 0, "who has left has left nothing");
}
