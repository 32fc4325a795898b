//! awa, on PostgreSQL, with its own defaults but for the number of workers. History is kept.

use ::awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, JobState, QueueConfig, insert_with, migrations,
};
use chrono::DateTime;
use durable_protocol::{Args, Job, OnRun, Peer, Trouble, Working};
use serde::{Deserialize, Serialize};
use sqlx_of_awa::PgPool;
use sqlx_of_awa::postgres::PgPoolOptions;
use std::time::Duration;
use tokio::runtime::Runtime;

const QUEUE: &str = "measured";

#[derive(Debug, Clone, Serialize, Deserialize, JobArgs)]
struct Measured {
    job: Job,
}

pub(crate) struct Awa {
    runtime: Runtime,
    pool: PgPool,
}

impl Awa {
    fn options(job: &Job) -> InsertOpts {
        let at = (job.due > 0).then(|| DateTime::from_timestamp_micros(job.due)).flatten();
        InsertOpts { queue: QUEUE.to_owned(), run_at: at, ..InsertOpts::default() }
    }
}

impl Peer for Awa {
    type Working = Running;

    const COUNTS_UNSEEN: bool = false;

    fn open(args: &Args) -> Result<Self, Trouble> {
        let runtime = crate::runtime()?;
        let pool = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(20).connect(&args.url).await?;
            migrations::run(&pool).await?;
            Ok::<_, Trouble>(pool)
        })?;
        Ok(Self { runtime, pool })
    }

    fn enqueue(&self, job: &Job) -> Result<(), Trouble> {
        let args = Measured { job: job.clone() };
        self.runtime.block_on(insert_with(&self.pool, &args, Self::options(job)))?;
        Ok(())
    }

    fn enqueue_many(&self, jobs: &[Job]) -> Result<(), Trouble> {
        let params = |job: &Job| {
            let args = serde_json::to_value(Measured { job: job.clone() })?;
            Ok(InsertParams { kind: Measured::kind().to_owned(), args, opts: Self::options(job) })
        };
        let jobs: Vec<InsertParams> = jobs.iter().map(params).collect::<Result<_, Trouble>>()?;
        self.runtime.block_on(::awa::insert_many_copy_from_pool(&self.pool, &jobs))?;
        Ok(())
    }

    fn work(&self, args: &Args, on_run: OnRun) -> Result<Running, Trouble> {
        let _ = crate::ON_RUN.set(on_run);
        let config = QueueConfig { max_workers: args.get("workers", 256)?, ..QueueConfig::default() };
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, config)
            .register::<Measured, _, _>(|args, _| async move {
                crate::ran(&args.job);
                Ok(JobResult::Completed)
            })
            .build()?;
        self.runtime.block_on(client.start())?;
        Ok(Running { client, runtime: self.runtime.handle().clone() })
    }

    /// Jobs that only wait are scheduled; all others are not, when it is asked.
    fn left(&self) -> Result<u64, Trouble> {
        let counts = self.runtime.block_on(::awa::admin::state_counts(&self.pool))?;
        let unfinished = [JobState::Available, JobState::Running, JobState::Retryable];
        Ok(unfinished.iter().filter_map(|state| counts.get(state)).map(|count| count.unsigned_abs()).sum())
    }
}

pub(crate) struct Running {
    client: Client,
    runtime: tokio::runtime::Handle,
}

impl Working for Running {
    fn stop(self) -> Result<(), Trouble> {
        self.runtime.block_on(self.client.shutdown(Duration::from_secs(10)));
        Ok(())
    }
}
