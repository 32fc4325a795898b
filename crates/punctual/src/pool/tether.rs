//! What keeps a pool there for those who have a handle to one of its tasks.
//!
//! Every schedule makes a handle, and every handle that is dropped goes: two read-modify-writes of a count. If that were the
//! pool's own, all threads that submit would meet there. So there are several counts, one for each
//! [lane](super::inbox), each on lines of its own and good for one reference to the pool: a thread takes the one of its
//! lane. It is given back wherever the handle is dropped; its address is in the task (`task/cell/grip.rs`).
//!
//! A handle that goes by its mark (`task/cell/apart.rs`) and has cancelled its task leaves its count to whoever takes that out of the queue. From
//! there it comes back to its lane, for the next handle: so where tasks are scheduled and cancelled all the time, nobody counts.
//! The pool has those counts meanwhile, and would keep itself there; when it is shut down it gives them up ([`inbox`](super::inbox),
//! invariant 8).
//!
//! Counts are given up under the pool's locks, too, and nothing of a user's goes with them: they are never the last. Whoever has
//! such a lock has the pool by another count, that of an executor, of a worker, or of a handle that is in use; and an executor
//! shuts the pool down before it lets go.
//!
//! # Paths not taken
//! *Counts left with tasks that are yet to run,* by handles that have gone, and handed on by the worker that has run them: two
//! read-modify-writes less for each, and some fifty instructions more. Tasks within 100 ms 4.09 to 3.88 million a second, at once 11.6
//! to 10.7.
//!
//! They are held by whoever may submit (`scheduler/mod.rs`), not by the pool, which would keep itself there.

use std::array;
use std::ops::Deref;
use std::sync::Arc;

use super::Pool;
use super::inbox::{LANES, lane_of_this_thread};

/// A reference to a pool that many share.
#[repr(align(128))]
pub(crate) struct Tether {
    pool: Arc<Pool>,
    /// Whose it is.
    lane: usize,
}

/// The tethers of a pool, one for each lane.
pub(crate) struct Tethers([Arc<Tether>; LANES]);

impl Tether {
    fn new(pool: Arc<Pool>, lane: usize) -> Arc<Self> {
        let tether = Arc::new(Self { pool, lane });
        // For `task/cell/apart.rs`.
        let _ = Arc::as_ptr(&tether).expose_provenance();
        tether
    }

    #[inline]
    pub(super) fn lane(&self) -> usize {
        self.lane
    }
}

impl Deref for Tether {
    type Target = Arc<Pool>;

    #[inline]
    fn deref(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl Tethers {
    pub(crate) fn new(pool: &Arc<Pool>) -> Self {
        Self(array::from_fn(|lane| Tether::new(Arc::clone(pool), lane)))
    }

    /// The one that is there.
    #[cold]
    pub(crate) fn find(&self, address: usize) -> Option<&Arc<Tether>> {
        self.0.iter().find(|tether| Arc::as_ptr(tether).addr() == address)
    }

    /// The one for this thread.
    #[inline]
    pub(crate) fn mine(&self) -> &Arc<Tether> {
        &self.0[lane_of_this_thread() % LANES]
    }
}
