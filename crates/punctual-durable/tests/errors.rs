//! What people are told when something is wrong, word for word: what it is about, what is wrong with it, and, where that is
//! not plain, what to do.
//!
//! The same mistake is told in the same words by every store. See also `tests/node/bad_input.rs` (what it costs the
//! others: nothing), `tests/postgres/connecting.rs` (servers: passwords, TLS, rights, versions) and
//! `tests/chaos/sqlite/disk.rs` (files that may not be written).
#![cfg(all(feature = "sqlite", feature = "postgres"))]

#[path = "folder/mod.rs"]
mod folder;

use std::sync::Arc;
use std::time::Duration;

use folder::Folder;
use punctual_durable::{
    Done, Due, Error, JobContext, JobError, Jobs, JobsBuilder, KindOptions, MemoryStore, NewJob, OnConflict,
    Outcome, PostgresStore, Result, SqliteStore, Store,
};
use punctual_testbed::Postgres;

/// Of a call that must fail.
#[track_caller]
fn refused<T>(answer: Result<T>) -> Error {
    match answer {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error,
    }
}

#[track_caller]
fn invalid<T>(answer: Result<T>, message: &str) {
    let error = refused(answer);
    assert_eq!(error.to_string(), message);
    assert!(error.is_invalid() && !error.is_transient(), "{error:?}");
}

fn handler(_: String, _: &JobContext) -> Result<Outcome, JobError> {
    Ok(Done)
}

fn memory() -> JobsBuilder {
    Jobs::open("memory:").unwrap()
}

/// Tries every store that there is.
fn with_each_store(check: impl Fn(Arc<dyn Store>)) {
    let (folder, url) = (Folder::new(), Postgres::shared().fresh_database());
    check(Arc::new(MemoryStore::new()));
    check(Arc::new(SqliteStore::open(folder.file("jobs.db")).unwrap()));
    check(Arc::new(PostgresStore::open(&url).unwrap()));
    Postgres::shared().drop_database(&url);
}

#[test]
fn a_store_that_cannot_be_found_is_named() {
    invalid(Jobs::open("jobs.db"), "\"jobs.db\" names no store: sqlite:jobs.db would");
    invalid(
        Jobs::open("redis://here"),
        "no store is called \"redis\": there are memory, sqlite and postgres",
    );
    invalid(SqliteStore::open(""), "\"\" is not the name of a file");
    invalid(SqliteStore::open(":memory:"), "\":memory:\" is not the name of a file");
}

#[test]
fn a_node_that_makes_no_sense_is_told_so() {
    let twice = memory().handle("mail", handler).handle("mail", handler);
    invalid(twice.start(), "the kind \"mail\" is given twice");
    invalid(memory().concurrency(0).start(), "with a concurrency of 0 nothing could run");
    let nothing = Duration::ZERO;
    invalid(memory().poll_interval(nothing).start(), "a poll interval of 0ns is less than a millisecond");
    invalid(memory().lease(nothing).start(), "a lease of 0ns is less than a millisecond");
    let never = KindOptions::new().max_attempts(0);
    invalid(
        memory().handle_with("mail", never, handler).start(),
        "a \"mail\" job with max_attempts 0 could never run",
    );
}

#[test]
fn a_schedule_that_makes_no_sense_is_told_so() {
    let jobs = memory().handle("mail", handler).start().unwrap();
    let new = || jobs.schedule("daily");
    let mail = || "x".to_owned();
    invalid(new().job(mail()).save(), "the schedule \"daily\" does not say when");
    invalid(new().every(Duration::from_secs(1)).save(), "the schedule \"daily\" does not say what");
    let often = new().every(Duration::from_micros(1)).job(mail());
    invalid(often.save(), "a period of 1µs is less than a millisecond");
    let error = refused(new().cron("0 9 * * *", "Europe/Belrin"));
    let text = error.to_string();
    assert!(
        text.starts_with("\"0 9 * * *\" in \"Europe/Belrin\" is no schedule: unknown time zone"),
        "{text}"
    );
    let text = refused(new().cron("0 25 * * *", "UTC")).to_string();
    assert!(text.starts_with("\"0 25 * * *\" in \"UTC\" is no schedule: ") && text.contains("25"), "{text}");
    let range = std::time::SystemTime::UNIX_EPOCH..std::time::SystemTime::UNIX_EPOCH;
    invalid(jobs.backfill("none", range), "no schedule is called \"none\"");
}

#[test]
fn a_job_of_a_kind_that_is_not_known_is_told_so() {
    let jobs = memory().handle("mail", handler).handle("fax", handler).start().unwrap();
    let unknown = "no kind has been declared for payloads of type u8";
    let text = refused(jobs.enqueue(7_u8).send()).to_string();
    assert!(text.starts_with(unknown), "{text}");
    let two =
        "a alloc::string::String may be any of the kinds [\"mail\", \"fax\"]: say which with enqueue_as";
    invalid(jobs.enqueue(String::new()).send(), two);
    let error = refused(jobs.outcome(punctual_durable::JobId::from_i64(7)).join());
    assert_eq!(error.to_string(), "no job 7 is known");
}

#[test]
fn every_store_says_the_same_of_a_job_that_it_does_not_accept() {
    with_each_store(|store| {
        let send = |job: NewJob| store.enqueue(vec![NewJob::new("mail", "1"), job]);
        let large = NewJob::new("mail", "x".repeat(NewJob::MAX_PAYLOAD + 1));
        invalid(send(large), "the payload of a \"mail\" job has 1048577 bytes, the most is 1048576");
        invalid(send(NewJob::new("", "1")), "the kind is empty");
        invalid(
            send(NewJob::new("mail", "1").queue("a\nb")),
            "the queue \"a\\nb\" contains a control character",
        );
        let key = |conflict| NewJob::new("mail", "1").due(Due::After(HOUR)).unique("k", conflict);
        let holder = store.enqueue(vec![key(OnConflict::Keep)]).unwrap()[0].id();
        let error = refused(send(key(OnConflict::Reject)));
        assert!(error.is_conflict() && !error.is_invalid() && !error.is_transient(), "{error:?}");
        assert_eq!(error.to_string(), format!("the unique key \"k\" belongs to job {holder}"));
        let all = store.find(&punctual_durable::Filter::new()).unwrap();
        assert_eq!(all.len(), 1, "of a batch with a mistake nothing is accepted");
    });
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Undecodable: the job is set aside with its payload, and says what was expected where.
#[test]
fn a_payload_that_cannot_be_read_is_kept_with_the_reason() {
    with_each_store(|store| {
        let jobs = Jobs::on(store).handle("mail", handler).start().unwrap();
        let id = jobs.send(vec![NewJob::new("mail", "{\"to\":7}")]).unwrap()[0].id();
        let record = jobs.outcome(id).join().unwrap();
        let note = "the payload cannot be read: invalid type: map, expected a string at line 1 column 0";
        assert_eq!(record.note.as_deref(), Some(note));
        assert_eq!(record.payload.as_deref(), Some("{\"to\":7}"));
        assert_eq!(jobs.failures(id).unwrap().len(), 1);
    });
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let folder = Folder::new();
    let path = folder.file("jobs.db");
    drop(SqliteStore::open(&path).unwrap());
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute("UPDATE punctual_meta SET value = 1000 WHERE name = 'schema'", []).unwrap();
    let error = refused(SqliteStore::open(&path));
    let text = error.to_string();
    assert!(error.is_broken() && text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("version 1000"), "{text}");
    let other = folder.file("letter.txt");
    std::fs::write(&other, "Dear Anna, ".repeat(1_000)).unwrap();
    let error = refused(SqliteStore::open(&other));
    let text = error.to_string();
    assert!(error.is_broken() && text.contains("letter.txt") && text.contains("not a database"), "{text}");
    let drawer = folder.file("drawer");
    std::fs::create_dir(&drawer).unwrap();
    let error = refused(SqliteStore::open(&drawer));
    let text = error.to_string();
    assert!(error.is_invalid() && text.starts_with(&format!("cannot open {}", drawer.display())), "{text}");
}

#[test]
fn a_transaction_that_is_none_is_told_so() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs.db")).unwrap();
    let job = || vec![NewJob::new("mail", "1")];
    let elsewhere = rusqlite::Connection::open(folder.file("other.db")).unwrap();
    let text = refused(store.enqueue_in(&elsewhere, job())).to_string();
    assert!(text.contains("other.db") && text.contains("is none to") && text.contains("jobs.db"), "{text}");
    let idle = rusqlite::Connection::open(folder.file("jobs.db")).unwrap();
    invalid(store.enqueue_in(&idle, job()), "the connection has no transaction open");
}

/// What the caller must change is the caller's mistake; what may pass is tried again by whoever wants to.
#[test]
fn a_server_that_cannot_be_reached_is_named_and_a_url_that_makes_no_sense_is_not_repeated() {
    for (parameter, word) in [
        (
            "sslmode=perhaps",
            "the sslmode \"perhaps\" is none of disable, prefer, require, verify-ca and verify-full",
        ),
        (
            "colour=red",
            "the URL of the database makes no sense: invalid connection string: unknown option `colour`",
        ),
        (
            "connect_timeout=soon",
            "the URL of the database makes no sense: invalid connection string: invalid value for option `connect_timeout`",
        ),
    ] {
        invalid(PostgresStore::open(&format!("postgres://me:secret@localhost/shop?{parameter}")), word);
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refused(PostgresStore::open(&format!("postgres://me:secret@{nobody}/shop")));
    let text = error.to_string();
    assert!(
        error.is_transient() && text.starts_with(&format!("cannot connect to {nobody}/shop: ")),
        "{text}"
    );
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    let error = refused(PostgresStore::open(&Postgres::shared().url("no_such_database")));
    let text = error.to_string();
    assert!(error.is_invalid() && text.contains("database \"no_such_database\" does not exist"), "{text}");
}

#[test]
fn a_database_that_cannot_be_used_is_named() {
    let server = Postgres::shared();
    let url = server.fresh_database();
    let name = url.rsplit('/').next().unwrap();
    let ascii = format!("{name}_ascii");
    let sql = format!("CREATE DATABASE {ascii} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'");
    server.connect("postgres").batch_execute(&sql).unwrap();
    let error = refused(PostgresStore::open(&server.url(&ascii)));
    let text = error.to_string();
    assert!(error.is_broken() && text.contains(&ascii), "{text}");
    assert!(text.ends_with("has the encoding SQL_ASCII, and UTF8 is needed"), "{text}");
    server.drop_database(&server.url(&ascii));
    server.drop_database(&url);
}
