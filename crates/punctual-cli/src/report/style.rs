//! How lines of jobs look on their way out: plain, as JSON, or fit for a terminal.

use serde_json::json;

use super::event::{Event, stamp};
use crate::process::Stream;

/// How everything is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// A line for each event, to be read or logged.
    Plain,
    /// An object for each event, one per line.
    Json,
    /// Lines that scroll away above a table.
    Live,
}

impl Style {
    /// An event, with the end of its line.
    pub(crate) fn event(self, event: &Event) -> Vec<u8> {
        match self {
            Self::Json => event.json().into_bytes(),
            Self::Plain => event.line().into_bytes(),
            // The table says so.
            Self::Live if event.is_start() => Vec::new(),
            Self::Live => {
                let line = event.line();
                let (stamp, rest) = line.trim_end().split_once(' ').unwrap_or(("", &line));
                let clock = stamp.get(11..19).unwrap_or(stamp);
                let colour = if event.is_bad() { "\x1b[31m" } else { "" };
                format!("\x1b[2m{clock}\x1b[0m {colour}{rest}\x1b[0m\n").into_bytes()
            }
        }
    }

    /// A line that a job wrote, with the name of the job and the end of the line.
    pub(crate) fn output(self, job: &str, stream: Stream, line: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Json => {
                let stream = if stream == Stream::Out { "stdout" } else { "stderr" };
                let line = String::from_utf8_lossy(line);
                let object = json!({ "event": "output", "job": job, "stream": stream, "line": line });
                out.extend_from_slice(object.to_string().as_bytes());
            }
            Self::Plain => {
                out.extend_from_slice(job.as_bytes());
                out.extend_from_slice(b" | ");
                out.extend_from_slice(line);
            }
            Self::Live => {
                out.extend_from_slice(b"\x1b[36m");
                out.extend_from_slice(job.as_bytes());
                out.extend_from_slice(b" \x1b[2m|\x1b[0m ");
                tame(&String::from_utf8_lossy(line), out);
                out.extend_from_slice(b"\x1b[0m");
            }
        }
        out.push(b'\n');
    }

    /// A note that output has been dropped.
    pub(crate) fn dropped(self, bytes: u64) -> Vec<u8> {
        match self {
            Self::Json => format!("{}\n", json!({ "event": "dropped", "bytes": bytes })).into_bytes(),
            _ => {
                let stamp = stamp(std::time::SystemTime::now());
                format!("{stamp} {bytes} bytes of output were dropped: nobody took them\n").into_bytes()
            }
        }
    }
}

/// What a job wrote, with its colours but without anything that moves the cursor: the table is below.
fn tame(line: &str, out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(character) = rest.chars().next() {
        if let Some(colour) = colour(rest) {
            out.extend_from_slice(colour.as_bytes());
            rest = &rest[colour.len()..];
            continue;
        }
        match character {
            '\t' => out.extend_from_slice(b"    "),
            control if control.is_control() => {}
            other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = &rest[character.len_utf8()..];
    }
}

/// A sequence that sets colours, if `text` begins with one: `ESC [ 1 ; 31 m`.
fn colour(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("\x1b[")?;
    let end = inner.find(|character: char| !character.is_ascii_digit() && character != ';')?;
    inner[end..].starts_with('m').then(|| &text[..2 + end + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tamed(line: &str) -> String {
        let mut out = Vec::new();
        tame(line, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn colours_stay_and_what_moves_the_cursor_goes() {
        assert_eq!(tamed("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m");
        assert_eq!(tamed("a\x1b[2J\x1b[Hb\rc\x07\td\x1b"), "a[2J[Hbc    d");
        assert_eq!(tamed("\x1b[31"), "[31");
        assert_eq!(tamed("grüße"), "grüße");
    }

    #[test]
    fn output_that_is_no_text_is_passed_on_as_it_is_and_replaced_in_json() {
        let mut out = Vec::new();
        Style::Plain.output("job", Stream::Out, b"\xff\x00", &mut out);
        assert_eq!(out, b"job | \xff\x00\n");
        out.clear();
        Style::Json.output("job", Stream::Err, b"\xff\"", &mut out);
        let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            (object["line"].as_str(), object["stream"].as_str()),
            (Some("\u{fffd}\""), Some("stderr"))
        );
    }
}
