//! Which jobs have run, how often, and how late.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::{Job, OnRun, Trouble, failed, micros};

/// Without a run for this long, the rest counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is known of the runs so far.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    ran: Vec<bool>,
    count: usize,
    pub(crate) again: usize,
    pub(crate) early: usize,
    /// Start less due time of every first run, in microseconds.
    pub(crate) lateness: Vec<i64>,
}

/// Counts the runs of jobs `0..count`.
#[derive(Debug)]
pub(crate) struct Tally {
    runs: Arc<Mutex<Runs>>,
    all: Receiver<()>,
    sender: Sender<()>,
    count: usize,
}

impl Tally {
    pub(crate) fn of(count: usize) -> Self {
        let (sender, all) = channel();
        let runs = Runs { ran: vec![false; count], ..Runs::default() };
        Self { runs: Arc::new(Mutex::new(runs)), all, sender, count }
    }

    /// What handlers call.
    pub(crate) fn on_run(&self) -> OnRun {
        let (runs, sender, count) = (Arc::clone(&self.runs), self.sender.clone(), self.count);
        Arc::new(move |job| {
            let now = micros();
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(ran) = usize::try_from(job.n).ok().and_then(|n| runs.ran.get_mut(n)) else { return };
            if std::mem::replace(ran, true) {
                runs.again += 1;
                return;
            }
            if job.due > 0 {
                runs.early += usize::from(now < job.due);
                runs.lateness.push(now - job.due);
            }
            runs.count += 1;
            let over = runs.count == count;
            drop(runs);
            if over {
                let _ = sender.send(());
            }
        })
    }

    /// How many have run.
    pub(crate) fn count(&self) -> usize {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Waits until every job has run.
    pub(crate) fn await_all(&self) -> Result<(), Trouble> {
        let mut before = usize::MAX;
        loop {
            if self.all.recv_timeout(PATIENCE).is_ok() {
                return Ok(());
            }
            let count = self.runs.lock().unwrap_or_else(PoisonError::into_inner).count;
            if count == before {
                return failed(format!("{count} of {} jobs have run, and no more", self.count));
            }
            before = count;
        }
    }

    pub(crate) fn take(&self) -> Runs {
        std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Runs {
    /// A job that started early breaks our own promise; a peer's are counted.
    pub(crate) fn check(&self, peer: &str) -> Result<(), Trouble> {
        match peer.starts_with("punctual") {
            true if self.early > 0 => failed(format!("{} jobs started early", self.early)),
            true if self.again > 0 => failed(format!("{} jobs ran again without a fault", self.again)),
            _ => Ok(()),
        }
    }
}

/// Jobs that are due one after the other, evenly over `seconds` from `begin`.
pub(crate) fn spread(count: usize, begin: i64, seconds: usize) -> Vec<Job> {
    let step = seconds as f64 * 1e6 / count as f64;
    (0..count).map(|n| Job::at(n as u64, begin + (n as f64 * step) as i64)).collect()
}
