//! A write-ahead log whose end is lost, as when the power goes in the middle of a write.
//!
//! With each acknowledgement the test notes how long the log was: up to there it had been synchronised to the disk. Then
//! the processes are killed, and copies of the file are opened whose log is cut off, or garbled, from some byte on.
//! Whatever was acknowledged before that byte must be there, and what is there must be whole: a node runs all of it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use punctual_durable::{Done, Event, Filter, JobContext, JobId, JobState, Jobs, SqliteStore, Store};

use crate::PATIENCE;
use crate::program::{Act, Work};
use crate::world::World;

/// The two numbers in the header of a log that change when it is begun anew.
fn salts(log: &Path) -> Vec<u8> {
    fs::read(log).unwrap()[16..24].to_vec()
}

#[derive(Clone, Copy, Debug)]
enum Tear {
    CutOff,
    Garbled,
}

/// A copy of the file in which the log is sound up to `from`.
fn torn_copy(world: &World, name: &str, from: u64, tear: Tear) -> PathBuf {
    let copy = world.folder.file(&format!("{name}.db"));
    let log = world.folder.file(&format!("{name}.db-wal"));
    fs::copy(world.folder.file("jobs.db"), &copy).unwrap();
    fs::copy(world.folder.file("jobs.db-wal"), &log).unwrap();
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    match tear {
        Tear::CutOff => file.set_len(from).unwrap(),
        Tear::Garbled => {
            let length = file.metadata().unwrap().len() - from;
            let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(length as usize).collect();
            file.write_all_at(&noise, from).unwrap();
        }
    }
    copy
}

/// Opens the copy; says which jobs it has, after having run those that wait.
fn run_all(copy: &Path) -> Vec<JobId> {
    let store = std::sync::Arc::new(SqliteStore::open(copy).unwrap());
    let check: String = rusqlite::Connection::open(copy)
        .and_then(|file| file.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
        .unwrap();
    assert_eq!(check, "ok");
    let (sender, over) = channel();
    let node = Jobs::on(store.clone())
        .handle("work", |_: Work, _: &JobContext| Ok(Done))
        .observe(move |event| {
            if let Event::Recorded { .. } = event {
                let _ = sender.send(());
            }
        })
        .start()
        .unwrap();
    let living = |state| !store.find(&Filter::new().state(state).limit(1)).unwrap().is_empty();
    while living(JobState::Scheduled) || living(JobState::Claimed) {
        over.recv_timeout(PATIENCE).expect("the node makes progress");
    }
    node.shutdown(PATIENCE).unwrap();
    let jobs = store.find(&Filter::new().limit(usize::MAX)).unwrap();
    assert!(jobs.iter().all(|job| job.state == JobState::Done));
    jobs.into_iter().map(|job| job.id).collect()
}

#[test]
fn what_was_acknowledged_before_the_log_was_torn_is_there_and_whole() {
    let world = World::sqlite();
    let log = world.folder.file("jobs.db-wal");
    let begun = salts(&log);
    let node = world.spawn();
    // Few enough that the log is not begun anew.
    let acknowledged: Vec<(JobId, u64)> = (0..25)
        .map(|_| {
            let id = world.enqueue(vec![World::job(Act::Plain)])[0];
            (id, fs::metadata(&log).unwrap().len())
        })
        .collect();
    world.await_records(3);
    node.kill();
    assert_eq!(salts(&log), begun, "one log holds everything");
    let length = fs::metadata(&log).unwrap().len();
    let mut lost = 0;
    for turn in 0..24_u32 {
        // Within frames and at their ends; the header of 32 bytes is older than all acknowledgements.
        let from = match turn {
            0 => length,
            1 => 32,
            2..=8 => acknowledged[turn as usize * 3 - 1].1,
            _ => fastrand::u64(32..length),
        };
        let tear = if turn % 2 == 0 { Tear::CutOff } else { Tear::Garbled };
        // A log that is cut to its header has not even the tables: opening makes them anew.
        let there = run_all(&torn_copy(&world, &format!("torn-{turn}"), from, tear));
        for (id, until) in &acknowledged {
            assert!(*until > from || there.contains(id), "{tear:?} from {from}: job {id} of {until} is lost");
        }
        lost += usize::from(there.len() < acknowledged.len());
    }
    assert!(lost > 0, "some cuts are so early that something is missing");
}
