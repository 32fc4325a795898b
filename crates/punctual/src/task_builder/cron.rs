//! Tasks by cron expressions.

use std::time::SystemTime;

use super::{PeriodicBuilder, TaskBuilder};
use crate::calendar::Calendar;
use crate::cron::{CronError, CronOptions, CronSchedule};

impl Calendar for CronSchedule {
    fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        Self::next_after(self, instant)
    }
}

impl<'a, F, K> TaskBuilder<'a, F, K> {
    /// Runs it when a [cron expression](crate::Cron) says, in the time zone of that name: `Europe/Berlin`, `UTC`, or
    /// `local` for the zone of the system. What is missed is run [once](crate::Missed::once) by default.
    ///
    /// An `H` in the expression is spread by the [name](Self::name) of the task, if it was given one before. For other
    /// rules on days when the clocks change, make a [`CronSchedule`] and give it to [`calendar`](Self::calendar).
    ///
    /// ```
    /// use punctual::{Clock, Executor, ManualClock, Missed};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
    /// clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_656_000)); // Sat 2026-03-28 00:00 UTC
    /// let pool = Executor::builder().clock(clock.clone()).build()?;
    /// let report = pool
    ///     .task(|| println!("good morning"))
    ///     .name("report")
    ///     .cron("0 9 * * MON-FRI", "Europe/Berlin")?
    ///     .missed(Missed::once().within(hour))
    ///     .start()?;
    /// clock.advance(55 * hour - Duration::from_secs(1)); // the clocks went forward on Sunday
    /// assert_eq!(report.runs(), 0);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(report.runs(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CronError`] says where the text is no expression, or that the zone is not known. The closure is lost then;
    /// where that matters, read the expression first.
    pub fn cron(self, expression: &str, zone: &str) -> Result<PeriodicBuilder<'a, F, K>, CronError> {
        let options = match &self.name {
            Some(name) => CronOptions::new().seed(&**name),
            None => CronOptions::new(),
        };
        let schedule = CronSchedule::new(options.parse(expression)?, zone)?;
        Ok(self.calendar(schedule))
    }
}
