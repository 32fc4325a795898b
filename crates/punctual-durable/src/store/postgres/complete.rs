//! Up to which id all jobs can be seen.
//!
//! Ids are drawn from a sequence, in transactions that end in any order: while one that has drawn 50 is in progress, 51 can
//! be seen, and whoever then goes on from 51 never sees 50. So whoever copies by id first asks how far that is safe:
//!
//! 1. Read the last id that was drawn.
//! 2. See who may have drawn one before that and has not committed it: whoever adds a job locks the table for writing
//!    before drawing its id, until its end.
//! 3. When all those have ended, what they have added up to that id can be seen. Who came later draws greater ones.
//!
//! # Paths not taken
//! *Waiting for the lock of the table:* everybody who comes would wait behind us. *The numbers of transactions in progress:*
//! one in another database would be waited for, too.

use super::session::{Answer, Session};
use crate::error::Error;
use crate::job::JobId;

/// How often to look whether they have ended, and how often at most: for ten seconds.
const LOOKS: u32 = 200;
const PAUSE: &str = "SELECT pg_sleep(0.05)";

/// Transactions that may have added jobs, and whose they are.
const WRITERS: &str = "SELECT l.virtualtransaction, l.pid FROM pg_locks l \
     WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted \
     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) \
     AND l.relation = 'punctual.job'::regclass";

pub(super) fn upto(session: &mut Session) -> Answer<JobId> {
    let drawn = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM punctual.job_id";
    let last = JobId::from_i64(session.one(drawn, &[])?.get(0));
    let mut before = writers(session)?;
    for _ in 0..LOOKS {
        if before.is_empty() {
            return Ok(last);
        }
        session.query(PAUSE, &[])?;
        let now = writers(session)?;
        before.retain(|writer| now.contains(writer));
    }
    let whose = before.first().and_then(|(_, process)| *process);
    let whose = whose.map_or_else(|| "that is prepared".to_owned(), |pid| format!("of process {pid}"));
    let message =
        format!("a transaction {whose} does not end, and may have added jobs: they would be missed");
    Err(Error::transient(message).into())
}

fn writers(session: &mut Session) -> Answer<Vec<(String, Option<i32>)>> {
    Ok(session.query(WRITERS, &[])?.iter().map(|row| (row.get(0), row.get(1))).collect())
}
