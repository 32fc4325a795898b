//! How far is it? And what did it say?
//!
//! ```text
//! cargo run -p punctual-durable --example progress
//! ```
//! Async handlers hold no thread while they wait: a hundred downloads on one.

use std::time::Duration;

use punctual_durable::{Done, JobContext, Jobs, KindOptions};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Download {
    name: String,
    pieces: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = KindOptions::new().timeout(Duration::from_secs(5)).max_attempts(3);
    let jobs = Jobs::open("memory:")?
        .concurrency(1)
        .handle_async_with("download", options, |job: Download, cx: JobContext| async move {
            for piece in 0..job.pieces {
                cx.progress(
                    f64::from(piece) / f64::from(job.pieces),
                    format!("piece {piece} of {}", job.name),
                );
                cx.sleep_async(Duration::from_millis(20)).await?;
                cx.log(format!("{}: piece {piece} has arrived", job.name));
            }
            cx.progress(1.0, "done");
            Ok(Done)
        })
        .start()?;

    let downloads = (0..100).map(|n| Download { name: format!("file {n}"), pieces: 40 });
    let ids: Vec<_> = jobs.enqueue_many(downloads)?.into_iter().map(|answer| answer.id()).collect();
    let last = jobs.outcome(ids[99]);
    while last.join_timeout(Duration::from_millis(250))?.is_none() {
        let log = jobs.log(ids[99])?;
        let progress = log.progress.map_or_else(|| "not begun".to_owned(), |progress| progress.to_string());
        println!("{progress:<32} {} lines", log.lines.len());
    }
    for id in ids {
        jobs.outcome(id).join()?;
    }
    println!("all 100 are there");
    jobs.shutdown(Duration::from_secs(1))?;
    Ok(())
}
