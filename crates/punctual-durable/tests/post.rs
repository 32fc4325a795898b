//! Jobs that are posted: receipts, batches, and what goes wrong.

mod delegate;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use punctual::ManualClock;
use punctual_durable::{
    Done, Enqueued, Error, Filter, JobContext, Jobs, KindOptions, MemoryStore, NewJob, OnConflict, Receipt,
    Result, Store,
};

use crate::delegate::delegate;

fn jobs(clock: &ManualClock) -> (Jobs, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::with_time(clock.clone()));
    let builder = Jobs::on(store.clone()).clock(clock.clone());
    (builder.declare::<u32>("number", KindOptions::new()).start().unwrap(), store)
}

#[test]
fn every_receipt_resolves_with_the_answer_for_its_own_job() {
    let (jobs, store) = jobs(&ManualClock::new());
    let receipts: Vec<Receipt> = (0..500_u32).map(|n| jobs.enqueue(n).post()).collect();
    for (n, receipt) in receipts.into_iter().enumerate() {
        let Enqueued::New(ticket) = receipt.join().unwrap() else { panic!("it is new") };
        assert_eq!(store.job(ticket.id).unwrap().unwrap().payload, Some(n.to_string()));
    }
}

#[test]
fn nobody_suffers_for_the_job_of_another() {
    let (jobs, store) = jobs(&ManualClock::new());
    store.enqueue(vec![NewJob::new("number", "0").unique("taken", OnConflict::Keep)]).unwrap();
    let post = |n: u32| {
        let job = jobs.enqueue(n);
        match n % 3 {
            0 => job.unique_or("taken", OnConflict::Reject).post(),
            1 => job.queue("").post(),
            _ => job.post(),
        }
    };
    let receipts: Vec<Receipt> = (0..99).map(post).collect();
    for (n, receipt) in receipts.into_iter().enumerate() {
        match (n % 3, receipt.join()) {
            (0, Err(error)) => assert!(error.is_conflict(), "{error}"),
            (1, Err(error)) => assert!(error.is_invalid(), "{error}"),
            (2, Ok(_)) => {}
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 34);
    assert!(jobs.enqueue("no kind has texts").post().join().unwrap_err().is_invalid());
}

/// Keeps what it is given, says how much that is, and answers what it is told, or, if nobody tells it any more, the truth.
#[derive(Debug)]
struct Unsure {
    store: Arc<MemoryStore>,
    given: Sender<usize>,
    answers: Mutex<Receiver<Option<Error>>>,
}

impl Store for Unsure {
    delegate! { now on_news tell_news cancel reschedule retry purge trim set_queue save_schedule set_schedule schedules due_schedules fire job find failures log queues lines upcoming tallies errors check identity import leave renew peek exchange rescue }

    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        self.given.send(jobs.len()).unwrap();
        let answer = self.store.enqueue(jobs);
        match self.answers.lock().unwrap().recv().ok().flatten() {
            Some(error) => Err(error),
            None => answer,
        }
    }
}

/// Which errors say that nothing was kept? Those that find fault with a job. All others may come after the commit: the
/// connection broke, the answer made no sense, the store panicked.
#[test]
fn a_batch_that_may_have_been_kept_is_not_sent_again() {
    for error in [Error::transient("the line went dead"), Error::broken("gibberish"), Error::closed("over")] {
        let store = Arc::new(MemoryStore::with_time(ManualClock::new()));
        let (given, batches) = channel();
        let (answer, answers) = channel();
        let unsure = Arc::new(Unsure { store: store.clone(), given, answers: Mutex::new(answers) });
        let jobs = Jobs::on(unsure).declare::<u32>("number", KindOptions::new()).start().unwrap();
        let first = jobs.enqueue(0_u32).post();
        assert_eq!(batches.recv().unwrap(), 1);
        // While that one is on its way, these become one batch.
        let receipts = [1_u32, 2].map(|n| jobs.enqueue(n).post());
        answer.send(None).unwrap();
        first.join().unwrap();
        assert_eq!(batches.recv().unwrap(), 2);
        let told = error.to_string();
        answer.send(Some(error)).unwrap();
        drop(answer);
        for receipt in receipts {
            assert_eq!(receipt.join().unwrap_err().to_string(), told);
        }
        assert_eq!(store.find(&Filter::new()).unwrap().len(), 3);
    }
}

struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_receipt_can_be_awaited_and_wakes_whoever_asked_last() {
    let clock = ManualClock::new();
    let (jobs, _) = jobs(&clock);
    let wakers = [(); 2].map(|()| Arc::new(Count(AtomicU32::new(0))));
    let mut receipt = pin!(jobs.enqueue(7_u32).post());
    for count in &wakers {
        let waker = Waker::from(count.clone());
        let _ = receipt.as_mut().poll(&mut Context::from_waker(&waker));
    }
    clock.wait_until_idle();
    let waker = Waker::from(wakers[1].clone());
    let answer = receipt.as_mut().poll(&mut Context::from_waker(&waker));
    // Unless it was answered before it was asked, and taken then.
    match answer {
        Poll::Ready(Ok(Enqueued::New(_))) => assert!(wakers[1].0.load(Ordering::SeqCst) <= 1),
        Poll::Ready(Err(error)) => assert!(error.is_closed(), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn posted_jobs_are_run_and_a_handler_may_post() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::with_time(clock.clone()));
    let handler = |n: u32, cx: &JobContext| {
        if n > 0 {
            cx.client().enqueue(n - 1).post().join()?;
        }
        Ok(Done)
    };
    let jobs = Jobs::on(store.clone()).clock(clock.clone()).handle("number", handler).start().unwrap();
    jobs.enqueue(20_u32).post().join().unwrap();
    clock.wait_until_idle();
    assert_eq!(store.find(&Filter::new().state(punctual_durable::JobState::Done)).unwrap().len(), 21);
}

#[test]
fn jobs_posted_before_the_end_are_kept_after_it() {
    let (jobs, store) = jobs(&ManualClock::new());
    let receipts: Vec<Receipt> = (0..50_u32).map(|n| jobs.enqueue(n).post()).collect();
    drop(jobs);
    for receipt in receipts {
        receipt.join().unwrap();
    }
    assert_eq!(store.find(&Filter::new()).unwrap().len(), 50);
}
