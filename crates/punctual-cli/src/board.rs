//! What is known about each job, for whoever wants to look.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::process::Outcome;

/// All jobs, in the order of the file.
#[derive(Default, Debug)]
pub(crate) struct Board {
    tracks: Mutex<Vec<Arc<Track>>>,
}

/// One job. It keeps its track when its settings change, so that its numbers go on.
pub(crate) struct Track {
    pub(crate) name: Arc<str>,
    progress: Mutex<Progress>,
    /// How long until it is due. Called with no lock of ours held but this one.
    next: Mutex<Option<Next>>,
}

type Next = Box<dyn Fn() -> Option<Duration> + Send>;

/// How a job is getting on.
#[derive(Clone, Default, Debug)]
pub(crate) struct Progress {
    /// When it runs, in words.
    pub(crate) when: String,
    /// By process: since when.
    pub(crate) running: BTreeMap<u32, SystemTime>,
    /// Times it was due and begun.
    pub(crate) runs: u64,
    /// Runs of which the last attempt failed.
    pub(crate) failures: u64,
    /// Runs that were left out.
    pub(crate) missed: u64,
    pub(crate) last: Option<Last>,
    /// Of the last run, and the most so far.
    pub(crate) lateness: Option<Duration>,
    pub(crate) max_lateness: Duration,
    /// Why it will not run again.
    pub(crate) ended: Option<&'static str>,
}

/// The last attempt that ended.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

impl Board {
    fn tracks(&self) -> MutexGuard<'_, Vec<Arc<Track>>> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows these and no others.
    pub(crate) fn set(&self, tracks: Vec<Arc<Track>>) {
        *self.tracks() = tracks;
    }

    pub(crate) fn all(&self) -> Vec<Arc<Track>> {
        self.tracks().clone()
    }
}

impl Track {
    pub(crate) fn new(name: Arc<str>) -> Arc<Self> {
        Arc::new(Self { name, progress: Mutex::default(), next: Mutex::new(None) })
    }

    /// Looks at the numbers, or changes them.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Progress) -> R) -> R {
        f(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_next(&self, next: impl Fn() -> Option<Duration> + Send + 'static) {
        let old = self.next.lock().unwrap_or_else(PoisonError::into_inner).replace(Box::new(next));
        drop(old);
    }

    /// How long until it is due.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|next| next())
    }
}

impl fmt::Debug for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Track")
            .field("name", &self.name)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
