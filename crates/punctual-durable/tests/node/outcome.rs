//! Waiting for jobs to be over.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use punctual_durable::{
    Done, JobContext, JobError, JobId, JobState, Jobs, JobsBuilder, KindOptions, MemoryStore, NewJob, News,
    Outcome, Store,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, gated, mail, parked};
use crate::delegate::delegate;

fn various(mail: Mail, _: &JobContext) -> Result<Outcome, JobError> {
    match mail.to.as_str() {
        "dead" => Err(JobError::permanent("no")),
        "discarded" => Ok(Outcome::Discard("moot".to_owned())),
        _ => Ok(Done),
    }
}

#[test]
fn every_end_of_a_job_ends_the_wait_for_it() {
    let bench = Bench::new();
    // No other node runs jobs, and looks are hours apart: what is told is told by the node itself.
    let jobs = bench.jobs().poll_interval(100 * HOUR).handle("mail", various).start().unwrap();
    for (to, state) in
        [("done", JobState::Done), ("dead", JobState::Dead), ("discarded", JobState::Discarded)]
    {
        let id = jobs.enqueue(mail(to)).send().unwrap().id();
        let record = jobs.outcome(id).join().unwrap();
        assert_eq!((record.id, record.state), (id, state));
        assert_eq!(jobs.outcome(id).join().unwrap(), record, "it was over already");
    }
    let id = jobs.enqueue(mail("later")).after(HOUR).send().unwrap().id();
    let wait = jobs.outcome(id);
    jobs.cancel(id).unwrap();
    assert_eq!(wait.join().unwrap().state, JobState::Cancelled);
    let error = jobs.outcome(JobId::from_i64(4_711)).join().unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("4711"), "{error}");
    bench.end(jobs);
}

#[test]
fn jobs_that_others_run_are_found_over_by_looking() {
    let bench = Bench::new();
    let client = bench.jobs().declare::<Mail>("mail", KindOptions::new()).start().unwrap();
    let id = client.enqueue(mail("a")).after(10 * SECOND).send().unwrap().id();
    let (sender, answers) = channel();
    let outcomes: Vec<_> = (0..3).map(|_| client.outcome(id)).collect();
    let threads: Vec<_> = (outcomes.into_iter())
        .map(|outcome| {
            let sender = sender.clone();
            std::thread::spawn(move || sender.send(outcome.join().unwrap().state).unwrap())
        })
        .collect();
    let node = bench.jobs().handle("mail", various).start().unwrap();
    bench.clock.advance(HOUR);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(answers.try_iter().collect::<Vec<_>>(), [JobState::Done; 3]);
    drop(node);
    bench.end(client);
}

#[test]
fn a_wait_may_be_bounded_and_taken_up_again() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", various).start().unwrap();
    let id = jobs.enqueue(mail("a")).after(HOUR).send().unwrap().id();
    let outcome = jobs.outcome(id);
    assert_eq!(outcome.join_timeout(Duration::ZERO).unwrap(), None);
    bench.clock.wait_until_idle();
    let before = parked(&bench.clock);
    let clock = bench.clock.clone();
    let (back, answer) = channel();
    let waiting = std::thread::spawn(move || {
        back.send(outcome.join_timeout(60 * SECOND).unwrap()).unwrap();
        back.send(outcome.join_timeout(2 * HOUR).unwrap()).unwrap();
    });
    while parked(&clock) <= before {
        std::thread::yield_now();
    }
    clock.advance(60 * SECOND);
    assert_eq!(answer.recv().unwrap(), None);
    while parked(&clock) <= before {
        std::thread::yield_now();
    }
    clock.advance(HOUR);
    assert_eq!(answer.recv().unwrap().unwrap().state, JobState::Done);
    waiting.join().unwrap();
    bench.end(jobs);
}

struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_outcome_can_be_awaited_and_wakes_its_task_once() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", various).start().unwrap();
    let id = jobs.enqueue(mail("a")).after(SECOND).send().unwrap().id();
    let count = Arc::new(Count(AtomicU32::new(0)));
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut outcome = pin!(jobs.outcome(id));
    assert!(outcome.as_mut().poll(&mut context).is_pending());
    bench.clock.advance(SECOND);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    let Poll::Ready(Ok(record)) = outcome.as_mut().poll(&mut context) else { panic!("it is over") };
    assert_eq!(record.state, JobState::Done);
    assert!(matches!(outcome.as_mut().poll(&mut context), Poll::Ready(Err(error)) if error.is_closed()));
    bench.end(jobs);
}

#[test]
fn a_handler_may_wait_for_another_job() {
    let bench = Bench::new();
    let handler = |mail: Mail, cx: &JobContext| {
        if mail.to == "first" {
            let id = cx.client().enqueue(self::mail("second")).after(HOUR).send()?.id();
            assert_eq!(cx.client().outcome(id).join()?.state, JobState::Done);
        }
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("first")).send().unwrap().id();
    bench.clock.advance(HOUR);
    assert_eq!(bench.state(id), JobState::Done);
    bench.end(jobs);
}

#[test]
fn a_shutdown_ends_every_wait_and_the_client_can_wait_again() {
    let bench = Bench::new();
    let (handler, gate) = gated();
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    let (client, later) = (jobs.client(), jobs.enqueue(mail("b")).after(HOUR).send().unwrap().id());
    let waits = [client.outcome(id), client.outcome(later), client.outcome(later)];
    assert_eq!(jobs.shutdown(Duration::ZERO).unwrap(), 1, "the handler heeds nothing");
    for wait in waits {
        let error = wait.join().unwrap_err();
        assert!(error.is_closed() && error.to_string().contains("shut down"), "{error}");
    }
    let again = client.outcome(id);
    gate.go_on.send(()).unwrap();
    assert_eq!(again.join().unwrap().state, JobState::Done, "it is recorded all the same");
    bench.store.verify();
}

#[test]
fn many_waits_that_nobody_wants_any_more_are_forgotten() {
    let bench = Bench::new();
    let client = bench.jobs().declare::<Mail>("mail", KindOptions::new()).start().unwrap();
    let ids: Vec<JobId> = (0..1_000)
        .map(|_| bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap()[0].id())
        .collect();
    let (kept, dropped) = ids.split_at(500);
    let outcomes: Vec<_> = kept.iter().map(|id| client.outcome(*id)).collect();
    dropped.iter().for_each(|id| drop(client.outcome(*id)));
    let node = bench.jobs().handle("mail", various).start().unwrap();
    // Two hundred in each look, of those that are wanted.
    bench.clock.advance(10 * 60 * SECOND);
    for outcome in outcomes {
        assert_eq!(outcome.join_timeout(Duration::ZERO).unwrap().unwrap().state, JobState::Done);
    }
    drop(node);
    bench.end(client);
}

type Hear = Arc<dyn Fn(&News) -> bool + Send + Sync>;

/// What is told goes to everybody else, as between processes.
#[derive(Default)]
struct Village {
    ears: Mutex<Vec<(usize, Hear)>>,
    told: Mutex<Vec<News>>,
}

/// One of several on the same jobs.
struct Neighbour {
    store: Arc<MemoryStore>,
    village: Arc<Village>,
    number: usize,
}

impl std::fmt::Debug for Neighbour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Neighbour {}", self.number)
    }
}

impl Store for Neighbour {
    delegate! { now enqueue cancel reschedule retry purge trim set_queue save_schedule set_schedule schedules due_schedules fire job find failures log queues lines upcoming tallies errors check identity import leave renew peek exchange rescue }

    fn on_news(&self, hear: Hear) {
        self.village.ears.lock().unwrap().push((self.number, hear));
    }

    fn tell_news(&self, news: News) {
        self.village.told.lock().unwrap().push(news.clone());
        let ears = self.village.ears.lock().unwrap().clone();
        for (_, hear) in ears.iter().filter(|(number, _)| *number != self.number) {
            assert!(hear(&news));
        }
    }
}

impl Village {
    /// One who hardly ever looks.
    fn neighbour(self: &Arc<Self>, bench: &Bench, number: usize) -> JobsBuilder {
        let (store, village) = (bench.store.clone(), Arc::clone(self));
        let jobs = Jobs::on(Arc::new(Neighbour { store, village, number })).clock(bench.clock.clone());
        jobs.poll_interval(100 * HOUR).lease(1_000 * HOUR)
    }
}

#[test]
fn who_waits_is_told_by_those_who_end_the_job_without_looking() {
    let (bench, village) = (Bench::new(), Arc::new(Village::default()));
    let (handler, gate) = gated();
    let node = village.neighbour(&bench, 1).handle("mail", handler).start().unwrap();
    let client = village.neighbour(&bench, 2).declare::<Mail>("mail", KindOptions::new()).start().unwrap();
    for _ in 0..2 {
        let id = node.enqueue(mail("a")).send().unwrap().id();
        gate.begun.recv().unwrap();
        let outcome = client.outcome(id);
        while !village.told.lock().unwrap().contains(&News::Waiting(vec![id])) {
            std::thread::yield_now();
        }
        gate.go_on.send(()).unwrap();
        assert_eq!(outcome.join().unwrap().state, JobState::Done);
        assert!(village.told.lock().unwrap().contains(&News::Over(vec![id])));
    }
    // Somebody else takes it back.
    let id = node.enqueue(mail("a")).after(HOUR).send().unwrap().id();
    let outcome = client.outcome(id);
    while !village.told.lock().unwrap().contains(&News::Waiting(vec![id])) {
        std::thread::yield_now();
    }
    node.cancel(id).unwrap();
    assert_eq!(outcome.join().unwrap().state, JobState::Cancelled);
    drop(client);
    bench.end(node);
}

#[test]
fn jobs_that_nobody_waits_for_elsewhere_are_not_spoken_of() {
    let (bench, village) = (Bench::new(), Arc::new(Village::default()));
    let node = village.neighbour(&bench, 1).handle("mail", various).start().unwrap();
    let client = village.neighbour(&bench, 2).declare::<Mail>("mail", KindOptions::new()).start().unwrap();
    let ids: Vec<JobId> = (0..50).map(|_| node.enqueue(mail("a")).send().unwrap().id()).collect();
    bench.clock.wait_until_idle();
    assert_eq!(*village.told.lock().unwrap(), []);
    // What is over already is seen at once: nobody need be asked.
    assert_eq!(client.outcome(ids[0]).join().unwrap().state, JobState::Done);
    assert_eq!(*village.told.lock().unwrap(), []);
    drop(client);
    bench.end(node);
}
