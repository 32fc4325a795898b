//! Occurrences that are made up for.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use punctual::ManualClock;
use punctual_durable::{
    Cadence, Client, Done, Filter, JobContext, Jobs, MemoryStore, Result, ScheduleRecord, Store, Timestamp,
};

use crate::bench::{Bench, HOUR, Mail, SECOND, mail};
use crate::delegate::delegate;

fn now(bench: &Bench) -> SystemTime {
    bench.store.now().to_system_time().unwrap()
}

#[test]
fn a_backfill_is_what_its_preview_says() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    jobs.schedule("hourly").every(HOUR).job(mail("a")).save().unwrap();
    bench.clock.advance(HOUR / 2);
    let range = now(&bench) - 5 * HOUR..now(&bench);
    let preview = jobs.occurrences("hourly", range.clone()).unwrap();
    assert_eq!(preview.len(), 5);
    assert!(jobs.find(&Filter::new()).unwrap().is_empty(), "a preview does nothing");
    assert_eq!(jobs.backfill("hourly", range).unwrap(), preview);
    bench.clock.wait_until_idle();
    let made = jobs.find(&Filter::new()).unwrap();
    let nominal: Vec<_> = made.iter().map(|job| job.series.as_ref().unwrap().1).collect();
    assert_eq!(nominal, preview);
    assert!(made.iter().all(|job| job.state == punctual_durable::JobState::Done));
    assert_eq!(jobs.backfill("hourly", now(&bench)..now(&bench)).unwrap(), []);
    bench.end(jobs);
}

#[test]
fn a_backfill_that_makes_no_sense_is_refused_with_a_reason_and_makes_nothing() {
    let bench = Bench::new();
    let jobs = bench.jobs().handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    jobs.schedule("often").every(SECOND).job(mail("a")).save().unwrap();
    jobs.schedule("delay").with_delay(SECOND).job(mail("a")).save().unwrap();
    jobs.pause_schedule("often", "test").unwrap();
    jobs.pause_schedule("delay", "test").unwrap();
    bench.clock.advance(HOUR);
    let refused = |name, from, until| jobs.backfill(name, from..until).unwrap_err();
    let now = now(&bench);
    let error = refused("none", now - HOUR, now);
    assert!(error.is_invalid() && error.to_string().contains("\"none\""), "{error}");
    assert!(refused("delay", now - HOUR, now).to_string().contains("no times of its own"));
    let error = refused("often", now - HOUR, now);
    assert!(error.to_string().contains(&format!("more than {}", Client::MAX_BACKFILL)), "{error}");
    assert!(refused("often", now - SECOND, now + HOUR / 60).to_string().contains("has not come yet"));
    assert_eq!(jobs.find(&Filter::new()).unwrap(), []);
    let most = u32::try_from(Client::MAX_BACKFILL).unwrap();
    assert_eq!(jobs.occurrences("often", now - most * SECOND..now).unwrap().len(), Client::MAX_BACKFILL);
    bench.end(jobs);
}

/// A store whose schedules were saved where a zone was known that is not known here.
#[derive(Debug)]
struct Elsewhere {
    store: MemoryStore,
}

impl Store for Elsewhere {
    delegate! { now on_news tell_news enqueue cancel reschedule retry purge trim set_queue save_schedule set_schedule fire job find failures log queues lines upcoming tallies errors check identity import leave renew peek exchange rescue }

    fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        self.store.schedules().map(elsewhere)
    }

    fn due_schedules(&self, kinds: &[String], until: Timestamp) -> Result<Vec<ScheduleRecord>> {
        self.store.due_schedules(kinds, until).map(elsewhere)
    }
}

fn elsewhere(mut records: Vec<ScheduleRecord>) -> Vec<ScheduleRecord> {
    for record in &mut records {
        if let Cadence::Cron { zone, .. } = &mut record.definition.cadence {
            *zone = "Atlantis/Poseidonis".to_owned();
        }
    }
    records
}

/// It waits for a node that knows the zone. This one has nothing to do about it, and does nothing: it used to step again
/// and again, without end.
#[test]
fn a_schedule_in_a_zone_that_is_gone_does_not_keep_a_node_busy() {
    let clock = ManualClock::new();
    let store = Arc::new(Elsewhere { store: MemoryStore::with_time(clock.clone()) });
    let (sender, calls) = channel();
    let handler = move |_: Mail, cx: &JobContext| {
        sender.send(cx.series().unwrap().0.to_owned())?;
        Ok(Done)
    };
    let jobs = Jobs::on(store).clock(clock.clone()).poll_interval(HOUR).lease(3 * HOUR);
    let jobs = jobs.handle("mail", handler).start().unwrap();
    jobs.schedule("daily").cron("0 9 * * *", "Europe/Berlin").unwrap().job(mail("a")).save().unwrap();
    jobs.schedule("other").every(5 * HOUR).job(mail("a")).save().unwrap();
    clock.advance(24 * HOUR);
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), ["other"; 4]);
    assert_eq!(jobs.shutdown(Duration::ZERO).unwrap(), 0);
}

#[test]
fn a_backfill_in_a_zone_that_is_gone_names_the_zone_and_says_what_to_do() {
    let jobs = Jobs::on(Arc::new(Elsewhere { store: MemoryStore::new() }));
    let jobs = jobs.handle("mail", |_: Mail, _: &JobContext| Ok(Done)).start().unwrap();
    jobs.schedule("daily").cron("0 9 * * *", "Europe/Berlin").unwrap().job(mail("a")).save().unwrap();
    let now = jobs.store().now().to_system_time().unwrap();
    for refused in [jobs.occurrences("daily", now - HOUR..now), jobs.backfill("daily", now - HOUR..now)] {
        let error = refused.unwrap_err();
        let text = error.to_string();
        assert!(error.is_invalid(), "{text}");
        for part in ["\"daily\"", "Atlantis/Poseidonis", "install the zone, or save the schedule"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert_eq!(jobs.find(&Filter::new()).unwrap(), []);
    let findings = jobs.doctor().unwrap();
    assert!(findings.iter().any(|it| it.message.contains("Atlantis")), "{findings:?}");
}
