//! Who has the file to itself.
//!
//! One node at a time claims from a file: the one that holds an advisory lock on the file `<name>-owner` beside it.
//! The system releases the lock when the process ends, however it ends, so the successor need not wait for a lease
//! to run out, and knows that everything still claimed is an orphan. Whoever does not get the lock is a hot standby:
//! it asks again with every renewal.
//!
//! The lock file is never deleted: a process that had just opened the old one would lock a file that nobody else
//! sees. It is not the database file itself, because closing any handle on that would drop SQLite's own locks.
//!
//! The lock cannot be lost while its holder lives, so there is no lease to renew. A process that is stopped holds it
//! still: its jobs wait with it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::News;
use super::super::news::{Ears, Hear};
use super::bell::{self, Bell, Ear};
use crate::error::{Error, Result};
use crate::job::NodeId;

#[derive(Debug)]
pub(super) struct Ownership {
    path: PathBuf,
    bell: PathBuf,
    held: Mutex<Option<Held>>,
    ears: Ears,
    /// Opened when somebody first waits here, while another has the file.
    ear: Mutex<Option<Ear>>,
}

#[derive(Debug)]
struct Held {
    node: NodeId,
    /// Taken down before the lock is released.
    bell: Option<Bell>,
    /// Unlocked by being closed.
    _file: File,
}

impl Ownership {
    pub(super) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-owner");
        let (bell, ears) = (bell::path_beside(database), Ears::default());
        Self { path: path.into(), bell, held: Mutex::new(None), ears, ear: Mutex::new(None) }
    }

    /// Who is to be told what others tell.
    pub(super) fn listen(&self, hear: Hear) {
        self.ears.add(hear);
    }

    /// Tells whoever has the file; if that is ourselves, those who have asked.
    pub(super) fn tell(&self, news: &News) {
        let held = self.lock();
        match (&*held, news) {
            (Some(held), News::Over(_)) => held.bell.iter().for_each(|bell| bell.answer(news)),
            (Some(_), _) => {}
            (None, News::Waiting(_)) => {
                drop(held);
                self.ask(news);
            }
            (None, _) => {
                drop(held);
                bell::ring(&self.bell, news);
            }
        }
    }

    fn ask(&self, news: &News) {
        let mut ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        if ear.is_none() {
            *ear = Ear::open(self.ears.clone());
        }
        if let Some(ear) = &*ear {
            ear.ask(&self.bell, news);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is(&self, node: NodeId) -> bool {
        self.lock().as_ref().is_some_and(|held| held.node == node)
    }

    /// The node that has the file through this value.
    pub(super) fn node(&self) -> Option<NodeId> {
        self.lock().as_ref().map(|held| held.node)
    }

    /// The node that has the file, in whichever process, if it has said its name.
    ///
    /// Whether anybody has it is found out by asking for a lock that several may share: two who ask do not disturb each
    /// other. A node that asks for the file in that very moment asks again with its next renewal.
    pub(super) fn holder(&self) -> Option<NodeId> {
        if let Some(node) = self.node() {
            return Some(node);
        }
        let mut file = File::open(&self.path).ok()?;
        if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return None;
        }
        let mut said = String::new();
        file.read_to_string(&mut said).ok()?;
        said.trim_end().rsplit(' ').next()?.parse().ok().map(NodeId::from_i64)
    }

    /// Takes the file for `node`, unless another has it; says whether it has it now.
    pub(super) fn take(&self, node: NodeId) -> Result<bool> {
        let mut held = self.lock();
        if let Some(held) = &*held {
            return Ok(held.node == node);
        }
        let cannot =
            |error| Error::transient(format!("cannot lock {}", self.path.display())).with_source(error);
        let mut file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&self.path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        // For people and `holder`, who wonder who has it. The lock does not depend on it.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = writeln!(file, "process {} {node:?}", std::process::id());
        let bell = Bell::hang(&self.bell, self.ears.clone());
        *held = Some(Held { node, bell, _file: file });
        Ok(true)
    }

    pub(super) fn give_up(&self, node: NodeId) {
        // Dropped without the lock: the bell waits for its listener, who may be calling us.
        let held = self.lock().take_if(|held| held.node == node);
        drop(held);
    }
}
