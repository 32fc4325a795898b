//! Points at which a process takes its own life, and a store that has them in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use punctual_durable::{
    Cancelling, Cargo, Density, Due, Enqueued, ErrorTally, Exchange, Exchanged, Failure, Filter, Finding,
    Firing, Imported, JobId, JobLog, JobRecord, LineRecord, Moved, NewJob, NewSchedule, News, NodeId, Peek,
    Peeked, QueueChange, QueueRecord, Renewal, Rescued, Result, RunTally, Saved, ScheduleChange,
    ScheduleRecord, Store, StoreId, Ticket, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Where a process takes its own life. *Before* a call of the store nothing of it has happened; *after* it everything
/// has, and nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Point {
    BeforeRenew,
    AfterRenew,
    BeforeRescue,
    AfterRescue,
    BeforeLook,
    AfterLook,
    BeforeFire,
    AfterFire,
    /// Verdicts in, claims out.
    BeforeExchange,
    AfterExchange,
    /// The handler has been called, and has done nothing.
    BeforeEffect,
    /// The effect has happened, and is not recorded.
    AfterEffect,
    /// A job that follows from another.
    BeforeEnqueue,
    AfterEnqueue,
}

pub(crate) const POINTS: [Point; 14] = [
    Point::BeforeRenew,
    Point::AfterRenew,
    Point::BeforeRescue,
    Point::AfterRescue,
    Point::BeforeLook,
    Point::AfterLook,
    Point::BeforeFire,
    Point::AfterFire,
    Point::BeforeExchange,
    Point::AfterExchange,
    Point::BeforeEffect,
    Point::AfterEffect,
    Point::BeforeEnqueue,
    Point::AfterEnqueue,
];

/// Aborts the process the `nth` time it comes by.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    point: Option<Point>,
    left: AtomicU32,
}

impl Fuse {
    pub(crate) fn new(point: Option<(Point, u32)>) -> Self {
        let (point, nth) = point.unzip();
        Self { point, left: AtomicU32::new(nth.unwrap_or(0)) }
    }

    pub(crate) fn pass(&self, point: Point) {
        if self.point == Some(point) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // No destructor runs, nothing is flushed: as good as SIGKILL.
            std::process::abort();
        }
    }

    fn around<T>(&self, before: Point, after: Point, call: impl FnOnce() -> T) -> T {
        self.pass(before);
        let answer = call();
        self.pass(after);
        answer
    }
}

/// A store with fuses in it.
#[derive(Debug)]
pub(crate) struct Fused {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fuse: Arc<Fuse>,
}

impl Store for Fused {
    fn on_news(&self, hear: Arc<dyn Fn(&News) -> bool + Send + Sync>) {
        self.store.on_news(hear);
    }
    fn tell_news(&self, news: News) {
        self.store.tell_news(news);
    }
    fn now(&self) -> Timestamp {
        self.store.now()
    }
    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        self.fuse.around(Point::BeforeEnqueue, Point::AfterEnqueue, || self.store.enqueue(jobs))
    }
    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        self.store.cancel(ids)
    }
    fn reschedule(&self, id: JobId, due: Due) -> Result<Moved> {
        self.store.reschedule(id, due)
    }
    fn retry(&self, id: JobId, due: Due) -> Result<Moved> {
        self.store.retry(id, due)
    }
    fn purge(&self, ids: Vec<JobId>) -> Result<usize> {
        self.store.purge(ids)
    }
    fn trim(&self, before: Timestamp, most: usize) -> Result<usize> {
        self.store.trim(before, most)
    }
    fn set_queue(&self, queue: &str, change: QueueChange) -> Result<()> {
        self.store.set_queue(queue, change)
    }
    fn save_schedule(&self, schedule: NewSchedule) -> Result<Saved> {
        self.store.save_schedule(schedule)
    }
    fn set_schedule(&self, name: &str, change: ScheduleChange) -> Result<bool> {
        self.store.set_schedule(name, change)
    }
    fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        self.store.schedules()
    }
    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>> {
        self.store.due_schedules(kinds, until)
    }
    fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Ticket>> {
        self.fuse.around(Point::BeforeFire, Point::AfterFire, || self.store.fire(firings))
    }
    fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.store.job(id)
    }
    fn find(&self, filter: &Filter) -> Result<Vec<JobRecord>> {
        self.store.find(filter)
    }
    fn failures(&self, id: JobId) -> Result<Vec<Failure>> {
        self.store.failures(id)
    }
    fn log(&self, id: JobId) -> Result<JobLog> {
        self.store.log(id)
    }
    fn lines(&self) -> Result<Vec<LineRecord>> {
        self.store.lines()
    }
    fn upcoming(&self, from: Timestamp, width: Duration, steps: usize, most: usize) -> Result<Density> {
        self.store.upcoming(from, width, steps, most)
    }
    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<RunTally>> {
        self.store.tallies(from, until)
    }
    fn errors(&self, since: Timestamp) -> Result<Vec<ErrorTally>> {
        self.store.errors(since)
    }
    fn check(&self) -> Result<Vec<Finding>> {
        self.store.check()
    }
    fn identity(&self) -> Result<StoreId> {
        self.store.identity()
    }
    fn import(&self, cargo: Cargo) -> Result<Imported> {
        self.store.import(cargo)
    }
    fn queues(&self) -> Result<Vec<QueueRecord>> {
        self.store.queues()
    }
    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        self.fuse.around(Point::BeforeRenew, Point::AfterRenew, || self.store.renew(node, lease))
    }
    fn leave(&self, node: NodeId) -> Result<()> {
        self.store.leave(node)
    }
    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        self.fuse.around(Point::BeforeLook, Point::AfterLook, || self.store.peek(peek))
    }
    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<Exchanged> {
        self.fuse.around(Point::BeforeExchange, Point::AfterExchange, || self.store.exchange(node, exchange))
    }
    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        self.fuse.around(Point::BeforeRescue, Point::AfterRescue, || self.store.rescue(node, most))
    }
}
