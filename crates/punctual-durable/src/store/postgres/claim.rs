//! Claiming jobs by name, and nothing else: one plain statement.
//!
//! It is what a node does when it has heard of a job that is due now, and somebody waits. `punctual.exchange` could do it,
//! too, but it can do so much more that a server which was idle takes half as long again over it. This one is for the common
//! case: the row of the node is where the caller left it, and no queue is paused or limited. Otherwise it answers nothing,
//! and has changed nothing.
//!
//! # Order
//! Each part reads from the one before, so nothing is done before its reason is known:
//! 0. `start`: the clock is read, before this transaction has a number: see `low.rs`.
//! 1. `me`: the row of the node is locked; whoever would rescue its jobs waits.
//! 2. `held`: the clock is read, after that.
//! 3. `free`: the jobs are locked that wait as the caller has seen them. Those that somebody else is about to claim are
//!    passed over. (Whoever changes a job that waits gives it another version, so what is locked is what was seen, and
//!    `taken` finds it.)
//! 4. `taken`: they are claimed. A fence is drawn when its job is locked: it is greater than that of any claim before.
//! 5. `noted`: the row of the node says so.

use std::collections::HashSet;
use std::time::Duration;

use super::low::Line;
use super::rows::{lane_of, read_claimed};
use super::session::{Answer, Holding, Session};
use crate::job::{JobRecord, NodeId};
use crate::store::{Exchange, Exchanged};

/// No more are claimed in this way at once.
const MOST: usize = 100;

/// After a queue was found that is paused or limited it is not tried for so long.
const PAUSE: Duration = Duration::from_secs(1);

const CLAIM: &str = "
WITH start AS MATERIALIZED (
    SELECT coalesce($2, punctual.clock()) AS began
), me AS MATERIALIZED (
    SELECT s.began, n.until FROM start s CROSS JOIN punctual.node n
    WHERE n.ctid = $3::text::tid AND n.id = $1 AND n.xmin::text::bigint = $4::bigint & 4294967295 FOR UPDATE OF n
), held AS MATERIALIZED (
    SELECT m.began, m.until, coalesce($2, punctual.clock()) AS now FROM me m
    WHERE NOT EXISTS (SELECT FROM punctual.queue q WHERE q.paused_at IS NOT NULL OR q.most IS NOT NULL)
), free AS MATERIALIZED (
    SELECT j.ctid AS tid, h.now, l.queue, l.kind, l.lane FROM held h
    CROSS JOIN unnest($6::bigint[], $7::bigint[]) WITH ORDINALITY t (id, version, place)
    JOIN punctual.job j ON j.id = t.id AND j.version = t.version AND j.state = 0
    JOIN punctual.line l ON l.id = j.line AND l.kind = ANY ($8)
    WHERE h.until > h.now
    ORDER BY t.place FOR UPDATE OF j SKIP LOCKED
), taken AS (
    UPDATE punctual.job j SET state = 1, owner = $1, fence = nextval('punctual.fence') + 1, claimed = f.now,
        attempt = least(j.attempt, 2147483646) + 1, version = punctual.next(j.version)
    FROM free f WHERE j.ctid = f.tid
    RETURNING j.id, j.line, j.due, j.version, j.attempt, j.crashes, j.max_attempts, j.max_crashes, j.on_lost, j.timeout,
        j.uniq, j.created, j.fence, j.claimed, j.cancel, j.note, j.payload, j.series, j.nominal, j.parent, j.follow, j.missed,
        f.queue, f.kind, f.lane
), noted AS (
    UPDATE punctual.node n SET held = $5 || (SELECT array_agg(t.id) FROM taken t)
    WHERE n.ctid = $3::text::tid AND EXISTS (SELECT FROM taken)
    RETURNING n.ctid::text AS place
)
SELECT t.*, n.place, pg_current_xact_id()::text::bigint AS number, h.began, h.now, h.until > h.now AS leased,
    EXISTS (SELECT FROM me) AS found
FROM (VALUES (0)) o LEFT JOIN held h ON true LEFT JOIN taken t ON true LEFT JOIN noted n ON true";

/// Does all of an exchange, if it is as simple as that; `None` if it is not.
pub(super) fn claim(
    session: &mut Session,
    node: NodeId,
    exchange: &Exchange,
    given: Option<i64>,
) -> Answer<Option<Exchanged>> {
    let sent = session.server.clock.local();
    let simple = exchange.reports.is_empty() && exchange.sweep == 0 && exchange.claims.len() <= MOST;
    if !simple || sent < session.no_claim_before {
        return Ok(None);
    }
    // If this fails, nobody knows what is held.
    let Some(holding) = session.holding.take_if(|holding| holding.node == node) else { return Ok(None) };
    let mut seen = HashSet::new();
    let claims = exchange.claims.iter().filter(|ticket| seen.insert(ticket.id));
    let (ids, versions): (Vec<i64>, Vec<i64>) =
        claims.map(|ticket| (ticket.id.as_i64(), ticket.version)).unzip();
    let still: Vec<i64> = holding.ids.iter().copied().collect();
    let rows = session.query(
        CLAIM,
        &[&node.as_i64(), &given, &holding.place, &holding.wrote, &still, &ids, &versions, &&*exchange.kinds],
    )?;
    let head = rows.first();
    let Some((head, now)) = head.and_then(|head| Some((head, head.get::<_, Option<i64>>("now")?))) else {
        if head.is_some_and(|head| head.get("found")) {
            session.holding = Some(holding);
            session.no_claim_before = sent.after(PAUSE);
        }
        return Ok(None);
    };
    if given.is_none() {
        session.server.clock.learn(sent, now);
    }
    let (began, number): (i64, i64) = (head.get("began"), head.get("number"));
    let set_back = session.lows.follow(session.server.clock.setbacks());
    session.lows.hear(began);
    session.lows.hear(now);
    if !set_back && began <= now {
        session.lows.note(began, number);
    }
    let mut ids = holding.ids;
    let mut claimed: Vec<JobRecord> = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(id) = row.get::<_, Option<i64>>(0) else { continue };
        let line = || Line { queue: row.get("queue"), kind: row.get("kind"), lane: lane_of(row.get("lane")) };
        session.lows.name_if_new(row.get(1), line);
        claimed.extend(read_claimed(row, id, node, &session.lows));
        ids.insert(id);
    }
    session.holding = Some(match head.get("place") {
        Some(place) => Holding { node, place, wrote: number, ids },
        None => Holding { ids, ..holding },
    });
    claimed.sort_unstable_by_key(|job| job.fence);
    session.mark_special(&claimed);
    Ok(Some(Exchanged::new(Vec::new(), claimed, !head.get::<_, bool>("leased"))))
}
