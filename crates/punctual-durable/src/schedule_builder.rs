//! How a schedule is described.

use std::fmt;
use std::time::{Duration, SystemTime};

use punctual::{Gap, WallOverlap};
use serde::Serialize;

use crate::client::{Client, NewJobBuilder};
use crate::error::{Error, Result};
use crate::job::NewJob;
use crate::schedule::{Cadence, Missed, NewSchedule, OnFailure, Overlap};
use crate::store::Saved;
use crate::time::Timestamp;

/// A schedule that is being described; see [`Client::schedule`].
///
/// Saving the same again is a no-op, so programs declare their schedules whenever they start.
///
/// | What if | is said with | by default |
/// |---|---|---|
/// | nobody was there | [`missed`](Self::missed) | the latest happens, late |
/// | the last one is not over | [`overlap`](Self::overlap) | one waits for it |
/// | they fail | [`on_failure`](Self::on_failure) | it goes on |
/// | no wall shows the time | [`gap`](Self::gap) | the first instant that one does |
/// | every wall shows it twice | [`wall_overlap`](Self::wall_overlap) | the first of both |
/// | many come at once | [`spread`](Self::spread), [`jitter`](Self::jitter), `H` in a [cron expression](Self::cron) | they do |
///
/// All of it is stored with the schedule: every node does the same, and a handler can read
/// [how many were missed](crate::JobContext::missed).
///
/// ```
/// use punctual::ManualClock;
/// use punctual_durable::{Done, JobContext, Jobs, MemoryStore};
/// use serde::{Deserialize, Serialize};
/// use std::{sync::Arc, sync::mpsc, time::Duration};
///
/// #[derive(Serialize, Deserialize)]
/// struct CloseBooks {}
///
/// let hour = Duration::from_secs(3600);
/// let clock = ManualClock::new();
/// let (sender, receiver) = mpsc::channel();
/// let jobs = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone())))
///     .clock(clock.clone())
///     .poll_interval(Duration::from_secs(60))
///     .handle("close-books", move |_: CloseBooks, cx: &JobContext| {
///         sender.send(cx.series().unwrap().1.to_string())?;
///         Ok(Done)
///     })
///     .start()?;
/// jobs.schedule("every-hour").every(hour).job(CloseBooks {}).save()?;
/// clock.advance(2 * hour);
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["2000-01-01T01:00:00.000000Z", "2000-01-01T02:00:00.000000Z"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a schedule exists only when it is saved"]
pub struct ScheduleBuilder<'a> {
    client: &'a Client,
    name: String,
    cadence: Option<Cadence>,
    gap: Option<Gap>,
    wall_overlap: Option<WallOverlap>,
    start: Option<Timestamp>,
    /// What is wrong with it is told when it is saved.
    job: Option<Result<NewJob>>,
    missed: Missed,
    overlap: Overlap,
    on_failure: OnFailure,
    spread: Duration,
    jitter: Duration,
}

impl<'a> ScheduleBuilder<'a> {
    pub(crate) fn new(client: &'a Client, name: &str) -> Self {
        Self {
            client,
            name: name.to_owned(),
            cadence: None,
            gap: None,
            wall_overlap: None,
            start: None,
            job: None,
            missed: Missed::default(),
            overlap: Overlap::default(),
            on_failure: OnFailure::default(),
            spread: Duration::ZERO,
            jitter: Duration::ZERO,
        }
    }

    /// Every `period`, on a grid that begins with [`start`](Self::start).
    pub fn every(mut self, period: Duration) -> Self {
        self.cadence = Some(Cadence::Every(period));
        self
    }

    /// Each time `delay` after the last one was over.
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.cadence = Some(Cadence::Delay(delay));
        self
    }

    /// By the clock on the wall: `cron("0 9 * * MON-FRI", "Europe/Berlin")`. See [`punctual::Cron`] for the language; `H`
    /// in it is spread by the name of the schedule, see [`Cadence`].
    ///
    /// # Errors
    /// If the expression or the zone makes no sense.
    pub fn cron(mut self, expression: &str, zone: &str) -> Result<Self> {
        self.cadence = Some(Cadence::cron(expression, zone)?);
        Ok(self)
    }

    /// What becomes of an occurrence whose time no wall shows, because the clocks go forward over it. Default:
    /// [`Gap::FirstValid`], the first instant after. For cron expressions alone; see [`Cadence`] for a picture.
    ///
    /// ```
    /// # use punctual_durable::{Jobs, NewJob};
    /// # let jobs = Jobs::open("memory:")?.handle("report", |_: (), _: &_| Ok(punctual_durable::Done)).start()?;
    /// use punctual::Gap;
    ///
    /// let nightly = jobs.schedule("nightly").cron("30 2 * * *", "Europe/Berlin")?.gap(Gap::Skip).job(());
    /// nightly.save()?;
    /// let error = jobs.schedule("hourly").every(std::time::Duration::from_secs(3600)).gap(Gap::Skip).job(()).save();
    /// assert!(error.unwrap_err().is_invalid(), "a period knows no wall");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = Some(gap);
        self
    }

    /// When an occurrence happens whose time the wall shows twice, because the clocks go back over it. Default:
    /// [`WallOverlap::First`], the first of both. For cron expressions alone; see [`Cadence`] for a picture. What if the
    /// last occurrence is not over is another question: [`overlap`](Self::overlap).
    pub fn wall_overlap(mut self, overlap: WallOverlap) -> Self {
        self.wall_overlap = Some(overlap);
        self
    }

    /// When the first one happens, or from when on a cron expression counts. By default, one period after the schedule is
    /// saved for the first time.
    pub fn start(mut self, time: SystemTime) -> Self {
        self.start = Some(time.into());
        self
    }

    /// What happens, by a payload whose type says which kind it is.
    pub fn job<J: Serialize + 'static>(mut self, payload: J) -> Self {
        self.job = Some(self.client.registry().new_job(&payload));
        self
    }

    /// What happens, by the name of the kind and a payload.
    pub fn job_as<J: Serialize>(mut self, kind: &str, payload: J) -> Self {
        self.job = Some(self.client.registry().new_job_of(kind, &payload));
        self
    }

    /// What follows each time, when that is done; see [`NewJob::then`]. Said after [`job`](Self::job).
    pub fn then(mut self, next: NewJobBuilder<'_>) -> Self {
        self.job = self.job.map(|job| job.and_then(|job| Ok(job.then(next.into_job()?))));
        self
    }

    /// What if some were missed. Default: the latest of them happens, late.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What if the last one is not over. Default: one waits for it.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What if they fail. Default: it goes on.
    pub fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }

    /// Lets all occurrences come later by a part of `window`, which the name of the schedule decides: always the same, on
    /// every node, so that many schedules with one period do not all come at once. Default: not at all. What it is known by
    /// stays the time on the grid.
    ///
    /// ```text
    /// nominal   1         2         3
    /// "a"       ··[1]     ··[2]     ··[3]
    /// "b"       ·····[1]  ·····[2]  ·····[3]
    /// ```
    ///
    /// Whether one is missed or overlaps is decided when it comes, not at the time on the grid.
    ///
    /// ```
    /// # use punctual::ManualClock;
    /// # use punctual_durable::{Done, JobContext, Jobs, MemoryStore};
    /// # use std::{sync::Arc, sync::mpsc, time::Duration};
    /// # let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
    /// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
    /// # let (sender, receiver) = mpsc::channel();
    /// let jobs = builder
    ///     .handle("count", move |_: (), cx: &JobContext| {
    ///         let (name, nominal) = cx.series().unwrap();
    ///         sender.send(format!("{name} of {:.5}, at {:.5}", &nominal.to_string()[11..], &cx.due().to_string()[11..]))?;
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// for name in ["backup", "report"] {
    ///     jobs.schedule(name).every(hour).spread(hour).job(()).save()?;
    /// }
    /// clock.advance(2 * hour);
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["backup of 01:00, at 01:01", "report of 01:00, at 01:11"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A fixed delay has no grid, and is refused when it is saved.
    pub fn spread(mut self, window: Duration) -> Self {
        self.spread = window;
        self
    }

    /// Has the job of each occurrence be due later by a part of `most`, different each time. Default: not at all.
    ///
    /// ```text
    /// nominal   1         2         3         4
    /// run       ··[1]     [2]       ·[3]      ···[4]
    /// ```
    ///
    /// The part is derived from the name of the schedule and the nominal time, so nodes agree on it without a word: it is
    /// as good as random, and no secret. The occurrence comes at its time all the same: then it is decided what was missed
    /// and what overlaps, and the job waits for the rest. What somebody [asks for](Client::trigger) is due at once.
    ///
    /// ```
    /// # use punctual::ManualClock;
    /// # use punctual_durable::{Done, JobContext, Jobs, MemoryStore};
    /// # use std::{sync::Arc, sync::mpsc, time::Duration};
    /// # let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// # let builder = Jobs::on(Arc::new(MemoryStore::with_time(clock.clone()))).clock(clock.clone());
    /// # let (sender, receiver) = mpsc::channel();
    /// let jobs = builder
    ///     .handle("poll", move |_: (), cx: &JobContext| {
    ///         sender.send(cx.due().since(cx.series().unwrap().1))?;
    ///         Ok(Done)
    ///     })
    ///     .start()?;
    /// jobs.schedule("poll").every(minute).jitter(minute / 2).job(()).save()?;
    /// clock.advance(10 * minute + minute / 2);
    /// let delays: std::collections::BTreeSet<Duration> = receiver.try_iter().collect();
    /// assert_eq!(delays.len(), 10);
    /// assert!(delays.last().unwrap() < &(minute / 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// Saves it. When this returns, it survives the death of the process.
    ///
    /// Saved again with another job or policy, it goes on where it was: nothing is lost or happens again. With another
    /// cadence or start it begins anew, from now.
    ///
    /// # Errors
    /// If it is not said when or what, something of it makes no sense, or the store fails.
    pub fn save(self) -> Result<Saved> {
        let lacks = |what: &str| Error::invalid(format!("the schedule {:?} does not say {what}", self.name));
        let mut cadence = self.cadence.ok_or_else(|| lacks("when"))?;
        if let Some(gap) = self.gap {
            cadence = cadence.gap(gap)?;
        }
        if let Some(overlap) = self.wall_overlap {
            cadence = cadence.wall_overlap(overlap)?;
        }
        let job = self.job.ok_or_else(|| lacks("what"))??;
        let schedule = NewSchedule {
            start: self.start,
            missed: self.missed,
            overlap: self.overlap,
            on_failure: self.on_failure,
            spread: self.spread,
            jitter: self.jitter,
            ..NewSchedule::new(self.name.clone(), cadence, job)
        };
        self.client.save(schedule)
    }
}

impl fmt::Debug for ScheduleBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleBuilder")
            .field("name", &self.name)
            .field("cadence", &self.cadence)
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}
