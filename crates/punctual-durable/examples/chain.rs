//! How do I run B after A?
//!
//! ```text
//! cargo run -p punctual-durable --example chain
//! ```
//! A job carries what follows it, and a handler may ask for more. Each follow-up is accepted in the very transaction in
//! which the job before it is recorded as done: it happens once, also if the process dies in between.

use std::time::Duration;

use punctual_durable::{Done, JobContext, JobError, Jobs, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Pack {
    order: u32,
}

#[derive(Serialize, Deserialize)]
struct Ship {
    order: u32,
}

#[derive(Serialize, Deserialize)]
struct AskForReview {
    order: u32,
}

fn pack(job: Pack, _: &JobContext) -> Result<Outcome, JobError> {
    println!("packing order {}", job.order);
    match job.order {
        // Nothing follows a job that is not done.
        13 => Ok(Outcome::Discard("out of stock".to_owned())),
        _ => Ok(Done),
    }
}

fn ship(job: Ship, cx: &JobContext) -> Result<Outcome, JobError> {
    println!("shipping order {}", job.order);
    // Decided by the handler: it follows if this attempt succeeds, and is forgotten if it does not.
    let review = cx.client().enqueue(AskForReview { order: job.order });
    cx.then(review.after(Duration::from_millis(300)))?;
    Ok(Done)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sender, reviews) = std::sync::mpsc::channel();
    let jobs = Jobs::open("memory:")?
        .handle("pack", pack)
        .handle("ship", ship)
        .handle("ask-for-review", move |job: AskForReview, _: &JobContext| {
            println!("how did you like order {}?", job.order);
            sender.send(job.order)?;
            Ok(Done)
        })
        .start()?;

    for order in [7, 13] {
        // Shipped a little after it is packed, if it is.
        let ship = jobs.enqueue(Ship { order }).after(Duration::from_millis(100));
        let id = jobs.enqueue(Pack { order }).then(ship).send()?.id();
        let packed = jobs.outcome(id).join()?;
        println!("order {order} is {}, with {} left of its chain", packed.state, packed.then.len());
    }
    assert_eq!(reviews.recv()?, 7);
    jobs.shutdown(Duration::from_secs(1))?;
    Ok(())
}
