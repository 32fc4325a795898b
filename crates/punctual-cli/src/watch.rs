//! Notices that a file has changed, by looking.
//!
//! Looking works everywhere: with editors that replace the file, links that are turned, and file systems that are
//! mounted from elsewhere, none of which notifications do. A change counts when two looks in a row see the same:
//! a file that is being written is left alone until it is complete.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// What a file looked like: which one, how large, when it was written, and when anything about it was changed: one that
/// could not be read may be readable now. `None`: it was not there.
type Look = Option<[i128; 5]>;

/// A file that is looked at from time to time.
#[derive(Debug)]
pub(crate) struct Watch {
    path: PathBuf,
    known: Look,
    /// Something else than `known`, seen once.
    seen: Look,
}

impl Watch {
    pub(crate) fn new(path: PathBuf) -> Self {
        let known = look(&path);
        Self { path, known, seen: known }
    }

    /// Whether the file has changed since this was last said, and has come to rest. A file that is gone has not
    /// changed: it may be about to come back.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = look(&self.path);
        let is_steady = now == self.seen;
        self.seen = now;
        if now.is_none() || now == self.known || !is_steady {
            return false;
        }
        self.known = now;
        true
    }

    /// What the file is like now is known.
    pub(crate) fn catch_up(&mut self) {
        self.known = look(&self.path);
        self.seen = self.known;
    }
}

fn look(path: &std::path::Path) -> Look {
    let metadata = std::fs::metadata(path).ok()?;
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let written = nanos(metadata.mtime(), metadata.mtime_nsec());
    let changed = nanos(metadata.ctime(), metadata.ctime_nsec());
    Some([metadata.dev().into(), metadata.ino().into(), metadata.size().into(), written, changed])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_is_told_once_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "1").unwrap();
        let mut watch = Watch::new(path.clone());
        assert!(!watch.has_changed());
        fs::write(&path, "half").unwrap();
        assert!(!watch.has_changed(), "it may not be complete");
        fs::write(&path, "the whole").unwrap();
        assert!(!watch.has_changed(), "it was not complete");
        assert!(watch.has_changed());
        assert!(!watch.has_changed());
    }

    #[test]
    fn a_file_that_is_replaced_has_changed_and_one_that_is_gone_has_not() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        fs::write(&path, "1").unwrap();
        let mut watch = Watch::new(path.clone());
        fs::remove_file(&path).unwrap();
        assert!(!watch.has_changed() && !watch.has_changed());
        fs::write(&other, "2").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!watch.has_changed());
        assert!(watch.has_changed());
    }

    #[test]
    fn a_file_that_others_may_read_now_has_changed() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let mut watch = Watch::new(path.clone());
        // The clock of a file system may stand still for some milliseconds.
        let mut tries = 0..1_000_000;
        while watch.known == look(&path) {
            assert!(tries.next().is_some(), "it looks the same");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        assert!(!watch.has_changed());
        assert!(watch.has_changed());
    }
}
