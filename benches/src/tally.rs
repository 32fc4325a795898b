//! Which tasks have run, and how many, at next to no cost for the body.
//!
//! A body marks its own byte and adds to a counter of its thread. A single counter would be shared by all workers,
//! and half of what is measured with two of them would be the counter.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::{Trouble, clock, failed};

const STRIPES: usize = 64;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

#[derive(Debug)]
pub(crate) struct Tally {
    marks: Vec<AtomicU8>,
    stripes: [Stripe; STRIPES],
}

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

fn mine() -> usize {
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % STRIPES);
        }
        mine.get()
    })
}

impl Tally {
    /// For `tasks` tasks; never freed, so that bodies capture a plain reference.
    pub(crate) fn leaked(tasks: usize) -> &'static Self {
        let marks = (0..tasks).map(|_| AtomicU8::new(0)).collect();
        Box::leak(Box::new(Self { marks, stripes: std::array::from_fn(|_| Stripe::default()) }))
    }

    #[inline]
    pub(crate) fn mark(&self, task: usize) {
        self.marks[task].fetch_add(1, Relaxed);
        self.stripes[mine()].0.fetch_add(1, Relaxed);
    }

    pub(crate) fn count(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.0.load(Relaxed) as usize).sum()
    }

    pub(crate) fn runs(&self, task: usize) -> u8 {
        self.marks[task].load(Relaxed)
    }

    /// Waits until every task has run, then checks that each did exactly once.
    pub(crate) fn wait(&self, patience: Duration) -> Result<(), Trouble> {
        clock::eventually(patience, || self.count() >= self.marks.len());
        self.check()
    }

    fn check(&self) -> Result<(), Trouble> {
        let tasks = self.marks.len();
        let lost = (0..tasks).filter(|task| self.runs(*task) == 0).count();
        let again = (0..tasks).filter(|task| self.runs(*task) > 1).count();
        match lost + again {
            0 => Ok(()),
            _ => failed(format!("of {tasks} tasks {lost} did not run and {again} ran more than once")),
        }
    }
}
