//! A PostgreSQL with its own defaults, for everybody who is measured, and what it has used so far.
//!
//! Lines in, one line out for each:
//!
//! | line | answer |
//! |---|---|
//! | `version` | of the server |
//! | `fresh` | the URL of a new database |
//! | `drop <url>` | `dropped` |
//! | `cpu` | seconds of processor time of all its processes |
//! | `wal` | bytes of log |
//! | `hold <url>`, `release` | a transaction in another connection keeps its snapshot, until it is released |
//! | `end` | none |

use std::fs;
use std::io::BufRead;

use durable_protocol::{Line, Trouble, cpu_of, failed};
use postgres::Client;
use punctual_testbed::{Postgres, Settings};

pub(crate) fn run() -> Result<Line, Trouble> {
    let server = Postgres::start(Settings::durable().option("max_connections", "200"));
    let mut client = server.connect("postgres");
    let mut holder: Option<Client> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("version", _) => client.query_one("SHOW server_version", &[])?.get(0),
            ("fresh", _) => server.fresh_database(),
            ("drop", url) => {
                server.drop_database(url);
                "dropped".to_owned()
            }
            ("cpu", _) => processor_time(&mut client)?.to_string(),
            ("wal", _) => {
                let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8";
                client.query_one(sql, &[])?.get::<_, f64>(0).to_string()
            }
            ("hold", url) => {
                let mut other = server.connect(url.rsplit('/').next().unwrap_or_default());
                // With an id of its own, so that nothing that dies from now on can be swept away.
                other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")?;
                holder = Some(other);
                "held".to_owned()
            }
            ("release", _) => {
                holder = None;
                "released".to_owned()
            }
            ("end", _) => break,
            _ => return failed(format!("{line:?} is no question")),
        };
        println!("{answer}");
    }
    drop((client, holder, server));
    std::process::exit(0)
}

/// Of the first process of the server, which has that of the others that have ended, and of those that live.
fn processor_time(client: &mut Client) -> Result<f64, Trouble> {
    let ours: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let Some(first) = parent_of(ours.unsigned_abs()) else { return failed("the server has no process") };
    let processes =
        fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = processes.filter(|process| parent_of(*process) == Some(first));
    Ok(others.chain([first]).filter_map(cpu_of).sum())
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
