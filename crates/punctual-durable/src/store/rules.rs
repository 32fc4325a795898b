//! What becomes of a job when its attempt ends: the rules of every store, as pure functions.
//!
//! A store finds the row, checks the guard, asks here, and writes what it is told. So all stores agree.
//!
//! # Crashes
//! A job may take its process down, and would do so for ever: a *poison pill*. When a node dies, nobody knows which of the
//! jobs that it held was one, or whether any was; which of them had begun is not known either, for that would be a write
//! more for every job. So the loss is charged to all of them, and the third in a row is the end of a job, unless its limit
//! is another. Those that were merely near must not come to that:
//! 1. An attempt that ends, however it ends, clears the account: the job can be run without a crash.
//! 2. After the first loss a job is run again at once, with all others: most nodes die of something else.
//! 3. One that has been lost twice, or would not survive the next loss, is a [suspect](is_suspect). If a node dies that
//!    held several suspects, none of them is charged ([`lost_together`]).
//! 4. A node begins one suspect at a time, when the store knows that it holds no other, and gives others back
//!    (`node/custody.rs`).
//!
//! So *a pill kills nobody else,* where limits are the default: its first two crashes leave the others with two charges at
//! most; those that have two are suspects; and when it crashes for the third time it is a suspect itself, so that by 3 no
//! other suspect is charged with that. And *a pill dies,* by 4: sooner or later it crashes as the only suspect of its node.
//! What is not promised: if several pills come one after the other, the first or second crash of a later one may be the
//! third loss of an innocent job.
//!
//! # Paths not taken
//! *Suspects from the first loss on:* whoever kills a node would have its jobs run one by one, be they long. *Suspects alone
//! on their node:* a long one would stop everything else there. *At most one suspect in a claim, by the store:* a condition
//! more in the statement that matters most, for what almost never happens.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Error;
use crate::job::{JobId, JobRecord, JobState, NewJob, NodeId, OnLost};
use crate::retry::Backoff;
use crate::time::Timestamp;

/// How an attempt ended, as its node sees it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The handler was successful.
    Done,
    /// There is nothing to do any more.
    Discard {
        /// Why.
        reason: String,
    },
    /// It failed, and may be tried again, unless this was the last attempt.
    Retry {
        /// How long to wait.
        after: Duration,
        /// What went wrong.
        error: String,
    },
    /// It failed, and trying again makes no sense.
    Fail {
        /// What went wrong.
        error: String,
    },
    /// It asked to be run later; this attempt does not count.
    Snooze {
        /// How long to wait.
        after: Duration,
    },
    /// The node gives it back without having run it to its end; this attempt does not count.
    Release,
    /// The node gives it back without having begun it, and nobody is to have it for a while; this attempt does not count.
    Defer {
        /// How long to wait.
        after: Duration,
    },
    /// It stopped because it was asked to.
    Cancelled,
}

/// What a store is to do with a claimed job.
#[derive(Clone, PartialEq, Debug)]
pub struct Next {
    /// Where it goes.
    pub state: JobState,
    /// When it is due, if it goes back to wait.
    pub due: Timestamp,
    /// Attempts that count.
    pub attempt: u32,
    /// Attempts that took the node down.
    pub crashes: u32,
    /// The failure to be kept, if it was one.
    pub failure: Option<String>,
    /// What is to be said of the job from now on; `None` leaves what was said.
    pub note: Option<String>,
}

impl Next {
    fn to(state: JobState, job: &JobRecord) -> Self {
        Self { state, due: job.due, attempt: job.attempt, crashes: job.crashes, failure: None, note: None }
    }

    fn failed(mut self, error: &str) -> Self {
        self.failure = Some(error.to_owned());
        self.note = Some(error.to_owned());
        self
    }
}

/// What a report does to the claimed `job`.
///
/// A job that somebody has asked to be cancelled does not go back to wait: it is cancelled instead. One that is
/// [completed](JobRecord::completed) is done, whatever else is said of it.
#[must_use]
pub fn settle(job: &JobRecord, verdict: &Verdict, now: Timestamp) -> Next {
    if job.completed {
        let done = Next::to(JobState::Done, job);
        return match verdict {
            Verdict::Retry { error, .. } | Verdict::Fail { error } => done.failed(error),
            _ => done,
        };
    }
    let again = if job.cancel_requested { JobState::Cancelled } else { JobState::Scheduled };
    match verdict {
        Verdict::Done => Next::to(JobState::Done, job),
        Verdict::Discard { reason } => {
            Next { note: Some(reason.clone()), ..Next::to(JobState::Discarded, job) }
        }
        Verdict::Cancelled => Next::to(JobState::Cancelled, job),
        Verdict::Fail { error } => Next::to(JobState::Dead, job).failed(error),
        Verdict::Retry { error, .. } if job.attempt >= job.limits.max_attempts && !job.cancel_requested => {
            Next::to(JobState::Dead, job).failed(error)
        }
        Verdict::Retry { after, error } => {
            Next { due: now.after(*after), crashes: 0, ..Next::to(again, job) }.failed(error)
        }
        Verdict::Snooze { after } => {
            let attempt = job.attempt.saturating_sub(1);
            Next { due: now.after(*after), attempt, crashes: 0, ..Next::to(again, job) }
        }
        Verdict::Defer { after } => {
            Next { due: now.after(*after), attempt: job.attempt.saturating_sub(1), ..Next::to(again, job) }
        }
        // It keeps its due time: it is as late as it is, and comes before those that were due later.
        Verdict::Release => Next { attempt: job.attempt.saturating_sub(1), ..Next::to(again, job) },
    }
}

/// The jobs to be accepted in the transaction that moves `job` on to `next`, each for itself: what follows it in its
/// chain, and what its handler `asked` for. None unless it is done.
///
/// If its handler has completed it, what it [asked](JobRecord::asked) for then is there, and is what counts: the report
/// says the same once more, if it comes at all.
///
/// They are accepted after the job has been moved on, so that its unique key is free, with it as their
/// [parent](JobRecord::parent). What cannot be accepted is noted, see [`refusal`], and does not hurt anybody.
#[must_use]
pub fn follow_ups(job: &JobRecord, next: &Next, asked: &[NewJob]) -> Vec<NewJob> {
    if next.state != JobState::Done {
        return Vec::new();
    }
    let asked = if job.asked.is_empty() { asked } else { &job.asked };
    NewJob::next_in(&job.then).into_iter().chain(asked.iter().cloned()).collect()
}

/// What is noted of a follow-up that came to nothing: because another job has its key and stays as it is, or because it
/// makes no sense.
#[must_use]
pub fn refusal(follow_up: &NewJob, why: Result<JobId, &Error>) -> String {
    let kind = &follow_up.kind;
    let key = follow_up.unique.as_ref().map_or("", |unique| &unique.key);
    match why {
        Ok(holder) => {
            format!("the follow-up {kind:?} was not accepted: job {holder} has the unique key {key:?}")
        }
        Err(error) => format!("the follow-up {kind:?} was not accepted: {error}"),
    }
}

/// What becomes of the claimed `job` when its node has died.
///
/// The attempt does not count: it may not even have begun. The crash does, for it may be the job's own doing: a job
/// that is lost again waits longer each time, and there is a limit. Unless others were lost with it: see
/// [`lost_together`]. One that is [completed](JobRecord::completed) is done.
#[must_use]
pub fn lost(job: &JobRecord, now: Timestamp) -> Next {
    if job.completed {
        return Next::to(JobState::Done, job);
    }
    let crashes = job.crashes.saturating_add(1);
    let owner = job.owner.map_or_else(|| "nobody".to_owned(), |owner| format!("{owner:?}"));
    let error = format!("{owner} died while it held the job, for the {} time", ordinal(crashes));
    let state = match job.limits.on_lost {
        _ if job.cancel_requested => JobState::Cancelled,
        OnLost::Fail => JobState::Dead,
        OnLost::Rerun if crashes >= job.limits.max_crashes => JobState::Dead,
        OnLost::Rerun => JobState::Scheduled,
    };
    // The first crash is most likely not the job's fault: it runs again at once.
    let wait = if crashes == 1 { Duration::ZERO } else { CRASH_BACKOFF.wait(crashes - 1) };
    let attempt = if state == JobState::Scheduled { job.attempt.saturating_sub(1) } else { job.attempt };
    Next { due: job.due.max(now.after(wait)), attempt, crashes, ..Next::to(state, job) }.failed(&error)
}

/// What becomes of these claimed `jobs`, whose nodes have died: of at most `most` of them, by id. If there are more,
/// jobs that were lost several times in a row come first: so they are seen together. If a node held several of these,
/// none of them is charged with its death, for nobody knows which it was; see the top of `rules.rs`.
///
/// ```
/// use punctual_durable::{JobId, JobRecord, JobState, NewJob, NodeId, Timestamp, lost_together};
///
/// let now = Timestamp::EPOCH;
/// let orphan = |id, crashes| {
///     let mut job = JobRecord::accepted(JobId::from_i64(id), NewJob::new("work", "{}"), now);
///     (job.state, job.owner, job.crashes) = (JobState::Claimed, Some(NodeId::from_i64(1)), crashes);
///     job
/// };
/// let crashes = |jobs| -> Vec<u32> {
///     lost_together(jobs, 100, now).iter().map(|(_, next)| next.crashes).collect()
/// };
/// assert_eq!(crashes(vec![orphan(1, 0), orphan(2, 2)]), [1, 3]);
/// assert_eq!(crashes(vec![orphan(1, 0), orphan(2, 2), orphan(3, 2)]), [1, 2, 2]);
/// ```
#[must_use]
pub fn lost_together(mut jobs: Vec<JobRecord>, most: usize, now: Timestamp) -> Vec<(JobRecord, Next)> {
    jobs.sort_unstable_by_key(|job| (!is_suspect(job), job.id));
    jobs.truncate(most);
    let mut suspects: HashMap<Option<NodeId>, u32> = HashMap::new();
    for job in jobs.iter().filter(|job| is_suspect(job)) {
        *suspects.entry(job.owner).or_default() += 1;
    }
    jobs.sort_unstable_by_key(|job| job.id);
    let decide = |job: JobRecord| {
        let unclear = is_suspect(&job) && suspects.get(&job.owner).is_some_and(|count| *count > 1);
        let next = if unclear { spared(&job, now) } else { lost(&job, now) };
        (job, next)
    };
    jobs.into_iter().map(decide).collect()
}

/// What becomes of a suspect when its node has died and held others, too.
fn spared(job: &JobRecord, now: Timestamp) -> Next {
    let next = lost(job, now);
    if job.completed || job.cancel_requested || job.limits.on_lost == OnLost::Fail {
        return next;
    }
    let owner = job.owner.map_or_else(|| "nobody".to_owned(), |owner| format!("{owner:?}"));
    let error = format!("{owner} died while it held the job, and others that it may have died of");
    let (state, attempt) = (JobState::Scheduled, job.attempt.saturating_sub(1));
    Next { state, attempt, crashes: job.crashes, ..next }.failed(&error)
}

/// Whether a job has been lost so often that it is not to be run beside another of which the same is true.
pub(crate) fn is_suspect(job: &JobRecord) -> bool {
    job.crashes >= 2 || job.crashes == 1 && job.limits.max_crashes <= 2
}

const CRASH_BACKOFF: Backoff =
    Backoff::exponential(Duration::from_secs(5), Duration::from_secs(300)).without_jitter();

fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, teen) if teen != 11 => "st",
        (2, teen) if teen != 12 => "nd",
        (3, teen) if teen != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Limits, NewJob, NodeId};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn held(attempt: u32, limits: Limits) -> JobRecord {
        let job = JobRecord::accepted(JobId::from_i64(1), NewJob { limits, ..NewJob::new("k", "{}") }, NOW);
        JobRecord { state: JobState::Claimed, attempt, owner: Some(NodeId::from_i64(7)), ..job }
    }

    fn retry() -> Verdict {
        Verdict::Retry { after: Duration::from_secs(2), error: "no".to_owned() }
    }

    #[test]
    fn the_last_attempt_that_fails_is_the_end() {
        let limits = Limits { max_attempts: 3, ..Limits::default() };
        let next = settle(&held(2, limits), &retry(), NOW);
        assert_eq!((next.state, next.due), (JobState::Scheduled, Timestamp::from_micros(3_000_000)));
        assert_eq!(settle(&held(3, limits), &retry(), NOW).state, JobState::Dead);
    }

    #[test]
    fn an_attempt_given_back_or_snoozed_does_not_count() {
        let after = Duration::ZERO;
        for verdict in [Verdict::Release, Verdict::Snooze { after }, Verdict::Defer { after }] {
            let next = settle(&held(3, Limits::default()), &verdict, NOW);
            assert_eq!((next.state, next.attempt, next.failure), (JobState::Scheduled, 2, None));
        }
    }

    #[test]
    fn an_attempt_that_ends_clears_the_account_and_one_given_back_does_not() {
        let job = JobRecord { crashes: 2, ..held(1, Limits::default()) };
        let after = Duration::from_secs(2);
        for (verdict, crashes) in [
            (retry(), 0),
            (Verdict::Snooze { after }, 0),
            (Verdict::Defer { after }, 2),
            (Verdict::Release, 2),
        ] {
            let next = settle(&job, &verdict, NOW);
            assert_eq!((next.state, next.crashes), (JobState::Scheduled, crashes), "{verdict:?}");
            let waits = verdict != Verdict::Release;
            assert_eq!(next.due, if waits { NOW.after(after) } else { job.due }, "{verdict:?}");
        }
    }

    #[test]
    fn a_job_is_suspect_after_two_losses_or_when_the_next_is_its_end() {
        let suspect = |crashes, max_crashes| {
            let limits = Limits { max_crashes, ..Limits::default() };
            is_suspect(&JobRecord { crashes, ..held(1, limits) })
        };
        assert_eq!([0, 1, 2, 3].map(|crashes| suspect(crashes, 3)), [false, false, true, true]);
        assert_eq!([0, 1, 2].map(|crashes| suspect(crashes, u32::MAX)), [false, false, true]);
        assert_eq!([0, 1].map(|crashes| suspect(crashes, 2)), [false, true]);
        assert_eq!([0, 1].map(|crashes| suspect(crashes, 0)), [false, true]);
    }

    #[test]
    fn a_job_asked_to_stop_does_not_come_back_but_may_still_succeed() {
        let job = JobRecord { cancel_requested: true, ..held(1, Limits::default()) };
        let after = Duration::ZERO;
        for verdict in [retry(), Verdict::Release, Verdict::Snooze { after }, Verdict::Defer { after }] {
            assert_eq!(settle(&job, &verdict, NOW).state, JobState::Cancelled, "{verdict:?}");
        }
        assert_eq!(settle(&job, &Verdict::Done, NOW).state, JobState::Done);
        assert_eq!(lost(&job, NOW).state, JobState::Cancelled);
    }

    #[test]
    fn what_is_completed_is_done_whatever_is_said_of_it() {
        let fail = Verdict::Fail { error: "no".to_owned() };
        let discard = Verdict::Discard { reason: "why".to_owned() };
        let snooze = Verdict::Snooze { after: Duration::ZERO };
        let at_most_once = Limits { max_attempts: 1, on_lost: OnLost::Fail, ..Limits::default() };
        for cancel_requested in [false, true] {
            let job = JobRecord { completed: true, cancel_requested, ..held(1, at_most_once) };
            for verdict in
                [&Verdict::Done, &retry(), &fail, &discard, &snooze, &Verdict::Release, &Verdict::Cancelled]
            {
                let next = settle(&job, verdict, NOW);
                assert_eq!((next.state, next.attempt, next.crashes), (JobState::Done, 1, 0), "{verdict:?}");
                let failed = matches!(verdict, Verdict::Retry { .. } | Verdict::Fail { .. });
                assert_eq!(next.failure.as_deref(), failed.then_some("no"), "what went wrong is kept");
            }
            let next = lost(&job, NOW);
            assert_eq!((next.state, next.crashes, next.failure), (JobState::Done, 0, None));
        }
    }

    #[test]
    fn what_a_job_was_completed_with_follows_it_once_whatever_its_report_says() {
        let [kept, said] = ["kept", "said"].map(|kind| vec![NewJob::new(kind, "{}")]);
        let kinds = |job: &JobRecord, verdict: &Verdict| {
            let next = settle(job, verdict, NOW);
            follow_ups(job, &next, &said).into_iter().map(|job| job.kind).collect::<Vec<_>>()
        };
        let job = JobRecord { then: vec![NewJob::new("chain", "{}")], ..held(1, Limits::default()) };
        assert_eq!(kinds(&job, &Verdict::Done), ["chain", "said"]);
        assert_eq!(kinds(&job, &retry()), [""; 0]);
        let by_hand = JobRecord { completed: true, ..job.clone() };
        assert_eq!(kinds(&by_hand, &retry()), ["chain", "said"], "nothing was kept with it");
        let job = JobRecord { completed: true, asked: kept, ..job };
        assert_eq!(kinds(&job, &Verdict::Done), ["chain", "kept"]);
        assert_eq!(kinds(&job, &retry()), ["chain", "kept"]);
        assert_eq!(follow_ups(&job, &lost(&job, NOW), &[]).len(), 2);
    }

    #[test]
    fn a_job_that_takes_its_nodes_down_waits_longer_each_time_and_then_dies() {
        let mut job = held(1, Limits { max_crashes: 3, ..Limits::default() });
        let mut seen = Vec::new();
        for _ in 0..3 {
            let next = lost(&job, NOW);
            seen.push((next.state, next.due.since(NOW).as_secs()));
            job.crashes = next.crashes;
        }
        assert_eq!(seen, [(JobState::Scheduled, 0), (JobState::Scheduled, 5), (JobState::Dead, 10)]);
    }

    #[test]
    fn of_several_suspects_that_are_lost_together_none_is_charged() {
        let lost_with = |id: i64, owner: i64, crashes: u32| {
            let job = held(1, Limits::default());
            JobRecord { id: JobId::from_i64(id), owner: Some(NodeId::from_i64(owner)), crashes, ..job }
        };
        let jobs = vec![
            lost_with(6, 1, 0),
            lost_with(5, 1, 2),
            lost_with(4, 1, 1),
            lost_with(3, 1, 2),
            lost_with(2, 2, 2),
            lost_with(1, 2, 1),
        ];
        let seen: Vec<_> = (lost_together(jobs.clone(), 9, NOW).into_iter())
            .map(|(job, next)| (job.id.as_i64(), next.state, next.crashes, next.due.since(NOW).as_secs()))
            .collect();
        let waits = JobState::Scheduled;
        let expected = [
            (1, waits, 2, 5),
            (2, JobState::Dead, 3, 10),
            (3, waits, 2, 10),
            (4, waits, 2, 5),
            (5, waits, 2, 10),
            (6, waits, 1, 0),
        ];
        assert_eq!(seen, expected);
        let first: Vec<_> = lost_together(jobs, 4, NOW).into_iter().map(|(job, _)| job.id.as_i64()).collect();
        assert_eq!(first, [1, 2, 3, 5], "suspects, and then by id");
    }

    #[test]
    fn who_was_to_end_with_its_node_is_not_spared() {
        let job = JobRecord { crashes: 2, ..held(1, Limits::default()) };
        let asked = JobRecord { cancel_requested: true, id: JobId::from_i64(2), ..job.clone() };
        let fail = Limits { on_lost: OnLost::Fail, ..Limits::default() };
        let once = JobRecord { id: JobId::from_i64(3), limits: fail, ..job.clone() };
        let completed = JobRecord { id: JobId::from_i64(4), completed: true, ..job.clone() };
        let states = lost_together(vec![job, asked, once, completed], 9, NOW);
        let states: Vec<_> = states.into_iter().map(|(_, next)| next.state).collect();
        assert_eq!(states, [JobState::Scheduled, JobState::Cancelled, JobState::Dead, JobState::Done]);
    }

    #[test]
    fn at_most_once_is_one_attempt_and_fail_when_lost() {
        let limits = Limits { max_attempts: 1, on_lost: OnLost::Fail, ..Limits::default() };
        assert_eq!(lost(&held(1, limits), NOW).state, JobState::Dead);
        assert_eq!(settle(&held(1, limits), &retry(), NOW).state, JobState::Dead);
        let once = Limits { max_attempts: 1, ..Limits::default() };
        let next = lost(&held(1, once), NOW);
        assert_eq!(
            (next.state, next.attempt),
            (JobState::Scheduled, 0),
            "its only attempt may not have begun"
        );
    }

    #[test]
    fn ordinals_read_as_they_are_spoken() {
        let spoken = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal);
        assert_eq!(spoken, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]);
    }
}
