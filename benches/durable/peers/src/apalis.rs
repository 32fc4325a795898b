//! apalis, on PostgreSQL and SQLite.
//!
//! A hundred jobs in a fetch, each handler a task of its own, up to a hundred at a time; on PostgreSQL it listens, too.
//! History is kept. Its set-up of SQLite turns synchronisation off for one connection; it is measured as it comes.

use std::sync::Mutex;
use std::time::Duration;

use ::apalis::layers::WorkerBuilderExt;
use ::apalis::prelude::{BackendExt, BoxDynError, ParallelizeExt, TaskSink, WorkerBuilder};
use apalis_postgres::{PgPool, PostgresStorage};
use apalis_sqlite::{SqlitePool, SqliteStorage};
use durable_protocol::{Args, Job, OnRun, Peer, Trouble, Working};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use std::str::FromStr;
use tokio::runtime::Runtime;

const QUEUE: &str = "measured";

async fn work(job: Job) -> Result<(), BoxDynError> {
    crate::ran(&job);
    Ok(())
}

enum Storage {
    Postgres(PgPool, Mutex<PostgresStorage<Job>>),
    Sqlite(SqlitePool, Mutex<SqliteStorage<Job>>),
}

pub(crate) struct Apalis {
    runtime: Runtime,
    storage: Storage,
}

fn on_postgres(pool: &PgPool) -> PostgresStorage<Job> {
    PostgresStorage::new(pool).with_config(apalis_postgres::Config::default().queue(QUEUE).batch_size(100))
}

fn on_sqlite(pool: &SqlitePool) -> SqliteStorage<Job> {
    SqliteStorage::new(pool).with_config(apalis_sqlite::Config::default().queue(QUEUE).batch_size(100))
}

impl Apalis {
    fn push(&self, jobs: Vec<Job>) -> Result<(), Trouble> {
        let cannot = |error: String| Trouble::Failed(error);
        match &self.storage {
            Storage::Postgres(_, storage) => {
                let mut storage = storage.lock().unwrap();
                self.runtime.block_on(storage.push_bulk(jobs)).map_err(|error| cannot(error.to_string()))
            }
            Storage::Sqlite(_, storage) => {
                let mut storage = storage.lock().unwrap();
                self.runtime.block_on(storage.push_bulk(jobs)).map_err(|error| cannot(error.to_string()))
            }
        }
    }
}

impl Peer for Apalis {
    type Working = Running;

    fn open(args: &Args) -> Result<Self, Trouble> {
        if args.workload == "late" {
            return Err(Trouble::Unsupported("knows whole seconds only"));
        }
        let runtime = crate::runtime()?;
        let storage = runtime.block_on(async {
            if let Some(path) = args.url.strip_prefix("sqlite:") {
                let options = SqliteConnectOptions::from_str(&format!("sqlite://{path}"))?;
                let options = options.create_if_missing(true).busy_timeout(Duration::from_secs(5));
                let pool = SqlitePoolOptions::new().connect_with(options).await?;
                SqliteStorage::setup(&pool).await?;
                let storage = on_sqlite(&pool);
                return Ok::<_, Trouble>(Storage::Sqlite(pool, Mutex::new(storage)));
            }
            let pool = PgPoolOptions::new().max_connections(20).connect(&args.url).await?;
            PostgresStorage::setup(&pool).await?;
            let storage = on_postgres(&pool);
            Ok(Storage::Postgres(pool, Mutex::new(storage)))
        })?;
        Ok(Self { runtime, storage })
    }

    fn enqueue(&self, job: &Job) -> Result<(), Trouble> {
        self.push(vec![job.clone()])
    }

    fn enqueue_many(&self, jobs: &[Job]) -> Result<(), Trouble> {
        self.push(jobs.to_vec())
    }

    fn work(&self, _: &Args, on_run: OnRun) -> Result<Running, Trouble> {
        let _ = crate::ON_RUN.set(on_run);
        let name = format!("worker-{}", std::process::id());
        let runtime = self.runtime.handle().clone();
        // On a thread of its own: its future cannot be sent to another.
        match &self.storage {
            Storage::Postgres(pool, _) => {
                let backend = on_postgres(pool).with_pubsub().poll_with_interval(Duration::from_millis(20));
                std::thread::spawn(move || {
                    let worker =
                        WorkerBuilder::new(name).backend(backend).concurrency(100).parallelize(tokio::spawn);
                    runtime.block_on(async { drop(worker.build(work).run().await) });
                });
            }
            Storage::Sqlite(pool, _) => {
                let backend = on_sqlite(pool).poll_with_interval(Duration::from_millis(20));
                std::thread::spawn(move || {
                    let worker =
                        WorkerBuilder::new(name).backend(backend).concurrency(100).parallelize(tokio::spawn);
                    runtime.block_on(async { drop(worker.build(work).run().await) });
                });
            }
        }
        Ok(Running)
    }

    fn left(&self) -> Result<u64, Trouble> {
        let count: i64 = match &self.storage {
            Storage::Postgres(pool, _) => {
                let sql = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
                self.runtime.block_on(sqlx::query_scalar(sql).fetch_one(pool))?
            }
            Storage::Sqlite(pool, _) => {
                let sql = "SELECT count(*) FROM Jobs WHERE status <> 'Done'";
                self.runtime.block_on(sqlx::query_scalar(sql).fetch_one(pool))?
            }
        };
        Ok(count.unsigned_abs())
    }
}

pub(crate) struct Running;

impl Working for Running {
    fn stop(self) -> Result<(), Trouble> {
        // Everything is over when it is stopped; the process ends with it.
        Ok(())
    }
}
