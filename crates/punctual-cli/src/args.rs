//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::EXIT_CODES;

/// Runs commands on schedules: every so often, by cron with time zones, or once.
#[derive(Parser, Debug)]
#[command(name = "punctual", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Cmd,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Cmd {
    /// Runs the jobs of a schedule, in the foreground, until it is told to end
    #[command(after_long_help = RUN_HELP)]
    Run(RunArgs),
    /// Says everything that is wrong with a schedule, line by line
    Check(CheckArgs),
    /// Says what a cron expression means and when it fires next
    #[command(after_long_help = NEXT_HELP)]
    Next(NextArgs),
    /// Shows the engine at work: tens of thousands of tasks a second, and how late they are
    Demo(DemoArgs),
    /// Prints a completion script for a shell
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, as roff: `punctual man | man -l -`
    Man,
}

/// `punctual run`
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The schedule, a TOML file
    pub(crate) schedule: PathBuf,
    /// Prints one JSON object per event, one on each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows a table below the lines: on a terminal, always or never
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN", conflicts_with = "json")]
    pub(crate) table: When,
    /// Does not look whether the file has changed; SIGHUP still makes it read again
    #[arg(long)]
    pub(crate) no_watch: bool,
}

/// When something is done.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum When {
    /// If the output is a terminal
    Auto,
    /// Also where it is none
    Always,
    /// Lines alone
    Never,
}

/// `punctual check`
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The schedule, a TOML file
    pub(crate) schedule: PathBuf,
    /// Says nothing if all is well
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// `punctual next`
#[derive(Args, Debug)]
pub(crate) struct NextArgs {
    /// The expression, as one argument: '0 9 * * MON-FRI'
    pub(crate) expression: String,
    /// The time zone, by its name; `local` is the machine's
    #[arg(long, default_value = "local", value_name = "ZONE")]
    pub(crate) tz: String,
    /// How many times to print
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Begins after this time instead of now: 2026-03-28T12:00, in the zone unless it has an offset
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// What becomes of times that the clocks skip
    #[arg(long, default_value = "first-valid", value_name = "RULE", value_parser = ["first-valid", "skip", "shift"])]
    pub(crate) clocks_forward: String,
    /// Which of the times that come twice counts
    #[arg(long, default_value = "first", value_name = "RULE", value_parser = ["first", "second", "both"])]
    pub(crate) clocks_back: String,
    /// The name of the job, where `H` in the expression spreads jobs out
    #[arg(long, default_value = "job", value_name = "NAME")]
    pub(crate) name: String,
    /// Prints one JSON object for each time
    #[arg(long)]
    pub(crate) json: bool,
}

/// `punctual demo`
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// How long to go on
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Tasks per second
    #[arg(long, default_value_t = 20_000, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// Worker threads
    #[arg(long, default_value_t = 2, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
}

impl DemoArgs {
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

pub(crate) const RUN_HELP: &str = "Signals:
  SIGTERM, SIGINT   begin nothing new and wait for what runs; a second one stops it (SIGTERM,
                    and SIGKILL after the job's `grace`), a third one kills it
  SIGHUP            read the schedule again; jobs that are the same go on undisturbed

The schedule, with every key there is (not all are for one job):
  [job.backup]
  command = \"pg_dump shop | gzip > shop.gz\"   # for the shell, or [\"program\", \"argument\"]
  cron = \"30 2 * * *\"        # or every = \"10s\", fixed-delay = \"5m\", at = 2026-12-24T18:00:00
  timezone = \"Europe/Berlin\" # for cron and at; the machine's by default
  clocks-forward = \"first-valid\" # of times the clocks skip; or skip, shift
  clocks-back = \"first\"      # of times that come twice; or second, both
  directory = \"/var/backup\"  # from where the schedule is; that is also the default
  environment = { PGUSER = \"shop\" }
  timeout = \"1h\"             # then SIGTERM to all its processes, and after `grace` SIGKILL
  grace = \"10s\"
  retries = 3                # after failures; pauses double from retry-delay to retry-max-delay
  retry-delay = \"1s\"
  retry-max-delay = \"1m\"
  overlap = \"never\"          # or queue, replace, or a number: runs at once
  missed = \"once\"            # or skip, burst, shift; missed-within = \"1h\" drops what is later
  jitter = \"30s\"             # puts each run off by a random part of this
  start-after = \"5s\"         # the first run of every and fixed-delay
  output = \"pass\"            # or log, both, discard
  log-directory = \"logs\"     # NAME.log; log-limit = \"10MB\", log-keep = 3
  enabled = true

  [defaults]                 # any of these but command, the four that say when, start-after, enabled
  [settings]
  max-running = 32           # commands at once
  drain-timeout = \"1m\"       # after the first signal";

const NEXT_HELP: &str =
    "Expressions have 5 fields (minute, hour, day of month, month, day of week), 6 (with seconds in
front) or 7 (with years at the end), or are one of @hourly, @daily, @weekly, @monthly, @yearly
and @every 90s.

With --json each time is an object with utc, wall, offset, abbreviation, weekday, clock_change
(none, moved, first-pass, second-pass) and stands_for (the time that the clocks skip, or null).";
