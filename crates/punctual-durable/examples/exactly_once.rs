//! How do I book money once, whatever is killed when?
//!
//! ```text
//! cargo run -p punctual-durable --example exactly_once
//! ```
//!
//! A handler may be called again: its process may die after it has done its work, and before that is recorded. Here the
//! work is a row in a table of ours, in the file where the jobs are; the handler completes its job in the transaction that
//! writes it, so there is nothing in between. To show it, every other attempt fails after its commit, and some before.

use std::sync::Arc;
use std::time::Duration;

use punctual_durable::{Backoff, Done, JobContext, Jobs, KindOptions, SqliteStore};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Book {
    amount: i64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("punctual-exactly-once-{}.db", std::process::id()));
    let mine = Connection::open(&path)?;
    mine.execute_batch("CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (0)")?;
    let store = Arc::new(SqliteStore::open(&path)?);
    let (file, completes) = (path.clone(), Arc::clone(&store));
    let book = move |job: Book, cx: &JobContext| {
        let mut mine = Connection::open(&file)?;
        mine.busy_timeout(Duration::from_secs(10))?;
        let transaction = mine.transaction()?;
        transaction.execute("UPDATE account SET balance = balance + ?1", [job.amount])?;
        completes.complete_in(&transaction, cx)?;
        if job.amount % 3 == 0 && cx.attempt() == 1 {
            return Err("failed before the commit: nothing has happened".into());
        }
        transaction.commit()?;
        if job.amount % 2 == 0 {
            return Err("failed after the commit: it has happened, and is not repeated".into());
        }
        Ok(Done)
    };
    let options = KindOptions::new().backoff(Backoff::fixed(Duration::from_millis(10)));
    let jobs = Jobs::on(store).handle_with("book", options, book).start()?;
    let accepted = jobs.enqueue_many((1..=100).map(|amount| Book { amount }))?;
    let mut attempts = 0;
    for job in &accepted {
        let job = jobs.outcome(job.id()).join()?;
        println!("job {} is {:?} at attempt {}", job.id, job.state, job.attempt);
        attempts += job.attempt;
    }
    let balance: i64 = mine.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    println!("{} jobs, {attempts} attempts, balance {balance} (1 + 2 + … + 100 = 5050)", accepted.len());
    assert_eq!(balance, 5050);
    jobs.shutdown(Duration::from_secs(10))?;
    drop(mine);
    for end in ["", "-wal", "-shm", "-owner", "-bell"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
    Ok(())
}
