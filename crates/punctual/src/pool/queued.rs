//! A task in a slot of the queue.

use punctual_engine::{Tenant, Tick};

use crate::task::{TaskId, TaskRef, Turn};

/// A task that has its place in the order written down in its header, so that its slot need not have it, too. Nobody changes it
/// while the task is queued: see `task/cell/header.rs`.
pub(crate) struct Queued(TaskRef);

impl Tenant<TaskRef> for Queued {
    #[inline]
    fn new(deadline: Tick, number: u64, task: TaskRef) -> Self {
        task.header().set_place(Turn { deadline, id: TaskId(number) });
        Self(task)
    }

    #[inline]
    fn deadline(&self) -> Tick {
        self.0.header().place().deadline
    }

    #[inline]
    fn number(&self) -> u64 {
        self.0.header().place().id.number()
    }

    #[inline]
    fn value(&self) -> &TaskRef {
        &self.0
    }

    #[inline]
    fn into_value(self) -> TaskRef {
        self.0
    }

    #[inline]
    fn fetch(&self) {
        self.0.fetch();
    }
}
