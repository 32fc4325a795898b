//! What a handler says while it runs: how far it has come, and lines for a log.
//!
//! Both are on their way for a moment: they are gathered by the node and written with its next exchange, under the guard
//! of a report (owner and fence). So a handler may say as much as it likes for the price of a lock, a holder that has been
//! superseded says nothing any more, and a crash loses the last moment.
//!
//! # Bounds
//! An attempt may say [`MOST_LINES`] lines with [`MOST_BYTES`] together; what is beyond is left out, and that is said in
//! a last line. Of its progress only the newest counts. So neither memory nor the store can be filled by a loop.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::job::{Fence, JobId};
use crate::time::Timestamp;

/// Lines of one attempt that are kept.
const MOST_LINES: u32 = 1_000;
/// Bytes in the lines of one attempt that are kept.
const MOST_BYTES: usize = 64 << 10;
/// Bytes of a message.
const MOST_MESSAGE: usize = 1 << 10;

/// How far an attempt has come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// The claim that says so. If it is not that of the job, it was an attempt before the present one.
    pub fence: Fence,
    /// When it was said.
    pub at: Timestamp,
    /// How much is done, in millionths.
    pub millionths: u32,
    /// What is going on.
    pub message: String,
}

impl Progress {
    /// Progress as a store keeps it.
    #[must_use]
    pub fn new(fence: Fence, at: Timestamp, millionths: u32, message: impl Into<String>) -> Self {
        Self { fence, at, millionths: millionths.min(1_000_000), message: message.into() }
    }

    /// How much is done, from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        f64::from(self.millionths) / 1e6
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}% {}", self.millionths / 10_000, self.message)
    }
}

/// One line in the log of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogLine {
    /// The claim that says so.
    pub fence: Fence,
    /// Its number among the lines of that claim, counted from 0.
    pub number: u32,
    /// When it was said.
    pub at: Timestamp,
    /// What was said.
    pub text: String,
}

impl LogLine {
    /// A line as a store keeps it.
    #[must_use]
    pub fn new(fence: Fence, number: u32, at: Timestamp, text: impl Into<String>) -> Self {
        Self { fence, number, at, text: text.into() }
    }
}

/// Everything that the handlers of one job have said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobLog {
    /// The newest progress.
    pub progress: Option<Progress>,
    /// The lines of all attempts, in order.
    pub lines: Vec<LogLine>,
}

impl JobLog {
    /// A log as a store keeps it.
    #[must_use]
    pub fn new(progress: Option<Progress>, lines: Vec<LogLine>) -> Self {
        Self { progress, lines }
    }
}

/// What a node has heard from one attempt since it last told the store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Update {
    /// The job.
    pub id: JobId,
    /// The claim by which the node holds it.
    pub fence: Fence,
    /// How far it has come, if that is news.
    pub progress: Option<Progress>,
    /// New lines.
    pub lines: Vec<LogLine>,
}

impl Update {
    /// Nothing yet.
    #[must_use]
    pub fn new(id: JobId, fence: Fence) -> Self {
        Self { id, fence, progress: None, lines: Vec::new() }
    }

    /// Adds what was heard after this.
    pub fn add(&mut self, later: Self) {
        self.progress = later.progress.or(self.progress.take());
        self.lines.extend(later.lines);
    }
}

/// The pen of one attempt: numbers its lines, and knows when there are enough.
#[derive(Debug, Default)]
pub(crate) struct Pen(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    lines: u32,
    bytes: usize,
    full: bool,
}

impl Pen {
    /// The next line; `None` if enough has been written.
    pub(crate) fn line(&self, fence: Fence, at: Timestamp, text: String) -> Option<LogLine> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.full {
            return None;
        }
        let text = shorten(text, MOST_BYTES - written.bytes);
        let number = written.lines;
        written.lines += 1;
        written.bytes += text.len();
        written.full = written.lines >= MOST_LINES || written.bytes >= MOST_BYTES;
        let text = if written.full { "further lines are left out".to_owned() } else { text };
        Some(LogLine::new(fence, number, at, text))
    }
}

/// What a handler says of its progress, as it is kept.
pub(crate) fn progress(fence: Fence, at: Timestamp, fraction: f64, message: String) -> Progress {
    // Neither less than nothing nor more than all; what is no number is nothing. The cast saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000,000")]
    let millionths = (fraction * 1e6).round().clamp(0.0, 1e6) as u32;
    Progress::new(fence, at, millionths, shorten(message, MOST_MESSAGE))
}

/// At most so many bytes, cut between characters.
pub(crate) fn shorten(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCE: Fence = Fence::from_i64(7);

    #[test]
    fn a_loop_cannot_fill_the_log() {
        let write = |text: &str| {
            let pen = Pen::default();
            let line = |_| pen.line(FENCE, Timestamp::EPOCH, text.to_owned());
            let lines: Vec<LogLine> = (0..5_000).map_while(line).collect();
            assert_eq!(pen.line(FENCE, Timestamp::EPOCH, String::new()), None);
            assert_eq!(lines.last().unwrap().text, "further lines are left out");
            assert!(lines.iter().zip(0..).all(|(line, number)| line.number == number));
            (lines.len(), lines.iter().map(|line| line.text.len()).sum::<usize>())
        };
        assert_eq!(write("short").0, 1_000);
        assert_eq!(write("").0, 1_000);
        let (lines, bytes) = write(&"ä".repeat(5_000));
        assert!((2..8).contains(&lines) && bytes <= MOST_BYTES + 100, "{lines} lines, {bytes} bytes");
        assert_eq!(write(&"x".repeat(1 << 20)).0, 1, "one line that is too long for all");
    }

    #[test]
    fn no_fraction_and_no_message_is_too_much() {
        let odd = [-1.0, f64::NAN, f64::NEG_INFINITY, 0.0, 0.4, 1.0, 7.0, f64::INFINITY];
        let kept = odd.map(|fraction| progress(FENCE, Timestamp::EPOCH, fraction, String::new()).millionths);
        assert_eq!(kept, [0, 0, 0, 0, 400_000, 1_000_000, 1_000_000, 1_000_000]);
        let long = progress(FENCE, Timestamp::EPOCH, 0.456, "ä".repeat(MOST_MESSAGE));
        assert!(long.message.len() <= MOST_MESSAGE + 3);
        assert!(long.to_string().starts_with("45% ää"), "{long}");
    }

    #[test]
    fn the_newest_progress_counts_and_all_lines_do() {
        let line = |number| LogLine::new(FENCE, number, Timestamp::EPOCH, "x");
        let mut update = Update { lines: vec![line(0)], ..Update::new(JobId::from_i64(1), FENCE) };
        update.progress = Some(Progress::new(FENCE, Timestamp::EPOCH, 1, "old"));
        update.add(Update { lines: vec![line(1)], ..Update::new(JobId::from_i64(1), FENCE) });
        assert_eq!((update.progress.as_ref().unwrap().millionths, update.lines.len()), (1, 2));
        let newer = Some(Progress::new(FENCE, Timestamp::EPOCH, 2, "new"));
        update.add(Update { progress: newer.clone(), ..Update::new(JobId::from_i64(1), FENCE) });
        assert_eq!(update.progress, newer);
    }
}
