//! A machine whose clock is set wrong, as one process sees it.
//!
//! `shift.c` stands between the process and the C library: whatever reads the time of day there, reads it shifted. So it is
//! the clock of the machine that is off, not a part that tests put in. [`TrueTime`] asks the system itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use punctual_durable::{SystemTimeSource, TimeSource, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::folder::Folder;

/// A clock that can be set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Shift {
    library: PathBuf,
    seconds: PathBuf,
}

impl Shift {
    /// Right at first. `None`, and a line that says why, where no such clock can be made.
    pub(crate) fn make_in(folder: &Folder) -> Option<Self> {
        let (source, library) = (folder.file("shift.c"), folder.file("shift.so"));
        fs::write(&source, include_str!("shift.c")).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        match compiler.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                println!("chaos: skipped: a clock that is set wrong needs a C compiler: {error}");
                return None;
            }
        }
        let shift = Self { library, seconds: folder.file("shift") };
        fs::write(&shift.seconds, 0_i64.to_ne_bytes()).unwrap();
        Some(shift)
    }

    /// Sets the clocks of all that run under it.
    pub(crate) fn set(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().write(true).open(&self.seconds).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("PUNCTUAL_CHAOS_SHIFT", &self.seconds);
    }
}

/// The clock of the machine, past the C library.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrueTime;

impl TrueTime {
    /// By how many seconds the clock is off that everybody else reads.
    pub(crate) fn shift() -> i64 {
        let micros = SystemTimeSource::default().timestamp().as_micros() - Self.timestamp().as_micros();
        (micros + 500_000).div_euclid(1_000_000)
    }
}

impl TimeSource for TrueTime {
    fn timestamp(&self) -> Timestamp {
        let now = clock_gettime(ClockId::Realtime);
        Timestamp::from_micros(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000)
    }
}
