//! The log file of one job: grows to a limit, then becomes `name.log.1`, and so on up to the number to keep.
//!
//! The file stays open between runs, and others may take it away meanwhile: people, or a program that rotates logs. So
//! before each piece is written, the path is looked at: whatever is there now is where the piece belongs, and its size
//! is the one that counts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::file::{Log, reason};

/// A file that is written by all runs of a job, also by several at once.
#[derive(Debug)]
pub(crate) struct LogFile {
    name: String,
    log: Log,
    /// Held while writing: pieces of two runs do not mix, and one of them turns the page.
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// When it was last looked at.
    size: u64,
    /// Which file it is, by device and number.
    identity: (u64, u64),
}

impl LogFile {
    /// The file of the job `name`. Nothing is opened before something is written.
    pub(crate) fn new(name: &str, log: Log) -> Self {
        Self { name: name.to_owned(), log, open: Mutex::new(None) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.log.directory.join(format!("{}.log", self.name))
    }

    fn old_path(&self, number: u32) -> PathBuf {
        self.log.directory.join(format!("{}.log.{number}", self.name))
    }

    /// Appends whole lines.
    ///
    /// # Errors
    /// A sentence with the path. The file is opened anew for the next piece: what was wrong may be mended by then.
    pub(crate) fn write(&self, lines: &[u8]) -> Result<(), String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.append(&mut open, lines);
        if result.is_err() {
            *open = None;
        }
        result.map_err(|error| format!("{}: {}", self.path().display(), reason(&error)))
    }

    fn append(&self, slot: &mut Option<Open>, lines: &[u8]) -> io::Result<()> {
        *slot = slot.take().and_then(|open| self.look(open));
        if slot.as_ref().is_some_and(|open| open.size > 0 && open.size + lines.len() as u64 > self.log.limit)
        {
            *slot = None;
            self.turn()?;
        }
        let open = match slot {
            Some(open) => open,
            None => slot.insert(self.open()?),
        };
        open.file.write_all(lines)
    }

    fn open(&self) -> io::Result<Open> {
        fs::create_dir_all(&self.log.directory)?;
        let file = OpenOptions::new().create(true).append(true).open(self.path())?;
        let metadata = file.metadata()?;
        Ok(Open { file, size: metadata.len(), identity: (metadata.dev(), metadata.ino()) })
    }

    /// The file with its present size, if it is still the one at the path.
    fn look(&self, open: Open) -> Option<Open> {
        let metadata = fs::metadata(self.path()).ok()?;
        let is_same = open.identity == (metadata.dev(), metadata.ino());
        is_same.then(|| Open { size: metadata.len(), ..open })
    }

    /// Makes room for a new file: each old one gets the next number, the last one goes.
    fn turn(&self) -> io::Result<()> {
        if self.log.keep == 0 {
            return if_there(fs::remove_file(self.path()));
        }
        for number in (1..self.log.keep).rev() {
            if_there(fs::rename(self.old_path(number), self.old_path(number + 1)))?;
        }
        if_there(fs::rename(self.path(), self.old_path(1)))
    }
}

/// A file that is not there is out of the way already.
fn if_there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(directory: &std::path::Path, keep: u32) -> LogFile {
        LogFile::new("job", Log { directory: directory.join("deep/er"), limit: 10, keep })
    }

    fn sizes(log: &LogFile) -> Vec<(String, u64)> {
        let mut sizes: Vec<_> = fs::read_dir(&log.log.directory)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
            .collect();
        sizes.sort();
        sizes
    }

    #[test]
    fn a_full_file_makes_room_and_only_so_many_old_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(directory.path(), 2);
        for round in 0..10_u8 {
            log.write(&[b'0' + round; 6]).unwrap();
        }
        let names: Vec<_> = sizes(&log).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["job.log", "job.log.1", "job.log.2"]);
        assert_eq!(fs::read(log.path()).unwrap(), b"999999");
        assert_eq!(fs::read(log.old_path(2)).unwrap(), b"777777");
    }

    #[test]
    fn without_old_files_there_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(directory.path(), 0);
        (0..5).for_each(|_| log.write(b"sixsix").unwrap());
        assert_eq!(sizes(&log), [("job.log".to_owned(), 6)]);
    }

    #[test]
    fn a_file_is_continued_and_one_that_was_full_before_is_turned() {
        let directory = tempfile::tempdir().unwrap();
        log(directory.path(), 1).write(b"12345678").unwrap();
        let again = log(directory.path(), 1);
        again.write(b"9").unwrap();
        assert_eq!(fs::read(again.path()).unwrap(), b"123456789");
        again.write(b"AB").unwrap();
        assert_eq!(fs::read(again.path()).unwrap(), b"AB");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named_and_may_be_mended_later() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("deep"), "a file").unwrap();
        let log = log(directory.path(), 1);
        let error = log.write(b"x").unwrap_err();
        assert!(error.contains("deep/er/job.log: not a directory"), "{error}");
        fs::remove_file(directory.path().join("deep")).unwrap();
        log.write(b"x").unwrap();
    }

    #[test]
    fn a_file_that_is_taken_away_or_replaced_is_written_to_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(directory.path(), 1);
        log.write(b"1").unwrap();
        fs::rename(log.path(), directory.path().join("moved")).unwrap();
        log.write(b"2").unwrap();
        fs::remove_file(log.path()).unwrap();
        log.write(b"3").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"3");
        fs::write(directory.path().join("other"), "45678").unwrap();
        fs::rename(directory.path().join("other"), log.path()).unwrap();
        log.write(b"9abcd").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"456789abcd");
        assert_eq!(fs::read(directory.path().join("moved")).unwrap(), b"1");
        log.write(b"e").unwrap();
        assert_eq!(
            (fs::read(log.path()).unwrap(), fs::read(log.old_path(1)).unwrap().len()),
            (b"e".into(), 10)
        );
    }

    #[test]
    fn a_file_that_others_have_emptied_is_not_full() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(directory.path(), 1);
        log.write(b"123456789").unwrap();
        fs::write(log.path(), "").unwrap();
        log.write(b"abc").unwrap();
        assert_eq!(sizes(&log), [("job.log".to_owned(), 3)]);
    }

    #[test]
    fn a_page_can_be_turned_when_nothing_is_there() {
        let directory = tempfile::tempdir().unwrap();
        for keep in [0, 2] {
            log(directory.path(), keep).turn().unwrap();
        }
    }
}
