//! Stores that do something of their own in some methods, and leave the others to the store behind them.

/// Methods of [`Store`](punctual_durable::Store) that ask `self.store`: all that are named, or all but a few.
macro_rules! delegate {
    ($($method:ident)*) => { $(delegate!(@ $method);)* };
    (@ now) => {
        fn now(&self) -> punctual_durable::Timestamp {
            self.store.now()
        }
    };
    (@ on_news) => {
        fn on_news(&self, hear: std::sync::Arc<dyn Fn(&punctual_durable::News) -> bool + Send + Sync>) {
            self.store.on_news(hear);
        }
    };
    (@ tell_news) => {
        fn tell_news(&self, news: punctual_durable::News) {
            self.store.tell_news(news);
        }
    };
    (@ enqueue) => { delegate!(@@ enqueue(jobs: Vec<punctual_durable::NewJob>) -> Vec<punctual_durable::Enqueued>); };
    (@ cancel) => { delegate!(@@ cancel(ids: Vec<punctual_durable::JobId>) -> Vec<punctual_durable::Cancelling>); };
    (@ reschedule) => {
        delegate!(@@ reschedule(id: punctual_durable::JobId, due: punctual_durable::Due) -> punctual_durable::Moved);
    };
    (@ retry) => {
        delegate!(@@ retry(id: punctual_durable::JobId, due: punctual_durable::Due) -> punctual_durable::Moved);
    };
    (@ purge) => { delegate!(@@ purge(ids: Vec<punctual_durable::JobId>) -> usize); };
    (@ trim) => { delegate!(@@ trim(before: punctual_durable::Timestamp, most: usize) -> usize); };
    (@ set_queue) => { delegate!(@@ set_queue(queue: &str, change: punctual_durable::QueueChange) -> ()); };
    (@ save_schedule) => {
        delegate!(@@ save_schedule(schedule: punctual_durable::NewSchedule) -> punctual_durable::Saved);
    };
    (@ set_schedule) => {
        delegate!(@@ set_schedule(name: &str, change: punctual_durable::ScheduleChange) -> bool);
    };
    (@ schedules) => { delegate!(@@ schedules() -> Vec<punctual_durable::ScheduleRecord>); };
    (@ due_schedules) => {
        delegate!(@@ due_schedules(kinds: &[String], until: punctual_durable::Timestamp)
            -> Vec<punctual_durable::ScheduleRecord>);
    };
    (@ fire) => { delegate!(@@ fire(firings: Vec<punctual_durable::Firing>) -> Vec<punctual_durable::Ticket>); };
    (@ job) => { delegate!(@@ job(id: punctual_durable::JobId) -> Option<punctual_durable::JobRecord>); };
    (@ find) => { delegate!(@@ find(filter: &punctual_durable::Filter) -> Vec<punctual_durable::JobRecord>); };
    (@ failures) => { delegate!(@@ failures(id: punctual_durable::JobId) -> Vec<punctual_durable::Failure>); };
    (@ log) => { delegate!(@@ log(id: punctual_durable::JobId) -> punctual_durable::JobLog); };
    (@ queues) => { delegate!(@@ queues() -> Vec<punctual_durable::QueueRecord>); };
    (@ lines) => { delegate!(@@ lines() -> Vec<punctual_durable::LineRecord>); };
    (@ upcoming) => {
        delegate!(@@ upcoming(
            from: punctual_durable::Timestamp,
            width: std::time::Duration,
            steps: usize,
            most: usize
        ) -> punctual_durable::Density);
    };
    (@ tallies) => {
        delegate!(@@ tallies(from: punctual_durable::Timestamp, until: punctual_durable::Timestamp)
            -> Vec<punctual_durable::RunTally>);
    };
    (@ errors) => {
        delegate!(@@ errors(since: punctual_durable::Timestamp) -> Vec<punctual_durable::ErrorTally>);
    };
    (@ check) => { delegate!(@@ check() -> Vec<punctual_durable::Finding>); };
    (@ identity) => { delegate!(@@ identity() -> punctual_durable::StoreId); };
    (@ import) => { delegate!(@@ import(cargo: punctual_durable::Cargo) -> punctual_durable::Imported); };
    (@ renew) => {
        delegate!(@@ renew(node: punctual_durable::NodeId, lease: std::time::Duration) -> punctual_durable::Renewal);
    };
    (@ leave) => { delegate!(@@ leave(node: punctual_durable::NodeId) -> ()); };
    (@ peek) => { delegate!(@@ peek(peek: &punctual_durable::Peek) -> punctual_durable::Peeked); };
    (@ exchange) => {
        delegate!(@@ exchange(node: punctual_durable::NodeId, exchange: punctual_durable::Exchange)
            -> punctual_durable::Exchanged);
    };
    (@ rescue) => {
        delegate!(@@ rescue(node: punctual_durable::NodeId, most: usize) -> Vec<punctual_durable::Rescued>);
    };
    (@@ $method:ident($($name:ident: $type:ty),* $(,)?) -> $answer:ty) => {
        fn $method(&self, $($name: $type),*) -> punctual_durable::Result<$answer> {
            self.store.$method($($name),*)
        }
    };
}

pub(crate) use delegate;
