//! What a body holds of its series.

use std::ops::Deref;
use std::sync::Arc;

use super::Series;
use crate::unwind::Guest;

/// A series in the hands of the body of its task.
///
/// When the body is dropped, because the task is over or was refused, there are no more runs. What watched over one that
/// was under way goes then, and so do the calendar and the function that say when the next is due: they may have
/// captured as much as the body has, and handles keep the series.
pub(crate) struct Hold(Arc<Series>);

impl Hold {
    pub(crate) fn new(series: Arc<Series>) -> Self {
        Self(series)
    }
}

impl Deref for Hold {
    type Target = Arc<Series>;

    fn deref(&self) -> &Arc<Series> {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.abandon_run();
        // Of two destructors that panic at once one is heard.
        let _calendar = Guest::new(self.0.rules.plan.put_away());
        let _next_by = Guest::new(self.0.state.lock().next_by.take());
    }
}
