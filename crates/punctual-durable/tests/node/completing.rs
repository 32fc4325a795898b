//! Jobs that handlers complete in transactions of their own: what these did has happened exactly once.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use punctual::ManualClock;
use punctual_durable::{
    Backoff, Done, Exchange, Filter, JobContext, JobError, JobId, JobState, Jobs, KindOptions, MemoryStore,
    NewJob, NodeId, Outcome, Recorded, Report, SqliteStore, Store, Verdict, transfer,
};
use rusqlite::Connection;

use crate::bench::{HOUR, SECOND};
use crate::folder::Folder;

const LEASE: std::time::Duration = HOUR;

fn booked(file: &Path) -> i64 {
    let mine = Connection::open(file).unwrap();
    mine.query_row("SELECT count(*) FROM booked", [], |row| row.get(0)).unwrap()
}

fn file(folder: &Folder) -> std::path::PathBuf {
    let file = folder.file("jobs.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE booked (job INTEGER)").unwrap();
    file
}

/// Whatever the handler says after its commit; and what it says counts if there was none.
#[test]
fn a_job_that_is_completed_is_done_whatever_the_handler_answers() {
    let folder = Folder::new();
    let (file, clock) = (file(&folder), ManualClock::new());
    let store = Arc::new(SqliteStore::open_with_time(&file, clock.clone()).unwrap());
    let (path, completes) = (file.clone(), Arc::clone(&store));
    let handler = move |how: String, cx: &JobContext| -> Result<Outcome, JobError> {
        let mut mine = Connection::open(&path)?;
        let transaction = mine.transaction()?;
        transaction.execute("INSERT INTO booked (job) VALUES (?1)", [cx.id().as_i64()])?;
        completes.complete_in(&transaction, cx)?;
        if how == "rolls back" && cx.attempt() == 1 {
            return Err("no".into());
        }
        transaction.commit()?;
        match how.as_str() {
            "fails" => Err("too late".into()),
            "gives up" => Err(JobError::permanent("too late")),
            "panics" => panic!("too late"),
            "snoozes" => Ok(Outcome::Snooze(SECOND)),
            "discards" => Ok(Outcome::Discard("moot".to_owned())),
            _ => Ok(Done),
        }
    };
    let options = KindOptions::new().backoff(Backoff::fixed(SECOND));
    let jobs = Jobs::on(store).clock(clock.clone()).handle_with("book", options, handler).start().unwrap();
    let ways = ["is done", "fails", "gives up", "panics", "snoozes", "discards", "rolls back"];
    let ids: Vec<JobId> = ways.iter().map(|how| jobs.enqueue(how.to_string()).send().unwrap().id()).collect();
    clock.advance(HOUR);
    for (id, how) in ids.iter().zip(ways) {
        let job = jobs.job(*id).unwrap().unwrap();
        let attempts = if how == "rolls back" { 2 } else { 1 };
        assert_eq!((job.state, job.attempt), (JobState::Done, attempts), "{how}");
        let said = jobs.failures(*id).unwrap().len();
        assert_eq!(said, usize::from(["fails", "gives up", "panics", "rolls back"].contains(&how)), "{how}");
    }
    assert_eq!(booked(&file), ways.len() as i64);
    jobs.shutdown(HOUR).unwrap();
}

/// The node dies between the commit and its report.
#[test]
fn what_was_completed_by_a_dead_node_is_done_and_followed() {
    for gone in ["killed", "disowned"] {
        let folder = Folder::new();
        let (file, clock) = (file(&folder), ManualClock::new());
        let open = || SqliteStore::open_with_time(&file, clock.clone()).unwrap();
        let (store, node) = (open(), NodeId::random());
        let chain = NewJob::new("book", "1").then(NewJob::new("tell", "2"));
        let ids: Vec<JobId> = (store.enqueue(vec![chain, NewJob::new("book", "3")]).unwrap().iter())
            .map(|accepted| accepted.id())
            .collect();
        store.renew(node, LEASE).unwrap();
        let kinds: Arc<[String]> = Arc::new(["book".to_owned()]);
        let claimed = store.exchange(node, Exchange::new(Arc::clone(&kinds)).sweep(9)).unwrap().claimed;
        assert_eq!(claimed.len(), 2);
        // As `complete_in` does it, for the first of them.
        let mine = Connection::open(&file).unwrap();
        mine.execute("UPDATE punctual_job SET complete = fence WHERE id = ?1", [ids[0].as_i64()]).unwrap();
        assert!(store.job(ids[0]).unwrap().unwrap().completed);
        let (store, state) = if gone == "killed" {
            drop(store);
            clock.advance(LEASE);
            let (store, heir) = (open(), NodeId::random());
            store.renew(heir, LEASE).unwrap();
            let rescued = store.rescue(heir, 9).unwrap();
            let states: Vec<JobState> = rescued.iter().map(|rescued| rescued.state).collect();
            assert_eq!(states, [JobState::Done, JobState::Scheduled]);
            (store, JobState::Scheduled)
        } else {
            let exchange = Exchange::new(Arc::clone(&kinds)).disown_all_but(vec![]);
            let followed = store.exchange(node, exchange).unwrap().followed;
            assert_eq!(followed.len(), 1);
            (store, JobState::Scheduled)
        };
        let [first, second] = [ids[0], ids[1]].map(|id| store.job(id).unwrap().unwrap());
        assert_eq!((first.state, first.crashes, first.completed), (JobState::Done, 0, false), "{gone}");
        assert_eq!(second.state, state, "{gone}: the other is run again");
        let next = store.find(&Filter::new().parent(ids[0])).unwrap();
        assert_eq!((next.len(), next[0].kind.as_str()), (1, "tell"), "{gone}");
        let late = Report::new(ids[0], claimed[0].fence, Verdict::Done);
        let answer = store.exchange(node, Exchange::new(kinds).reports(vec![late])).unwrap().recorded;
        assert!(matches!(answer[0], Recorded::Stale | Recorded::Already), "{answer:?}");
    }
}

/// With the key of the job itself: that is free when it is over, and not before.
#[test]
fn what_was_asked_for_follows_a_completed_job_once_whatever_comes_after() {
    let folder = Folder::new();
    let (file, clock) = (file(&folder), ManualClock::new());
    let store = Arc::new(SqliteStore::open_with_time(&file, clock.clone()).unwrap());
    let (path, completes) = (file.clone(), Arc::clone(&store));
    let handler = move |how: String, cx: &JobContext| -> Result<Outcome, JobError> {
        cx.then(cx.client().enqueue(1_u32).unique(&how))?;
        let mut mine = Connection::open(&path)?;
        let transaction = mine.transaction()?;
        completes.complete_in(&transaction, cx)?;
        assert!(cx.then(cx.client().enqueue(2_u32)).unwrap_err().is_invalid(), "too late");
        if how == "rolls back" {
            return Ok(Done);
        }
        if how == "tries twice" {
            transaction.rollback()?;
            let transaction = mine.transaction()?;
            completes.complete_in(&transaction, cx)?;
            transaction.commit()?;
        } else {
            transaction.commit()?;
        }
        let transaction = mine.transaction()?;
        assert!(completes.complete_in(&transaction, cx).unwrap_err().is_conflict(), "it has been");
        transaction.rollback()?;
        if how == "is lost" {
            // Its node is taken for dead, and reports later.
            mine.execute("UPDATE punctual_job SET owner = owner + 1 WHERE state = 1", [])?;
            let rescued = completes.rescue(cx.record().owner.unwrap(), 9)?;
            assert_eq!(rescued.len(), 1);
        }
        if how == "fails" { Err("too late".into()) } else { Ok(Done) }
    };
    let jobs = Jobs::on(store).clock(clock.clone()).concurrency(1).handle("book", handler);
    let jobs = jobs.handle("tell", |_: u32, _: &JobContext| Ok(Done)).start().unwrap();
    for how in ["is done", "fails", "is lost", "rolls back", "tries twice"] {
        let id = jobs.enqueue(how.to_owned()).unique(how).send().unwrap().id();
        clock.advance(SECOND);
        assert_eq!(jobs.job(id).unwrap().unwrap().state, JobState::Done, "{how}");
        let next = jobs.find(&Filter::new().kind("tell").parent(id)).unwrap();
        assert_eq!(next.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Done], "{how}");
    }
    jobs.shutdown(HOUR).unwrap();
}

#[test]
fn an_attempt_that_has_been_superseded_cannot_complete_its_job() {
    let folder = Folder::new();
    let (file, clock) = (file(&folder), ManualClock::new());
    let store = Arc::new(SqliteStore::open_with_time(&file, clock.clone()).unwrap());
    let (path, completes) = (file.clone(), Arc::clone(&store));
    let (sender, errors) = channel();
    let handler = move |_: u32, cx: &JobContext| -> Result<Outcome, JobError> {
        let mut mine = Connection::open(&path)?;
        assert!(completes.complete_in(&mine, cx).unwrap_err().is_invalid(), "no transaction");
        let elsewhere = Connection::open_in_memory()?;
        assert!(completes.complete_in(&elsewhere, cx).unwrap_err().is_invalid(), "not this file");
        // Somebody else has it by now.
        mine.execute("UPDATE punctual_job SET fence = fence + 1", [])?;
        let transaction = mine.transaction()?;
        let error = completes.complete_in(&transaction, cx).unwrap_err();
        transaction.rollback()?;
        mine.execute("UPDATE punctual_job SET fence = fence - 1", [])?;
        sender.send((error.is_conflict(), error.to_string()))?;
        Ok(Done)
    };
    let jobs = Jobs::on(store).clock(clock.clone()).handle("book", handler).start().unwrap();
    let id = jobs.enqueue(1_u32).send().unwrap().id();
    clock.advance(SECOND);
    let (conflict, text) = errors.try_recv().unwrap();
    assert!(conflict && text.starts_with(&format!("job {id} is not held under fence 1 any more")), "{text}");
    assert_eq!(jobs.job(id).unwrap().unwrap().state, JobState::Done);
    jobs.shutdown(HOUR).unwrap();
}

/// It is over, and followed.
#[test]
fn what_is_completed_is_not_run_again_in_another_store() {
    let folder = Folder::new();
    let (file, clock) = (file(&folder), ManualClock::new());
    let (store, node) = (SqliteStore::open_with_time(&file, clock.clone()).unwrap(), NodeId::random());
    let chain = NewJob::new("book", "1").then(NewJob::new("tell", "2")).then(NewJob::new("tell", "3"));
    store.enqueue(vec![chain, NewJob::new("book", "4"), NewJob::new("book", "5")]).unwrap();
    store.renew(node, LEASE).unwrap();
    store.exchange(node, Exchange::new(Arc::new(["book".to_owned()])).sweep(9)).unwrap();
    let mine = Connection::open(&file).unwrap();
    mine.execute("UPDATE punctual_job SET complete = fence WHERE id < 3", []).unwrap();
    mine.execute("INSERT INTO punctual_log (job, fence, number, at, line) VALUES (1, 1, 0, 0, 'mine')", [])
        .unwrap();
    let other = MemoryStore::with_time(clock.clone());
    transfer(&store, &other).unwrap();
    let successor = &other.find(&Filter::new().kind("tell")).unwrap()[0];
    assert_eq!(other.log(successor.id).unwrap().lines, [], "what the other said is not its own");
    let mut jobs: Vec<_> = (other.find(&Filter::new()).unwrap().into_iter())
        .map(|job| (job.payload.unwrap_or_default(), job.kind, job.state, job.then.len(), job.completed))
        .collect();
    jobs.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("", "book", JobState::Done, 0, false),
        ("", "book", JobState::Done, 0, false),
        ("2", "tell", JobState::Scheduled, 1, false),
        ("5", "book", JobState::Scheduled, 0, false),
    ];
    let expected = expected.map(|(payload, kind, state, then, completed)| {
        (payload.to_owned(), kind.to_owned(), state, then, completed)
    });
    assert_eq!(jobs, expected);
}
