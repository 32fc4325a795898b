//! Jobs that are copied while others add some.

use std::time::Duration;

#[cfg(feature = "sqlite")]
use {
    crate::folder::Folder,
    punctual::ManualClock,
    punctual_durable::{SqliteStore, conformance::what_goes_there_and_comes_back_is_what_it_was},
    std::sync::Arc,
};

use punctual_durable::{
    Cadence, Filter, MemoryStore, NewSchedule, PostgresStore, ScheduleChange, Store, export, import, transfer,
};

use crate::{Database, work};

/// Whether somebody waits for transactions to end.
fn copier_waits(sql: &mut postgres::Client) -> bool {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
                 AND query LIKE 'SELECT pg_sleep%' AND pid <> pg_backend_pid()";
    sql.query_one(waits, &[]).unwrap().get::<_, i64>(0) > 0
}

/// Its id is less than those that can be seen: a copy that has passed it would never come back to it.
#[test]
fn a_copy_waits_for_jobs_with_lesser_ids_that_cannot_be_seen_yet() {
    let database = Database::new();
    let store = database.open();
    let (mut mine, mut sql) = (database.client(), database.client());
    for through_a_file in [false, true] {
        let before = store.find(&Filter::new()).unwrap().len();
        let mut transaction = mine.transaction().unwrap();
        store.enqueue_in(&mut transaction, vec![work()]).unwrap();
        store.enqueue(vec![work(), work()]).unwrap();
        let copy = MemoryStore::new();
        let copied = std::thread::scope(|scope| {
            let copying = scope.spawn(|| {
                if through_a_file {
                    let mut file = Vec::new();
                    export(&*store, &mut file).unwrap();
                    import(file.as_slice(), &copy).unwrap()
                } else {
                    transfer(&*store, &copy).unwrap()
                }
            });
            while !copier_waits(&mut sql) && !copying.is_finished() {
                std::thread::yield_now();
            }
            transaction.commit().unwrap();
            copying.join().unwrap()
        });
        assert_eq!(copied.jobs, before + 3);
        assert_eq!(transfer(&*store, &copy).unwrap().jobs, 0, "that was all");
    }
}

/// Both keep the same, in their own ways.
#[cfg(feature = "sqlite")]
#[test]
fn what_goes_from_a_file_to_a_server_and_back_is_what_it_was() {
    let (database, folder, clock) = (Database::new(), Folder::new(), ManualClock::new());
    let file = |name: &str| SqliteStore::open_with_time(folder.file(name), clock.clone()).unwrap();
    let here: Arc<dyn Store> = Arc::new(file("here.db"));
    let there = PostgresStore::open_with_time(&database.url, clock.clone()).unwrap();
    let back = [&file("back.db") as &dyn Store, &file("read.db")];
    what_goes_there_and_comes_back_is_what_it_was(&here, &there, back);
}

/// Nobody is waited for who came later, or who only reads.
#[test]
fn a_copy_goes_up_to_where_it_began() {
    let database = Database::new();
    let store = database.open();
    assert_eq!(transfer(&*store, &MemoryStore::new()).unwrap().jobs, 0, "no id has been given");
    let mut reader = database.client();
    let mut reads = reader.transaction().unwrap();
    reads.batch_execute("SELECT count(*) FROM punctual.job").unwrap();
    let first = store.enqueue(vec![work()]).unwrap()[0].id();
    let upto = store.complete_upto().unwrap();
    let second = store.enqueue(vec![work()]).unwrap()[0].id();
    assert!(first <= upto && upto < second);
    reads.commit().unwrap();
}

/// However it came to that.
#[test]
fn a_schedule_that_stands_still_is_found_and_goes_on_when_it_is_resumed() {
    let database = Database::new();
    let store = database.open();
    let found = |store: &PostgresStore| {
        let findings = store.check().unwrap().into_iter().filter(|finding| finding.check == "schedules");
        findings.map(|finding| finding.message).collect::<Vec<_>>()
    };
    for (name, cadence) in [
        ("delay", Cadence::Delay(Duration::from_secs(60))),
        ("every", Cadence::Every(Duration::from_secs(60))),
    ] {
        store.save_schedule(NewSchedule::new(name, cadence, work())).unwrap();
    }
    assert_eq!(found(&store), [""; 0]);
    database.client().batch_execute("UPDATE punctual.schedule SET next = NULL").unwrap();
    let said = found(&store);
    assert!(said.len() == 1 && said[0].contains("\"delay\""), "{said:?}");
    store.set_schedule("delay", ScheduleChange::Trigger).unwrap();
    assert_eq!(found(&store), [""; 0], "its end is waited for");
    let id = store.find(&Filter::new()).unwrap()[0].id;
    store.cancel(vec![id]).unwrap();
    assert_eq!(found(&store), [""; 0]);
    database.client().batch_execute("UPDATE punctual.schedule SET next = NULL").unwrap();
    store.set_schedule("delay", ScheduleChange::Pause("for a moment".to_owned())).unwrap();
    assert_eq!(found(&store), [""; 0]);
    store.set_schedule("delay", ScheduleChange::Resume).unwrap();
    assert_eq!(found(&store), [""; 0]);
}
