//! What a node does with jobs, on a manual clock: no test here waits for real time.

#[cfg(feature = "sqlite")]
mod folder;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Clock, ManualClock};
use punctual_durable::{
    Backoff, Cancelling, Client, Done, Enqueued, Error, Exchange, Failure, Filter, Firing, JobContext,
    JobError, JobId, JobRecord, JobState, Jobs, JobsBuilder, KindOptions, MemoryStore, Moved, NewJob,
    NewSchedule, NodeId, OnConflict, Outcome, Peek, Peeked, QueueChange, QueueRecord, Renewal, Rescued,
    Result, Saved, ScheduleChange, ScheduleRecord, Stop, Store, Ticket, TimeSource, Timestamp,
};
use serde::{Deserialize, Serialize};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Mail {
    to: String,
}

fn mail(to: &str) -> Mail {
    Mail { to: to.to_owned() }
}

/// A clock, a store on it, and a node to be.
struct Bench {
    clock: ManualClock,
    store: Arc<MemoryStore>,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { clock: clock.clone(), store: Arc::new(MemoryStore::with_time(clock)) }
    }

    fn jobs(&self) -> JobsBuilder {
        self.on(self.store.clone())
    }

    fn on(&self, store: Arc<dyn Store>) -> JobsBuilder {
        // Renewals and looks are rare, so that hours pass quickly.
        Jobs::on(store)
            .clock(self.clock.clone())
            .poll_interval(60 * SECOND)
            .lease(600 * SECOND)
            .concurrency(2)
    }

    fn state(&self, id: JobId) -> JobState {
        self.store.job(id).unwrap().expect("it is known").state
    }

    /// Everything is in order, and nothing is left running.
    fn end(self, jobs: Jobs) {
        assert_eq!(jobs.shutdown(Duration::ZERO).unwrap(), 0);
        self.store.verify();
    }
}

/// To whom, and when.
type Calls = Receiver<(String, Duration)>;

/// A handler that tells when it was called and with what.
fn recorder(clock: &ManualClock) -> (impl Fn(Mail, &JobContext) -> Result<Outcome, JobError> + use<>, Calls) {
    let (sender, receiver) = channel();
    let clock = clock.clone();
    let start = clock.now();
    let handler = move |mail: Mail, _: &JobContext| {
        sender.send((mail.to, clock.now().since(start)))?;
        Ok(Done)
    };
    (handler, receiver)
}

/// A body that says that it has begun, and goes on when told.
struct Gate {
    begun: Receiver<()>,
    go_on: Sender<()>,
}

fn gated() -> (impl Fn(Mail, &JobContext) -> Result<Outcome, JobError>, Gate) {
    let (begin, begun) = channel();
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let handler = move |_: Mail, _: &JobContext| {
        begin.send(())?;
        wait.lock().unwrap().recv()?;
        Ok(Done)
    };
    (handler, Gate { begun, go_on })
}

/// How many threads wait on the clock.
fn parked(clock: &ManualClock) -> u32 {
    let text = format!("{clock:?}");
    let (_, count) = text.split_once("parked: ").unwrap();
    count.trim_end_matches(" }").parse().unwrap()
}

#[test]
fn jobs_start_at_their_very_instant_and_in_order() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    for hours in [3, 1, 2] {
        jobs.enqueue(mail(&hours.to_string())).after(hours * HOUR).send().unwrap();
    }
    let now = jobs.enqueue(mail("now")).send().unwrap().id();
    bench.clock.advance(10 * HOUR);
    let calls: Vec<_> = calls.try_iter().collect();
    let expected = [("now", 0), ("1", 1), ("2", 2), ("3", 3)];
    assert_eq!(calls, expected.map(|(to, hours)| (to.to_owned(), hours * HOUR)));
    assert_eq!(bench.state(now), JobState::Done);
    bench.end(jobs);
}

#[test]
fn jobs_enqueued_by_others_are_found_in_time() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    // Not through `jobs`: as another process does it.
    let new = |to: &str, after| {
        NewJob::new("mail", format!("{{\"to\":\"{to}\"}}")).due(punctual_durable::Due::After(after))
    };
    bench.store.enqueue(vec![new("late", 90 * SECOND), new("next look", SECOND)]).unwrap();
    bench.clock.advance(HOUR);
    let calls: Vec<_> = calls.try_iter().collect();
    let expected = [("next look", 60), ("late", 90)];
    assert_eq!(calls, expected.map(|(to, seconds)| (to.to_owned(), seconds * SECOND)));
    bench.end(jobs);
}

#[test]
fn a_failed_job_is_tried_again_after_its_backoff_until_it_is_dead() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let clock = bench.clock.clone();
    let options =
        KindOptions::new().max_attempts(4).backoff(Backoff::exponential(SECOND, HOUR).without_jitter());
    let handler = move |_: Mail, cx: &JobContext| -> Result<Outcome, JobError> {
        sender.send((cx.attempt(), clock.now().as_nanos() / 1_000_000_000))?;
        match cx.attempt() {
            1 => panic!("out of paper"),
            2 => Err(JobError::from("busy").retry_after(10 * SECOND)),
            _ => Err("no".into()),
        }
    };
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(1, 0), (2, 1), (3, 11), (4, 15)]);
    assert_eq!(bench.state(id), JobState::Dead);
    let said: Vec<String> = jobs.failures(id).unwrap().into_iter().map(|failure| failure.message).collect();
    assert_eq!(said, ["panicked: out of paper", "busy", "no", "no"]);

    assert!(matches!(jobs.retry(id).unwrap(), Moved::Waiting(_)));
    bench.clock.wait_until_idle();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(1, 3_600)], "a new life, at once");
    bench.end(jobs);
}

#[test]
fn discarded_snoozed_and_hopeless_jobs_go_where_they_should() {
    let bench = Bench::new();
    let handler = |mail: Mail, cx: &JobContext| match mail.to.as_str() {
        "discard" => Ok(Outcome::Discard("moved away".to_owned())),
        "snooze" if cx.record().version < 4 => Ok(Outcome::Snooze(HOUR)),
        "snooze" if cx.attempt() == 1 => Ok(Done),
        _ => Err(JobError::permanent("no such person")),
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let [discard, snooze, hopeless] =
        ["discard", "snooze", "hopeless"].map(|to| jobs.enqueue(mail(to)).send().unwrap().id());
    let foul = bench.store.enqueue(vec![NewJob::new("mail", "{\"from\": 1}")]).unwrap()[0].id();
    bench.clock.advance(2 * HOUR);
    assert_eq!(
        [discard, snooze, hopeless, foul].map(|id| bench.state(id)),
        [JobState::Discarded, JobState::Done, JobState::Dead, JobState::Dead]
    );
    let note = bench.store.job(foul).unwrap().unwrap().note.unwrap();
    assert!(note.contains("cannot be read") && note.contains("missing field `to`"), "{note}");
    bench.end(jobs);
}

#[test]
fn a_waiting_job_that_is_cancelled_never_runs() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).after(SECOND).send().unwrap().id();
    let moved = jobs.enqueue(mail("b")).after(SECOND).send().unwrap().id();
    bench.clock.wait_until_idle();
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Cancelled);
    jobs.reschedule(moved, punctual_durable::Due::After(HOUR)).unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("b".to_owned(), HOUR)]);
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Over(JobState::Cancelled));
    bench.end(jobs);
}

#[test]
fn a_running_job_is_told_that_it_was_cancelled() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        begin.send(())?;
        let stopped = cx.sleep(HOUR).unwrap_err();
        assert_eq!((stopped, cx.stopped()), (Stop::Cancelled, Some(Stop::Cancelled)));
        Err(stopped.into())
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    assert_eq!(jobs.cancel(id).unwrap(), Cancelling::Requested);
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(id), JobState::Cancelled);
    assert_eq!(jobs.failures(id).unwrap(), [], "it did as it was told");
    bench.end(jobs);
}

#[test]
fn a_cancel_by_another_process_arrives_with_the_next_renewal() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        begin.send(())?;
        cx.sleep(100 * HOUR)?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    bench.store.cancel(vec![id]).unwrap();
    bench.clock.advance(200 * SECOND);
    assert_eq!(bench.state(id), JobState::Cancelled);
    bench.end(jobs);
}

#[test]
fn a_job_that_takes_too_long_is_asked_to_stop_and_tried_again() {
    let bench = Bench::new();
    let options = KindOptions::new().timeout(SECOND).backoff(Backoff::fixed(SECOND)).max_attempts(2);
    let handler = |mail: Mail, cx: &JobContext| {
        cx.sleep(if mail.to == "slow" { 2 * SECOND } else { SECOND / 2 })?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle_with("mail", options, handler).start().unwrap();
    let slow = jobs.enqueue(mail("slow")).send().unwrap().id();
    let quick = jobs.enqueue(mail("quick")).send().unwrap().id();
    bench.clock.advance(10 * SECOND);
    assert_eq!((bench.state(slow), bench.state(quick)), (JobState::Dead, JobState::Done));
    let said: Vec<_> = jobs.failures(slow).unwrap().into_iter().map(|f| (f.attempt, f.message)).collect();
    let too_long = "the job took longer than its timeout".to_owned();
    assert_eq!(said, [(1, too_long.clone()), (2, too_long)]);
    bench.end(jobs);
}

#[test]
fn no_more_handlers_run_at_once_than_there_are_threads_nor_than_a_queue_allows() {
    let bench = Bench::new();
    let (running, peak, narrow_peak) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let narrow = Arc::new(AtomicU32::new(0));
    let counters = (running.clone(), peak.clone(), narrow.clone(), narrow_peak.clone());
    let handler = move |_: Mail, cx: &JobContext| {
        let (running, peak, narrow, narrow_peak) = &counters;
        let is_narrow = cx.record().queue == "narrow";
        peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if is_narrow {
            narrow_peak.fetch_max(narrow.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        }
        cx.sleep(SECOND)?;
        narrow.fetch_sub(u32::from(is_narrow), Ordering::SeqCst);
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(4).handle("mail", handler).start().unwrap();
    jobs.limit("narrow", Some(1)).unwrap();
    for _ in 0..12 {
        jobs.enqueue(mail("a")).send().unwrap();
    }
    for _ in 0..6 {
        jobs.enqueue(mail("b")).queue("narrow").send().unwrap();
    }
    // Twelve on four threads take three seconds; the narrow queue, due after them, takes six more, one by one, and
    // is never left waiting.
    bench.clock.advance(9 * SECOND);
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done)).unwrap().len(), 18);
    assert_eq!((peak.load(Ordering::SeqCst), narrow_peak.load(Ordering::SeqCst)), (4, 1));
    bench.end(jobs);
}

#[test]
fn a_paused_queue_waits_and_starts_again_when_it_is_resumed() {
    let bench = Bench::new();
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    jobs.pause("default", "maintenance").unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    jobs.enqueue(mail("b")).queue("other").send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("b".to_owned(), Duration::ZERO)]);
    jobs.resume("default").unwrap();
    bench.clock.wait_until_idle();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("a".to_owned(), HOUR)], "at once");
    bench.end(jobs);
}

#[test]
fn a_burst_is_worked_off_by_lane_without_starving_any() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(cx.record().lane)?;
        Ok(Done)
    };
    // Enqueued before the node starts: it finds all of them overdue.
    for lane in punctual_durable::Lane::ALL {
        bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}").lane(lane); 150]).unwrap();
    }
    let jobs = bench.jobs().concurrency(15).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let calls: Vec<_> = calls.try_iter().collect();
    assert_eq!(calls.len(), 600);
    let first: Vec<_> = calls[..60].to_vec();
    for lane in punctual_durable::Lane::ALL {
        assert!(first.contains(&lane), "{lane} has not moved: {first:?}");
    }
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done).limit(1_000)).unwrap().len(), 600);
    bench.end(jobs);
}

#[test]
fn what_was_claimed_ahead_does_not_hold_up_what_is_more_urgent() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        sender.send(mail.to.clone())?;
        if mail.to == "slow" {
            cx.sleep(10 * SECOND)?;
        }
        Ok(Done)
    };
    let jobs = bench.jobs().concurrency(1).poll_interval(SECOND).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let names = std::iter::repeat_n("quick", 20).chain(std::iter::repeat_n("slow", 20));
    jobs.enqueue_many(names.map(mail)).unwrap();
    bench.clock.advance(5 * SECOND);
    assert_eq!(calls.try_iter().count(), 21, "the first of the slow ones runs");
    let held = jobs.find(&Filter::new().state(JobState::Claimed)).unwrap();
    assert_eq!(held.len(), 1, "the others that were claimed ahead have been given back");
    let waiting = jobs.find(&Filter::new().state(JobState::Scheduled)).unwrap();
    assert!(waiting.iter().all(|job| job.attempt == 0), "and have lost no attempt");
    jobs.enqueue(mail("urgent")).lane(punctual_durable::Lane::Urgent).send().unwrap();
    bench.clock.advance(10 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["urgent", "slow"]);
    bench.clock.advance(HOUR);
    assert_eq!(jobs.find(&Filter::new().state(JobState::Done)).unwrap().len(), 41);
    bench.end(jobs);
}

#[test]
fn a_shutdown_gives_back_what_has_not_begun_and_waits_for_what_has() {
    let bench = Bench::new();
    let (handler, gate) = gated();
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let claimed = jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap().id();
    let later = jobs.enqueue(mail("b")).after(HOUR).send().unwrap().id();
    // Claimed a few milliseconds before it is due.
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(bench.state(claimed), JobState::Claimed);
    let runs = jobs.enqueue(mail("c")).send().unwrap().id();
    gate.begun.recv().unwrap();
    let stopping = std::thread::spawn(move || jobs.shutdown(HOUR).unwrap());
    // The clock stands still, so the patience never ends, and the claimed job never comes due.
    gate.go_on.send(()).unwrap();
    assert_eq!(stopping.join().unwrap(), 0);
    assert_eq!(bench.state(runs), JobState::Done);
    for id in [claimed, later] {
        let record = bench.store.job(id).unwrap().unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Scheduled, 0, 0));
    }
    bench.store.verify();
}

#[test]
fn a_node_that_cannot_renew_asks_for_nothing_once_its_lease_is_over() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.refuse_renewals();
    bench.clock.advance(599 * SECOND);
    assert_eq!(flaky.claims(), 1, "the first sweep");
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(SECOND / 2);
    assert_eq!((calls.try_iter().count(), flaky.claims()), (1, 2), "it is still valid");
    bench.clock.advance(SECOND);
    jobs.enqueue(mail("b")).send().unwrap();
    bench.clock.advance(60 * SECOND);
    assert_eq!((calls.try_iter().count(), flaky.claims()), (0, 2));
    bench.end(jobs);
}

#[test]
fn a_shutdown_asks_what_runs_to_stop_and_does_not_charge_the_attempt() {
    let bench = Bench::new();
    let (begin, begun) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        begin.send(())?;
        cx.sleep(100 * HOUR)?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    begun.recv().unwrap();
    bench.clock.wait_until_idle();
    let (client, parked) = (jobs.client(), parked(&bench.clock));
    let stopping = std::thread::spawn(move || jobs.shutdown(HOUR).unwrap());
    // The shutdown waits for an hour on the clock, as soon as it is parked there, too.
    while self::parked(&bench.clock) <= parked {
        std::thread::yield_now();
    }
    bench.clock.jump(HOUR);
    assert_eq!(stopping.join().unwrap(), 0);
    let record = client.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.note), (JobState::Scheduled, 0, None));
    assert!(client.enqueue_as("mail", mail("b")).send().is_ok(), "the client goes on");
}

#[test]
fn the_jobs_of_a_node_that_went_silent_are_run_by_another() {
    let bench = Bench::new();
    // A node that claims and is never heard of again.
    let ghost = NodeId::random();
    bench.store.renew(ghost, 300 * SECOND).unwrap();
    let id = bench.store.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap()[0].id();
    let kinds: Arc<[String]> = Arc::new(["mail".to_owned()]);
    let held = bench.store.exchange(ghost, Exchange::new(kinds).sweep(1)).unwrap().claimed;
    assert_eq!(held.len(), 1);
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    bench.clock.advance(299 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "its lease protects it");
    bench.clock.advance(301 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    let record = bench.store.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.crashes, record.attempt), (JobState::Done, 1, 1));
    bench.end(jobs);
}

#[test]
fn nothing_starts_on_a_node_whose_lease_has_lapsed() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    let id = jobs.enqueue(mail("a")).after(700 * SECOND).send().unwrap().id();
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    bench.clock.advance(699 * SECOND);
    assert_eq!(calls.try_iter().count(), 0);
    // Claimable again in the store, but the lease was lost at 600 seconds and only a renewal brings it back.
    flaky.fail_with(None);
    bench.clock.advance(2 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("a".to_owned(), 700 * SECOND)], "renewed in time");
    assert_eq!(bench.state(id), JobState::Done);
    bench.end(jobs);
}

#[test]
fn outcomes_are_kept_while_the_store_is_down_and_recorded_when_it_is_back() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, gate) = gated();
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    gate.go_on.send(()).unwrap();
    bench.clock.advance(10 * SECOND);
    assert_eq!(bench.state(id), JobState::Claimed);
    flaky.fail_with(None);
    bench.clock.advance(2 * SECOND);
    assert_eq!(bench.state(id), JobState::Done);
    bench.end(jobs);
}

#[test]
fn an_exchange_whose_answer_was_lost_loses_no_job() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.lose_next_answer();
    let ids: Vec<JobId> =
        jobs.enqueue_many([mail("a"), mail("b")]).unwrap().into_iter().map(Enqueued::id).collect();
    bench.clock.advance(SECOND);
    assert_eq!(calls.try_iter().count(), 2);
    for id in ids {
        let record = bench.store.job(id).unwrap().unwrap();
        assert_eq!((record.state, record.attempt, record.crashes), (JobState::Done, 1, 0));
    }
    bench.end(jobs);
}

#[test]
fn one_report_that_can_never_be_recorded_does_not_hold_up_the_others() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let handler = move |mail: Mail, _: &JobContext| {
        if mail.to == "poison" && count.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err("poison".into());
        }
        Ok(Done)
    };
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    flaky.refuse_reports_with("poison");
    let names = ["a", "b", "poison", "c", "d"];
    let ids: Vec<_> = jobs.enqueue_many(names.map(mail)).unwrap().into_iter().map(Enqueued::id).collect();
    bench.clock.advance(60 * SECOND);
    for id in ids {
        assert_eq!(bench.state(id), JobState::Done, "given up once, then run again");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    bench.end(jobs);
}

#[test]
fn a_store_that_panics_is_tried_again() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    flaky.fail_with(Some(|| panic!("a bug in the store")));
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    bench.clock.wait_until_idle();
    flaky.fail_with(None);
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(2 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    bench.end(jobs);
}

#[test]
fn observers_hear_of_everything_and_may_panic() {
    let bench = Bench::new();
    let (sender, events) = channel();
    let observer = move |event: &punctual_durable::Event<'_>| {
        sender.send(event.to_string()).unwrap();
        panic!("an observer that cannot bear it");
    };
    let options = KindOptions::new().max_attempts(1);
    let handler = |_: Mail, _: &JobContext| Err(JobError::from("no"));
    let jobs = bench.jobs().observe(observer).handle_with("mail", options, handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.wait_until_idle();
    let events: Vec<String> = events.try_iter().collect();
    assert_eq!(events, ["claiming jobs".to_owned(), format!("mail job {id} failed and is dead: no")]);
    bench.end(jobs);
}

#[test]
fn a_handler_can_enqueue_what_follows() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |mail: Mail, cx: &JobContext| {
        sender.send(mail.to.clone())?;
        if mail.to.len() < 4 {
            cx.client().enqueue(Mail { to: mail.to + "!" }).after(SECOND).send()?;
        }
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("a")).send().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["a", "a!", "a!!", "a!!!"]);
    bench.end(jobs);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let bench = Bench::new();
    let handler = |_: Mail, _: &JobContext| Ok(Done);
    let refused = |builder: JobsBuilder| builder.start().unwrap_err().to_string();
    assert!(
        refused(bench.jobs().handle("mail", handler).handle("mail", handler))
            .contains("\"mail\" is given twice")
    );
    assert!(refused(bench.jobs().handle("", handler)).contains("the kind is empty"));
    assert!(refused(bench.jobs().concurrency(0).handle("mail", handler)).contains("concurrency of 0"));
    assert!(refused(bench.jobs().lease(Duration::ZERO).handle("mail", handler)).contains("a lease of 0ns"));
    let never = KindOptions::new().max_attempts(0);
    assert!(refused(bench.jobs().handle_with("mail", never, handler)).contains("max_attempts 0"));
    for url in ["jobs.db", "mysql:x", "memory:x", ""] {
        assert!(Jobs::open(url).unwrap_err().is_invalid(), "{url:?}");
    }

    let jobs = bench.jobs().handle("mail", handler).handle("letter", handler).start().unwrap();
    assert!(jobs.enqueue(mail("a")).send().unwrap_err().to_string().contains("enqueue_as"));
    assert!(jobs.enqueue(7_u32).send().unwrap_err().to_string().contains("u32"));
    assert!(jobs.enqueue_as("mail", BTreeMap::from([([1], 2)])).send().unwrap_err().is_invalid(), "no JSON");
    let keyed = |policy| jobs.enqueue_as("other", mail("a")).unique_or("k", policy).send();
    let id = keyed(OnConflict::Reject).unwrap().id();
    assert_eq!(keyed(OnConflict::Keep).unwrap(), Enqueued::Existing(id));
    assert!(keyed(OnConflict::Reject).unwrap_err().is_conflict());
    bench.end(jobs);
}

#[test]
fn a_process_without_handlers_enqueues_and_runs_nothing() {
    let bench = Bench::new();
    let options = KindOptions::new().queue("post");
    let jobs = bench.jobs().declare::<Mail>("mail", options).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    bench.clock.advance(HOUR);
    let record = jobs.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.queue.as_str(), jobs.node_id()), (JobState::Scheduled, "post", None));
    bench.end(jobs);
}

#[test]
fn a_handler_that_outlives_its_node_is_still_recorded_and_runs_nowhere_else() {
    let bench = Bench::new();
    let flaky = Arc::new(Flaky::new(bench.store.clone()));
    let renewed = flaky.tell_renewals();
    let (handler, gate) = gated();
    let jobs = bench.on(flaky).concurrency(1).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).send().unwrap().id();
    gate.begun.recv().unwrap();
    drop(jobs);
    let heir = NodeId::random();
    bench.store.renew(heir, 10 * HOUR).unwrap();
    // Its lease is renewed as long as it runs. (`jump`, because the handler waits for the test itself.)
    for _ in 0..20 {
        renewed.try_iter().count();
        bench.clock.jump(200 * SECOND);
        renewed.recv().unwrap();
        assert_eq!(bench.store.rescue(heir, 9).unwrap(), []);
    }
    gate.go_on.send(()).unwrap();
    bench.clock.wait_until_idle();
    assert_eq!(bench.state(id), JobState::Done);
    bench.store.verify();
}

#[cfg(feature = "sqlite")]
#[test]
fn a_standby_takes_over_when_the_file_is_free() {
    let folder = folder::Folder::new();
    let clock = ManualClock::new();
    let open = || {
        let store = punctual_durable::SqliteStore::open_with_time(folder.file("jobs.db"), clock.clone());
        Jobs::on(Arc::new(store.unwrap())).clock(clock.clone()).poll_interval(SECOND).lease(60 * SECOND)
    };
    let (first_handler, first_calls) = recorder(&clock);
    let (second_handler, second_calls) = recorder(&clock);
    let first = open().handle("mail", first_handler).start().unwrap();
    clock.wait_until_idle();
    let second = open().handle("mail", second_handler).start().unwrap();
    second.enqueue(mail("a")).after(10 * SECOND).send().unwrap();
    second.enqueue(mail("b")).after(20 * SECOND).send().unwrap();
    clock.advance(15 * SECOND);
    assert_eq!((first_calls.try_iter().count(), second_calls.try_iter().count()), (1, 0));
    first.shutdown(Duration::ZERO).unwrap();
    clock.advance(5 * SECOND);
    assert_eq!(second_calls.try_iter().collect::<Vec<_>>(), [("b".to_owned(), 20 * SECOND)], "on time");
    second.shutdown(Duration::ZERO).unwrap();
}

#[test]
fn a_schedule_keeps_its_grid_however_long_its_jobs_take() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let clock = bench.clock.clone();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(clock.now().as_nanos() / 1_000_000_000)?;
        cx.sleep(if cx.series().unwrap().0 == "slow" { 15 * SECOND } else { SECOND })?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let ten = || jobs.schedule("quick").every(10 * SECOND).job(mail("a"));
    assert_eq!(ten().save().unwrap(), Saved::Created);
    assert_eq!(ten().save().unwrap(), Saved::Unchanged);
    bench.clock.advance(45 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [10, 20, 30, 40]);
    jobs.remove_schedule("quick").unwrap();

    // One waits while another runs: at 55 the first, at 65 one is owed, which begins when the first is over.
    jobs.schedule("slow").every(10 * SECOND).job(mail("a")).save().unwrap();
    bench.clock.advance(60 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [55, 70, 85, 100]);
    bench.clock.jump(HOUR);
    jobs.remove_schedule("slow").unwrap();
    bench.clock.wait_until_idle();
    bench.end(jobs);
}

#[test]
fn a_fixed_delay_begins_when_the_last_is_over() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let clock = bench.clock.clone();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(clock.now().as_nanos() / 1_000_000_000)?;
        cx.sleep(3 * SECOND)?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    jobs.schedule("sweep").with_delay(10 * SECOND).job(mail("a")).save().unwrap();
    bench.clock.advance(50 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [10, 23, 36, 49]);
    assert!(jobs.trigger("sweep").unwrap());
    bench.clock.wait_until_idle();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [50]);
    assert!(
        jobs.schedule("sweep").job(mail("a")).save().unwrap_err().to_string().contains("does not say when")
    );
    assert!(
        jobs.schedule("sweep").every(SECOND).save().unwrap_err().to_string().contains("does not say what")
    );
    bench.clock.advance(10 * SECOND);
    bench.end(jobs);
}

#[test]
fn a_cron_schedule_runs_by_the_wall_in_its_zone() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(cx.series().unwrap().1.to_string())?;
        Ok(Done)
    };
    let jobs = bench.jobs().poll_interval(HOUR).handle("mail", handler).start().unwrap();
    // The clock of the test starts with the year 2000, in the winter of Berlin.
    jobs.schedule("office").cron("0 9 * * MON-FRI", "Europe/Berlin").unwrap().job(mail("a")).save().unwrap();
    bench.clock.advance(4 * 24 * HOUR);
    let expected = ["2000-01-03T08:00:00.000000Z", "2000-01-04T08:00:00.000000Z"];
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), expected);
    assert!(jobs.schedule("office").cron("61 * * * *", "UTC").unwrap_err().is_invalid());
    bench.end(jobs);
}

#[test]
fn a_claimed_job_is_given_back_if_the_lease_lapses_before_it_starts() {
    let bench = Bench::new();
    let wall = Wall(bench.clock.clone(), Arc::new(AtomicI64::new(0)));
    let store = Arc::new(MemoryStore::with_time(wall.clone()));
    let flaky = Arc::new(Flaky::new(store.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(flaky.clone()).handle("mail", handler).start().unwrap();
    let id = jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap().id();
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(store.job(id).unwrap().unwrap().state, JobState::Claimed);
    // The clock is set back, so that it waits; the store goes away, so that the lease of 600 seconds lapses.
    wall.1.store(-1_000_000_000, Ordering::SeqCst);
    flaky.fail_with(Some(|| Error::transient("unplugged")));
    bench.clock.advance(700 * SECOND);
    wall.1.store(0, Ordering::SeqCst);
    bench.clock.advance(5 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "due, but somebody else may hold it by now");
    flaky.fail_with(None);
    bench.clock.advance(5 * SECOND);
    assert_eq!(calls.try_iter().count(), 1);
    let record = store.job(id).unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.crashes), (JobState::Done, 1, 0));
    jobs.shutdown(Duration::ZERO).unwrap();
}

#[test]
fn two_nodes_share_a_schedule_and_no_occurrence_happens_twice() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let start = |sender: Sender<Timestamp>| {
        let handler = move |_: Mail, cx: &JobContext| {
            sender.send(cx.series().unwrap().1)?;
            Ok(Done)
        };
        bench.jobs().handle("mail", handler).start().unwrap()
    };
    let nodes = [start(sender.clone()), start(sender)];
    nodes[0].schedule("tick").every(SECOND).job(mail("a")).save().unwrap();
    bench.clock.advance(300 * SECOND);
    let mut nominal: Vec<Timestamp> = calls.try_iter().collect();
    let count = nominal.len();
    nominal.sort_unstable();
    nominal.dedup();
    assert_eq!((nominal.len(), count), (300, 300));
    for node in nodes {
        node.shutdown(Duration::ZERO).unwrap();
    }
    bench.store.verify();
}

#[test]
fn jobs_that_are_over_are_forgotten_in_time_and_the_dead_are_not() {
    let bench = Bench::new();
    let handler = |mail: Mail, _: &JobContext| match mail.to.as_str() {
        "dead" => Err(JobError::permanent("no")),
        _ => Ok(Done),
    };
    let jobs = bench.jobs().retain(HOUR).handle("mail", handler).start().unwrap();
    let dead = jobs.enqueue(mail("dead")).send().unwrap().id();
    jobs.enqueue_many(vec![mail("a"); 2_500]).unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(jobs.find(&Filter::new().limit(9_999)).unwrap().len(), 2_501, "not a moment early");
    bench.clock.advance(HOUR / 2);
    let left = jobs.find(&Filter::new().limit(9_999)).unwrap();
    assert_eq!((left.len(), left[0].id), (1, dead));
    bench.end(jobs);
}

#[cfg(all(feature = "sqlite", unix))]
#[test]
fn what_another_process_enqueues_is_heard_at_once() {
    let folder = folder::Folder::new();
    let (sender, calls) = channel();
    // A bell that was left by somebody who was killed.
    drop(std::os::unix::net::UnixDatagram::bind(folder.file("jobs.db-bell")).unwrap());
    // On the machine's clock, with a look every hour: without the bell this test would not end.
    let jobs = Jobs::open(&format!("sqlite:{}", folder.file("jobs.db").display()))
        .unwrap()
        .poll_interval(HOUR)
        .observe(move |event| sender.send(event.to_string()).unwrap())
        .handle("mail", |_: Mail, _: &JobContext| Ok(Done))
        .start()
        .unwrap();
    assert_eq!(calls.recv().unwrap(), "claiming jobs");
    let other = punctual_durable::SqliteStore::open(folder.file("jobs.db")).unwrap();
    for _ in 0..3 {
        let id = other.enqueue(vec![NewJob::new("mail", "{\"to\":\"x\"}")]).unwrap()[0].id();
        assert_eq!(calls.recv().unwrap(), format!("mail job {id} is done"));
    }
    jobs.shutdown(HOUR).unwrap();
    assert!(!folder.file("jobs.db-bell").exists(), "it is taken down");
}

#[test]
fn a_clock_that_is_set_back_starts_nothing_early_and_set_forward_again_nothing_late() {
    let bench = Bench::new();
    let wall = Wall(bench.clock.clone(), Arc::new(AtomicI64::new(0)));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_time(wall.clone()));
    let (handler, calls) = recorder(&bench.clock);
    let jobs = bench.on(store.clone()).handle("mail", handler).start().unwrap();
    jobs.enqueue(mail("a")).after(10 * SECOND).send().unwrap();
    // Claimed a few milliseconds before it is due; then the clock is set back.
    bench.clock.advance(Duration::from_millis(9_998));
    assert_eq!(store.find(&Filter::new().state(JobState::Claimed)).unwrap().len(), 1);
    wall.1.store(-100_000_000, Ordering::SeqCst);
    bench.clock.advance(20 * SECOND);
    assert_eq!(calls.try_iter().count(), 0, "not due by the store's clock");
    wall.1.store(0, Ordering::SeqCst);
    bench.clock.advance(SECOND);
    assert_eq!(calls.try_iter().count(), 1, "noticed within a second");
    jobs.shutdown(Duration::ZERO).unwrap();
}

/// A time of day that can be set.
#[derive(Clone, Debug)]
struct Wall(ManualClock, Arc<AtomicI64>);

impl TimeSource for Wall {
    fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(self.0.timestamp().as_micros() + self.1.load(Ordering::SeqCst))
    }
}

/// A store that fails when told.
#[derive(Debug)]
struct Flaky {
    store: Arc<MemoryStore>,
    mood: Mutex<Mood>,
}

#[derive(Debug, Default)]
struct Mood {
    fail: Option<fn() -> Error>,
    lose_answer: bool,
    refuse: Option<&'static str>,
    renewals: Option<Sender<()>>,
    no_renewals: bool,
    /// Exchanges that asked for jobs.
    claims: u32,
}

impl Flaky {
    fn new(store: Arc<MemoryStore>) -> Self {
        Self { store, mood: Mutex::default() }
    }

    fn fail_with(&self, fail: Option<fn() -> Error>) {
        self.mood.lock().unwrap().fail = fail;
    }

    fn lose_next_answer(&self) {
        self.mood.lock().unwrap().lose_answer = true;
    }

    fn refuse_renewals(&self) {
        self.mood.lock().unwrap().no_renewals = true;
    }

    fn claims(&self) -> u32 {
        self.mood.lock().unwrap().claims
    }

    fn tell_renewals(&self) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.mood.lock().unwrap().renewals = Some(sender);
        receiver
    }

    fn refuse_reports_with(&self, text: &'static str) {
        self.mood.lock().unwrap().refuse = Some(text);
    }

    fn check(&self) -> Result<()> {
        let fail = self.mood.lock().unwrap().fail;
        fail.map_or(Ok(()), |fail| Err(fail()))
    }
}

impl Store for Flaky {
    fn now(&self) -> Timestamp {
        self.store.now()
    }
    fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        self.store.enqueue(jobs)
    }
    fn cancel(&self, ids: Vec<JobId>) -> Result<Vec<Cancelling>> {
        self.store.cancel(ids)
    }
    fn reschedule(&self, id: JobId, due: punctual_durable::Due) -> Result<Moved> {
        self.store.reschedule(id, due)
    }
    fn retry(&self, id: JobId, due: punctual_durable::Due) -> Result<Moved> {
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
        self.store.fire(firings)
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
    fn log(&self, id: JobId) -> Result<punctual_durable::JobLog> {
        self.store.log(id)
    }
    fn lines(&self) -> Result<Vec<punctual_durable::LineRecord>> {
        self.store.lines()
    }
    fn upcoming(
        &self,
        from: Timestamp,
        width: Duration,
        steps: usize,
        most: usize,
    ) -> Result<punctual_durable::Density> {
        self.store.upcoming(from, width, steps, most)
    }
    fn tallies(&self, from: Timestamp, until: Timestamp) -> Result<Vec<punctual_durable::RunTally>> {
        self.store.tallies(from, until)
    }
    fn errors(&self, since: Timestamp) -> Result<Vec<punctual_durable::ErrorTally>> {
        self.store.errors(since)
    }
    fn check(&self) -> Result<Vec<punctual_durable::Finding>> {
        self.store.check()
    }
    fn identity(&self) -> Result<punctual_durable::StoreId> {
        self.store.identity()
    }
    fn import(&self, cargo: punctual_durable::Cargo) -> Result<punctual_durable::Imported> {
        self.store.import(cargo)
    }
    fn queues(&self) -> Result<Vec<QueueRecord>> {
        self.store.queues()
    }
    fn renew(&self, node: NodeId, lease: Duration) -> Result<Renewal> {
        self.check()?;
        if self.mood.lock().unwrap().no_renewals {
            return Err(Error::transient("not now"));
        }
        let renewal = self.store.renew(node, lease);
        if let Some(renewals) = &self.mood.lock().unwrap().renewals {
            let _ = renewals.send(());
        }
        renewal
    }
    fn leave(&self, node: NodeId) -> Result<()> {
        self.store.leave(node)
    }
    fn peek(&self, peek: &Peek) -> Result<Peeked> {
        self.check()?;
        self.store.peek(peek)
    }
    fn exchange(&self, node: NodeId, exchange: Exchange) -> Result<punctual_durable::Exchanged> {
        self.check()?;
        if exchange.sweep > 0 || !exchange.claims.is_empty() {
            self.mood.lock().unwrap().claims += 1;
        }
        let refused = self.mood.lock().unwrap().refuse;
        if refused
            .is_some_and(|text| exchange.reports.iter().any(|report| format!("{report:?}").contains(text)))
        {
            return Err(Error::broken("there is something in this batch"));
        }
        let answer = self.store.exchange(node, exchange);
        if std::mem::take(&mut self.mood.lock().unwrap().lose_answer) {
            return Err(Error::transient("the line went dead"));
        }
        answer
    }
    fn rescue(&self, node: NodeId, most: usize) -> Result<Vec<Rescued>> {
        self.check()?;
        self.store.rescue(node, most)
    }
}

/// Clients do not keep a node alive.
#[test]
fn a_client_outlives_its_node() {
    let bench = Bench::new();
    let client: Client = {
        let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
        jobs.client()
    };
    let id = client.enqueue(mail("a")).send().unwrap().id();
    assert_eq!(bench.state(id), JobState::Scheduled);
}
