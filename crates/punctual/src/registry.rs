//! Tasks by name and by tag.
//!
//! Only tasks that have either are here, each from before it is queued until it is over: a waker among those that wait
//! for its end takes it out when it is woken or dropped, and so does taking back a task that was refused.
//!
//! The lock is taken without any other held, and none is taken under it. No task is dropped under it, either.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use crate::sync::Mutex;
use crate::task::TaskRef;

pub(crate) struct Registry {
    labels: Mutex<HashMap<Label, Vec<TaskRef>>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Label {
    Name(Arc<str>),
    Tag(Arc<str>),
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { labels: Mutex::new(HashMap::new()) }
    }

    /// Notes a task that has a name or tags, and is not queued yet.
    pub(crate) fn enter(self: &Arc<Self>, task: &TaskRef) {
        let header = task.header();
        let name = header.name().cloned().map(Label::Name);
        let tags = header.tags().iter().cloned().map(Label::Tag);
        let mut labels: Vec<Label> = name.into_iter().chain(tags).collect();
        if labels.is_empty() {
            return;
        }
        labels.dedup();
        let address = task.address();
        let mut known = self.labels.lock();
        for label in &labels {
            let tasks = known.entry(label.clone()).or_default();
            if !tasks.iter().any(|other| other.address() == address) {
                tasks.push(task.clone());
            }
        }
        drop(known);
        let leave = Leave { registry: Arc::downgrade(self), labels, address };
        task.listen(&Waker::from(Arc::new(leave)));
    }

    fn leave(&self, labels: &[Label], address: usize) {
        let mut gone = Vec::new();
        let mut known = self.labels.lock();
        for label in labels {
            if let Some(tasks) = known.get_mut(label) {
                let (leaving, staying) =
                    mem::take(tasks).into_iter().partition::<Vec<_>, _>(|other| other.address() == address);
                gone.extend(leaving);
                *tasks = staying;
                if tasks.is_empty() {
                    known.remove(label);
                }
            }
        }
        drop(known);
        drop(gone);
    }

    /// The tasks of this name that are not over, the oldest first.
    pub(crate) fn named(&self, name: &str) -> Vec<TaskRef> {
        self.with(&Label::Name(name.into()))
    }

    /// The tasks with this tag that are not over, the oldest first.
    pub(crate) fn tagged(&self, tag: &str) -> Vec<TaskRef> {
        self.with(&Label::Tag(tag.into()))
    }

    fn with(&self, label: &Label) -> Vec<TaskRef> {
        let mut tasks = self.labels.lock().get(label).cloned().unwrap_or_default();
        // One that is over may not have been taken out yet.
        tasks.retain(|task| !task.state().is_done());
        tasks
    }

    /// How many names and tags are known.
    #[cfg(all(test, not(punctual_loom)))]
    fn len(&self) -> usize {
        self.labels.lock().len()
    }
}

/// Takes a task out when it is woken or dropped.
struct Leave {
    registry: Weak<Registry>,
    labels: Vec<Label>,
    address: usize,
}

impl Wake for Leave {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.leave(&self.labels, self.address);
        }
    }
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use std::time::Duration;

    use crate::{Executor, ManualClock};

    /// However a task ends, nothing of it stays behind.
    #[test]
    fn a_task_leaves_when_it_is_over_in_whatever_way() {
        let clock = ManualClock::new();
        let pool = Executor::builder().core_threads(1).capacity(3).clock(clock.clone()).build().unwrap();
        let hour = Duration::from_secs(3600);
        let task = |name: &str| pool.task(|| ()).name(name).tag("all").tag("all").after(hour);
        let [ran, cancelled, removed] =
            ["ran", "cancelled", "removed"].map(|name| task(name).start().unwrap());
        assert!(task("refused").start().is_err());
        assert_eq!(pool.pool().registry.len(), 4);
        assert_eq!(pool.tagged("all").len(), 3);
        cancelled.cancel();
        drop(removed.remove());
        clock.advance(hour);
        assert!(ran.is_done());
        assert_eq!(pool.pool().registry.len(), 0);
        let drained = task("drained").start().unwrap();
        drop(pool.shutdown_now());
        assert!(drained.is_done());
        assert_eq!(pool.pool().registry.len(), 0);
        pool.close().unwrap();
    }
}
