//! How a schedule is described.

use std::fmt;
use std::time::{Duration, SystemTime};

use punctual::{Gap, WallOverlap};
use serde::Serialize;

use crate::client::{Client, NewJobBuilder};
use crate::error::{Error, Result};
use crate::job::NewJob;
use crate::schedule::{Cadence, Missed, NewSchedule, Overlap};
use crate::store::Saved;
use crate::time::Timestamp;

/// A schedule that is being described; see [`Client::schedule`].
///
/// Saving the same again is a no-op, so programs declare their schedules whenever they start.
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
