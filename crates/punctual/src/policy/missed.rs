//! What becomes of runs whose time has passed.
//!
//! A schedule with a grid (a fixed rate, a calendar) can fall behind: a run took longer than a period, every
//! worker was busy, the machine was suspended, the wall clock was set forward. There are two moments to decide:
//! when a task is taken from the queue, and when a run has ended. At either, some points of the grid are due. The
//! rule says which of them is run next; it knows only how many there are and how late.

use std::time::Duration;

/// What a task does about points of its grid that it could not meet.
///
/// ```text
/// grid       1         2         3         4         5         6
/// burst      [============1============][2][3]       [4]       [5]  every run happens, late ones back to back
/// skip       [============1============]   [4]       [5]       [6]  what came due meanwhile is left out
/// once       [============1============][3][4]       [5]       [6]  one run for all that came due meanwhile
/// shift      [============1============][2]       [3]       [4]     the grid starts anew with the late run
/// ```
///
/// A run that begins late because no worker was free is run all the same, unless it is later than
/// [`within`](Self::within); if a whole period or more has gone by, `skip` and `once` run it for the latest point
/// and leave the older ones out. The body can read how many were left out:
/// [`TaskContext::missed`](crate::TaskContext::missed).
///
/// The default is [`burst`](Self::burst), Java's rule, for fixed rates, and [`once`](Self::once) for calendars.
/// Where the next run counts from the last one (a fixed delay) nothing can be missed, and only `within` matters.
///
/// ```
/// use punctual::{Executor, ManualClock, Missed, TaskContext};
/// use std::time::Duration;
///
/// let (clock, second) = (ManualClock::new(), Duration::from_secs(1));
/// let pool = Executor::builder().clock(clock.clone()).build()?;
/// let time = clock.clone();
/// let poll = move || {
///     if TaskContext::current().runs() == 1 {
///         time.jump(20 * Duration::from_secs(1)); // the first run takes so long
///     }
/// };
/// let task = pool.task(poll).every(second).missed(Missed::skip()).start()?;
/// clock.wait_until_idle();
/// assert_eq!(task.runs(), 1);
/// clock.advance(second);
/// assert_eq!((task.runs(), task.info().missed()), (2, 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Missed {
    rule: MissedRule,
    at_most: Option<u64>,
    within: Option<Duration>,
}

/// The four kinds of [`Missed`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MissedRule {
    /// Every run happens, late ones back to back.
    Burst,
    /// What came due meanwhile is left out.
    Skip,
    /// One run for all that came due meanwhile.
    Once,
    /// The grid starts anew with the late run.
    Shift,
}

impl Missed {
    const fn new(rule: MissedRule) -> Self {
        Self { rule, at_most: None, within: None }
    }

    /// Every run happens, however late; late ones back to back.
    #[must_use]
    pub const fn burst() -> Self {
        Self::new(MissedRule::Burst)
    }

    /// What came due during a run is left out; the series goes on with the next point of its grid.
    #[must_use]
    pub const fn skip() -> Self {
        Self::new(MissedRule::Skip)
    }

    /// One run for all that came due during a run, straight after it; then the grid again.
    #[must_use]
    pub const fn once() -> Self {
        Self::new(MissedRule::Once)
    }

    /// The late run happens as soon as it can, and the grid starts anew with it. A calendar cannot be moved: there
    /// this is as [`once`](Self::once).
    #[must_use]
    pub const fn shift() -> Self {
        Self::new(MissedRule::Shift)
    }

    /// Catches up with at most so many runs back to back; the rest is left out. By default there is no bound.
    #[must_use]
    pub const fn at_most(mut self, runs: u64) -> Self {
        self.at_most = Some(runs);
        self
    }

    /// Leaves out whatever could only begin later than this after its time. By default nothing is too late. Where the
    /// next run counts from the last one, it counts from the moment at which one is left out.
    #[must_use]
    pub const fn within(mut self, lateness: Duration) -> Self {
        self.within = Some(lateness);
        self
    }

    /// Which of the four rules it is.
    #[must_use]
    pub const fn rule(self) -> MissedRule {
        self.rule
    }

    /// The bound set by [`within`](Self::within).
    #[must_use]
    pub const fn max_lateness(self) -> Option<Duration> {
        self.within
    }

    /// Which point of the grid is run next. `caught_up` says how many runs back to back have caught up so far.
    pub(crate) fn choose(self, moment: Moment, due: Overdue, caught_up: u64) -> Choice {
        if due.count == 0 || self.is_late(due.latest) {
            return Choice::Next;
        }
        if moment == Moment::Ended && self.at_most.is_some_and(|most| caught_up >= most) {
            return Choice::Next;
        }
        match (self.rule, moment) {
            (MissedRule::Burst, _) if self.is_late(due.oldest) => {
                Choice::Since(self.within.unwrap_or_default())
            }
            (MissedRule::Burst, _) => Choice::Oldest,
            (MissedRule::Skip, Moment::Ended) => Choice::Next,
            (MissedRule::Skip, Moment::Fired) | (MissedRule::Once, _) => Choice::Latest,
            (MissedRule::Shift, Moment::Fired) if due.count == 1 => Choice::Oldest,
            (MissedRule::Shift, _) => Choice::Now,
        }
    }

    fn is_late(self, lateness: Duration) -> bool {
        self.within.is_some_and(|within| lateness > within)
    }
}

/// When it is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// A worker has taken the task and is about to run it.
    Fired,
    /// A run has ended.
    Ended,
}

/// The points of a grid that are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overdue {
    pub(crate) count: u64,
    /// How late the first of them is.
    pub(crate) oldest: Duration,
    /// How late the last of them is.
    pub(crate) latest: Duration,
}

/// Which point of the grid is run next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// The first of those that are due.
    Oldest,
    /// The first of those that are due and no later than this.
    Since(Duration),
    /// The last of those that are due.
    Latest,
    /// None: the grid starts anew, now.
    Now,
    /// None: the first that is not due yet.
    Next,
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Choice, Missed, Moment, Overdue};
    use std::time::Duration;

    const fn due(count: u64, oldest: u64, latest: u64) -> Overdue {
        Overdue { count, oldest: Duration::from_secs(oldest), latest: Duration::from_secs(latest) }
    }

    const RULES: [Missed; 4] = [Missed::burst(), Missed::skip(), Missed::once(), Missed::shift()];

    #[test]
    fn the_rules_are_those_of_the_table() {
        use Choice::{Latest, Next, Now, Oldest};
        let three = due(3, 25, 5);
        let ended = RULES.map(|missed| missed.choose(Moment::Ended, three, 0));
        assert_eq!(ended, [Oldest, Next, Latest, Now]);
        let fired = RULES.map(|missed| missed.choose(Moment::Fired, three, 0));
        assert_eq!(fired, [Oldest, Latest, Latest, Now]);
    }

    /// A worker that comes a little late runs what it has come for, whatever the rule.
    #[test]
    fn a_run_that_is_merely_late_is_run() {
        for missed in RULES {
            let choice = missed.choose(Moment::Fired, due(1, 5, 5), 0);
            assert!(matches!(choice, Choice::Oldest | Choice::Latest), "{missed:?} {choice:?}");
        }
    }

    #[test]
    fn nothing_is_run_that_is_too_late_and_the_bound_itself_is_not() {
        for missed in RULES {
            for moment in [Moment::Fired, Moment::Ended] {
                let strict = missed.within(Duration::from_secs(4));
                assert_eq!(strict.choose(moment, due(3, 25, 5), 0), Choice::Next, "{missed:?}");
                let exact = missed.within(Duration::from_secs(5));
                let expected = match missed.choose(moment, due(3, 25, 5), 0) {
                    Choice::Oldest => Choice::Since(Duration::from_secs(5)),
                    other => other,
                };
                assert_eq!(exact.choose(moment, due(3, 25, 5), 0), expected, "{missed:?}");
            }
        }
    }

    /// The bound is on catching up: what a worker has taken from the queue was chosen before.
    #[test]
    fn catching_up_ends_at_its_bound() {
        let missed = Missed::burst().at_most(2);
        for caught_up in 0..4 {
            let expected = if caught_up < 2 { Choice::Oldest } else { Choice::Next };
            assert_eq!(missed.choose(Moment::Ended, due(9, 90, 1), caught_up), expected);
            assert_eq!(missed.choose(Moment::Fired, due(9, 90, 1), caught_up), Choice::Oldest);
        }
        assert_eq!(Missed::once().at_most(0).choose(Moment::Ended, due(1, 1, 1), 0), Choice::Next);
    }

    #[test]
    fn nothing_due_is_nothing_missed() {
        for missed in RULES {
            assert_eq!(missed.choose(Moment::Ended, due(0, 0, 0), 0), Choice::Next);
        }
    }
}
