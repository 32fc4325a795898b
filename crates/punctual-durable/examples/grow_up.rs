//! How do I move to another store, or make a backup?
//!
//! ```text
//! cargo run -p punctual-durable --example grow_up
//! cargo run -p punctual-durable --features postgres --example grow_up -- sqlite:jobs.db postgres://localhost/shop
//! ```
//! Jobs, history, queues and schedules go from one store to another, directly or through a file of JSON lines. A copy
//! can be interrupted and repeated: nothing is lost, and nothing comes twice. With two URLs it copies from the first to the
//! second; stop the nodes of the first before.

use punctual_durable::{Filter, Jobs, MemoryStore, NewJob, SqliteStore, Store, export, import, transfer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urls: Vec<String> = std::env::args().skip(1).collect();
    match &urls[..] {
        [] => show(),
        [from, to] => copy(from, to),
        _ => Err("say nothing, or where to copy from and where to".into()),
    }
}

/// Without handlers they run nothing: they are open, and that is all.
fn copy(from: &str, to: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (from, to) = (Jobs::open(from)?.start()?, Jobs::open(to)?.start()?);
    let copied = transfer(&**from.store(), &**to.store())?;
    println!("copied {} jobs and {} schedules", copied.jobs, copied.schedules);
    Ok(())
}

fn show() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("punctual-grow-up-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;

    let small = MemoryStore::new();
    small.enqueue((1..=250).map(|n| NewJob::new("mail", n.to_string())).collect())?;

    let large = SqliteStore::open(folder.join("jobs.db"))?;
    println!("copied {} jobs", transfer(&small, &large)?.jobs);
    println!("copied {} jobs the second time", transfer(&small, &large)?.jobs);
    small.enqueue(vec![NewJob::new("mail", "one more")])?;
    println!("copied {} that was new", transfer(&small, &large)?.jobs);

    let backup = folder.join("backup.jsonl");
    let count = export(&large, std::fs::File::create(&backup)?)?;
    println!("exported {count} jobs, {} bytes", std::fs::metadata(&backup)?.len());
    let restored = MemoryStore::new();
    import(std::io::BufReader::new(std::fs::File::open(&backup)?), &restored)?;
    assert_eq!(restored.find(&Filter::new().limit(999))?.len(), 251);

    drop(large);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
