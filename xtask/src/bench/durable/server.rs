//! The PostgreSQL that everybody is measured on.
//!
//! It is run by a process of `benches/durable/ours`, which has the driver and knows how to start one; we talk to it in
//! lines. It ends when we do: its standard input does.

use super::super::results::{Sample, Trouble};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(super) struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: String,
}

impl Server {
    /// Started, with its own defaults: a commit is on the disk when it returns.
    pub(super) fn start(ours: &Path) -> Result<Self, String> {
        let mut command = Command::new(ours);
        command.args(["server", "postgres"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the server has no pipes".to_owned());
        };
        let mut server = Self { process, input, output: BufReader::new(output), version: String::new() };
        server.version = server.ask("version")?;
        Ok(server)
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    fn ask(&mut self, question: &str) -> Result<String, String> {
        let mut answer = String::new();
        let asked = writeln!(self.input, "{question}").and_then(|()| self.output.read_line(&mut answer));
        match asked {
            Ok(length) if length > 0 => Ok(answer.trim().to_owned()),
            Ok(_) => Err("the server has ended".to_owned()),
            Err(error) => Err(format!("the server does not answer: {error}")),
        }
    }

    fn number(&mut self, question: &str) -> Result<f64, String> {
        let answer = self.ask(question)?;
        answer.parse().map_err(|_| format!("the server answers {answer:?} to {question}"))
    }

    /// Measures on a fresh database, with what it cost the server; while another transaction holds a snapshot if `held`.
    pub(super) fn around(
        &mut self,
        held: bool,
        measure: impl FnOnce(&str) -> Result<Sample, Trouble>,
    ) -> Result<Result<Sample, Trouble>, String> {
        let url = self.ask("fresh")?;
        if held {
            self.ask(&format!("hold {url}"))?;
        }
        let before = (self.number("cpu")?, self.number("wal")?);
        let mut sample = measure(&url);
        let after = (self.number("cpu")?, self.number("wal")?);
        if let Ok(sample) = &mut sample {
            sample.push(("pg_cpu_s".to_owned(), after.0 - before.0));
            sample.push(("wal_mb".to_owned(), (after.1 - before.1) / 1e6));
        }
        if held {
            self.ask("release")?;
        }
        self.ask(&format!("drop {url}"))?;
        Ok(sample)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input is the end of the server; if it is not, there is nothing more to be done.
        let _ = writeln!(self.input, "end");
        let _ = self.process.wait();
    }
}
