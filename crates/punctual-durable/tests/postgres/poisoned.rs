//! Whatever somebody writes into one row: it is dealt with, or it waits, and all others are run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::ManualClock;
use punctual_durable::{
    Done, Due, Enqueued, Event, Exchange, Filter, JobContext, JobId, JobState, Jobs, MemoryStore,
    PostgresStore, Report, Store, Timestamp, Verdict, transfer,
};

use crate::{Database, Hand, kinds, work};

const MINUTE: Duration = Duration::from_secs(60);

const NUMBERS: [&str; 4] = ["-1", "9223372036854775807", "-9223372036854775808", "4294967296"];
const COUNTS: [&str; 3] = ["-1", "2147483647", "-2147483648"];
const SMALL: [&str; 3] = ["-1", "32767", "-32768"];
const TEXTS: [&str; 4] = ["''", "'nonsense'", "E'\\x01\\x7f'", "repeat('[', 100000)"];
const BYTES: [&str; 5] =
    ["'\\xff00fe'", "''", "'nonsense'", "convert_to(repeat('[', 100000), 'UTF8')", "NULL"];
const KEYS: [&str; 2] = ["''", "E'\\x01\\x7f'"];

/// Every column of a living job but its id, and what it may hold that makes no sense.
const COLUMNS: [(&str, &[&str]); 24] = [
    ("due", &NUMBERS),
    ("line", &["-1", "0", "2147483647"]),
    ("state", &SMALL),
    ("on_lost", &SMALL),
    ("version", &NUMBERS),
    ("attempt", &COUNTS),
    ("crashes", &COUNTS),
    ("fence", &NUMBERS),
    ("owner", &NUMBERS),
    ("claimed", &NUMBERS),
    ("complete", &NUMBERS),
    ("cancel", &["true"]),
    ("late", &["true"]),
    ("traces", &["true"]),
    ("created", &NUMBERS),
    ("max_attempts", &NUMBERS),
    ("max_crashes", &NUMBERS),
    ("timeout", &NUMBERS),
    ("nominal", &NUMBERS),
    ("parent", &NUMBERS),
    ("uniq", &KEYS),
    ("series", &["''", "'none'"]),
    ("follow", &TEXTS),
    ("note", &BYTES),
];

/// A payload that is JSON.
#[derive(serde::Deserialize)]
struct Anything {}

/// A job between two others: how it was poisoned, and which those two are.
type Case = (String, JobId, [JobId; 2]);

/// Three jobs for each column and value, which `prepare` has prepared; the middle one is poisoned in `table`.
fn poison(database: &Database, table: &str, prepare: impl Fn() -> Vec<JobId>) -> Vec<Case> {
    let mut sql = database.client();
    let mut cases = Vec::new();
    for (column, values) in COLUMNS.into_iter().chain([("payload", BYTES.as_slice())]) {
        for value in values {
            let ids = prepare();
            let poison = format!("UPDATE punctual.{table} SET {column} = {value} WHERE id = {}", ids[1]);
            match sql.execute(&poison, &[]) {
                Ok(1) => cases.push((format!("{column} = {value}"), ids[1], [ids[0], ids[2]])),
                Ok(_) => panic!("there is no job {}", ids[1]),
                // The tables do not take it, or have no such column.
                Err(error) => {
                    let code = error.code().unwrap_or_else(|| panic!("{error}")).code();
                    assert!(["22003", "42703"].contains(&code), "{poison}: {error:?}");
                }
            }
        }
    }
    assert!(cases.len() > 50);
    cases
}

struct World {
    database: Database,
    clock: ManualClock,
    store: Arc<PostgresStore>,
}

impl World {
    fn new() -> Self {
        let (database, clock) = (Database::new(), ManualClock::new());
        let store = Arc::new(PostgresStore::open_with_time(&database.url, clock.clone()).unwrap());
        Self { database, clock, store }
    }

    fn three(&self, due: Due) -> Vec<JobId> {
        let good = || work().due(due);
        self.store.enqueue(vec![good(), good(), good()]).unwrap().into_iter().map(Enqueued::id).collect()
    }

    /// Runs a node, with which nothing goes wrong: then it and all that it has seen is looked at.
    fn run(&self, cases: &[Case]) {
        let failures = Arc::new(Mutex::new(Vec::new()));
        let failed = Arc::clone(&failures);
        let observe = move |event: &Event<'_>| {
            if let Event::StoreFailed(error) = event {
                failed.lock().unwrap().push(error.to_string());
            }
        };
        let jobs = Jobs::on(self.store.clone()).clock(self.clock.clone()).lease(60 * MINUTE);
        let jobs = jobs.poll_interval(MINUTE).observe(observe);
        let jobs = jobs.handle("work", |_: Anything, _: &JobContext| Ok(Done)).start().unwrap();
        self.clock.advance(10 * MINUTE);
        assert_eq!(failures.lock().unwrap().first(), None);
        for (how, _, healthy) in cases {
            for id in healthy {
                let record = self.store.job(*id).unwrap().unwrap();
                assert_eq!(record.state, JobState::Done, "beside {how}: {record:?}");
            }
        }
        self.look(cases);
        jobs.doctor().unwrap();
        self.clock.advance(10 * MINUTE);
        assert_eq!(failures.lock().unwrap().first(), None);
        jobs.shutdown(Duration::ZERO).unwrap();
    }

    /// What can be looked at can be looked at, and changed.
    fn look(&self, cases: &[Case]) {
        let store = &self.store;
        for (how, id, _) in cases {
            let looks = [
                store.job(*id).map(drop),
                store.cancel(vec![*id]).map(drop),
                store.failures(*id).map(drop),
                store.log(*id).map(drop),
                store.reschedule(*id, Due::Now).map(drop),
                store.retry(*id, Due::Now).map(drop),
            ];
            for look in looks {
                look.unwrap_or_else(|error| assert!(error.is_conflict(), "{how}: {error}"));
            }
        }
        store.find(&Filter::new().limit(1_000)).unwrap();
        store.upcoming(store.now(), MINUTE, 3, 10).unwrap();
        let moved = transfer(&**store, &MemoryStore::new());
        assert!(moved.is_ok() || moved.unwrap_err().is_invalid());
    }
}

#[test]
fn a_poisoned_row_does_not_stop_the_others() {
    let world = World::new();
    let cases = poison(&world.database, "job", || world.three(Due::After(MINUTE)));
    world.run(&cases);
    // What cannot be read is set aside, and says why.
    for (how, id, _) in cases.iter().filter(|(how, ..)| how.starts_with("payload")) {
        let record = world.store.job(*id).unwrap().unwrap();
        assert_eq!(record.state, JobState::Dead, "{how}");
        assert!(
            record.note.as_ref().is_some_and(|note| note.contains("cannot be read")),
            "{how}: {record:?}"
        );
    }
}

#[test]
fn a_poisoned_row_of_a_dead_node_does_not_keep_the_others_from_being_rescued() {
    let world = World::new();
    let hand = Hand::on(world.store.clone());
    let held = || {
        let ids = world.three(Due::Now);
        assert_eq!(hand.sweep(9).claimed.len(), 3);
        ids
    };
    let cases = poison(&world.database, "job", held);
    world.store.leave(hand.id).unwrap();
    world.run(&cases);
}

#[test]
fn a_poisoned_row_of_the_past_can_be_looked_at_and_lives_again() {
    let world = World::new();
    let hand = Hand::on(world.store.clone());
    let dead = || {
        let ids = world.three(Due::Now);
        let fail = || Verdict::Fail { error: "no".to_owned() };
        let claimed = hand.sweep(9).claimed;
        assert_eq!(claimed.len(), 3);
        let reports = claimed.iter().map(|job| Report::new(job.id, job.fence, fail())).collect();
        world.store.exchange(hand.id, Exchange::new(kinds()).reports(reports)).unwrap();
        ids
    };
    let cases = poison(&world.database, "past", dead);
    for (_, _, healthy) in &cases {
        for id in healthy {
            world.store.retry(*id, Due::Now).unwrap();
        }
    }
    world.look(&cases);
    world.run(&cases);
    world.store.purge(cases.iter().map(|(_, id, _)| *id).collect()).unwrap();
    world.store.trim(Timestamp::MAX, 1_000).unwrap();
}

/// What is wrong with a queue or a line concerns the jobs in it.
#[test]
fn a_poisoned_queue_or_line_does_not_stop_the_others() {
    let world = World::new();
    let (hand, mut sql) = (Hand::on(world.store.clone()), world.database.client());
    let queues = [("most", NUMBERS.as_slice()), ("paused_at", &NUMBERS), ("paused_for", &BYTES)];
    let lines = [("queue", ["''", "'none'"].as_slice()), ("kind", &KEYS), ("lane", &SMALL)];
    let queues = queues.map(|(column, values)| ("queue", "name", column, values));
    let lines = lines.map(|(column, values)| ("line", "queue", column, values));
    for (place, (table, name, column, values)) in queues.into_iter().chain(lines).enumerate() {
        for (nth, value) in values.iter().enumerate() {
            let queue = format!("queue {place} {nth}");
            // One that is held, and one that waits.
            world.store.enqueue(vec![work().queue(&queue)]).unwrap();
            assert_eq!(hand.sweep(9).claimed.len(), 1);
            world.store.enqueue(vec![work().queue(&queue).due(Due::After(MINUTE))]).unwrap();
            let poison = format!("UPDATE punctual.{table} SET {column} = {value} WHERE {name} = '{queue}'");
            assert_eq!(sql.execute(&poison, &[]).unwrap(), 1, "{poison}");
        }
    }
    let ids = world.three(Due::After(MINUTE));
    world.run(&[("a queue or a line".to_owned(), ids[1], [ids[0], ids[2]])]);
    world.store.queues().unwrap();
    world.store.lines().unwrap();
}
