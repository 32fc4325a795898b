//! A disk that is really full.
//!
//! A small file system in memory, which the test fills up to the last block while a node is at work on it: the system
//! itself refuses to write. It is mounted in a namespace of its own, which goes with the process that made it: the test
//! starts itself again in there. Where that is not allowed it says so and leaves it at `disk.rs`, which needs nobody's leave.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_durable::{Filter, JobState};
use rusqlite::Connection;

use crate::folder::Folder;
use crate::program::{Act, THREADS};
use crate::tell;
use crate::world::World;

/// Where the disk is to be, for the process that is to make it.
const DISK: &str = "PUNCTUAL_CHAOS_DISK";
const SIZE: u64 = 6 << 20;
const BLOCK: u64 = 4_096;

/// How to get a namespace where one may mount: as anybody, or as the superuser.
const WAYS: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

#[test]
fn on_a_disk_that_is_really_full_what_was_acknowledged_runs_and_what_was_refused_does_not() {
    let folder = Folder::new();
    let disk = folder.file("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |way: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(way).args([
            "sh",
            "-c",
            "mount -t tmpfs -o size=\"$1\" none \"$0\" && shift && exec \"$@\"",
        ]);
        command.arg(&disk).arg(SIZE.to_string());
        command
    };
    let Some(way) =
        WAYS.into_iter().find(|way| mount(way).arg("true").output().is_ok_and(|it| it.status.success()))
    else {
        println!("chaos: skipped: a full disk needs a small file system, and it cannot be mounted here");
        return;
    };
    let program = std::env::current_exe().unwrap();
    let mut inside = mount(way);
    inside.arg(program).args(["--exact", "sqlite::full::inside", "--nocapture", "--test-threads=1"]);
    let output = inside.env(DISK, &disk).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let told = said.find("chaos: ").expect("it has run");
    println!("{}", said[told..].lines().next().unwrap_or_default());
}

/// Does nothing unless it is run where the disk is.
#[test]
fn inside() {
    if let Some(disk) = std::env::var_os(DISK) {
        fill_and_clear(&Disk { folder: disk.into() });
    }
}

struct Disk {
    folder: PathBuf,
}

impl Disk {
    fn jobs(&self) -> PathBuf {
        self.folder.join("jobs.db")
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Leaves so many blocks.
    fn fill(&self, left: u64) {
        let ballast = OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        let length = fill_up(&ballast);
        ballast.set_len(length.saturating_sub(left * BLOCK)).unwrap();
    }

    /// Empties the log of the file: what is written from now on needs room, and does not find it in old entries.
    fn forget_log(&self) {
        let file = Connection::open(self.jobs()).unwrap();
        file.busy_timeout(crate::PATIENCE).unwrap();
        let truncate = || file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        while truncate().unwrap() != 0 {
            std::thread::yield_now();
        }
    }

    fn clear(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

/// Writes until the system refuses; says how long the file is then.
fn fill_up(mut file: &File) -> u64 {
    let block = [b'x'; BLOCK as usize];
    loop {
        match file.write_all(&block) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return file.metadata().unwrap().len(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Jobs that somebody tries to enqueue, each under a name of its own.
#[derive(Default)]
struct Attempts {
    acknowledged: Vec<String>,
    refused: Vec<String>,
}

impl Attempts {
    fn queue(&self) -> String {
        format!("attempt-{}", self.acknowledged.len() + self.refused.len())
    }

    /// Tries once, with a job that needs some blocks; what is refused is said to be so, by name.
    fn send(&mut self, world: &World, file: &Path) {
        let queue = self.queue();
        match world.try_enqueue(vec![World::bulky(Act::Then).queue(queue.clone())]) {
            Ok(_) => self.acknowledged.push(queue),
            Err(error) => {
                let text = error.to_string();
                assert!(error.is_transient() && text.contains("full"), "{error:?}");
                assert!(text.contains(&file.display().to_string()), "{text}");
                self.refused.push(queue);
            }
        }
    }

    /// Tries until it was refused some times.
    fn until_refused(&mut self, world: &World, file: &Path) {
        let end = self.refused.len() + 3;
        while self.refused.len() < end {
            self.send(world, file);
        }
    }
}

fn fill_and_clear(disk: &Disk) {
    let file = disk.jobs();
    let mut world = World::sqlite_at(file.clone());
    world.start_series();
    let mut attempts = Attempts::default();
    let mut node = world.spawn();
    for left in [0, 1, 2, 5, 9, 30] {
        let held = world.enqueue(vec![World::job(Act::Hold); THREADS]);
        world.await_held(&held);
        disk.forget_log();
        disk.fill(left);
        attempts.until_refused(&world, &file);
        // It has work to report, and nowhere to write it.
        node.order("go");
        for _ in 0..3 {
            let line = world.await_line("the store failed");
            assert!(line.contains("jobs.db") && line.contains("full"), "{line}");
        }
        if left % 2 == 1 {
            node.kill();
            disk.clear();
            node = world.spawn();
            node.order("go");
        } else {
            disk.clear();
        }
        for id in held {
            world.await_over(id);
        }
        attempts.send(&world, &file);
        node.end();
        node = world.spawn();
    }
    world.await_all();
    node.end();
    let seen = world.verdict();
    for queue in &attempts.acknowledged {
        let found = world.store.find(&Filter::new().queue(queue.as_str())).unwrap();
        assert_eq!(found.len(), 1, "{queue} was acknowledged");
        assert_eq!(found[0].state, JobState::Done);
    }
    for queue in &attempts.refused {
        assert_eq!(
            world.store.find(&Filter::new().queue(queue.as_str())).unwrap(),
            [],
            "{queue} was refused"
        );
    }
    tell(&format!("a disk filled to the last block, {} jobs refused", attempts.refused.len()), seen);
}
