//! `punctual run`: a schedule in the foreground.
//!
//! # States
//! ```text
//!           signal, or nothing left          signal, or drain-timeout         signal
//! Running ─────────────────────────▶ Draining ─────────────────────▶ Stopping ──────▶ Killing
//!    │ SIGHUP, file changed              │ nothing runs                  │               │
//!    └▶ reload                           ▼                               ▼               ▼
//!                                      exit 0                          exit 4          exit 4
//! ```
//! The main thread is the only one that decides. Signals, the clock and the end of the executor reach it as
//! [`News`].

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use punctual::{Clock as _, SystemClock, Tick};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::check::refused;
use super::complain;
use crate::args::{RunArgs, When};
use crate::board::Board;
use crate::driver::{Driver, Totals};
use crate::exit::Exit;
use crate::file::{self, LoadError, Schedule};
use crate::process::signal_name;
use crate::report::{Reporter, Style, What};
use crate::watch::Watch;

/// How often the main thread looks round: at the file, and whether anything is left to run.
const LOOK: Duration = Duration::from_millis(500);

/// What reaches the main thread.
enum News {
    Signal(i32),
    /// The executor has terminated.
    Over,
}

/// Runs the schedule, and returns when it is over.
pub(crate) fn run(args: &RunArgs) -> Exit {
    let shown = args.schedule.display().to_string();
    let watch = Watch::new(args.schedule.clone());
    let schedule = match file::load(&args.schedule) {
        Ok(schedule) => schedule,
        Err(error) => {
            complain(&error.render(&shown));
            return refused(&error);
        }
    };
    match Session::start(args, shown, watch, schedule) {
        Ok(mut session) => session.run(),
        Err(error) => {
            complain(&format!("punctual: {error}\n"));
            Exit::Unable
        }
    }
}

struct Session<'a> {
    args: &'a RunArgs,
    /// The file as it was named.
    shown: String,
    watch: Watch,
    schedule: Schedule,
    clock: SystemClock,
    reporter: Reporter,
    driver: Driver,
    news: Receiver<News>,
    teller: Sender<News>,
    phase: Phase,
    /// Whether our output was a terminal when we began.
    has_terminal: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    /// Until then.
    Draining(Option<Tick>),
    Stopping,
    Killing,
}

impl<'a> Session<'a> {
    fn start(args: &'a RunArgs, shown: String, watch: Watch, schedule: Schedule) -> Result<Self, String> {
        let (teller, news) = mpsc::channel();
        listen(teller.clone()).map_err(|error| format!("cannot listen to signals: {error}"))?;
        let board = Arc::new(Board::default());
        let reporter = Reporter::start(style(args), &board)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let ready =
            What::Ready { file: shown.clone(), jobs: schedule.jobs.len(), disabled: schedule.disabled };
        reporter.tell(ready);
        let driver = Driver::start(&schedule, &board, &reporter)?;
        let clock = SystemClock::new();
        let has_terminal = std::io::stdout().is_terminal();
        let phase = Phase::Running;
        Ok(Self { args, shown, watch, schedule, clock, reporter, driver, news, teller, phase, has_terminal })
    }

    fn run(&mut self) -> Exit {
        loop {
            match self.news.recv_timeout(LOOK) {
                Ok(News::Signal(SIGHUP)) if !self.is_hung_up() => {
                    self.watch.catch_up();
                    self.reload();
                }
                Ok(News::Signal(signal)) => self.escalate(&signal_name(signal)),
                Ok(News::Over) => return self.end(),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return Exit::Unable,
            }
        }
    }

    fn look(&mut self) {
        match self.phase {
            Phase::Running => {
                if !self.args.no_watch && self.watch.has_changed() {
                    self.reload();
                }
                if self.driver.is_over() {
                    self.escalate("nothing is left to run");
                }
            }
            Phase::Draining(Some(until)) if self.clock.now() >= until => {
                self.escalate("the drain took too long")
            }
            Phase::Draining(_) | Phase::Stopping | Phase::Killing => {}
        }
    }

    fn reload(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        // To read a pipe, which the first time may have been right, would now wait for ever.
        let is_file = std::fs::metadata(&self.args.schedule).map_or(true, |metadata| metadata.is_file());
        let loaded = match is_file {
            true => file::load(&self.args.schedule),
            false => Err(LoadError::Unreadable(format!("{}: not a regular file", self.shown))),
        };
        match loaded {
            Ok(schedule) => {
                self.driver.reload(&schedule);
                self.schedule = schedule;
            }
            Err(error) => self.reporter.tell(What::ReloadFailed { report: error.render(&self.shown) }),
        }
    }

    /// Goes one step further towards the end.
    fn escalate(&mut self, why: &str) {
        let (why, running) = (why.to_owned(), self.driver.running());
        self.phase = match self.phase {
            Phase::Running => {
                self.reporter.tell(What::Draining { why, running });
                self.driver.drain();
                self.tell_when_over();
                let limit = self.schedule.settings.drain_timeout;
                Phase::Draining(limit.map(|limit| self.clock.now().after(limit)))
            }
            Phase::Draining(_) => {
                self.reporter.tell(What::Stopping { why, running });
                self.driver.stop();
                Phase::Stopping
            }
            Phase::Stopping | Phase::Killing => {
                self.reporter.tell(What::Killing { why, running });
                self.driver.kill();
                Phase::Killing
            }
        }
    }

    fn tell_when_over(&self) {
        let (scheduler, teller) = (self.driver.scheduler(), self.teller.clone());
        let waiter = move || {
            let _ = scheduler.await_termination(Duration::MAX);
            let _ = teller.send(News::Over);
        };
        if std::thread::Builder::new().name("end".to_owned()).spawn(waiter).is_err() {
            // Without a thread to be had nothing can be awaited: wait here, deaf to further signals.
            let _ = self.driver.scheduler().await_termination(Duration::MAX);
            let _ = self.teller.send(News::Over);
        }
    }

    fn end(&self) -> Exit {
        let Totals { runs, failures } = self.driver.totals();
        self.reporter.tell(What::Over { runs, failures });
        self.reporter.close();
        match self.phase {
            Phase::Stopping | Phase::Killing => Exit::Stopped,
            Phase::Running | Phase::Draining(_) => Exit::Done,
        }
    }

    /// Whether our terminal is gone: then the signal was its farewell, and no request to read the file again.
    fn is_hung_up(&self) -> bool {
        self.has_terminal && !std::io::stdout().is_terminal()
    }
}

fn style(args: &RunArgs) -> Style {
    let is_live = match args.table {
        When::Always => true,
        When::Never => false,
        When::Auto => std::io::stdout().is_terminal() && !is_dumb(),
    };
    match (args.json, is_live) {
        (true, _) => Style::Json,
        (false, true) => Style::Live,
        (false, false) => Style::Plain,
    }
}

/// Whether the terminal cannot move its cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb")
}

fn listen(teller: Sender<News>) -> std::io::Result<()> {
    // Whoever started us may have ignored this one; then the system would reap our children before we can ask how
    // they ended. To have a handler, whatever it does, is not to ignore.
    signal_hook::flag::register(SIGCHLD, Arc::default())?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let forward = move || {
        for signal in signals.forever() {
            if teller.send(News::Signal(signal)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(forward)?;
    Ok(())
}
