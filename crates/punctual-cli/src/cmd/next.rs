//! `punctual next`: what an expression means, and when it fires.

use std::fmt::Write as _;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual::{ClockChange, CronError, CronErrorKind, CronOptions, CronSchedule, Occurrence};
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use super::{complain, print};
use crate::args::NextArgs;
use crate::exit::Exit;
use crate::file::{CLOCKS_BACK, CLOCKS_FORWARD, instant, show, zone};

/// Prints the description, and a line for each time.
pub(crate) fn next(args: &NextArgs) -> Exit {
    match times(args) {
        Ok(text) => print(&text),
        Err(message) => {
            complain(&format!("punctual: {message}\n"));
            Exit::Wrong
        }
    }
}

fn times(args: &NextArgs) -> Result<String, String> {
    let (name, rules) = zone(&args.tz).map_err(|(message, help)| format!("{message}; {help}"))?;
    let cron = CronOptions::new().seed(&args.name).parse(&args.expression);
    let schedule = cron.and_then(|cron| CronSchedule::new(cron, name.as_str()));
    let schedule = schedule.map_err(|error| wrong(&error))?;
    let schedule = schedule
        .gap(chosen(&CLOCKS_FORWARD, &args.clocks_forward))
        .overlap(chosen(&CLOCKS_BACK, &args.clocks_back));
    let now = SystemTime::now();
    let from = match &args.from {
        Some(text) => instant(text, &rules).map_err(|message| format!("`--from`: {message}"))?,
        None => now,
    };
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let occurrences = schedule.occurrences(from).take(count);
    if args.json {
        return Ok(occurrences.map(|occurrence| object(&occurrence)).collect());
    }
    let occurrences: Vec<Occurrence> = occurrences.collect();
    let mut text = format!("{}\n\n", schedule.describe());
    text += &table(&occurrences, schedule.zone(), from, now, &rules);
    if occurrences.len() < count {
        text += match occurrences.len() {
            0 => "it never fires again\n",
            _ => "that was the last time\n",
        };
    }
    Ok(text)
}

/// What a word stands for. The arguments let no other word through.
fn chosen<T: Copy + Default>(words: &[(&str, T)], word: &str) -> T {
    words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value).unwrap_or_default()
}

fn wrong(error: &CronError) -> String {
    match error.kind() {
        CronErrorKind::Zone => error.to_string(),
        _ => format!("this is no cron expression: {error:#}"),
    }
}

fn table(
    occurrences: &[Occurrence],
    zone: &str,
    from: SystemTime,
    now: SystemTime,
    rules: &TimeZone,
) -> String {
    let locals: Vec<String> = occurrences.iter().map(ToString::to_string).collect();
    let width = locals.iter().map(|local| local.width()).chain([zone.width()]).max().unwrap_or(0);
    let numbers = occurrences.len().to_string().len();
    let mut text = format!("{:>numbers$}  {zone:<width$}  UTC\n", "");
    let mut before = from;
    for (index, (occurrence, local)) in occurrences.iter().zip(&locals).enumerate() {
        for change in changes(before, occurrence.at(), rules) {
            let _ = writeln!(text, "{:>numbers$}  ~ {change}", "");
        }
        before = occurrence.at();
        let away = match occurrence.at().duration_since(now) {
            Ok(away) => format!("in {}", show(away)),
            Err(ago) => format!("{} ago", show(ago.duration())),
        };
        let _ = write!(text, "{:>numbers$}  {local:<width$}  {}  {away}", index + 1, utc(occurrence.at()));
        let _ = writeln!(text, "{}", note(occurrence));
    }
    text
}

/// What a change of the clocks did to it.
fn note(occurrence: &Occurrence) -> String {
    match (occurrence.clock_change(), occurrence.skipped()) {
        (ClockChange::Moved, Some(wall)) => {
            format!("  ! stands for {}, which the clocks skip", wall.get(11..).unwrap_or(&wall))
        }
        (ClockChange::Moved, None) => "  ! moved: the clocks skip its time".to_owned(),
        (ClockChange::FirstPass, _) => "  ! the first of two such times".to_owned(),
        (ClockChange::SecondPass, _) => "  ! the second of two such times".to_owned(),
        _ => String::new(),
    }
}

/// The changes of the clocks after `from` and not after `to`, in words; the last few if there are many.
fn changes(from: SystemTime, to: SystemTime, rules: &TimeZone) -> Vec<String> {
    const MOST: usize = 3;
    let (Ok(from), Ok(to)) = (Timestamp::try_from(from), Timestamp::try_from(to)) else { return Vec::new() };
    let mut offset = rules.to_offset(from);
    let mut found = Vec::new();
    for transition in rules.following(from).take_while(|transition| transition.timestamp() <= to) {
        let (before, after) = (offset, transition.offset());
        offset = after;
        if before == after {
            continue;
        }
        let shift = std::time::Duration::from_secs(u64::from(after.seconds().abs_diff(before.seconds())));
        let way = if after > before { "forward" } else { "back" };
        let shown = before.to_datetime(transition.timestamp()).strftime("%a %Y-%m-%d %H:%M");
        let reads = after.to_datetime(transition.timestamp()).strftime("%H:%M");
        found.push(format!(
            "the clocks go {way} by {} on {shown}, to {reads} ({})",
            show(shift),
            transition.abbreviation()
        ));
    }
    let many = found.len().saturating_sub(MOST);
    found.split_off(many)
}

fn utc(at: SystemTime) -> String {
    Timestamp::try_from(at)
        .map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

fn object(occurrence: &Occurrence) -> String {
    let change = match occurrence.clock_change() {
        ClockChange::Moved => "moved",
        ClockChange::FirstPass => "first-pass",
        ClockChange::SecondPass => "second-pass",
        _ => "none",
    };
    let object = json!({
        "utc": utc(occurrence.at()).replacen(' ', "T", 1),
        "wall": occurrence.wall(),
        "offset": occurrence.offset(),
        "abbreviation": occurrence.abbreviation(),
        "weekday": occurrence.weekday(),
        "clock_change": change,
        "stands_for": occurrence.skipped(),
    });
    format!("{object}\n")
}
