//! The points of a schedule, on whichever clock it lives.
//!
//! A point is an instant of the executor's clock or of the wall clock; [`Now`] is both at one moment, and so the way
//! from one to the other. Points on the wall keep their place when the wall clock is set, those on the executor's
//! clock do not feel it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use punctual_engine::{RunTimes, Schedule, Tick};

use crate::calendar::Calendar;
use crate::clock::Clock;
use crate::policy::Overdue;
use crate::sync::Mutex;

/// Points of a calendar that are counted one by one. Beyond that the count of missed ones is a lower bound, and the
/// latest is found by approximation.
const COUNTED: u64 = 1000;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) tick: Tick,
    pub(crate) wall: SystemTime,
}

impl Now {
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { tick: clock.now(), wall: clock.wall() }
    }

    /// The same moment for a schedule that has nothing to do with the wall, whose clock is not read.
    pub(crate) fn only(tick: Tick) -> Self {
        Self { tick, wall: SystemTime::UNIX_EPOCH }
    }

    pub(crate) fn tick_of(self, point: Point) -> Tick {
        match point {
            Point::Tick(tick) => tick,
            Point::Wall(wall) => match wall.duration_since(self.wall) {
                Ok(ahead) => self.tick.after(ahead),
                Err(past) => before(self.tick, past.duration()),
            },
        }
    }

    /// When `offset` has passed since `point`. Added on its own clock: the executor's may be younger than the point.
    pub(crate) fn tick_after(self, point: Point, offset: Duration) -> Tick {
        match point {
            Point::Tick(tick) => tick.after(offset),
            Point::Wall(wall) => {
                wall.checked_add(offset).map_or(Tick::MAX, |wall| self.tick_of(Point::Wall(wall)))
            }
        }
    }

    /// How long ago `point` was; zero if it lies ahead. On its own clock, as above.
    pub(super) fn lateness(self, point: Point) -> Duration {
        match point {
            Point::Tick(tick) => self.tick.since(tick),
            Point::Wall(wall) => self.wall.duration_since(wall).unwrap_or_default(),
        }
    }

    pub(crate) fn wall_of(self, tick: Tick) -> SystemTime {
        let moved = match tick >= self.tick {
            true => self.wall.checked_add(tick.since(self.tick)),
            false => self.wall.checked_sub(self.tick.since(tick)),
        };
        moved.unwrap_or(self.wall)
    }

    /// This moment, or `end` if that has passed.
    pub(super) fn no_later_than(self, end: Point) -> Self {
        let wall = match end {
            Point::Tick(tick) => self.wall_of(tick),
            Point::Wall(wall) => wall,
        };
        Self { tick: self.tick.min(self.tick_of(end)), wall: self.wall.min(wall) }
    }

    /// The moment that was `ago`.
    pub(crate) fn earlier(self, ago: Duration) -> Self {
        let wall = self.wall.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { tick: before(self.tick, ago), wall }
    }
}

pub(crate) fn before(tick: Tick, ago: Duration) -> Tick {
    let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
    Tick::from_nanos(tick.as_nanos().saturating_sub(ago))
}

/// A point of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    Tick(Tick),
    Wall(SystemTime),
}

/// The function of a user that says when the next run is due.
pub(crate) type NextBy = Box<dyn FnMut(RunTimes) -> Option<Tick> + Send>;

/// A calendar, until it is put away: then it has no points any more.
pub(crate) struct Shelf(Mutex<Option<Arc<dyn Calendar>>>);

impl Shelf {
    pub(crate) fn new(calendar: impl Calendar) -> Self {
        Self(Mutex::new(Some(Arc::new(calendar))))
    }

    pub(super) fn next_after(&self, instant: SystemTime) -> Option<SystemTime> {
        // Asked without the lock: it is user code.
        let calendar = self.0.lock().clone()?;
        calendar.next_after(instant).filter(|next| *next > instant)
    }
}

/// Where the points come from.
pub(crate) enum Plan {
    Schedule(Schedule),
    Calendar(Shelf),
    /// The function itself is in the series' state: it is called by one thread at a time.
    NextBy,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule(schedule) => schedule.fmt(f),
            Self::Calendar(_) => f.write_str("Calendar"),
            Self::NextBy => f.write_str("NextBy"),
        }
    }
}

/// How far a grid is behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Backlog {
    /// How many points are due. For a calendar at least so many.
    pub(crate) count: u64,
    pub(crate) oldest: Point,
    pub(crate) latest: Point,
    /// The first that is not due.
    pub(crate) next: Option<Point>,
}

impl Backlog {
    pub(crate) fn overdue(self, now: Now) -> Overdue {
        let late = |point| now.lateness(point);
        Overdue { count: self.count, oldest: late(self.oldest), latest: late(self.latest) }
    }
}

impl Point {
    /// How often `period` fits between two points of one clock; `None` for points of two.
    pub(super) fn steps_to(self, later: Self, period: Duration) -> Option<u64> {
        let apart = match (self, later) {
            (Self::Tick(from), Self::Tick(to)) => to.since(from),
            (Self::Wall(from), Self::Wall(to)) => to.duration_since(from).unwrap_or_default(),
            _ => return None,
        };
        Some(divide(apart, period).0)
    }
}

impl Plan {
    /// Puts the calendar away; it is dropped by the caller, without a lock.
    pub(super) fn put_away(&self) -> Option<Arc<dyn Calendar>> {
        match self {
            Self::Calendar(Shelf(shelf)) => shelf.lock().take(),
            Self::Schedule(_) | Self::NextBy => None,
        }
    }

    /// Whether its points are there beforehand, so that some can be missed.
    pub(crate) fn is_grid(&self) -> bool {
        matches!(self, Self::Schedule(Schedule::FixedRate(_)) | Self::Calendar(_))
    }

    pub(crate) fn is_wall(&self) -> bool {
        matches!(self, Self::Calendar(_))
    }

    /// The point of the grid after `point`. Calls the calendar.
    pub(crate) fn after(&self, point: Point) -> Option<Point> {
        match (self, point) {
            (Self::Schedule(Schedule::FixedRate(period)), Point::Tick(tick)) => {
                Some(Point::Tick(tick.after(*period)))
            }
            (Self::Schedule(Schedule::FixedRate(period)), Point::Wall(wall)) => Some(later(wall, *period)),
            (Self::Calendar(calendar), Point::Wall(wall)) => calendar.next_after(wall).map(Point::Wall),
            _ => None,
        }
    }

    /// The points of the grid from `from` on, seen from `now`. Calls the calendar.
    pub(crate) fn backlog(&self, from: Point, now: Now) -> Backlog {
        match (self, from) {
            (Self::Schedule(Schedule::FixedRate(period)), Point::Tick(tick)) => grid(tick, *period, now.tick),
            (Self::Schedule(Schedule::FixedRate(period)), Point::Wall(wall)) => {
                wall_grid(wall, *period, now.wall)
            }
            (Self::Calendar(calendar), Point::Wall(wall)) => pages(calendar, wall, now.wall),
            _ => single(from, now),
        }
    }

    /// The first point of the grid that is not before `earliest`, from `from` on. Calls the calendar.
    pub(crate) fn since(&self, from: Point, earliest: Now) -> Point {
        let just_before = earliest.earlier(Duration::from_nanos(1));
        let backlog = self.backlog(from, just_before);
        if backlog.count == 0 { from } else { backlog.next.unwrap_or(backlog.latest) }
    }
}

/// Whether the only point there is has come.
fn single(from: Point, now: Now) -> Backlog {
    let is_due = now.tick_of(from) <= now.tick;
    Backlog { count: u64::from(is_due), oldest: from, latest: from, next: (!is_due).then_some(from) }
}

fn grid(from: Tick, period: Duration, now: Tick) -> Backlog {
    let point = Point::Tick(from);
    if from > now {
        return Backlog { count: 0, oldest: point, latest: point, next: Some(point) };
    }
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
    let steps = (now.as_nanos() - from.as_nanos()) / period;
    let latest = from.as_nanos() + steps * period;
    let next = Tick::from_nanos(latest.saturating_add(period));
    Backlog {
        count: steps.saturating_add(1),
        oldest: point,
        latest: Point::Tick(Tick::from_nanos(latest)),
        next: Some(Point::Tick(next)),
    }
}

/// The grid of a fixed rate whose first point is on the wall, and has not been run.
fn wall_grid(from: SystemTime, period: Duration, now: SystemTime) -> Backlog {
    let point = Point::Wall(from);
    let Ok(passed) = now.duration_since(from) else {
        return Backlog { count: 0, oldest: point, latest: point, next: Some(point) };
    };
    let (steps, rest) = divide(passed, period);
    let latest = now.checked_sub(rest).unwrap_or(from);
    Backlog {
        count: steps.saturating_add(1),
        oldest: point,
        latest: Point::Wall(latest),
        next: Some(later(latest, period)),
    }
}

/// The point after `wall`; beyond the last time that a wall clock can show it is the end of time.
fn later(wall: SystemTime, period: Duration) -> Point {
    wall.checked_add(period).map_or(Point::Tick(Tick::MAX), Point::Wall)
}

/// How often `period` fits into a time, and what is left.
fn divide(time: Duration, period: Duration) -> (u64, Duration) {
    const SECOND: u128 = 1_000_000_000;
    let (time, period) = (time.as_nanos(), period.as_nanos().max(1));
    let rest = time % period;
    // Both fit: the rest is no longer than the time was.
    let (seconds, nanos) = ((rest / SECOND) as u64, (rest % SECOND) as u32);
    (u64::try_from(time / period).unwrap_or(u64::MAX), Duration::new(seconds, nanos))
}

fn pages(calendar: &Shelf, from: SystemTime, now: SystemTime) -> Backlog {
    let point = Point::Wall(from);
    let after = |wall: SystemTime| calendar.next_after(wall);
    if from > now {
        return Backlog { count: 0, oldest: point, latest: point, next: Some(point) };
    }
    let (mut count, mut latest, mut next) = (1, from, after(from));
    while let Some(due) = next.filter(|next| *next <= now) {
        if count == COUNTED {
            latest = leap(&after, due, now);
        } else {
            latest = due;
        }
        count += 1;
        next = after(latest);
        if count > 2 * COUNTED {
            // Dense beyond counting: what is left lies within a second.
            next = after(now);
            break;
        }
    }
    Backlog { count, oldest: point, latest: Point::Wall(latest), next: next.map(Point::Wall) }
}

/// A point that is due, as near to `now` as leaps of powers of two find one.
fn leap(after: &impl Fn(SystemTime) -> Option<SystemTime>, from: SystemTime, now: SystemTime) -> SystemTime {
    let mut latest = from;
    for power in (0..40).rev() {
        let Some(start) = now.checked_sub(Duration::from_secs(1 << power)) else { continue };
        if start > latest {
            latest = after(start).filter(|found| *found <= now).unwrap_or(latest);
        }
    }
    latest
}

#[cfg(all(test, not(punctual_loom)))]
mod tests {
    use super::{Backlog, COUNTED, Now, Plan, Point, Shelf};
    use punctual_engine::{Schedule, Tick};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    fn wall(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn now(seconds: u64) -> Now {
        Now { tick: Tick::ZERO.after(Duration::from_secs(seconds)), wall: wall(seconds) }
    }

    fn every(seconds: u64) -> Plan {
        let next = move |after: SystemTime| {
            let passed = after.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            Some(wall((passed / seconds + 1) * seconds))
        };
        Plan::Calendar(Shelf::new(next))
    }

    fn seconds(point: Point) -> u64 {
        match point {
            Point::Tick(tick) => tick.as_nanos() / 1_000_000_000,
            Point::Wall(wall) => wall.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(),
        }
    }

    /// Arithmetic and counting agree, and both with a walk over the points.
    #[test]
    fn a_grid_and_a_calendar_of_the_same_points_are_equally_far_behind() {
        fastrand::seed(3);
        for _ in 0..2000 {
            let period = fastrand::u64(1..50);
            let first = fastrand::u64(0..20) * period;
            let at = now(fastrand::u64(0..2000));
            let grid = Plan::Schedule(Schedule::FixedRate(Duration::from_secs(period)));
            let ticks = grid.backlog(Point::Tick(now(first).tick), at);
            let walls = every(period).backlog(Point::Wall(wall(first)), at);
            let from_wall = grid.backlog(Point::Wall(wall(first)), at);
            let due: Vec<u64> =
                (0..).map(|n| first + n * period).take_while(|p| now(*p).tick <= at.tick).collect();
            for backlog in [ticks, walls, from_wall] {
                if backlog.count >= COUNTED {
                    continue;
                }
                assert_eq!(backlog.count, due.len() as u64);
                assert_eq!(seconds(backlog.oldest), first);
                assert_eq!(seconds(backlog.latest), *due.last().unwrap_or(&first));
                assert_eq!(seconds(backlog.next.unwrap()), first + due.len() as u64 * period);
            }
        }
    }

    /// A month of seconds is not walked through one by one, and the end is found all the same.
    #[test]
    fn a_calendar_far_behind_is_found_out_with_bounded_work() {
        let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let next = move |after: SystemTime| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Some(after + Duration::from_secs(1))
        };
        let month = 30 * 24 * 3600;
        let backlog = Plan::Calendar(Shelf::new(next)).backlog(Point::Wall(wall(0)), now(month));
        assert!(backlog.count >= COUNTED);
        assert!(seconds(backlog.latest) + 1 >= month);
        assert_eq!(seconds(backlog.next.unwrap()), month + 1);
        assert!(asked.load(std::sync::atomic::Ordering::Relaxed) < 3 * COUNTED);
    }

    #[test]
    fn a_calendar_that_does_not_move_on_has_ended() {
        let stuck = Plan::Calendar(Shelf::new(Some));
        let from = Point::Wall(wall(5));
        assert_eq!(stuck.after(from), None);
        let backlog = stuck.backlog(from, now(9));
        assert_eq!(backlog, Backlog { count: 1, oldest: from, latest: from, next: None });
    }

    #[test]
    fn the_first_point_not_before_an_instant_is_found_at_its_edges() {
        let starts = [Point::Tick(now(20).tick), Point::Wall(wall(20))];
        let grids = starts.map(|from| (Plan::Schedule(Schedule::FixedRate(Duration::from_secs(10))), from));
        for (plan, from) in grids.into_iter().chain([(every(10), starts[1])]) {
            for (earliest, expected) in [(0, 20), (20, 20), (21, 30), (30, 30), (31, 40)] {
                assert_eq!(seconds(plan.since(from, now(earliest))), expected, "{plan:?} {earliest}");
            }
        }
    }

    /// The executor's clock began an hour after the point.
    #[test]
    fn an_offset_counts_from_a_point_that_is_older_than_the_clock() {
        let young = Now { tick: Tick::ZERO, wall: wall(3600) };
        for (offset, expected) in [(0, 0), (3599, 0), (3600, 0), (3700, 100)] {
            let due = young.tick_after(Point::Wall(wall(0)), Duration::from_secs(offset));
            assert_eq!(due, now(expected).tick, "{offset}");
        }
        assert_eq!(young.tick_after(Point::Wall(wall(0)), Duration::MAX), Tick::MAX);
    }

    /// The end of time is a point like any other: nothing overflows there.
    #[test]
    fn a_grid_at_the_end_of_time_stays_there() {
        let grid = Plan::Schedule(Schedule::FixedRate(Duration::MAX));
        let end = Now::only(Tick::MAX);
        let backlog = grid.backlog(Point::Tick(Tick::MAX), end);
        assert_eq!((backlog.count, backlog.next), (1, Some(Point::Tick(Tick::MAX))));
        let dense = Plan::Schedule(Schedule::FixedRate(Duration::from_nanos(1)));
        assert_eq!(dense.backlog(Point::Tick(Tick::ZERO), end).count, u64::MAX);
        let ages = now(u64::from(u32::MAX) * 1000);
        assert_eq!(dense.backlog(Point::Wall(wall(0)), ages).count, u64::MAX);
        assert_eq!(grid.after(Point::Wall(wall(0))), Some(Point::Tick(Tick::MAX)));
        assert_eq!(grid.backlog(Point::Wall(wall(0)), ages).next, Some(Point::Tick(Tick::MAX)));
    }
}
