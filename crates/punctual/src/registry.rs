//! Tasks by name and by tag.
//!
//! Only tasks that have either are here, each from before it is queued until it is over: a waker among those that wait
//! for its end takes it out when it is woken or dropped, and so does taking back a task that was refused.
//!
//! Each entry has a number, in the order of arrival; it is found by that when it leaves. So coming and going cost about the
//! same whether ten tasks have a tag or a million, and the oldest is the first.
//!
//! The lock is taken without any other held, and none is taken under it. No task is dropped under it, either.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use crate::sync::Mutex;
use crate::task::TaskRef;

pub(crate) struct Registry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the number of each entry.
    labels: HashMap<Label, BTreeMap<u64, TaskRef>>,
    /// How many there have been.
    entered: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Label {
    Name(Arc<str>),
    Tag(Arc<str>),
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State::default()) }
    }

    /// Notes a task that has a name or tags, and is not queued yet.
    pub(crate) fn enter(self: &Arc<Self>, task: &TaskRef) {
        let header = task.header();
        let name = header.name().cloned().map(Label::Name);
        let tags = header.tags().iter().cloned().map(Label::Tag);
        let labels: Vec<Label> = name.into_iter().chain(tags).collect();
        if labels.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let number = state.entered;
        state.entered += 1;
        for label in &labels {
            // It may have the same tag twice.
            state.labels.entry(label.clone()).or_default().entry(number).or_insert_with(|| task.clone());
        }
        drop(state);
        let leave = Leave { registry: Arc::downgrade(self), labels, number };
        task.listen(&Waker::from(Arc::new(leave)));
    }

    fn leave(&self, labels: &[Label], number: u64) {
        let mut gone = Vec::with_capacity(labels.len());
        let mut state = self.state.lock();
        for label in labels {
            if let Some(tasks) = state.labels.get_mut(label) {
                gone.extend(tasks.remove(&number));
                if tasks.is_empty() {
                    state.labels.remove(label);
                }
            }
        }
        drop(state);
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
        let known = |state: &State| state.labels.get(label).map(|tasks| tasks.values().cloned().collect());
        let mut tasks: Vec<TaskRef> = known(&self.state.lock()).unwrap_or_default();
        // One that is over may not have been taken out yet.
        tasks.retain(|task| !task.state().is_done());
        tasks
    }

    /// How many names and tags are known.
    #[cfg(all(test, not(punctual_loom)))]
    fn len(&self) -> usize {
        self.state.lock().labels.len()
    }
}

/// Takes a task out when it is woken or dropped.
struct Leave {
    registry: Weak<Registry>,
    labels: Vec<Label>,
    number: u64,
}

impl Wake for Leave {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.leave(&self.labels, self.number);
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

    /// Whatever has ended between them.
    #[test]
    fn tasks_are_listed_in_the_order_of_their_submission() {
        let pool = Executor::builder().clock(ManualClock::new()).build().unwrap();
        let task = |n: usize| {
            let task = pool.task(|| ()).name("same").tag("all").tag(["even", "odd"][n % 2]).tag("all");
            task.after(Duration::from_secs(1000 - n as u64)).start().unwrap()
        };
        let mut tasks: Vec<_> = (0..30).map(task).collect();
        for gone in [29, 17, 16, 12, 3, 0] {
            assert!(tasks.remove(gone).cancel());
        }
        tasks.extend((30..40).map(task));
        let ids = |tag| pool.tagged(tag).iter().map(|task| task.id()).collect::<Vec<_>>();
        let all: Vec<_> = tasks.iter().map(|task| task.id()).collect();
        assert_eq!(ids("all"), all);
        let mut parted = [ids("even"), ids("odd")];
        assert!(parted.iter().all(|ids| ids.is_sorted() && ids.len() > 10));
        let mut merged = parted.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>();
        merged.sort_unstable();
        assert_eq!(merged, all);
        for task in &tasks {
            assert_eq!(pool.find("same").unwrap().id(), task.id());
            assert!(task.cancel());
        }
        assert!(pool.find("same").is_none() && pool.pool().registry.len() == 0);
        pool.close().unwrap();
    }

    /// If each of them were looked for among all the others, this would take two hundred million steps and more.
    #[test]
    fn a_crowd_may_have_one_tag() {
        let pool = Executor::builder().clock(ManualClock::new()).build().unwrap();
        let hour = Duration::from_secs(3600);
        let task = |_| pool.task(|| ()).name("one").tag("crowd").after(hour).start().unwrap();
        let tasks: Vec<_> = (0..20_000).map(task).collect();
        assert_eq!(pool.tagged("crowd").len(), tasks.len());
        for task in tasks.iter().rev() {
            assert!(task.cancel());
        }
        assert_eq!(pool.pool().registry.len(), 0);
        pool.close().unwrap();
    }
}
