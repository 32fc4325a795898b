//! Ourselves, on any store.

use std::sync::Arc;
use std::time::Duration;

use durable_protocol::{Args, Job, OnRun, Peer, Trouble, Working, failed};
use punctual_durable::{
    Done, Due, Filter, JobContext, JobState, Jobs, KindOptions, NewJob, PostgresStore, Store, Timestamp,
};

/// The kind of jobs that run, and of those that only wait.
const KIND: &str = "measured";
const WAITS: &str = "waits";

/// Ourselves without history, on PostgreSQL.
pub(crate) const FORGETS: &str = "punctual-forgets";

/// How many jobs are counted in one call.
const PAGE: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Punctual {
    store: Arc<dyn Store>,
    client: Jobs,
}

impl Punctual {
    fn new_job(job: &Job) -> Result<NewJob, Trouble> {
        let kind = if job.n == Job::WAITS { WAITS } else { KIND };
        // One that measures when it was sent is due at once all the same.
        let due =
            if job.due > 0 { Due::At(Timestamp::from_micros(job.due)) } else { Due::After(Duration::ZERO) };
        Ok(NewJob::new(kind, serde_json::to_string(job)?).due(due))
    }

    fn count(&self, state: JobState) -> Result<u64, Trouble> {
        let (mut count, mut after) = (0, None);
        loop {
            let mut filter = Filter::new().state(state).kind(KIND).limit(PAGE);
            filter.after = after;
            let page = self.store.find(&filter)?;
            count += page.len() as u64;
            after = page.last().map(|job| job.id);
            if page.len() < PAGE {
                return Ok(count);
            }
        }
    }
}

impl Peer for Punctual {
    type Working = Node;

    fn open(args: &Args) -> Result<Self, Trouble> {
        let client = match args.peer.as_str() {
            FORGETS => Jobs::on(Arc::new(PostgresStore::open(&args.url)?.forget_done())).start()?,
            _ => Jobs::open(&args.url)?.start()?,
        };
        Ok(Self { store: Arc::clone(client.store()), client })
    }

    fn enqueue(&self, job: &Job) -> Result<(), Trouble> {
        self.client.send(vec![Self::new_job(job)?])?;
        Ok(())
    }

    fn enqueue_many(&self, jobs: &[Job]) -> Result<(), Trouble> {
        self.client.send(jobs.iter().map(Self::new_job).collect::<Result<_, _>>()?)?;
        Ok(())
    }

    fn work(&self, args: &Args, on_run: OnRun) -> Result<Node, Trouble> {
        let handler = move |job: Job, _: &JobContext| {
            on_run(&job);
            Ok(Done)
        };
        let node = Jobs::on(Arc::clone(&self.store))
            .handle_with(KIND, KindOptions::new(), handler)
            .handle(WAITS, |_: Job, _: &JobContext| Ok(Done))
            .concurrency(args.get("workers", 4)?)
            .start()?;
        Ok(Node(node))
    }

    fn left(&self) -> Result<u64, Trouble> {
        Ok(self.count(JobState::Scheduled)? + self.count(JobState::Claimed)?)
    }
}

/// A node at work.
#[derive(Debug)]
pub(crate) struct Node(Jobs);

impl Working for Node {
    fn stop(self) -> Result<(), Trouble> {
        match self.0.shutdown(Duration::from_secs(10))? {
            0 => Ok(()),
            running => failed(format!("{running} handlers do not end")),
        }
    }
}
