//! Jobs that come again.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use punctual::{Clock, Gap, WallOverlap};
use punctual_durable::{Done, Filter, JobContext, JobState, Overlap, Saved, ScheduleBuilder, Timestamp};

use crate::bench::{Bench, HOUR, Mail, SECOND, mail};

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
    // Before the last is over: otherwise one more may begin.
    jobs.remove_schedule("slow").unwrap();
    bench.clock.advance(HOUR);
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

/// Not before, although a node fires ahead, and not with the next renewal of its lease, which is minutes away.
#[test]
fn a_handler_is_asked_to_stop_when_the_next_occurrence_comes() {
    let bench = Bench::new();
    let (sender, calls) = channel();
    let clock = bench.clock.clone();
    let handler = move |_: Mail, cx: &JobContext| {
        let second = || clock.now().as_nanos() / 1_000_000_000;
        let begun = second();
        let slept = cx.sleep(25 * SECOND);
        sender.send((begun, second()))?;
        slept?;
        Ok(Done)
    };
    let jobs = bench.jobs().handle("mail", handler).start().unwrap();
    let replaced = jobs.schedule("s").every(10 * SECOND).overlap(Overlap::Replace).job(mail("a"));
    replaced.save().unwrap();
    bench.clock.advance(45 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(10, 20), (20, 30), (30, 40)]);
    jobs.remove_schedule("s").unwrap();
    bench.clock.advance(20 * SECOND);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [(40, 65)], "nothing came after it");
    let ended = |state| jobs.find(&Filter::new().state(state)).unwrap().len();
    assert_eq!((ended(JobState::Cancelled), ended(JobState::Done)), (3, 1));
    bench.end(jobs);
}

type Policy = fn(ScheduleBuilder<'_>) -> ScheduleBuilder<'_>;

/// What happens in Berlin within a day from noon on, so many days after the year 2000 began: which schedule, when, and as
/// which occurrence.
fn a_day_in_berlin<const N: usize>(
    days: u32,
    policies: [(&str, Policy); N],
) -> Vec<(String, String, String)> {
    let bench = Bench::new();
    bench.clock.jump(days * 24 * HOUR + 12 * HOUR);
    let (sender, calls) = channel();
    let store = bench.store.clone();
    let handler = move |_: Mail, cx: &JobContext| {
        let (name, nominal) = cx.series().unwrap();
        let hour = |time: Timestamp| time.to_string()[11..16].to_owned();
        sender.send((name.to_owned(), hour(punctual_durable::Store::now(&*store)), hour(nominal)))?;
        Ok(Done)
    };
    let jobs = bench.jobs().poll_interval(HOUR).handle("mail", handler).start().unwrap();
    for (name, policy) in policies {
        let nightly = jobs.schedule(name).cron("30 2 * * *", "Europe/Berlin").unwrap();
        policy(nightly).job(mail("a")).save().unwrap();
    }
    bench.clock.advance(24 * HOUR);
    let mut happened: Vec<_> = calls.try_iter().collect();
    happened.sort();
    bench.end(jobs);
    happened
}

fn at(name: &str, hour: &str) -> (String, String, String) {
    (name.to_owned(), hour.to_owned(), hour.to_owned())
}

/// On 26 March 2000 no wall in Berlin shows half past two; on 29 October every one shows it twice.
#[test]
fn schedules_follow_their_policy_when_the_clocks_are_changed() {
    let spring = a_day_in_berlin(
        31 + 29 + 24,
        [
            ("default", |nightly| nightly),
            ("shift", |nightly| nightly.gap(Gap::Shift)),
            ("skip", |nightly| nightly.gap(Gap::Skip)),
        ],
    );
    assert_eq!(spring, [at("default", "01:00"), at("shift", "01:30")]);
    let autumn = a_day_in_berlin(
        301,
        [
            ("both", |nightly| nightly.wall_overlap(WallOverlap::Both)),
            ("default", |nightly| nightly),
            ("second", |nightly| nightly.wall_overlap(WallOverlap::Second)),
        ],
    );
    let twice = [at("both", "00:30"), at("both", "01:30")];
    assert_eq!(autumn, [&twice[..], &[at("default", "00:30"), at("second", "01:30")]].concat());
}
