//! The table of jobs at the foot of a terminal.

use std::fmt::Write as _;
use std::time::SystemTime;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::board::{Board, Progress, Track};
use crate::file::show;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RESET: &str = "\x1b[0m";

/// Columns, and their least and greatest widths: numbers that come and go must not make the table dance.
/// What does not fit is cut, the last columns first.
const TITLES: [&str; 8] = ["JOB", "WHEN", "NEXT", "LAST", "TOOK", "LATE", "RUNS", "FAILED"];
const LEAST: [usize; 8] = [3, 4, 13, 8, 6, 6, 4, 6];
const WIDEST: [usize; 8] = [24, 24, 18, 26, 8, 8, 9, 7];

struct Cell {
    text: String,
    colour: &'static str,
}

impl Cell {
    fn new(text: impl Into<String>, colour: &'static str) -> Self {
        Self { text: text.into(), colour }
    }
}

/// The table as lines, none wider than `width`, at most `height` of them. `now` is for what runs.
pub(crate) fn lines(board: &Board, width: usize, height: usize, now: SystemTime) -> Vec<String> {
    let tracks = board.all();
    let rows: Vec<[Cell; 8]> = tracks.iter().map(|track| row(track, now)).collect();
    let mut widths = LEAST;
    for row in &rows {
        for ((width, cell), widest) in widths.iter_mut().zip(row).zip(WIDEST) {
            *width = (*width).max(cell.text.width()).min(widest);
        }
    }
    let titles = TITLES.map(|title| Cell::new(title, BOLD));
    let mut lines = vec![line(&titles, &widths, width)];
    // Without room for all, the ones that matter now come first: the table must not scroll.
    let room = height.saturating_sub(2);
    let mut shown: Vec<usize> = (0..rows.len()).collect();
    if shown.len() > room {
        shown.sort_by_key(|index| urgency(&tracks[*index]));
        shown.truncate(room.saturating_sub(1));
        shown.sort_unstable();
    }
    lines.extend(shown.iter().map(|index| line(&rows[*index], &widths, width)));
    if shown.len() < rows.len() {
        lines.push(cut(&format!("… and {} more", rows.len() - shown.len()), width));
    }
    lines.push(format!("{DIM}{}{RESET}", cut(&summary(&tracks), width)));
    lines.truncate(height.max(1));
    lines
}

/// What runs, then what is due next.
fn urgency(track: &Track) -> (bool, std::time::Duration) {
    let is_running = track.with(|progress| !progress.running.is_empty());
    (!is_running, track.next().unwrap_or(std::time::Duration::MAX))
}

fn summary(tracks: &[std::sync::Arc<Track>]) -> String {
    let (mut running, mut runs, mut failures, mut missed) = (0, 0, 0, 0);
    for track in tracks {
        track.with(|progress| {
            running += progress.running.len();
            runs += progress.runs;
            failures += progress.failures;
            missed += progress.missed;
        });
    }
    let jobs = tracks.len();
    format!(
        "{jobs} jobs · {running} running · {runs} runs · {failures} failed · {missed} missed · Ctrl-C ends"
    )
}

fn row(track: &Track, now: SystemTime) -> [Cell; 8] {
    let progress = track.with(|progress| progress.clone());
    let (last, colour) = match &progress.last {
        None => ("–".to_owned(), DIM),
        Some(last) if last.outcome.is_success() => ("ok".to_owned(), GREEN),
        Some(last) if last.outcome.is_failure() => (last.outcome.to_string(), RED),
        Some(last) => (last.outcome.to_string(), YELLOW),
    };
    let took = progress.last.as_ref().map_or_else(|| "–".to_owned(), |last| show(last.took));
    let late = progress.lateness.map_or_else(|| "–".to_owned(), show);
    let failures = if progress.failures > 0 { RED } else { DIM };
    [
        Cell::new(&*track.name, BOLD),
        Cell::new(progress.when.clone(), ""),
        next(&progress, track, now),
        Cell::new(last, colour),
        Cell::new(took, ""),
        Cell::new(late, ""),
        Cell::new(progress.runs.to_string(), ""),
        Cell::new(progress.failures.to_string(), failures),
    ]
}

fn next(progress: &Progress, track: &Track, now: SystemTime) -> Cell {
    if let Some(since) = progress.running.values().min() {
        let mut text = format!("running {}", show(whole(now.duration_since(*since).unwrap_or_default())));
        if progress.running.len() > 1 {
            let _ = write!(text, " ×{}", progress.running.len());
        }
        return Cell::new(text, YELLOW);
    }
    match (progress.ended, track.next()) {
        (Some(why), _) => Cell::new(why, DIM),
        (None, Some(std::time::Duration::ZERO)) => Cell::new("now", ""),
        (None, Some(delay)) => Cell::new(format!("in {}", show(whole(delay))), ""),
        (None, None) => Cell::new("–", DIM),
    }
}

/// Without what would only flicker.
fn whole(duration: std::time::Duration) -> std::time::Duration {
    if duration.as_secs() >= 10 { std::time::Duration::from_secs(duration.as_secs()) } else { duration }
}

fn line(cells: &[Cell; 8], widths: &[usize; 8], width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for (cell, wanted) in cells.iter().zip(widths) {
        let gap = if used == 0 { 0 } else { 2 };
        if used + gap >= width {
            break;
        }
        let room = (*wanted).min(width - used - gap);
        let text = cut(&cell.text, room);
        let padding = room - text.width();
        out.push_str(&" ".repeat(gap));
        let reset = if cell.colour.is_empty() { "" } else { RESET };
        let _ = write!(out, "{}{text}{reset}{}", cell.colour, " ".repeat(padding));
        used += gap + room;
    }
    out
}

/// `text`, no wider than `width`, with a mark where something was cut off.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        out.push(character);
        used += wide;
    }
    if width > 0 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Outcome;
    use std::time::Duration;

    fn board(jobs: usize) -> Board {
        let tracks: Vec<_> = (0..jobs).map(|index| Track::new(format!("job-{index}").into())).collect();
        for (index, track) in tracks.iter().enumerate() {
            track.set_next(move || Some(Duration::from_secs(100 - index as u64)));
            track.with(|progress| {
                progress.when = "every 10s".to_owned();
                progress.runs = index as u64;
                let outcome = Outcome::NotStarted("no program `frobnicate-with-a-long-name`".to_owned());
                progress.last = Some(crate::board::Last { outcome, took: Duration::from_millis(5) });
            });
        }
        let board = Board::default();
        board.set(tracks);
        board
    }

    fn bare(line: &str) -> String {
        let mut out = String::new();
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            if character == '\x1b' {
                characters.by_ref().find(|end| end.is_ascii_alphabetic());
            } else {
                out.push(character);
            }
        }
        out
    }

    #[test]
    fn no_line_is_wider_and_no_table_higher_than_there_is_room() {
        for jobs in [0, 1, 5, 50] {
            for width in [1, 2, 10, 40, 79, 200] {
                for height in [1, 2, 3, 5, 24] {
                    let lines = lines(&board(jobs), width, height, SystemTime::UNIX_EPOCH);
                    assert!(lines.len() <= height, "{jobs} jobs on {width}×{height}");
                    assert!(lines.iter().all(|line| bare(line).width() <= width), "{width}: {lines:#?}");
                }
            }
        }
    }

    #[test]
    fn without_room_for_all_those_that_are_due_next_are_shown() {
        let lines = lines(&board(50), 100, 6, SystemTime::UNIX_EPOCH);
        let shown: Vec<_> = lines.iter().map(|line| bare(line)).collect();
        assert!(shown[1].starts_with("job-47") && shown[3].starts_with("job-49"), "{shown:#?}");
        assert!(shown[4].contains("47 more"), "{shown:#?}");
    }

    #[test]
    fn a_job_that_runs_says_how_long_and_how_often() {
        let board = board(1);
        let start = SystemTime::UNIX_EPOCH;
        board.all()[0].with(|progress| progress.running.extend([(1, start), (2, start)]));
        let lines = lines(&board, 100, 10, start + Duration::from_secs(75));
        assert!(bare(&lines[1]).contains("running 1m15s ×2"), "{lines:#?}");
    }
}
