//! The SQLite store passes the suite, and keeps its own promises about files and processes.
#![cfg(feature = "sqlite")]

mod folder;

use std::path::PathBuf;
use std::sync::Arc;

use folder::Folder;
use punctual::ManualClock;
use punctual_durable::conformance::{LEASE, Subject};
use punctual_durable::{Exchange, NewJob, NodeId, SqliteStore, Store, Tenure};

/// A crash leaves the files as they are: the next life begins with a copy of them, taken while the old one still has
/// them open and has closed nothing.
#[derive(Debug)]
struct InFile {
    clock: ManualClock,
    folder: Folder,
    lives: u32,
    store: Option<Arc<SqliteStore>>,
}

fn in_file() -> InFile {
    let clock = ManualClock::new();
    let folder = Folder::new();
    let store = SqliteStore::open_with_time(folder.file("jobs-0.db"), clock.clone()).unwrap();
    InFile { clock, folder, lives: 0, store: Some(Arc::new(store)) }
}

impl InFile {
    fn path(&self) -> PathBuf {
        self.folder.file(&format!("jobs-{}.db", self.lives))
    }
}

impl Subject for InFile {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn crash(&mut self) {
        let old = self.path();
        self.lives += 1;
        let new = self.path();
        for suffix in ["", "-wal"] {
            let file = |path: &PathBuf| PathBuf::from(format!("{}{suffix}", path.display()));
            if file(&old).exists() {
                std::fs::copy(file(&old), file(&new)).unwrap();
            }
        }
        self.store = Some(Arc::new(SqliteStore::open_with_time(new, self.clock.clone()).unwrap()));
    }
}

punctual_durable::conformance_tests!(in_file);

fn kinds() -> Arc<[String]> {
    Arc::new(["mail".to_owned()])
}

#[test]
fn one_node_has_the_file_and_the_next_takes_over_when_it_is_gone() {
    let folder = Folder::new();
    let open = || SqliteStore::open(folder.file("jobs.db")).unwrap();
    let (first, second) = (open(), open());
    let (node, standby) = (NodeId::random(), NodeId::random());
    assert_eq!(first.renew(node, LEASE).unwrap().tenure, Tenure::Active);
    assert_eq!(second.renew(standby, LEASE).unwrap().tenure, Tenure::Standby);
    second.enqueue(vec![NewJob::new("mail", "{}"), NewJob::new("mail", "{}")]).unwrap();
    let sweep =
        |store: &SqliteStore, node| store.exchange(node, Exchange::new(kinds()).sweep(1)).unwrap().claimed;
    assert_eq!(sweep(&second, standby), [], "a standby claims nothing");
    let held = sweep(&first, node).remove(0);
    assert_eq!(second.rescue(standby, 9).unwrap(), [], "nor does it rescue");
    drop(first);
    assert_eq!(
        second.renew(standby, LEASE).unwrap().tenure,
        Tenure::Active,
        "at once, without a lease to wait for"
    );
    let rescued = second.rescue(standby, 9).unwrap();
    assert_eq!((rescued.len(), rescued[0].id, rescued[0].from), (1, held.id, node));
    assert_eq!(sweep(&second, standby).len(), 1);
}

/// By a lock that the watcher cannot take; and it does not take it from anybody.
#[test]
fn whoever_watches_a_file_sees_the_node_that_has_it() {
    let subject = in_file();
    let (store, watcher) = (subject.store(), SqliteStore::open(subject.path()).unwrap());
    assert_eq!(watcher.nodes().unwrap(), []);
    let node = NodeId::random();
    assert_eq!(store.renew(node, LEASE).unwrap().tenure, Tenure::Active);
    store.enqueue(vec![NewJob::new("mail", "{}")]).unwrap();
    store.exchange(node, Exchange::new(kinds()).sweep(1)).unwrap();
    let seen = watcher.nodes().unwrap();
    assert_eq!(seen, store.nodes().unwrap());
    assert_eq!((seen[0].id, seen[0].alive, seen[0].held), (node, true, 1));
    assert_eq!(store.renew(node, LEASE).unwrap().tenure, Tenure::Active);
    store.leave(node).unwrap();
    assert!(!watcher.nodes().unwrap()[0].alive);
    let next = NodeId::random();
    assert_eq!(store.renew(next, LEASE).unwrap().tenure, Tenure::Active, "nobody keeps it");
}

#[test]
fn many_threads_and_stores_on_one_file_lose_nothing() {
    const THREADS: i64 = 4;
    const EACH: i64 = 50;
    let folder = Folder::new();
    let shared = SqliteStore::open(folder.file("jobs.db")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, path) = (&shared, folder.file("jobs.db"));
            scope.spawn(move || {
                // Half of them share a store, and so commits; the others are as good as other processes.
                let own = (thread % 2 == 0).then(|| SqliteStore::open(path).unwrap());
                let store = own.as_ref().unwrap_or(shared);
                for _ in 0..EACH {
                    store.enqueue(vec![NewJob::new("mail", "{}")]).unwrap();
                }
            });
        }
    });
    let node = NodeId::random();
    shared.renew(node, LEASE).unwrap();
    let claimed = shared.exchange(node, Exchange::new(kinds()).sweep(1_000)).unwrap().claimed;
    assert_eq!(i64::try_from(claimed.len()), Ok(THREADS * EACH));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = Folder::new();
    let path = folder.file("notes.txt");
    let text = "this is not a database, and must not become one\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(error.is_broken() && error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_path_that_leads_nowhere_is_an_error_that_names_it() {
    let folder = Folder::new();
    let error = SqliteStore::open(folder.file("no/such/folder/jobs.db")).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("no/such/folder/jobs.db"), "{error}");
    assert!(SqliteStore::open("").unwrap_err().is_invalid());
    assert!(SqliteStore::open(":memory:").unwrap_err().is_invalid());
}

#[test]
fn a_file_of_a_later_version_is_refused() {
    let folder = Folder::new();
    drop(SqliteStore::open(folder.file("jobs.db")).unwrap());
    let file = rusqlite::Connection::open(folder.file("jobs.db")).unwrap();
    file.execute("UPDATE punctual_meta SET value = 1000 WHERE name = 'schema'", []).unwrap();
    let error = SqliteStore::open(folder.file("jobs.db")).unwrap_err();
    assert!(error.is_broken() && error.to_string().contains("version 1000"), "{error}");
}

/// An older program that declares its schedules at every start does not undo what a newer one has made of them.
#[test]
fn a_schedule_that_cannot_be_read_is_not_replaced() {
    use punctual_durable::{Cadence, NewSchedule, ScheduleChange};
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
    let hour = Cadence::Every(std::time::Duration::from_secs(3_600));
    let schedule = |name| NewSchedule::new(name, hour.clone(), NewJob::new("work", "{}"));
    store.save_schedule(schedule("s")).unwrap();
    let file = rusqlite::Connection::open(folder.file("jobs.db")).unwrap();
    file.execute("UPDATE punctual_schedule SET definition = '{\"when\": \"ever\"}', version = 7", [])
        .unwrap();
    for error in [
        store.save_schedule(schedule("s")).unwrap_err(),
        store.set_schedule("s", ScheduleChange::Trigger).unwrap_err(),
    ] {
        assert!(error.is_broken() && error.to_string().contains("\"s\""), "{error}");
    }
    let version: i64 = file.query_row("SELECT version FROM punctual_schedule", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 7);
    store.save_schedule(schedule("t")).unwrap();
    assert_eq!(store.schedules().unwrap().len(), 1, "the others go on");
    assert!(store.set_schedule("s", ScheduleChange::Remove).unwrap(), "it can be removed");
    store.save_schedule(schedule("s")).unwrap();
}

#[test]
fn many_may_open_a_new_file_at_once() {
    for _ in 0..5 {
        let folder = Folder::new();
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
                    store.enqueue(vec![NewJob::new("mail", "{}")]).unwrap();
                });
            }
        });
        let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
        assert_eq!(store.find(&punctual_durable::Filter::new()).unwrap().len(), 4);
    }
}

#[test]
fn a_log_cut_off_anywhere_leaves_a_prefix_of_what_was_acknowledged() {
    const JOBS: usize = 12;
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
    for n in 0..JOBS {
        store.enqueue(vec![NewJob::new("mail", n.to_string())]).unwrap();
    }
    let (file, log) = (std::fs::read(folder.file("jobs.db")), std::fs::read(folder.file("jobs.db-wal")));
    let (file, log) = (file.unwrap(), log.unwrap());
    drop(store);
    let mut most = 0;
    // A prime step, so that the cuts fall everywhere within pages and frames.
    for cut in (0..=log.len()).step_by(4_099).chain([log.len()]) {
        let torn = folder.file(&format!("torn-{cut}.db"));
        std::fs::write(&torn, &file).unwrap();
        std::fs::write(folder.file(&format!("torn-{cut}.db-wal")), &log[..cut]).unwrap();
        let store = SqliteStore::open(&torn).unwrap();
        let found = store.find(&punctual_durable::Filter::new()).unwrap();
        for (n, job) in found.iter().enumerate() {
            assert_eq!(job.payload, Some(n.to_string()), "the first ones, whole, in order");
        }
        assert!(found.len() >= most, "a longer log holds no less");
        most = found.len();
        store.enqueue(vec![NewJob::new("mail", "and on it goes")]).unwrap();
    }
    assert_eq!(most, JOBS);
}

#[test]
fn jobs_enqueued_in_a_transaction_share_its_fate() {
    let folder = Folder::new();
    let path = folder.file("shop.db");
    let store = SqliteStore::open(&path).unwrap();
    let count = || store.find(&punctual_durable::Filter::new()).unwrap().len();
    let mut mine = rusqlite::Connection::open(&path).unwrap();
    mine.execute_batch("CREATE TABLE sale (customer INTEGER)").unwrap();
    let job = || NewJob::new("mail", "{}");

    let error = store.enqueue_in(&mine, vec![job()]).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("no transaction"), "{error}");
    let mut other = rusqlite::Connection::open(folder.file("other.db")).unwrap();
    let error = store.enqueue_in(&other.transaction().unwrap(), vec![job()]).unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("other.db"), "{error}");
    let mut memory = rusqlite::Connection::open_in_memory().unwrap();
    assert!(store.enqueue_in(&memory.transaction().unwrap(), vec![job()]).unwrap_err().is_invalid());

    let transaction = mine.transaction().unwrap();
    store.enqueue_in(&transaction, vec![job(), job()]).unwrap();
    transaction.rollback().unwrap();
    assert_eq!(count(), 0);

    let transaction = mine.transaction().unwrap();
    transaction.execute("INSERT INTO sale (customer) VALUES (7)", []).unwrap();
    let keyed = || job().unique("k", punctual_durable::OnConflict::Reject);
    store.enqueue_in(&transaction, vec![keyed()]).unwrap();
    assert!(
        store.enqueue_in(&transaction, vec![job(), keyed()]).unwrap_err().is_conflict(),
        "and the rest goes on"
    );
    transaction.commit().unwrap();
    assert_eq!(count(), 1, "the batch that was refused left nothing");
    let sales: i64 = mine.query_row("SELECT count(*) FROM sale", [], |row| row.get(0)).unwrap();
    assert_eq!(sales, 1);
}

#[cfg(unix)]
#[test]
fn a_file_has_one_owner_by_whatever_name_it_is_opened() {
    let folder = Folder::new();
    let first = SqliteStore::open(folder.file("jobs.db")).unwrap();
    std::os::unix::fs::symlink(folder.file("jobs.db"), folder.file("alias.db")).unwrap();
    let second = SqliteStore::open(folder.file("alias.db")).unwrap();
    assert_eq!(first.renew(NodeId::random(), LEASE).unwrap().tenure, Tenure::Active);
    assert_eq!(second.renew(NodeId::random(), LEASE).unwrap().tenure, Tenure::Standby);
}

/// The condition of an index is evaluated at every update; one with a list in it was a table that was made each time.
#[test]
fn to_change_a_job_makes_no_table_and_what_is_over_is_found_in_order() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    let explain = |sql: &str, column: usize| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(column)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    for change in
        ["UPDATE punctual_job SET state = 1 WHERE id = 1", "INSERT INTO punctual_job DEFAULT VALUES"]
    {
        let steps = explain(&format!("EXPLAIN {change}"), 1);
        assert!(steps.contains(&"OpenWrite".to_owned()), "{steps:?}");
        assert!(!steps.contains(&"OpenEphemeral".to_owned()), "{change}: {steps:?}");
    }
    let over = "EXPLAIN QUERY PLAN SELECT id FROM punctual_job WHERE state >= 2 AND state <= 4 AND finished < 9 \
                ORDER BY finished, id";
    assert!(explain(over, 3)[0].contains("punctual_job_over (finished<?)"), "{:?}", explain(over, 3));
}
