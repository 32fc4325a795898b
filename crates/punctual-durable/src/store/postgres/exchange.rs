//! What nodes do: exchange, peek, renew, leave. What they do for each other is in `rescue.rs`.
//!
//! One that only claims jobs by name is a plain statement (`claim.rs`). One whose reports all say that plain jobs are done is
//! one statement and one round trip, too: `punctual.exchange`. If there is more to it (a failure, an occurrence of a schedule, a chain, something to be counted) the rules decide here, in a
//! transaction of several statements, the last of which is the same function.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use postgres::Row;

use super::claim::claim;
use super::follow::{self, Moves, moment};
use super::journal;
use super::low::Line;
use super::rescue::FORGET;
use super::rows::{lane_of, micros, read_claimed};
use super::session::{Answer, Holding, Session};
use super::tally;
use crate::job::{Fence, JobId, JobRecord, JobState, NodeId};
use crate::store::{
    Exchange, Exchanged, Peek, Peeked, Recorded, Renewal, Report, Tenure, Ticket, Verdict, follow_ups, settle,
};
use crate::time::Timestamp;

/// Fences are drawn in blocks of this many: no more are claimed at once.
const MOST: usize = 60_000;

const EXCHANGE: &str = "SELECT * FROM punctual.exchange($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
     $13::text::tid, $14, $15)";

/// What a report of success needs to be told apart.
type Key = (JobId, Fence);

pub(super) fn exchange(
    session: &mut Session,
    node: NodeId,
    exchange: &Exchange,
    given: Option<i64>,
) -> Answer<Exchanged> {
    let special = &session.special;
    let plain = |report: &Report| {
        report.verdict == Verdict::Done && report.follow_ups.is_empty() && !special.contains(&report.id)
    };
    let said = !exchange.updates.is_empty() || !exchange.tallies.is_empty();
    if exchange.disown.is_none() && !said && exchange.reports.iter().all(plain) {
        if let Some(claimed) = claim(session, node, exchange, given)? {
            return Ok(claimed);
        }
        match in_one(session, node, exchange, given) {
            // An occurrence is among them, or a link of a chain, that was claimed on another connection.
            Err(fault) if fault.is_code("PU002") => {}
            other => return other,
        }
    }
    session.transaction(|session| in_several(session, node, exchange, given))
}

fn in_one(session: &mut Session, node: NodeId, exchange: &Exchange, given: Option<i64>) -> Answer<Exchanged> {
    // By id, as everybody locks them.
    let mut done: Vec<Key> = exchange.reports.iter().map(|report| (report.id, report.fence)).collect();
    done.sort_unstable();
    let (mut answer, answers) = call(session, node, exchange, &done, false, given)?;
    answer.recorded = match answers {
        None => vec![Recorded::Over(JobState::Done); exchange.reports.len()],
        Some(answers) => {
            let mut by_key: HashMap<Key, Vec<i16>> = HashMap::new();
            for (key, code) in done.into_iter().zip(answers).rev() {
                by_key.entry(key).or_default().push(code);
            }
            let recorded = |report: &Report| {
                let code = by_key.get_mut(&(report.id, report.fence)).and_then(Vec::pop);
                match code {
                    Some(2) => Recorded::Over(JobState::Done),
                    Some(1) => Recorded::Already,
                    _ => Recorded::Stale,
                }
            };
            exchange.reports.iter().map(recorded).collect()
        }
    };
    Ok(answer)
}

fn in_several(
    session: &mut Session,
    node: NodeId,
    exchange: &Exchange,
    given: Option<i64>,
) -> Answer<Exchanged> {
    let held: Vec<JobId> = (session
        .query("SELECT held FROM punctual.node WHERE id = $1 FOR UPDATE", &[&node.as_i64()])?)
    .iter()
    .flat_map(|row| row.get::<_, Vec<i64>>(0))
    .map(JobId::from_i64)
    .collect();
    let now = moment(session, given)?;
    tally::write(session, node, &exchange.tallies)?;
    journal::update(session, node, &exchange.updates)?;
    let mut ids: Vec<JobId> = exchange.reports.iter().map(|report| report.id).collect();
    let keep = exchange.disown.as_ref().map(|keep| keep.iter().copied().collect::<HashSet<JobId>>());
    if let Some(keep) = &keep {
        ids.extend(held.iter().filter(|id| !keep.contains(id)));
    }
    let jobs = follow::lock(session, &ids)?;
    let mut jobs: HashMap<JobId, JobRecord> = jobs.into_iter().map(|job| (job.id, job)).collect();
    let past = over_before(session, node, &exchange.reports)?;
    let mut moves = Moves::default();
    let mut following = Vec::new();
    let mut recorded = Vec::with_capacity(exchange.reports.len());
    for report in &exchange.reports {
        let key = (report.id, report.fence);
        let job = jobs.get_mut(&report.id).filter(|job| job.owner == Some(node) && job.fence == report.fence);
        recorded.push(match job {
            Some(job) if job.state == JobState::Claimed => {
                let next = settle(job, &report.verdict, now);
                let recorded = Recorded::next(&next);
                let follows = follow_ups(job, &next, &report.follow_ups);
                following.extend(follows.into_iter().map(|follow_up| (job.id, follow_up)));
                job.state = next.state;
                moves.push(job, next);
                recorded
            }
            Some(_) => Recorded::Already,
            None if past.contains(&key) => Recorded::Already,
            None => Recorded::Stale,
        });
    }
    if let Some(keep) = keep {
        let mut forgotten: Vec<&JobRecord> = (jobs.values())
            .filter(|job| {
                job.state == JobState::Claimed && job.owner == Some(node) && !keep.contains(&job.id)
            })
            .collect();
        forgotten.sort_unstable_by_key(|job| job.id);
        for job in forgotten {
            let next = settle(job, &Verdict::Release, now);
            following.extend(follow_ups(job, &next, &[]).into_iter().map(|follow_up| (job.id, follow_up)));
            moves.push(job, next);
        }
    }
    moves.apply(session, now, false)?;
    let followed = follow::accept(session, following, now)?;
    let (mut answer, _) = call(session, node, exchange, &[], true, given)?;
    answer.recorded = recorded;
    Ok(answer.followed(followed))
}

/// Which of these reports concern jobs that are over and were this node's.
fn over_before(session: &mut Session, node: NodeId, reports: &[Report]) -> Answer<HashSet<Key>> {
    let ids: Vec<i64> = reports.iter().map(|report| report.id.as_i64()).collect();
    let sql = "SELECT id, fence FROM punctual.past WHERE id = ANY ($1) AND owner = $2";
    let rows = session.query(sql, &[&ids, &node.as_i64()])?;
    Ok(rows.iter().map(|row| (JobId::from_i64(row.get(0)), Fence::from_i64(row.get(1)))).collect())
}

/// Calls the function; says what it answered to the reports, if not all were heeded.
fn call(
    session: &mut Session,
    node: NodeId,
    exchange: &Exchange,
    done: &[Key],
    tidy: bool,
    given: Option<i64>,
) -> Answer<(Exchanged, Option<Vec<i16>>)> {
    let (done_ids, done_fences): (Vec<i64>, Vec<i64>) =
        done.iter().map(|(id, fence)| (id.as_i64(), fence.as_i64())).unzip();
    let mut seen = HashSet::new();
    let claims = exchange.claims.iter().filter(|ticket| seen.insert(ticket.id)).take(MOST);
    let (claim_ids, claim_versions): (Vec<i64>, Vec<i64>) =
        claims.map(|ticket| (ticket.id.as_i64(), ticket.version)).unzip();
    let sweep = i64::try_from(exchange.sweep.min(MOST)).unwrap_or(0);
    let (lines, lows) = session.lows.question();
    // If this fails, nobody knows what is held.
    let mut holding = session.holding.take().filter(|holding| !tidy && holding.node == node);
    if let Some(holding) = &mut holding {
        for id in &done_ids {
            holding.ids.remove(id);
        }
    }
    let (here, wrote) = (holding.as_ref().map(|held| &held.place), holding.as_ref().map(|held| held.wrote));
    let still: Option<Vec<i64>> = holding.as_ref().map(|holding| holding.ids.iter().copied().collect());
    let sent = session.server.clock.local();
    let rows = session.query(
        EXCHANGE,
        &[
            &node.as_i64(),
            &given,
            &tidy,
            &session.server.keeps_done(),
            &done_ids,
            &done_fences,
            &claim_ids,
            &claim_versions,
            &sweep,
            &&*exchange.kinds,
            &lines,
            &lows,
            &here,
            &wrote,
            &still,
        ],
    )?;
    let Some((head, claimed)) = rows.split_last() else {
        return Err(crate::error::Error::broken("an exchange was not answered").into());
    };
    if given.is_none() {
        session.server.clock.learn(sent, head.get("now"));
    }
    // In a transaction that has begun before, the number is older than the time.
    learn(session, head, !tidy);
    let claimed_ids: Vec<i64> = claimed.iter().filter_map(|row| row.get(0)).collect();
    let claimed = claimed
        .iter()
        .filter_map(|row| read_claimed(row, row.get::<_, Option<i64>>(0)?, node, &session.lows));
    let mut claimed: Vec<JobRecord> = claimed.collect();
    claimed.sort_unstable_by_key(|job| job.fence);
    session.holding = hold(node, holding, head, claimed_ids);
    for report in &exchange.reports {
        session.special.remove(&report.id);
    }
    session.mark_special(&claimed);
    let drained = if exchange.sweep > MOST { false } else { head.get("drained") };
    Ok((Exchanged::new(Vec::new(), claimed, drained).crowded(head.get("crowded")), head.get("answers")))
}

/// What the node holds after an exchange.
fn hold(node: NodeId, before: Option<Holding>, head: &Row, claimed: Vec<i64>) -> Option<Holding> {
    let Some(place) = head.get("place") else { return before };
    let wrote = head.get("number");
    let mut ids = match head.get::<_, Option<Vec<i64>>>("held") {
        Some(held) => held.into_iter().collect(),
        None => before?.ids,
    };
    ids.extend(claimed);
    Some(Holding { node, place, wrote, ids })
}

fn learn(session: &mut Session, head: &Row, number: bool) {
    // Without numbers in progress it has not looked at the lines, and names those that are new to us.
    let lines: Vec<i32> = head.get::<_, Option<_>>("lines").unwrap_or_default();
    let (began, now): (i64, i64) = (head.get("began"), head.get("now"));
    let set_back = session.lows.follow(session.server.clock.setbacks());
    session.lows.hear(began);
    if let Some(pending) = head.get::<_, Option<Vec<i64>>>("pending")
        && let Some(firsts) = head.get::<_, Option<Vec<Option<i64>>>>("firsts")
    {
        session.lows.learn(&lines, &firsts, &pending, now);
    }
    session.lows.hear(now);
    if number && !set_back && began <= now {
        session.lows.note(began, head.get("number"));
    }
    if lines.is_empty() {
        return;
    }
    let (queues, kinds): (Vec<Option<String>>, Vec<Option<String>>) =
        (head.get("queues"), head.get("line_kinds"));
    let lanes: Vec<i16> = head.get("lanes");
    for (((id, queue), kind), lane) in lines.iter().zip(queues).zip(kinds).zip(lanes) {
        if let (Some(queue), Some(kind)) = (queue, kind) {
            session.lows.name(*id, Line { queue, kind, lane: lane_of(lane) });
        }
    }
}

pub(super) fn peek(session: &mut Session, peek: &Peek, given: Option<i64>) -> Answer<Peeked> {
    let peeked = peek_once(session, peek, given)?;
    // A transaction that was not waited for has ended meanwhile: now it can be seen what it has added.
    if session.lows.must_look_back() { peek_once(session, peek, given) } else { Ok(peeked) }
}

fn peek_once(session: &mut Session, peek: &Peek, given: Option<i64>) -> Answer<Peeked> {
    let since = peek.after.map(|after| after.as_micros().saturating_add(1));
    let most = i64::try_from(peek.most).unwrap_or(i64::MAX).min(i64::from(i32::MAX));
    let (lines, lows) = session.lows.question();
    let sent = session.server.clock.local();
    let sql = "SELECT * FROM punctual.peek($1, $2, $3, $4, $5, $6, $7)";
    let until = peek.until.as_micros();
    let rows = session.query(sql, &[&given, &&*peek.kinds, &since, &until, &most, &lines, &lows])?;
    let Some((head, rows)) = rows.split_last() else { return Ok(Peeked::default()) };
    if given.is_none() {
        session.server.clock.learn(sent, head.get("now"));
    }
    session.lows.follow(session.server.clock.setbacks());
    if let Some(lines) = head.get::<_, Option<Vec<i32>>>("lines") {
        let firsts: Vec<Option<i64>> = head.get("firsts");
        session.lows.learn(&lines, &firsts, &head.get::<_, Vec<i64>>("pending"), head.get("now"));
    }
    let ticket = |row: &Row| {
        let (id, due) = (JobId::from_i64(row.get(0)), Timestamp::from_micros(row.get(2)));
        Ticket { id, version: row.get(1), due, lane: lane_of(row.get(3)) }
    };
    let mut tickets: Vec<Ticket> = rows.iter().map(ticket).collect();
    let next = match tickets.get(peek.most) {
        Some(ticket) => Some(ticket.due),
        None => head.get::<_, Option<i64>>("next").map(Timestamp::from_micros),
    };
    tickets.truncate(peek.most);
    Ok(Peeked::new(tickets, next).overdue(head.get("overdue")))
}

pub(super) fn renew(
    session: &mut Session,
    node: NodeId,
    lease: Duration,
    given: Option<i64>,
) -> Answer<Renewal> {
    let sql = "WITH me AS (INSERT INTO punctual.node AS n (id, since, until, lease) \
               SELECT $1, t.now, punctual.later(t.now, $2), $2 FROM (SELECT coalesce($3, punctual.clock()) AS now) t \
               ON CONFLICT (id) DO UPDATE SET until = excluded.until, lease = excluded.lease, left_at = NULL \
               RETURNING n.held) \
               SELECT j.id FROM me CROSS JOIN LATERAL unnest(me.held) h (id) \
               JOIN punctual.job j ON j.id = h.id AND j.owner = $1 AND j.state = 1 AND j.cancel ORDER BY j.id";
    // The row is somewhere else now.
    session.holding.take_if(|holding| holding.node == node);
    let rows = session.query(sql, &[&node.as_i64(), &micros(lease), &given])?;
    Ok(Renewal::new(Tenure::Active, rows.iter().map(|row| JobId::from_i64(row.get(0))).collect()))
}

pub(super) fn leave(session: &mut Session, node: NodeId, given: Option<i64>) -> Answer<()> {
    session.transaction(|session| {
        let sql = "UPDATE punctual.node SET until = coalesce($2, punctual.clock()), \
                   left_at = coalesce($2, punctual.clock()) WHERE id = $1";
        session.query(sql, &[&node.as_i64(), &given])?;
        session.query(FORGET, &[&vec![node.as_i64()]]).map(drop)
    })
}
