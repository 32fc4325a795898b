//! All of an executor but its settings.
//!
//! One type in four files: what it is (here), [`submit`] (how tasks come in), [`stop`] (how it ends) and [`view`]
//! (what can be seen). Many tasks at once are in `invoke.rs`.

mod stop;
mod submit;
mod view;

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use crate::policy::OnDrop;
use crate::pool::{Pool, Tether, Tethers};

pub use view::QueuedTask;

/// The part of an [`Executor`](crate::Executor) that runs tasks; what an executor derefs to.
///
/// Hand it to code that is to schedule work but not to change the pool. Clones share one pool, and the pool's
/// [`OnDrop`] policy acts when the last of them, and of its executors, is dropped.
///
/// There is no way back from it to the settings:
///
/// ```compile_fail,E0599
/// punctual::Executor::single().set_core_threads(2);
/// ```
///
/// ```compile_fail,E0277
/// punctual::Executor::from(punctual::Executor::single());
/// ```
///
/// # Coming from Java
/// `ScheduledExecutorService`, and what `Executors.unconfigurableScheduledExecutorService` returns.
#[derive(Clone)]
pub struct Scheduler {
    pub(crate) owner: Arc<Owner>,
}

/// Held by every executor and scheduler of a pool, and by nobody else. On lines of its own: every submission reads it, and
/// would wait for whoever writes beside it.
#[repr(align(128))]
pub(crate) struct Owner {
    pub(crate) pool: Arc<Pool>,
    /// For handles.
    tethers: Tethers,
    pub(crate) on_drop: OnDrop,
}

impl Scheduler {
    pub(crate) fn new(pool: Arc<Pool>, on_drop: OnDrop) -> Self {
        let tethers = Tethers::new(&pool);
        Self { owner: Arc::new(Owner { pool, tethers, on_drop }) }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.owner.pool
    }

    /// What a handle holds of the pool.
    #[inline]
    pub(crate) fn tether(&self) -> &Arc<Tether> {
        self.tethers().mine()
    }

    #[inline]
    pub(crate) fn tethers(&self) -> &Tethers {
        &self.owner.tethers
    }

    /// The clock that this executor lives by.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.pool().clock)
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheduler").field(&self.stats()).finish()
    }
}

impl fmt::Display for Scheduler {
    /// `running, pool size = 2, active = 1, queued = 3, completed = 7`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}
