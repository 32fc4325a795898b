//! Effects in the database of the jobs, which must happen exactly once: a row for each job, written in the transaction in
//! which its handler completes it.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use punctual_durable::{JobContext, JobError, JobId, PostgresStore, SqliteStore};
use rusqlite::{Connection, TransactionBehavior};

use crate::place::Place;

const TABLE: &str = "CREATE TABLE booked (job BIGINT NOT NULL)";

/// The books of a world: which jobs were to book.
#[derive(Debug)]
pub(crate) struct Books {
    place: Place,
    jobs: Mutex<Vec<JobId>>,
}

impl Books {
    pub(crate) fn open(place: &Place) -> Self {
        match place {
            Place::Sqlite(path) => connect(path).unwrap().execute_batch(TABLE).unwrap(),
            Place::Postgres(url) => {
                postgres::Client::connect(url, postgres::NoTls).unwrap().batch_execute(TABLE).unwrap();
            }
        }
        Self { place: place.clone(), jobs: Mutex::default() }
    }

    pub(crate) fn expect(&self, jobs: impl IntoIterator<Item = JobId>) {
        self.jobs.lock().unwrap().extend(jobs);
    }

    /// When all is over. Returns how many have booked.
    #[track_caller]
    pub(crate) fn audit(&self) -> usize {
        let sql = "SELECT job FROM booked ORDER BY job";
        let booked: Vec<i64> = match &self.place {
            Place::Sqlite(path) => {
                let mine = connect(path).unwrap();
                let mut statement = mine.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            Place::Postgres(url) => {
                let mut mine = postgres::Client::connect(url, postgres::NoTls).unwrap();
                mine.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
            }
        };
        let twice = booked.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "booked twice");
        let jobs = self.jobs.lock().unwrap();
        let lost = jobs.iter().find(|job| booked.binary_search(&job.as_i64()).is_err());
        assert_eq!(lost, None, "never booked, of {} that were to", jobs.len());
        booked.len()
    }
}

fn connect(path: &PathBuf) -> rusqlite::Result<Connection> {
    let mine = Connection::open(path)?;
    mine.busy_timeout(Duration::from_secs(30))?;
    Ok(mine)
}

/// Who books, in the program under test. Opens its own way to the store when it is first needed.
pub(crate) struct Clerk {
    place: Place,
    sqlite: OnceLock<SqliteStore>,
    postgres: OnceLock<PostgresStore>,
}

impl Clerk {
    pub(crate) fn new(place: &Place) -> Self {
        Self { place: place.clone(), sqlite: OnceLock::new(), postgres: OnceLock::new() }
    }

    pub(crate) fn book(&self, cx: &JobContext) -> Result<(), JobError> {
        let job = cx.id().as_i64();
        match &self.place {
            Place::Sqlite(path) => {
                let store = self.sqlite.get_or_init(|| SqliteStore::open(path).unwrap());
                let mut mine = connect(path)?;
                let transaction = mine.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction.execute("INSERT INTO booked (job) VALUES (?1)", [job])?;
                store.complete_in(&transaction, cx)?;
                transaction.commit()?;
            }
            Place::Postgres(url) => {
                let store = self.postgres.get_or_init(|| PostgresStore::open(url).unwrap());
                let mut mine = postgres::Client::connect(url, postgres::NoTls)?;
                let mut transaction = mine.transaction()?;
                transaction.execute("INSERT INTO booked (job) VALUES ($1)", &[&job])?;
                store.complete_in(&mut transaction, cx)?;
                transaction.commit()?;
            }
        }
        Ok(())
    }
}
