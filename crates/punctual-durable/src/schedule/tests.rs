use punctual::{Gap, WallOverlap};

use super::*;

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn every(seconds: u64, missed: Missed) -> ScheduleRecord {
    let cadence = Cadence::Every(Duration::from_secs(seconds));
    let schedule = NewSchedule { missed, ..NewSchedule::new("s", cadence, NewJob::new("k", "{}")) };
    ScheduleRecord::saved(schedule, second(0))
}

fn fired(record: &ScheduleRecord, now: i64) -> (Vec<Timestamp>, Option<Timestamp>) {
    let firing = record.firing(second(now), second(now)).expect("it is time");
    (firing.occurrences, firing.next)
}

#[test]
fn a_grid_is_kept_and_what_was_missed_follows_the_policy() {
    let at = |seconds: &[i64]| seconds.iter().map(|s| second(*s)).collect::<Vec<_>>();
    let late = 47; // the points 10, 20, 30 and 40 have passed
    assert_eq!(every(10, Missed::once()).firing(second(9), second(9)), None);
    assert_eq!(fired(&every(10, Missed::skip()), 10), (at(&[10]), Some(second(20))), "on time is not missed");
    assert_eq!(fired(&every(10, Missed::skip()), late), (vec![], Some(second(50))));
    assert_eq!(fired(&every(10, Missed::once()), late), (at(&[40]), Some(second(50))));
    assert_eq!(fired(&every(10, Missed::all(3)), late), (at(&[20, 30, 40]), Some(second(50))));
    assert_eq!(fired(&every(10, Missed::all(9)), late).0, at(&[10, 20, 30, 40]));
    assert_eq!(fired(&every(10, Missed::shift()), 10), (at(&[10]), Some(second(20))), "the grid stays");
    assert_eq!(fired(&every(10, Missed::shift()), 40).1, Some(second(50)), "the latest is on time");
    assert_eq!(fired(&every(10, Missed::shift()), late), (vec![second(late)], Some(second(late + 10))));
    let strict = Missed::shift().within(Duration::from_secs(1));
    assert_eq!(fired(&every(10, strict), late), (vec![], Some(second(50))), "too late to happen");
    let within = Missed::all(9).within(Duration::from_secs(20));
    assert_eq!(fired(&every(10, within), late).0, at(&[30, 40]));
    assert_eq!(fired(&every(10, Missed::once()), 50).0, at(&[50]), "what is on time is one of them");
}

#[test]
fn what_comes_soon_is_fired_ahead() {
    let firing = every(10, Missed::once()).firing(second(8), second(21)).unwrap();
    assert_eq!((firing.occurrences, firing.next), (vec![second(10), second(20)], Some(second(30))));
}

#[test]
fn a_thousand_years_of_absence_cost_nothing() {
    let record = every(1, Missed::all(5));
    let now = 1_000 * 365 * 86_400;
    let (occurrences, next) = fired(&record, now);
    assert_eq!((occurrences.len(), next), (5, Some(second(now + 1))));
    let end = record.firing(Timestamp::MAX, Timestamp::MAX).unwrap();
    assert_eq!(end.next, Some(Timestamp::MAX));
    let ages = every(1 << 60, Missed::once());
    assert_eq!(ages.firing(Timestamp::MAX, Timestamp::MAX).unwrap().next, Some(Timestamp::MAX));
}

#[test]
fn a_fixed_delay_waits_for_the_end() {
    let delay = NewSchedule::new("s", Cadence::Delay(Duration::from_secs(10)), NewJob::new("k", "{}"));
    let record = ScheduleRecord::saved(delay.clone(), second(0));
    assert_eq!(fired(&record, 10), (vec![second(10)], None));
    let skip = ScheduleRecord::saved(NewSchedule { missed: Missed::skip(), ..delay }, second(0));
    assert_eq!(fired(&skip, 20), (vec![], Some(second(30))));
}

fn cron(expression: &str, zone: &str, missed: Missed) -> ScheduleRecord {
    let cadence = Cadence::cron(expression, zone).unwrap();
    let schedule = NewSchedule { missed, ..NewSchedule::new("s", cadence, NewJob::new("k", "{}")) };
    ScheduleRecord::saved(schedule, second(0))
}

#[test]
fn a_cron_schedule_follows_the_wall_and_the_policy() {
    let day = 86_400;
    let nine = cron("0 9 * * *", "UTC", Missed::once());
    assert_eq!(nine.next, Some(second(9 * 3_600)));
    assert_eq!(fired(&nine, 9 * 3_600), (vec![second(9 * 3_600)], Some(second(day + 9 * 3_600))));
    let late = 400 * day;
    assert_eq!(fired(&nine, late), (vec![second(399 * day + 9 * 3_600)], Some(second(late + 9 * 3_600))));
    let all = cron("0 9 * * *", "UTC", Missed::all(3));
    let expected: Vec<_> = [397, 398, 399].map(|n| second(n * day + 9 * 3_600)).into();
    assert_eq!(fired(&all, late).0, expected);
    assert_eq!(fired(&cron("0 9 * * *", "UTC", Missed::skip()), late).0, []);
    let started = NewSchedule { start: Some(second(9 * 3_600)), ..nine.definition.clone() };
    assert_eq!(started.first(second(0)), Some(second(9 * 3_600)), "the start itself is a time");
}

#[test]
fn a_dense_expression_after_a_thousand_years_costs_little() {
    let record = cron("* * * * * *", "Europe/Berlin", Missed::all(5));
    let now = 1_000 * 365 * 86_400;
    let (occurrences, next) = fired(&record, now);
    let expected: Vec<_> = (now - 4..=now).map(second).collect();
    assert_eq!((occurrences, next), (expected, Some(second(now + 1))));
    let ended = cron("0 0 0 1 1 * 2000", "UTC", Missed::once());
    let last = second(946_684_800);
    let firing = ended.firing(last, last).unwrap();
    assert_eq!((firing.occurrences, firing.next), (vec![last], None), "there is no more");
}

/// The second before the silence, not some second long before it.
#[test]
fn what_was_missed_before_a_long_silence_is_the_latest_of_it() {
    let day = 86_400;
    // Every second of January; and then it is December.
    let record = cron("* * * * 1 *", "UTC", Missed::all(5));
    let (occurrences, _) = fired(&record, 340 * day);
    let end = 31 * day;
    assert_eq!(occurrences, (end - 5..end).map(second).collect::<Vec<_>>());
}

#[test]
fn as_many_as_may_be_missed_are_the_latest() {
    let most = i64::from(Missed::MOST);
    let record = cron("* * * * * *", "UTC", Missed::all(Missed::MOST));
    let now = most + most / 2;
    let (occurrences, _) = fired(&record, now);
    assert_eq!(occurrences.len(), Missed::MOST as usize);
    assert_eq!((occurrences[0], occurrences.last()), (second(now - most + 1), Some(&second(now))));
    record.definition.check().unwrap();
    let more = NewSchedule { missed: Missed::all(Missed::MOST + 1), ..record.definition };
    let error = more.check().unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("100001"), "{error}");
}

#[test]
fn an_expression_that_makes_no_sense_is_refused_with_its_text() {
    let error = Cadence::cron("0 9 * * FUNDAY", "UTC").unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("FUNDAY"), "{error}");
    let error = Cadence::cron("0 9 * * *", "Europe/Belrin").unwrap_err();
    assert!(error.to_string().contains("Belrin"), "{error}");
}

#[test]
fn times_lie_on_the_grid_in_both_directions_and_are_bounded() {
    let record = every(10, Missed::once());
    let origin = record.next.unwrap();
    let seconds = |from: i64, until: i64, most| {
        let shift = |seconds: i64| Timestamp::from_micros(origin.as_micros() + seconds * 1_000_000);
        let times = record.times(shift(from), shift(until), most).unwrap();
        times.iter().map(|time| (time.as_micros() - origin.as_micros()) / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(seconds(-20, 20, 99), [-20, -10, 0, 10], "the end is not part of it");
    assert_eq!(seconds(-19, 11, 99), [-10, 0, 10]);
    assert!(seconds(1, 10, 99).is_empty());
    assert!(seconds(5, -5, 99).is_empty());
    assert_eq!(seconds(-1_000_000, 20, 2), [-1_000_000, -999_990]);
    let all = record.times(Timestamp::from_micros(i64::MIN), Timestamp::MAX, 3).unwrap();
    assert_eq!(all.len(), 3);
    assert!(record.times(Timestamp::MAX, Timestamp::MAX, 3).unwrap().is_empty());
    let delay = NewSchedule { cadence: Cadence::Delay(Duration::from_secs(1)), ..record.definition.clone() };
    assert_eq!(ScheduleRecord::saved(delay, origin).times(origin, Timestamp::MAX, 3), None);
}

/// What is run may be changed as often as one likes.
#[test]
fn another_job_or_policy_changes_nothing_about_when() {
    for record in [every(10, Missed::once()), cron("0 9 * * *", "UTC", Missed::once())] {
        let started = NewSchedule { start: record.next, ..record.definition.clone() };
        for record in [record, ScheduleRecord::saved(started, second(0))] {
            let mut record = ScheduleRecord { last: Some(second(3)), owed: Some(second(4)), ..record };
            let before = record.clone();
            let definition = NewSchedule { missed: Missed::all(7), ..before.definition.clone() };
            let definition = NewSchedule { job: NewJob::new("k", "[]"), ..definition };
            // The next one has come, and nobody has fired it yet.
            assert_eq!(record.redefine(definition.clone(), second(40_000)), Saved::Updated);
            assert_eq!(record, ScheduleRecord { definition, version: 2, ..before });
        }
    }
}

#[test]
fn other_times_begin_after_now_and_after_what_has_happened() {
    let every = |seconds| Cadence::Every(Duration::from_secs(seconds));
    let nine = Cadence::cron("0 9 * * *", "UTC").unwrap();
    let hour = 3_600;
    let after = |cadence: &Cadence, start: Option<i64>, (last, owed): (i64, i64), now| {
        let old = self::every(7, Missed::once());
        let mut record = ScheduleRecord { last: Some(second(last)), owed: Some(second(owed)), ..old };
        let start = start.map(second);
        let definition = NewSchedule { cadence: cadence.clone(), start, ..record.definition.clone() };
        assert_eq!(record.redefine(definition, second(now)), Saved::Updated);
        assert_eq!(record.owed, Some(second(owed)), "what is owed is owed");
        record.next.unwrap().as_micros() / 1_000_000
    };
    assert_eq!(after(&every(10), None, (1, 2), 100), 110);
    assert_eq!(after(&every(10), Some(7), (1, 2), 100), 107, "on the grid of its start");
    assert_eq!(after(&every(10), Some(7), (1, 2), 107), 107, "now is not too late");
    assert_eq!(after(&every(10), Some(7), (107, 2), 107), 117, "once it has happened, it has");
    assert_eq!(after(&every(10), Some(7), (1, 107), 107), 117, "or will");
    assert_eq!(after(&every(10), Some(500), (1, 2), 100), 500);
    assert_eq!(after(&every(1), None, (105, 2), 100), 106, "the last one was fired ahead");
    assert_eq!(after(&nine, None, (1, 2), 8 * hour), 9 * hour);
    assert_eq!(after(&nine, Some(1), (1, 2), 80 * hour), 81 * hour);
    assert_eq!(after(&nine, Some(1), (1, 2), 81 * hour), 81 * hour);
    assert_eq!(after(&nine, None, (9 * hour, 2), 9 * hour - 1), 33 * hour, "fired ahead");
    let delay = Cadence::Delay(Duration::from_secs(10));
    assert_eq!(after(&delay, Some(7), (1, 2), 100), 110);
    assert_eq!(after(&delay, Some(200), (1, 2), 100), 200);
}

#[test]
fn another_delay_waits_for_the_end_as_well() {
    let delay = |seconds| Cadence::Delay(Duration::from_secs(seconds));
    let schedule = NewSchedule::new("s", delay(10), NewJob::new("k", "{}"));
    let mut record = ScheduleRecord { next: None, ..ScheduleRecord::saved(schedule.clone(), second(0)) };
    let _ = record.redefine(NewSchedule { cadence: delay(20), ..schedule }, second(5));
    assert_eq!(record.next, None, "by 3");
    assert_eq!((record.next_after_end(second(6)), record.next), (None, Some(second(26))));
}

#[test]
fn a_paused_schedule_does_not_fire() {
    let paused = ScheduleRecord { paused: Some((second(1), String::new())), ..every(10, Missed::once()) };
    assert_eq!(paused.firing(second(99), second(99)), None);
}

#[test]
fn schedules_that_make_no_sense_are_refused() {
    let with = |name: &str, period| NewSchedule::new(name, Cadence::Every(period), NewJob::new("k", "{}"));
    assert!(with("", Duration::from_secs(1)).check().is_err());
    assert!(with("s", Duration::from_micros(999)).check().unwrap_err().to_string().contains("999µs"));
    with("s", Duration::from_millis(1)).check().unwrap();
    let keyed = NewJob::new("k", "{}").unique("u", crate::OnConflict::Keep);
    let schedule = NewSchedule { job: keyed, ..with("s", Duration::from_secs(1)) };
    assert!(schedule.check().unwrap_err().to_string().contains("unique key"));
}

/// 2026 in New York: the clocks go forward on 8 March at 07:00 and back on 1 November at 06:00, as Greenwich counts.
const SPRING: i64 = 1_772_928_000;
const AUTUMN: i64 = 1_793_491_200;

fn new_york(expression: &str) -> Cadence {
    Cadence::cron(expression, "America/New_York").unwrap()
}

/// What is made, hour by hour, of the day that begins in Greenwich at `midnight`: hours and minutes there. The preview says
/// the same, and what is missed as well.
fn day_of(cadence: Cadence, midnight: i64) -> Vec<(i64, i64)> {
    let (from, until) = (second(midnight), second(midnight + 86_400));
    let schedule = NewSchedule::new("s", cadence, NewJob::new("k", "{}"));
    let mut record = ScheduleRecord::saved(NewSchedule { missed: Missed::all(9), ..schedule }, from);
    let preview = record.times(from, until, 99).unwrap();
    let missed = record.firing(second(midnight + 86_399), second(midnight + 86_399));
    assert_eq!(missed.map(|firing| firing.occurrences).unwrap_or_default(), preview);
    let mut made = Vec::new();
    for hour in 0..24 {
        let now = second(midnight + hour * 3_600 + 1_800);
        if let Some(firing) = record.firing(now, now) {
            made.extend(record.fired(firing, 0).iter().map(|it| it.nominal));
        }
    }
    assert_eq!(made, preview);
    let hour_and_minute = |time: &Timestamp| {
        let seconds = time.as_micros() / 1_000_000 - midnight;
        (seconds / 3_600, seconds / 60 % 60)
    };
    made.iter().map(hour_and_minute).collect()
}

#[test]
fn a_wall_time_that_does_not_exist_follows_the_policy() {
    let gap = |policy| day_of(new_york("30 2 * * *").gap(policy).unwrap(), SPRING);
    assert_eq!(day_of(new_york("30 2 * * *"), SPRING), [(7, 0)], "the first valid instant, by default");
    assert_eq!(gap(Gap::FirstValid), [(7, 0)]);
    assert_eq!(gap(Gap::Skip), []);
    assert_eq!(gap(Gap::Shift), [(7, 30)]);
}

#[test]
fn a_wall_time_that_exists_twice_follows_the_policy() {
    let overlap = |policy| day_of(new_york("30 1 * * *").wall_overlap(policy).unwrap(), AUTUMN);
    assert_eq!(day_of(new_york("30 1 * * *"), AUTUMN), [(5, 30)], "the first, by default");
    assert_eq!(overlap(WallOverlap::First), [(5, 30)]);
    assert_eq!(overlap(WallOverlap::Second), [(6, 30)]);
    assert_eq!(overlap(WallOverlap::Both), [(5, 30), (6, 30)]);
}

/// Definitions are kept as JSON, in stores and in exported files.
#[test]
fn a_definition_of_before_is_read_and_policies_at_their_default_are_not_written() {
    let before = r#"{"Cron":{"expression":"30 2 * * *","zone":"America/New_York"}}"#;
    assert_eq!(serde_json::from_str::<Cadence>(before).unwrap(), new_york("30 2 * * *"));
    assert_eq!(serde_json::to_string(&new_york("30 2 * * *")).unwrap(), before);
    for gap in [Gap::FirstValid, Gap::Skip, Gap::Shift] {
        for overlap in [WallOverlap::First, WallOverlap::Second, WallOverlap::Both] {
            let cadence = new_york("30 2 * * *").gap(gap).unwrap().wall_overlap(overlap).unwrap();
            let text = serde_json::to_string(&cadence).unwrap();
            assert_eq!(serde_json::from_str::<Cadence>(&text).unwrap(), cadence, "{text}");
        }
    }
    let later = r#"{"Cron":{"expression":"30 2 * * *","zone":"UTC","gap":"Twice"}}"#;
    assert!(serde_json::from_str::<Cadence>(later).is_err(), "it is not taken for the default");
}

/// Another policy is about when: it begins anew, and what has happened does not happen again.
#[test]
fn another_policy_for_the_wall_begins_after_what_has_happened() {
    let schedule = NewSchedule::new("s", new_york("30 1 * * *"), NewJob::new("k", "{}"));
    let mut record = ScheduleRecord::saved(schedule, second(AUTUMN));
    let now = second(AUTUMN + 5 * 3_600 + 1_800);
    let firing = record.firing(now, now).unwrap();
    assert_eq!(record.fired(firing, 0), [Happening { nominal: now, missed: 0 }]);
    let both = record.definition.cadence.clone().wall_overlap(WallOverlap::Both).unwrap();
    let definition = NewSchedule { cadence: both, ..record.definition.clone() };
    assert_eq!(record.redefine(definition, now), Saved::Updated);
    assert_eq!(record.next, Some(now.after(Duration::from_secs(3_600))));
}

#[test]
fn what_knows_no_wall_has_no_policy_for_it() {
    for cadence in [Cadence::Every(Duration::from_secs(5)), Cadence::Delay(Duration::from_secs(5))] {
        for error in [cadence.clone().gap(Gap::Skip), cadence.wall_overlap(WallOverlap::Both)] {
            let error = error.unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains("5s"), "{error}");
        }
    }
}

fn named(name: &str, expression: &str) -> NewSchedule {
    NewSchedule::new(name, Cadence::cron(expression, "UTC").unwrap(), NewJob::new("k", "{}"))
}

/// Wherever it is computed: the first time, the next ones, those that were missed, and the preview.
#[test]
fn what_h_stands_for_is_the_same_for_ever_and_depends_on_the_name() {
    let day = 86_400;
    for (name, place) in [("backup", (3 * 60 + 9) * 60), ("nightly-report", (5 * 60 + 51) * 60)] {
        let schedule = named(name, "H H(0-5) * * *");
        schedule.check().unwrap();
        let record = ScheduleRecord::saved(schedule.clone(), second(0));
        assert_eq!(record.next, Some(second(place)), "{name}");
        assert_eq!(fired(&record, place), (vec![second(place)], Some(second(day + place))));
        assert_eq!(fired(&record, 10 * day).0, [second(9 * day + place)]);
        assert_eq!(record.times(second(day), second(2 * day), 9).unwrap(), [second(day + place)]);
        let started = NewSchedule { start: Some(second(place)), ..schedule };
        assert_eq!(started.first(second(5 * day)), Some(second(place)));
        assert_eq!(started.first_from(second(place + 1), second(0)), Some(second(day + place)));
    }
}

/// Some day from 27 to 31 February: under some names there is one in leap years, under others never.
#[test]
fn whether_a_date_exists_is_known_with_the_name() {
    let february = |name: &str| named(name, "0 0 H(27-31) 2 *").check();
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let refused: Vec<_> = names.iter().filter_map(|name| february(name).err()).collect();
    assert!((1..names.len()).contains(&refused.len()), "{}", refused.len());
    for error in refused {
        assert!(error.is_invalid() && error.to_string().contains("H(27-31)"), "{error}");
    }
    assert!(Cadence::cron("0 0 31 2 *", "UTC").is_err(), "under no name at all");
    assert!(Cadence::cron("H(99-7) * * * *", "UTC").is_err());
}

fn spread(seconds: u64, spread: u64, missed: Missed) -> ScheduleRecord {
    let mut record = every(seconds, missed);
    record.definition.spread = Duration::from_secs(spread);
    record
}

/// A spread moves the whole grid: on time is on time, late is late, and the times stay what they are.
#[test]
fn what_is_spread_comes_as_if_it_were_later() {
    let hour = 3_600;
    for missed in
        [Missed::skip(), Missed::once(), Missed::all(2), Missed::all(9).within(Duration::from_secs(5_000))]
    {
        let (plain, late) = (every(3_600, missed), spread(3_600, 86_400, missed));
        let shift = late.definition.shift();
        assert!(shift > Duration::from_secs(3_600) && shift < Duration::from_secs(86_400), "{shift:?}");
        for now in [0, hour - 1, hour, hour + 1, hour + 2, 5 * hour - 1, 5 * hour, 9 * hour + 7] {
            let now = second(now);
            let until = now.after(Duration::from_secs(2));
            let expected = plain.firing(now, until);
            assert_eq!(late.firing(now.after(shift), until.after(shift)), expected, "{missed:?} {now}");
        }
        let next = late.next.unwrap();
        assert_eq!((next, late.due(next)), (second(hour), second(hour).after(shift)));
        assert_eq!(late.times(second(0), second(2 * hour), 9), plain.times(second(0), second(2 * hour), 9));
    }
}

/// Stored schedules keep their place over versions: these are the numbers.
#[test]
fn delays_are_the_same_for_ever_and_jitter_is_spread_evenly() {
    let record = |name: &str| {
        let mut record = every(3_600, Missed::once());
        record.definition = NewSchedule {
            name: name.to_owned(),
            spread: Duration::from_secs(3_600),
            jitter: Duration::from_secs(60),
            ..record.definition
        };
        record
    };
    let seconds = ["a", "report", "backup"].map(|name| record(name).definition.shift().as_secs());
    assert_eq!(seconds, [38, 677, 108], "as `punctual::Spread` says");
    let mut per_ten = [0_u32; 6];
    for n in 0..600 {
        let luck = record("a").definition.luck(second(3_600 * n));
        assert_eq!(luck, record("a").definition.luck(second(3_600 * n)));
        per_ten[usize::try_from(luck.as_secs() / 10).unwrap()] += 1;
    }
    assert!(per_ten.iter().all(|count| (70..=130).contains(count)), "{per_ten:?}");
    let millis = [0, 1, 2].map(|n| record("a").definition.luck(second(n)).as_millis());
    assert_eq!(millis, [34_281, 11_966, 57_895]);
}

#[test]
fn delays_that_make_no_sense_are_refused() {
    let schedule = every(10, Missed::once()).definition;
    let refused = |schedule: NewSchedule| schedule.check().unwrap_err().to_string();
    let longest =
        NewSchedule { spread: NewSchedule::MAX_SPREAD, jitter: NewSchedule::MAX_SPREAD, ..schedule };
    longest.check().unwrap();
    let record = ScheduleRecord::saved(longest.clone(), Timestamp::MAX);
    assert_eq!(record.due(Timestamp::MAX), Timestamp::MAX);
    assert!(refused(NewSchedule { spread: Duration::MAX, ..longest.clone() }).contains("spread over"));
    assert!(refused(NewSchedule { jitter: Duration::MAX, ..longest.clone() }).contains("jittered over"));
    let delay = NewSchedule { cadence: Cadence::Delay(Duration::from_secs(5)), ..longest };
    assert!(refused(delay.clone()).contains("5s after the last"));
    NewSchedule { spread: Duration::ZERO, ..delay }.check().unwrap();
}

/// Whatever the reason: nobody was there, another one was alive, or the one that was owed was overtaken.
#[test]
fn the_next_occurrence_is_told_how_many_came_to_nothing() {
    let step = |record: &mut ScheduleRecord, now: i64, living| {
        let firing = record.firing(second(now), second(now)).expect("it is time");
        record.fired(firing, living).iter().map(|it| (it.nominal, it.missed)).collect::<Vec<_>>()
    };
    let mut once = every(10, Missed::once());
    assert_eq!(step(&mut once, 10, 0), [(second(10), 0)]);
    assert_eq!(step(&mut once, 57, 0), [(second(50), 3)]);
    assert_eq!(step(&mut once, 60, 0), [(second(60), 0)]);
    let mut few = every(10, Missed::all(2));
    few.definition.overlap = Overlap::Allow;
    assert_eq!(step(&mut few, 57, 0), [(second(40), 3), (second(50), 0)]);
    let mut skip = every(10, Missed::skip());
    skip.definition.overlap = Overlap::Skip;
    assert_eq!(step(&mut skip, 57, 0), []);
    assert_eq!((step(&mut skip, 60, 1), skip.missed), (vec![], 6), "five, and one that was skipped");
    assert_eq!((step(&mut skip, 70, 0), skip.missed), (vec![(second(70), 6)], 0));

    let mut wait = every(10, Missed::all(9));
    assert_eq!(step(&mut wait, 30, 0), [(second(10), 0)]);
    assert_eq!((wait.owed, wait.missed), (Some(second(30)), 1));
    assert_eq!(step(&mut wait, 40, 1), []);
    assert_eq!((wait.owed, wait.missed), (Some(second(40)), 2));
    let owed = wait.next_after_end(second(41)).unwrap();
    assert_eq!((owed.nominal, owed.missed, wait.missed), (second(40), 2, 0));
    assert_eq!(step(&mut wait, 50, 1), []);
    wait.pause("why".to_owned(), second(51));
    wait.resume(0, second(85));
    assert_eq!(step(&mut wait, 85, 0), [(second(60), 1)], "the one that was owed and forgotten");
    let mut replace = every(10, Missed::all(9));
    replace.definition.overlap = Overlap::Replace;
    assert_eq!(step(&mut replace, 30, 0), [(second(30), 2)]);

    let delay = NewSchedule::new("s", Cadence::Delay(Duration::from_secs(10)), NewJob::new("k", "{}"));
    let mut delay = ScheduleRecord::saved(NewSchedule { missed: Missed::skip(), ..delay }, second(0));
    assert_eq!((step(&mut delay, 20, 0), delay.missed), (vec![], 1));
    assert_eq!(step(&mut delay, 30, 0), [(second(30), 1)]);

    let mut nine = cron("0 9 * * *", "UTC", Missed::once());
    let day = 86_400;
    assert_eq!(step(&mut nine, 10 * day, 0), [(second(9 * day + 9 * 3_600), 9)]);
    let mut seconds = cron("* * * * * *", "UTC", Missed::skip());
    assert_eq!(step(&mut seconds, 999_999_999, 0).first().unwrap().1, 1_000, "by 4 no more are counted");
}
