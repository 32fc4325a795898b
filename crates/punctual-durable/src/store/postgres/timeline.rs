//! Whether the server is still the one that gave the leases.
//!
//! When a standby takes the place of its primary it does not start again: [`pg_postmaster_start_time`] says nothing. It
//! begins a new *timeline*, though, and nobody ever goes back to an old one. The number of the timeline is kept beside the
//! tables; who finds another one there than the server is on has found a failover, and notes when.
//!
//! From then on nobody is taken for dead until the time of one lease has passed (`rescue`): nodes that lived all the while
//! could not renew what the old server had given them, and the clock of the new one may be ahead of the old one's.
//!
//! # Paths not taken
//! *`pg_control_checkpoint()`:* it shows the new timeline only after the next checkpoint. *The identity of the system:* a
//! standby has that of its primary.
//!
//! [`pg_postmaster_start_time`]: https://www.postgresql.org/docs/current/functions-info.html

use super::session::{Answer, Session};

/// The timeline that is written to; it is the beginning of the name of a file of the log.
macro_rules! current {
    () => {
        "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
    };
}

/// Notes the timeline of a database in which none has been noted, unless it can only be read.
pub(super) fn begin(session: &mut Session) -> Answer<()> {
    let known = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean \
                 OR EXISTS (SELECT FROM punctual.meta WHERE name = 'timeline') \
                 OR NOT has_table_privilege('punctual.meta', 'INSERT')";
    if session.one(known, &[])?.get(0) {
        return Ok(());
    }
    let note = concat!(
        "INSERT INTO punctual.meta (name, value) VALUES ('timeline', ",
        current!(),
        ") ON CONFLICT (name) DO NOTHING"
    );
    session.batch(note)
}

/// Notes that there has been a failover, if there has.
pub(super) fn watch(session: &mut Session) -> Answer<()> {
    let changed = concat!("SELECT FROM punctual.meta WHERE name = 'timeline' AND value <> ", current!());
    if session.query(changed, &[])?.is_empty() {
        return Ok(());
    }
    // Of several who find it out at once the first says when.
    let note = concat!(
        "WITH changed AS (UPDATE punctual.meta SET value = ",
        current!(),
        " WHERE name = 'timeline' AND value <> ",
        current!(),
        " RETURNING value) \
         INSERT INTO punctual.meta (name, value) SELECT 'failover', punctual.clock() FROM changed \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    );
    session.query(note, &[]).map(drop)
}
