//! Jobs that survive. Start it, kill it (Ctrl-C, `kill -9`, pull the plug), start it again: nothing is lost.
//!
//! ```text
//! cargo run -p punctual-durable --example survive                    # a file in the folder for temporary files
//! cargo run -p punctual-durable --example survive -- sqlite:my.db    # or another file
//! cargo run -p punctual-durable --features postgres --example survive -- postgres://me:secret@localhost/mine
//! ```
//! Start it twice at once. On a file the second one stands by, and takes over the moment the first is killed. On PostgreSQL
//! both work, and if one is killed the other runs its jobs again when its lease is over, ten seconds later.

use std::time::Duration;

use punctual_durable::{Done, Event, Filter, JobState, Jobs, KindOptions};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    customer: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::temp_dir().join("punctual-survive.db");
    let url = std::env::args().nth(1).unwrap_or_else(|| format!("sqlite:{}", file.display()));
    // Not the whole URL: there may be a password in it.
    let place = url.rsplit('@').next().unwrap_or_default();
    let (done, finished) = std::sync::mpsc::channel();

    let jobs = Jobs::open(&url)?
        .handle_with("send-invoice", KindOptions::new().max_crashes(100), |job: SendInvoice, cx| {
            println!("  sending invoice {:>2} ... (attempt {})", job.customer, cx.attempt());
            cx.sleep(Duration::from_millis(500))?;
            println!("  sent    invoice {:>2}", job.customer);
            Ok(Done)
        })
        .concurrency(2)
        .observe(move |event| match event {
            Event::Recorded { state: JobState::Done, .. } => {
                let _ = done.send(());
            }
            Event::Recorded { .. } => {}
            other => println!("{other}"),
        })
        .start()?;

    // A key for each invoice: asking again while one waits or runs changes nothing.
    let waiting = jobs.find(&Filter::new().state(JobState::Scheduled))?.len()
        + jobs.find(&Filter::new().state(JobState::Claimed))?.len();
    if waiting == 0 {
        for customer in 1..=20 {
            jobs.enqueue(SendInvoice { customer }).unique(format!("invoice-{customer}")).send()?;
        }
        println!("20 invoices are in {place}. Kill me whenever you like, and start me again.");
    } else {
        println!("{waiting} invoices were left in {place} from last time.");
    }

    while jobs.find(&Filter::new().state(JobState::Scheduled).limit(1))?.len()
        + jobs.find(&Filter::new().state(JobState::Claimed).limit(1))?.len()
        > 0
    {
        // Wakes with every invoice that is recorded, and now and then, should another process do the work.
        let _ = finished.recv_timeout(Duration::from_secs(1));
    }
    println!("All invoices are sent.");
    jobs.shutdown(Duration::from_secs(10))?;
    Ok(())
}
