//! Reports on their way to the store.
//!
//! They are sent in batches, oldest first, and are gone when the store has answered. A batch that failed comes back.
//!
//! # A report that cannot be recorded, ever
//! The store refuses its batch for good. Batches are halved until it is alone, and then it is *set aside*: for the store
//! may refuse whatever it is sent, be its disk damaged or its tables gone. If it has taken others by the time it refuses
//! this one again, it is this one that it refuses: then the report comes back to who sent it (`exchange.rs`).
//!
//! # A report that cannot be recorded now
//! A store that is down fails whatever it is sent, and all that can be done is to try again. But it may also be one report
//! that fails: what is to follow its job has a unique key that somebody else is about to take, in a transaction that does
//! not end. The error is the same. So a batch that fails twice is taken apart: those that others follow are set aside, too,
//! for they are the ones that may have to wait for somebody. If that makes no difference the batch is halved, and one that
//! is left alone is set aside. Each of these is sent alone, in turn with the batches, and after a failure not until a
//! while has passed that is long against what the failure took: so they hold up themselves, and the others but little.
//!
//! # Invariants
//! 1. A report is in one of the two lists, unless it is on its way.
//! 2. One that was set aside is not in a batch with others.

use std::collections::VecDeque;
use std::time::Duration;

use punctual::Tick;

use super::{MOST_AHEAD, MOST_REPORTS, Outgoing};
use crate::job::JobId;
use crate::store::is_suspect;

/// How long those that were set aside wait after one of them has failed: this, or so many times what that took.
const PAUSE: (Duration, u32) = (Duration::from_secs(1), 3);

pub(super) struct Outbox {
    waiting: Vec<Outgoing>,
    /// When they are to be sent at the latest.
    by: Tick,
    /// How many the next exchange may carry.
    batch: usize,
    aside: VecDeque<Outgoing>,
    /// When one of these may be sent at the earliest, and whether the others come first.
    aside_from: Tick,
    others_first: bool,
    /// Exchanges that have succeeded.
    successes: u64,
}

/// What an exchange is to carry.
pub(super) enum Load {
    /// So many of those that wait.
    Batch(usize),
    /// One that was set aside.
    Lone,
}

impl Outbox {
    pub(super) fn new() -> Self {
        let (waiting, aside) = (Vec::new(), VecDeque::new());
        let (by, batch) = (Tick::MAX, MOST_REPORTS);
        Self { waiting, by, batch, aside, aside_from: Tick::ZERO, others_first: false, successes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.aside.len()
    }

    /// The room that they take from jobs to be claimed. Those that were set aside do not count, unless they are many.
    pub(super) fn burden(&self) -> usize {
        self.waiting.len() + self.aside.len().saturating_sub(MOST_AHEAD)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.waiting.iter().chain(&self.aside).map(|out| out.job.id)
    }

    /// Whether the store still takes us for the holder of one that may be a poison pill.
    pub(super) fn has_suspect(&self) -> bool {
        self.waiting.iter().chain(&self.aside).any(|out| is_suspect(&out.job))
    }

    pub(super) fn push(&mut self, report: Outgoing) {
        self.waiting.push(report);
    }

    /// Has them sent by then, if it is not sooner; says when.
    pub(super) fn send_by(&mut self, by: Tick) -> Tick {
        self.by = self.by.min(by);
        self.by
    }

    /// When there is something to be sent, if there is. A node that claims nothing has nothing to wait for, either: it
    /// sends everything `at_once`.
    pub(super) fn next(&self, at_once: bool) -> Tick {
        let waiting = if self.waiting.is_empty() { Tick::MAX } else { self.by };
        let aside = if self.aside.is_empty() { Tick::MAX } else { self.aside_from };
        if at_once && self.len() > 0 { Tick::ZERO } else { waiting.min(aside) }
    }

    /// What comes next, and whether it is time for it, as [`next`](Self::next) says.
    pub(super) fn load(&self, now: Tick, at_once: bool) -> (Load, bool) {
        let turn = self.waiting.is_empty() || !self.others_first;
        if turn && !self.aside.is_empty() && (at_once || now >= self.aside_from) {
            return (Load::Lone, true);
        }
        let count = self.waiting.len().min(self.batch);
        (Load::Batch(count), count > 0 && (at_once || now >= self.by))
    }

    pub(super) fn take(&mut self, load: &Load) -> Vec<Outgoing> {
        match load {
            Load::Lone => {
                self.others_first = true;
                self.aside.pop_front().into_iter().collect()
            }
            Load::Batch(count) => {
                self.others_first = false;
                let batch = self.waiting.drain(..*count).collect();
                self.by = if self.waiting.is_empty() { Tick::MAX } else { Tick::ZERO };
                batch
            }
        }
    }

    /// An exchange was successful. What comes after a batch that was halved may be what made it fail: so not all at once.
    pub(super) fn sent(&mut self) {
        self.successes += 1;
        self.batch = (self.batch * 2).min(MOST_REPORTS);
    }

    /// These are to be sent again; so many at once, if they may be too many.
    pub(super) fn put_back(&mut self, mut sent: Vec<Outgoing>, batch: Option<usize>) {
        sent.append(&mut self.waiting);
        self.waiting = sent;
        self.batch = batch.map_or(self.batch, |batch| batch.max(1));
        self.by = Tick::ZERO;
    }

    /// These have failed at `now`, after `took`, and may succeed later: for the first time, or `again`.
    pub(super) fn failed(
        &mut self,
        sent: Vec<Outgoing>,
        load: &Load,
        again: bool,
        now: Tick,
        took: Duration,
    ) {
        let alone = matches!(load, Load::Lone) || again && sent.len() == 1;
        if sent.is_empty() || !alone && !again {
            return self.put_back(sent, None);
        }
        let half = sent.len() / 2;
        let (aside, others): (Vec<_>, Vec<_>) =
            sent.into_iter().partition(|out| alone || out.has_followers());
        if alone || !aside.is_empty() && !others.is_empty() {
            self.set_aside(aside, now, took);
            self.put_back(others, None);
        } else {
            self.put_back(if others.is_empty() { aside } else { others }, Some(half));
        }
    }

    /// This one, sent alone, has been refused for good. It comes back if it is this one, or if that cannot be found out
    /// any more, because we are `leaving` and nothing else is sent.
    pub(super) fn refused(
        &mut self,
        mut report: Outgoing,
        leaving: bool,
        now: Tick,
        took: Duration,
    ) -> Option<Outgoing> {
        if report.refused.is_some_and(|before| leaving || self.successes > before) {
            return Some(report);
        }
        report.refused.get_or_insert(self.successes);
        self.set_aside([report], now, took);
        None
    }

    pub(super) fn set_aside(
        &mut self,
        reports: impl IntoIterator<Item = Outgoing>,
        now: Tick,
        took: Duration,
    ) {
        self.aside.extend(reports);
        self.aside_from = now.after(took.saturating_mul(PAUSE.1).max(PAUSE.0));
    }
}

impl Outgoing {
    /// Whether it may make other jobs. Whatever the verdict is: if the handler has completed the job, it is done.
    fn has_followers(&self) -> bool {
        !(self.job.then.is_empty() && self.follow_ups.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobRecord, NewJob};
    use crate::store::Verdict;
    use crate::time::Timestamp;
    use std::sync::Arc;

    const TOOK: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Tick {
        Tick::ZERO.after(Duration::from_secs(seconds))
    }

    fn report(id: i64, followed: bool) -> Outgoing {
        let job = JobRecord::accepted(JobId::from_i64(id), NewJob::new("k", "{}"), Timestamp::EPOCH);
        let follow_ups = if followed { vec![NewJob::new("k", "{}")] } else { Vec::new() };
        Outgoing { job: Arc::new(job), verdict: Verdict::Done, follow_ups, run: None, refused: None }
    }

    impl Outbox {
        fn add(&mut self, report: Outgoing) {
            self.push(report);
            let _ = self.send_by(Tick::ZERO);
        }

        /// One exchange, which fails if one of these is in it; says what was.
        fn exchange(&mut self, now: Tick, again: bool, stuck: &[i64]) -> Vec<i64> {
            let (load, time) = self.load(now, false);
            if !time {
                return Vec::new();
            }
            let sent = self.take(&load);
            let ids: Vec<i64> = sent.iter().map(|out| out.job.id.as_i64()).collect();
            if ids.iter().any(|id| stuck.contains(id)) {
                self.failed(sent, &load, again, now, TOOK);
            } else {
                self.sent();
            }
            ids
        }
    }

    fn filled(reports: impl IntoIterator<Item = (i64, bool)>) -> Outbox {
        let mut outbox = Outbox::new();
        for (id, followed) in reports {
            outbox.add(report(id, followed));
        }
        outbox
    }

    #[test]
    fn those_that_others_follow_are_the_first_to_be_suspected() {
        let mut outbox = filled([(1, false), (2, true), (3, false), (4, true)]);
        let stuck = [2];
        assert_eq!(outbox.exchange(at(0), false, &stuck), [1, 2, 3, 4]);
        assert_eq!(outbox.exchange(at(2), true, &stuck), [1, 2, 3, 4], "once is no reason");
        assert_eq!(outbox.exchange(at(4), true, &stuck), [1, 3]);
        assert_eq!((outbox.exchange(at(4), false, &stuck), outbox.next(false)), (vec![], at(8)), "6 after 2");
        assert_eq!(outbox.exchange(at(8), false, &stuck), [2]);
        assert!(outbox.exchange(at(13), true, &stuck).is_empty(), "6 after 8");
        outbox.add(report(5, false));
        assert_eq!(outbox.exchange(at(13), true, &stuck), [5], "the others go on");
        outbox.add(report(6, false));
        let turns: Vec<_> = (0..4).map(|_| outbox.exchange(at(14), false, &[])).collect();
        assert_eq!(turns, [vec![4], vec![6], vec![2], vec![]], "in turn");
        assert_eq!((outbox.len(), outbox.next(false), outbox.next(true)), (0, Tick::MAX, Tick::MAX));
    }

    /// Its handler may have completed it, and failed after that.
    #[test]
    fn one_that_failed_is_suspected_as_well_if_it_may_be_followed() {
        let mut outbox = filled([(1, false), (2, false)]);
        let verdict = Verdict::Fail { error: "too late".to_owned() };
        outbox.add(Outgoing { verdict, ..report(3, true) });
        assert_eq!(outbox.exchange(at(0), false, &[3]), [1, 2, 3]);
        assert_eq!(outbox.exchange(at(2), true, &[3]), [1, 2, 3]);
        assert_eq!(outbox.exchange(at(4), true, &[3]), [1, 2]);
    }

    #[test]
    fn where_that_makes_no_difference_one_is_found_by_halving() {
        for followed in [false, true] {
            let mut outbox = filled((0..100).map(|id| (id, followed)));
            let mut failures = 0;
            // A failure of nothing but claims says nothing about reports.
            outbox.failed(Vec::new(), &Load::Batch(0), true, at(0), TOOK);
            while outbox.len() > 1 {
                let tried = outbox.exchange(at(0), failures > 0, &[77]);
                assert!(!tried.is_empty());
                failures += u32::from(tried.contains(&77));
            }
            assert!(failures <= 12, "{failures}");
            assert_eq!(outbox.ids().collect::<Vec<_>>(), [JobId::from_i64(77)]);
            assert!(outbox.exchange(at(0), false, &[]).is_empty(), "not yet");
            let at_once = (outbox.load(at(0), true).1, outbox.next(true));
            assert_eq!(at_once, (true, Tick::ZERO), "but a node that leaves does not wait");
            assert_eq!(outbox.exchange(at(6), false, &[]), [77]);
        }
    }

    #[test]
    fn one_is_refused_for_good_only_if_others_are_taken() {
        let mut outbox = filled([(1, false), (2, false)]);
        let refuse = |outbox: &mut Outbox, now, leaving| {
            let (load, time) = outbox.load(now, false);
            assert!(time, "at {now:?}");
            let report = outbox.take(&load).pop().unwrap();
            outbox.refused(report, leaving, now, TOOK).map(|out| out.job.id.as_i64())
        };
        outbox.put_back(Vec::new(), Some(1));
        assert_eq!((0..2).filter_map(|_| refuse(&mut outbox, at(0), true)).count(), 0, "once is no reason");
        assert!(!outbox.load(at(5), false).1);
        for second in [6, 12, 18, 24] {
            assert_eq!(refuse(&mut outbox, at(second), false), None, "it may be the store");
        }
        assert_eq!(outbox.len(), 2);
        assert_eq!(refuse(&mut outbox, at(30), true), Some(1), "no more is known, ever");
        outbox.sent();
        assert_eq!(refuse(&mut outbox, at(36), false), Some(2));
        assert_eq!(outbox.len(), 0);
    }

    #[test]
    fn a_few_that_were_set_aside_keep_nobody_from_claiming() {
        let mut outbox = filled([(0, false)]);
        assert_eq!(outbox.burden(), 1);
        for _ in 0..2 {
            let _ = outbox.exchange(at(0), true, &[0]);
        }
        assert_eq!((outbox.len(), outbox.burden()), (1, 0));
        outbox.aside.extend((0..2_000).map(|id| report(id, false)));
        assert_eq!(outbox.burden(), 2_001 - MOST_AHEAD);
    }
}
