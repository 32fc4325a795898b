//! River's Rust client, on PostgreSQL and SQLite.
//!
//! Workers, connections, pause between fetches and poll interval are those of its own benchmark. History is kept.

use std::str::FromStr;
use std::time::Duration;

use durable_protocol::{Args, Job, OnRun, Peer, Trouble, Working};
use riverqueue::migrate::{PostgresMigrator, SqliteMigrator};
use riverqueue::{
    Client, InsertOpts, JobArgs, QueueConfig, RunHandle, WorkContext, WorkOutcome, Workers, jiff::Timestamp,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};
use tokio::runtime::Runtime;

const UNFINISHED: &str =
    "SELECT count(*) FROM river_job WHERE state <> 'completed' AND kind = 'measured' AND queue = 'default'";

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "measured")]
struct Measured {
    #[serde(flatten)]
    job: Job,
}

async fn work(_: WorkContext, job: riverqueue::Job<Measured>) -> Result<WorkOutcome, std::io::Error> {
    crate::ran(&job.args.job);
    Ok(WorkOutcome::Complete)
}

enum Pool {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

pub(crate) struct River {
    runtime: Runtime,
    pool: Pool,
    client: Client,
}

impl River {
    fn workers() -> Result<Workers, riverqueue::Error> {
        let mut workers = Workers::new();
        workers.add_fn(work)?;
        Ok(workers)
    }

    fn options(job: &Job) -> Result<InsertOpts, Trouble> {
        let options = InsertOpts::default();
        Ok(match job.due {
            ..=0 => options,
            due => {
                let options = options.with_scheduled_at(Timestamp::from_microsecond(due)?);
                // Those that only wait are counted apart.
                if job.n == Job::WAITS { options.with_queue("waits") } else { options }
            }
        })
    }
}

impl Peer for River {
    type Working = Running;

    fn open(args: &Args) -> Result<Self, Trouble> {
        let runtime = crate::runtime()?;
        let (pool, client) = runtime.block_on(async {
            if let Some(path) = args.url.strip_prefix("sqlite:") {
                let options = SqliteConnectOptions::from_str(&format!("sqlite://{path}"))?
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(Duration::from_secs(5));
                let pool = SqlitePoolOptions::new().connect_with(options).await?;
                SqliteMigrator::new(pool.clone()).migrate_up().await?;
                let client = Client::builder(pool.clone()).workers(Self::workers()?).build()?;
                return Ok::<_, Trouble>((Pool::Sqlite(pool), client));
            }
            let pool = PgPoolOptions::new().max_connections(50).connect(&args.url).await?;
            PostgresMigrator::new(pool.clone()).migrate_up().await?;
            let client = Client::builder(pool.clone()).workers(Self::workers()?).build()?;
            Ok((Pool::Postgres(pool), client))
        })?;
        Ok(Self { runtime, pool, client })
    }

    fn enqueue(&self, job: &Job) -> Result<(), Trouble> {
        let request = self.client.insert(Measured { job: job.clone() }).opts(Self::options(job)?);
        self.runtime.block_on(async { request.await })?;
        Ok(())
    }

    fn enqueue_many(&self, jobs: &[Job]) -> Result<(), Trouble> {
        let item = |job: &Job| Ok((Measured { job: job.clone() }, Self::options(job)?));
        let items: Vec<_> = jobs.iter().map(item).collect::<Result<_, Trouble>>()?;
        self.runtime.block_on(async { self.client.insert_many(items).await })?;
        Ok(())
    }

    fn work(&self, args: &Args, on_run: OnRun) -> Result<Running, Trouble> {
        let _ = crate::ON_RUN.set(on_run);
        let config = QueueConfig::new(args.get("workers", 2_000)?)
            .with_fetch_cooldown(Duration::from_millis(2))
            .with_fetch_poll_interval(Duration::from_millis(20));
        let builder = match &self.pool {
            Pool::Postgres(pool) => Client::builder(pool.clone()),
            Pool::Sqlite(pool) => Client::builder(pool.clone()),
        };
        let client = builder.workers(Self::workers()?).queue("default", config).build()?;
        let _inside = self.runtime.enter();
        let run = client.start()?;
        Ok(Running { run, runtime: self.runtime.handle().clone() })
    }

    fn left(&self) -> Result<u64, Trouble> {
        let count: i64 = self.runtime.block_on(async {
            match &self.pool {
                Pool::Postgres(pool) => sqlx::query_scalar(UNFINISHED).fetch_one(pool).await,
                Pool::Sqlite(pool) => sqlx::query_scalar(UNFINISHED).fetch_one(pool).await,
            }
        })?;
        Ok(count.unsigned_abs())
    }
}

pub(crate) struct Running {
    run: RunHandle,
    runtime: tokio::runtime::Handle,
}

impl Working for Running {
    fn stop(mut self) -> Result<(), Trouble> {
        self.runtime.block_on(async { self.run.stop().await })?;
        Ok(())
    }
}
