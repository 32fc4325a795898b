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
        };
        if is_logged {
            outlet.logged.extend_from_slice(format!("=== {title}\n").as_bytes());
            outlet.flush_log();
        }
        outlet
    }

    fn flush_log(&mut self) {
        if self.logged.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.logged);
        let Some(log) = &self.log else { return };
        if let Err(error) = log.write(&lines) {
            self.log = None;
            self.reporter.tell_of(&self.job, JobWhat::LogFailed { error });
            if !self.passes {
                self.passes = true;
                // The title is of no use elsewhere; what follows it is.
                let lines = lines.strip_suffix(b"\n").unwrap_or(&lines).split(|byte| *byte == b'\n');
                let lines: Vec<_> = lines.filter(|line| !line.starts_with(b"=== ")).collect();
                lines.iter().for_each(|line| self.pass(Stream::Out, line));
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
        if self.log.is_some() {
            self.logged.extend_from_slice(line);
            self.logged.push(b'\n');
            if self.logged.len() >= PIECE {
                self.flush_log();
            }
        }
        if self.passes {
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
