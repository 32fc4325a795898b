//! Disks that are full, and files that may not be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use punctual_durable::{Filter, JobState};

use crate::node::Node;
use crate::place::Place;
use crate::program::{Act, CANNOT_OPEN, Orders};
use crate::tell;
use crate::world::World;

/// The log of the file grows beyond what the node may write: every write of its own fails, as on a full disk.
#[test]
fn on_a_full_disk_nothing_is_lost_and_the_node_goes_on_when_there_is_room() {
    let mut world = World::sqlite();
    world.leave.handlers_fail = true;
    for _ in 0..60 {
        world.enqueue(vec![World::job(Act::Spawn), World::job(Act::Plain)]);
    }
    let log = world.folder.file("jobs.db-wal");
    let size = fs::metadata(&log).unwrap().len();
    let node = Node::spawn(&Orders { file_size: Some(size / 2), ..world.orders() }, &world.sender);
    let line = world.await_line("the store failed");
    assert!(line.contains("jobs.db"), "{line}");
    // It goes on trying, and meanwhile starts nothing it could not claim.
    world.await_line("the store failed");
    assert!(world.records().iter().all(|job| job.state == JobState::Scheduled));
    world.enqueue_some(5);
    node.lift_file_size();
    world.await_all();
    node.end();
    let seen = world.verdict();
    assert!(seen.jobs >= 180, "{seen}");
    tell("a full disk", seen);
}

/// The disk fills up while jobs run: what they did cannot be recorded for a while, and is recorded once.
#[test]
fn outcomes_that_find_the_disk_full_are_recorded_when_there_is_room() {
    let mut world = World::sqlite();
    world.leave.handlers_fail = true;
    let held = world.enqueue(vec![World::job(Act::Hold)])[0];
    let size = fs::metadata(world.folder.file("jobs.db-wal")).unwrap().len();
    let mut node =
        Node::spawn(&Orders { file_size: Some(size + (64 << 10)), ..world.orders() }, &world.sender);
    world.await_line("holding");
    for _ in 0..60 {
        world.enqueue(vec![World::job(Act::Spawn)]);
    }
    node.order("go");
    world.await_line("the store failed");
    node.lift_file_size();
    world.await_all();
    node.end();
    let seen = world.verdict();
    let record = world.store.job(held).unwrap().unwrap();
    assert_eq!((record.state, record.crashes), (JobState::Done, 0));
    tell("a disk that fills up", seen);
}

/// A copy of a world's file in a folder of its own, for processes without privileges: to those of the superuser
/// everything may be written.
struct Guarded {
    folder: PathBuf,
    program: PathBuf,
    orders: Orders,
}

impl Guarded {
    fn new(world: &World) -> Self {
        let (folder, program) = (world.folder.file("guarded"), world.folder.file("program"));
        fs::create_dir(&folder).unwrap();
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        for name in ["jobs.db", "jobs.db-wal"] {
            fs::copy(world.folder.file(name), folder.join(name)).unwrap();
        }
        let orders = Orders {
            place: Place::Sqlite(folder.join("jobs.db")),
            log: world.folder.file("guarded.log"),
            ..world.orders()
        };
        fs::write(&orders.log, "").unwrap();
        allow(&program, 0o755);
        allow(&orders.log, 0o666);
        Self { folder, program, orders }
    }

    /// Sets what everybody may do with the files in it, then with the folder itself.
    fn allow(&self, folder: u32, files: u32) {
        for file in fs::read_dir(&self.folder).unwrap() {
            allow(&file.unwrap().path(), files);
        }
        allow(&self.folder, folder);
    }

    fn spawn(&self, world: &World) -> Node {
        Node::spawn_unprivileged(&self.program, &self.orders, &world.sender)
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_or_folder_that_may_not_be_written_is_refused_by_name() {
    let world = World::sqlite();
    world.enqueue_some(5);
    let guarded = Guarded::new(&world);
    for (folder, files) in [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666)] {
        // Where others have left the index of the log, SQLite need not make it.
        let _ = fs::remove_file(guarded.folder.join("jobs.db-shm"));
        guarded.allow(folder, files);
        let node = guarded.spawn(&world);
        let line = world.hear();
        let is_clear = line.starts_with("cannot open: ") && line.contains("guarded/jobs.db");
        assert!(is_clear, "folder {folder:o}, files {files:o}: {line}");
        assert_eq!(node.die().code(), Some(CANNOT_OPEN), "{line}");
        guarded.allow(0o755, 0o644);
    }
    // Nothing of it has done any harm.
    let file = guarded.folder.join("jobs.db");
    assert_eq!(Place::Sqlite(file).open().unwrap().find(&Filter::new()).unwrap().len(), 5);
}

#[test]
fn a_node_that_may_not_lock_its_file_says_so_and_goes_on_when_it_may() {
    let world = World::sqlite();
    world.enqueue(vec![World::job(Act::Plain); 5]);
    let guarded = Guarded::new(&world);
    // Everything is there but the file beside it that says who has it.
    let reader = Place::Sqlite(guarded.folder.join("jobs.db")).open().unwrap();
    guarded.allow(0o555, 0o666);
    let node = guarded.spawn(&world);
    let line = world.await_line("the store failed");
    assert!(line.contains("cannot lock") && line.contains("jobs.db-owner"), "{line}");
    guarded.allow(0o777, 0o666);
    world.await_records(5);
    node.end();
    assert!(reader.find(&Filter::new()).unwrap().iter().all(|job| job.state == JobState::Done));
}
