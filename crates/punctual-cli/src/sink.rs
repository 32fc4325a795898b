//! Where the output of one attempt goes: to ours, to the job's log file, to both or nowhere.

use std::sync::Arc;

use crate::file::Output;
use crate::log_file::LogFile;
use crate::process::{Sink, Stream};
use crate::report::{JobWhat, Reporter};

/// Lines are collected up to this before they are sent on in one piece.
const PIECE: usize = 64 << 10;

/// The output of one attempt.
#[derive(Debug)]
pub(crate) struct Outlet {
    job: Arc<str>,
    reporter: Reporter,
    passes: bool,
    /// Taken away when it cannot be written to: the output is passed on instead.
    log: Option<Arc<LogFile>>,
    out: Vec<u8>,
    err: Vec<u8>,
    logged: Vec<u8>,
    /// The lines in `logged`: where each came from, and its length. They may have to be passed on after all.
    spans: Vec<(Stream, usize)>,
}

impl Outlet {
    /// An outlet for an attempt that is called `title` in the log file.
    pub(crate) fn new(
        job: &Arc<str>,
        reporter: &Reporter,
        output: Output,
        log: &Arc<LogFile>,
        title: &str,
    ) -> Self {
        let is_logged = matches!(output, Output::Log | Output::Both);
        let mut outlet = Self {
            job: Arc::clone(job),
            reporter: reporter.clone(),
            passes: matches!(output, Output::Pass | Output::Both),
            log: is_logged.then(|| Arc::clone(log)),
            out: Vec::new(),
            err: Vec::new(),
            logged: Vec::new(),
            spans: Vec::new(),
        };
        // The title is of no use elsewhere: if it cannot be written, it is not passed on.
        outlet.write_log(format!("=== {title}\n").as_bytes());
        outlet
    }

    /// Writes to the log file, if there is one. If that fails it is given up: what comes is passed on, from now on.
    fn write_log(&mut self, lines: &[u8]) {
        let Some(log) = &self.log else { return };
        if let Err(error) = log.write(lines) {
            self.log = None;
            self.passes = true;
            self.reporter.tell_of(&self.job, JobWhat::LogFailed { error });
        }
    }

    fn flush_log(&mut self) {
        if self.logged.is_empty() {
            return;
        }
        let (lines, spans) = (std::mem::take(&mut self.logged), std::mem::take(&mut self.spans));
        let are_passed = self.passes;
        self.write_log(&lines);
        if self.log.is_none() && !are_passed {
            let mut rest = &lines[..];
            for (stream, length) in spans {
                let (line, after) = rest.split_at(length);
                self.pass(stream, line.strip_suffix(b"\n").unwrap_or(line));
                rest = after;
            }
        }
    }

    fn pass(&mut self, stream: Stream, line: &[u8]) {
        let buffer = if stream == Stream::Out { &mut self.out } else { &mut self.err };
        self.reporter.dress(&self.job, stream, line, buffer);
        if buffer.len() >= PIECE {
            self.reporter.pass(stream, std::mem::take(buffer));
        }
    }
}

impl Sink for Outlet {
    fn line(&mut self, stream: Stream, line: &[u8]) {
        // A flush that fails here passes this line on with the others.
        let passes = self.passes;
        if self.log.is_some() {
            self.logged.extend_from_slice(line);
            self.logged.push(b'\n');
            self.spans.push((stream, line.len() + 1));
            if self.logged.len() >= PIECE {
                self.flush_log();
            }
        }
        if passes {
            self.pass(stream, line);
        }
    }

    fn pause(&mut self) {
        self.flush_log();
        for (stream, buffer) in [(Stream::Out, &mut self.out), (Stream::Err, &mut self.err)] {
            if !buffer.is_empty() {
                self.reporter.pass(stream, std::mem::take(buffer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Log;
    use crate::report::Style;
    use std::fs;

    /// An outlet whose log took the title and takes nothing more, and where its output goes instead.
    fn cut_off(output: Output) -> (Outlet, Reporter, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let logs = directory.path().join("logs");
        let log = LogFile::new("job", Log { directory: logs.clone(), limit: 1 << 20, keep: 1 });
        let reporter = Reporter::mute(Style::Plain);
        let outlet = Outlet::new(&"job".into(), &reporter, output, &Arc::new(log), "the title");
        assert_eq!(fs::read(logs.join("job.log")).unwrap(), b"=== the title\n");
        fs::remove_dir_all(&logs).unwrap();
        fs::write(&logs, "in the way").unwrap();
        (outlet, reporter, directory)
    }

    /// What was passed on, without the event that the log has failed.
    fn passed(reporter: &Reporter) -> (Vec<String>, Vec<String>) {
        let lines = |text: String| {
            let lines = text.lines().filter_map(|line| line.strip_prefix("job | "));
            lines.map(str::to_owned).collect()
        };
        let (out, err) = reporter.given();
        assert!(out.contains("job: output is passed on, because it cannot be logged"), "{out}");
        (lines(out), lines(err))
    }

    #[test]
    fn what_a_log_does_not_take_is_passed_on_as_what_it_was() {
        for output in [Output::Log, Output::Both] {
            let (mut outlet, reporter, _directory) = cut_off(output);
            outlet.line(Stream::Out, b"=== not a title");
            outlet.line(Stream::Err, b"an error");
            outlet.line(Stream::Out, b"");
            outlet.pause();
            outlet.line(Stream::Out, b"later");
            outlet.pause();
            let (out, err) = passed(&reporter);
            assert_eq!(
                (&out[..], &err[..]),
                (&["=== not a title", "", "later"].map(str::to_owned)[..], &["an error".to_owned()][..])
            );
        }
    }

    #[test]
    fn a_flood_that_the_log_does_not_take_is_passed_on_once() {
        for output in [Output::Log, Output::Both] {
            let (mut outlet, reporter, _directory) = cut_off(output);
            let numbers = 0..3 * PIECE / 1_000;
            let line = |number: usize| format!("{number:0>999}");
            numbers.clone().for_each(|number| outlet.line(Stream::Err, line(number).as_bytes()));
            outlet.pause();
            let (out, err) = passed(&reporter);
            assert!(out.is_empty() && err == numbers.map(line).collect::<Vec<_>>(), "{} lines", err.len());
        }
    }

    #[test]
    fn a_title_that_cannot_be_written_is_no_output() {
        let (outlet, reporter, _directory) = cut_off(Output::Log);
        let log = outlet.log.clone().unwrap();
        let mut second = Outlet::new(&"job".into(), &reporter, Output::Log, &log, "another title");
        second.line(Stream::Out, b"precious");
        second.pause();
        assert_eq!(passed(&reporter), (vec!["precious".to_owned()], Vec::new()));
    }
}
