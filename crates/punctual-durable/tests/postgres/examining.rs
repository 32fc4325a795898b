//! What the doctor finds in a database to which somebody has done something.

use std::time::Duration;

use punctual_durable::{Cadence, Jobs, NewJob, NewSchedule, PostgresStore, Severity, Store};
use punctual_testbed::{Postgres, Settings};

use crate::{Database, Hand, work};

/// What is worse than worth knowing, but for the servers of tests, which forget everything with the power.
fn complaints(store: &PostgresStore) -> Vec<String> {
    let findings = store.check().unwrap().into_iter();
    let bad = findings.filter(|finding| finding.severity > Severity::Info && finding.check != "durability");
    bad.map(|finding| finding.to_string()).collect()
}

#[test]
fn the_doctor_finds_what_somebody_has_done_to_the_rows() {
    let database = Database::new();
    let (store, second) = (database.open(), Duration::from_secs(1));
    let chain = work().due(punctual_durable::Due::After(Duration::from_secs(3600))).then(work());
    store.enqueue(vec![chain, NewJob::new("other", "{}").queue("q")]).unwrap();
    for (name, cadence) in [("s", Cadence::Every(second)), ("d", Cadence::Delay(second))] {
        store.save_schedule(NewSchedule::new(name, cadence, work())).unwrap();
    }
    let hand = Hand::new(&database);
    store.enqueue(vec![work()]).unwrap();
    assert_eq!(hand.sweep(9).claimed.len(), 1);
    assert_eq!(complaints(&store), [] as [&str; 0]);

    let mut sql = database.client();
    for (harm, words) in [
        (
            "UPDATE punctual.job SET follow = '[{' WHERE id = 1",
            "error: chains: what follows job 1 cannot be read",
        ),
        (
            "UPDATE punctual.schedule SET next = NULL",
            "error: schedules: the schedule \"d\" waits for the end of an occurrence, and none is alive",
        ),
        (
            "UPDATE punctual.schedule SET definition = '{}'",
            "error: schedules: the schedule \"s\" cannot be read",
        ),
        (
            "DELETE FROM punctual.queue WHERE name = 'q'",
            "error: lines: 1 lines are of queues that do not exist",
        ),
        (
            "DELETE FROM punctual.line WHERE queue = 'q'",
            "error: lines: 1 jobs are in lines that do not exist",
        ),
        (
            "INSERT INTO punctual.line (queue, kind, lane) SELECT 'default', n::text, 1 FROM generate_series(1, 10000) n",
            "warning: lines: every look for jobs searches 10001 lines",
        ),
        (
            "UPDATE punctual.node SET until = 0",
            "warning: orphaned claims: 1 jobs are held by nodes that are dead",
        ),
        (
            "UPDATE punctual.node SET held = '{}'",
            "error: lost claims: 1 jobs are claimed, and no node holds them",
        ),
        (
            "UPDATE punctual.meta SET value = 9 WHERE name = 'schema'",
            "error: schema: the tables have version 9",
        ),
    ] {
        assert!(!complaints(&store).iter().any(|said| said.starts_with(words)), "before {harm}");
        sql.batch_execute(harm).unwrap();
        let said = complaints(&store);
        assert!(said.iter().any(|said| said.starts_with(words)), "{harm}: {said:#?}");
    }
}

#[test]
fn the_doctor_names_what_is_missing() {
    let database = Database::new();
    let store = database.open();
    let jobs = Jobs::on(store.clone()).start().unwrap();
    let mut sql = database.client();
    let mut expected = Vec::new();
    for (harm, words) in [
        ("DROP INDEX punctual.job_late", "the index job_late is missing, or not in use"),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'punctual.job_parent'::regclass",
            "the index job_parent is missing, or not in use",
        ),
        (
            "DROP TRIGGER arrive_at_commit ON punctual.arriving",
            "the trigger arrive_at_commit is missing, or not in use",
        ),
        (
            "ALTER TABLE punctual.node DISABLE TRIGGER keep_holder",
            "the trigger keep_holder is missing, or not in use",
        ),
        ("DROP VIEW punctual.jobs", "the view jobs is missing"),
        ("DROP TABLE punctual.failure", "the index failure_pkey is missing, or not in use"),
        ("DROP FUNCTION punctual.clock", "the function clock is missing"),
    ] {
        sql.batch_execute(harm).unwrap();
        expected.push(format!("error: schema: {words}"));
        let said = complaints(&store);
        assert!(expected.iter().all(|words| said.contains(words)), "{harm}: {said:#?}");
    }
    assert!(complaints(&store).contains(&"error: schema: the table failure is missing".to_owned()));
    // Nobody can look into tables that are not there: so much is said, and it is no failure.
    sql.batch_execute("DROP TABLE punctual.queue").unwrap();
    let worst = jobs.doctor().unwrap().remove(0);
    assert_eq!((worst.severity, worst.check), (Severity::Error, "schema"));
}

#[test]
fn the_doctor_warns_of_a_server_that_does_not_wait_for_its_disk() {
    let server = Postgres::start(Settings::durable());
    let store = PostgresStore::open(&server.fresh_database()).unwrap();
    let warnings = || {
        let findings = store.check().unwrap().into_iter();
        let warnings = findings.filter(|f| (f.severity, f.check) == (Severity::Warning, "durability"));
        warnings.map(|finding| finding.message).collect::<Vec<_>>()
    };
    assert_eq!(warnings(), [] as [&str; 0]);
    let mut sql = server.connect("postgres");
    for (count, setting) in [(1, "full_page_writes"), (2, "fsync")] {
        sql.batch_execute(&format!("ALTER SYSTEM SET {setting} = off")).unwrap();
        sql.batch_execute("SELECT pg_reload_conf()").unwrap();
        // Sessions hear of it when they hear of it.
        while warnings().len() < count {
            std::thread::yield_now();
        }
        assert!(warnings().iter().any(|said| said.contains(&format!("({setting} is off)"))));
    }
}
