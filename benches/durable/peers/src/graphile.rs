//! graphile_worker, the Rust port, on PostgreSQL.
//!
//! Concurrency, poll interval, delay of acknowledgements and local queue are those of its own performance test. Jobs that
//! are over are deleted.

use std::time::Duration;

use chrono::DateTime;
use durable_protocol::{Args, Job, OnRun, Peer, Trouble, Working};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, JobSpecBuilder, LocalQueueConfig, TaskHandler, Worker, WorkerContext,
    WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

#[derive(Clone, Deserialize, Serialize)]
struct Measured(Job);

impl TaskHandler for Measured {
    const IDENTIFIER: &'static str = "measured";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        crate::ran(&self.0);
        Ok::<(), String>(())
    }
}

pub(crate) struct Graphile {
    runtime: Runtime,
    pool: PgPool,
    /// Only to enqueue.
    client: Worker,
}

impl Graphile {
    fn options(pool: &PgPool) -> WorkerOptions {
        WorkerOptions::default()
            .concurrency(500)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5_000))
            .listen_os_shutdown_signals(false)
            .define_job::<Measured>()
            .pg_pool(pool.clone())
    }

    fn spec(job: &Job) -> JobSpec {
        match job.due {
            ..=0 => JobSpec::default(),
            due => {
                let at = DateTime::from_timestamp_micros(due).unwrap_or_default();
                JobSpecBuilder::new().run_at(at).build()
            }
        }
    }
}

impl Peer for Graphile {
    type Working = Running;

    fn open(args: &Args) -> Result<Self, Trouble> {
        let runtime = crate::runtime()?;
        let (pool, client) = runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(20).connect(&args.url).await?;
            let client = Self::options(&pool).init().await?;
            Ok::<_, Trouble>((pool, client))
        })?;
        Ok(Self { runtime, pool, client })
    }

    fn enqueue(&self, job: &Job) -> Result<(), Trouble> {
        let utils = self.client.create_utils();
        self.runtime.block_on(utils.add_job(Measured(job.clone()), Self::spec(job)))?;
        Ok(())
    }

    fn enqueue_many(&self, jobs: &[Job]) -> Result<(), Trouble> {
        let specs: Vec<JobSpec> = jobs.iter().map(Self::spec).collect();
        let jobs: Vec<_> = jobs.iter().cloned().map(Measured).zip(&specs).collect();
        self.runtime.block_on(self.client.create_utils().add_jobs::<Measured>(&jobs))?;
        Ok(())
    }

    fn work(&self, _: &Args, on_run: OnRun) -> Result<Running, Trouble> {
        let _ = crate::ON_RUN.set(on_run);
        let worker = Arc::new(self.runtime.block_on(Self::options(&self.pool).init())?);
        let running = Arc::clone(&worker);
        let task = self.runtime.spawn(async move {
            if let Err(error) = running.run().await {
                eprintln!("graphile_worker: {error}");
            }
        });
        Ok(Running { worker, task, runtime: self.runtime.handle().clone() })
    }

    fn left(&self) -> Result<u64, Trouble> {
        let sql = "SELECT count(*) FROM graphile_worker._private_jobs WHERE (payload->>'n')::numeric < 1e18";
        let count: i64 = self.runtime.block_on(sqlx::query_scalar(sql).fetch_one(&self.pool))?;
        Ok(count.unsigned_abs())
    }
}

pub(crate) struct Running {
    worker: Arc<Worker>,
    task: JoinHandle<()>,
    runtime: tokio::runtime::Handle,
}

impl Working for Running {
    fn stop(self) -> Result<(), Trouble> {
        self.worker.request_shutdown();
        self.runtime.block_on(self.task)?;
        Ok(())
    }
}
