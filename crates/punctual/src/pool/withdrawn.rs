//! What was cancelled and is still in the queue, until somebody who has the pool's lock takes it out: many together, because each is
//! somewhere else in memory. The rules are those of the [`inbox`](super::inbox).

use punctual_engine::{RunState, TaskKey};

use super::core::Core;
use super::lane::KEYS;
use crate::fetch;
use crate::policy::OnCancel;
use crate::task::Gone;

impl Core {
    /// Whether a task that is cancelled may stay in the queue until somebody looks: nobody is to be told when that is empty, or
    /// has room again.
    pub(super) fn may_withdraw(&self) -> bool {
        self.state == RunState::Running
            && self.on_cancel == OnCancel::Remove
            && self.sizes.capacity.is_none()
            && self.sizes.core > 0
            && !self.sizes.core_times_out
    }

    /// How many that were withdrawn have not left the queue.
    pub(super) fn left_over(&self) -> usize {
        self.withdrawn.len() + self.gone.len()
    }

    /// Takes out what was withdrawn, or as much of it as can be done at once.
    pub(super) fn take_out_some(&mut self) {
        if !self.gone.is_empty() {
            self.take_out_gone();
        }
        if !self.withdrawn.is_empty() {
            // Nothing of a user's is dropped here: see invariant 6 of the inbox.
            let seen = self.queue.cancel_each(&self.withdrawn, drop);
            self.withdrawn.drain(..seen);
        }
    }

    /// How many are gone, but not yet in the queue.
    pub(super) fn gone_on_the_way(&self) -> usize {
        self.gone.iter().filter(|gone| gone.key() == TaskKey::NONE).count()
    }

    /// The slots of what was withdrawn are wanted soon.
    pub(super) fn fetch_withdrawn(&self) {
        let keys = self.withdrawn.iter().copied().chain(self.gone.iter().map(Gone::key));
        keys.for_each(|key| fetch::for_writing(self.queue.place_of(key)));
    }

    fn take_out_gone(&mut self) {
        let may_withdraw = self.may_withdraw();
        let Self { gone, gone_keys, queue, left, .. } = self;
        // Those that are on their way to the queue are left; they come first.
        let mut on_the_way = 0;
        for at in 0..gone.len() {
            if gone[at].key() == TaskKey::NONE {
                gone.swap(on_the_way, at);
                on_the_way += 1;
            }
        }
        // The last first, so that each can be taken off the end.
        gone_keys.clear();
        gone_keys.extend(gone[on_the_way..].iter().rev().map(Gone::key));
        let seen = queue.cancel_each(gone_keys, |task| {
            // A worker has taken those out that do not come.
            while let Some(gone) = gone.pop() {
                if gone.is(&task) {
                    let Some(tether) = gone.settle(task) else { return };
                    let left = &mut left[tether.lane()];
                    if may_withdraw && left.len() < KEYS {
                        left.push(tether);
                    }
                    return;
                }
            }
        });
        gone.truncate(on_the_way + gone_keys.len() - seen);
    }

    /// Takes out all that was withdrawn. For whoever holds the inbox and has emptied it.
    pub(super) fn take_out(&mut self) {
        // What has no key now is not on its way here: nobody need wait for it.
        self.gone.retain(|gone| gone.key() != TaskKey::NONE);
        while self.left_over() > 0 {
            self.take_out_some();
        }
    }
}
