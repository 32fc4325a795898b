//! Taking jobs from nodes that are dead.
//!
//! Almost all of them wait again, or are dead, and nothing can keep them from it: these are taken in one transaction. But one
//! that its handler had completed is done, and the next of its chain is accepted with that. The unique key of that next one
//! may be about to be taken in somebody else's transaction, for whose end it has to wait. That may be never: so those come
//! after the others, one by one, each in a transaction of its own that waits for [`SHORT`] at most; those that fail are
//! left for the next time. Where many fail the rest is left, too, and another time others come first: whoever
//! rescues has a lease to renew.

use std::time::Duration;

use super::follow::{self, Moves, moment};
use super::rows::{self, living};
use super::session::{Answer, Session};
use super::timeline;
use crate::job::{JobId, NodeId};
use crate::store::{Rescued, follow_ups, lost_together};

/// How long a job that others follow may wait for a lock, and how many may do so in vain.
const SHORT: Duration = Duration::from_millis(100);
const MOST_FAILURES: usize = 5;

/// Forgets nodes that hold nothing.
pub(super) const FORGET: &str = "DELETE FROM punctual.node n WHERE n.id = ANY ($1) AND NOT EXISTS (\
     SELECT FROM unnest(n.held) h (id) JOIN punctual.job j ON j.id = h.id AND j.owner = n.id AND j.state = 1)";

/// Nodes that are dead: their lease is over, and they have had the time of one to renew it since the server was started,
/// or took the place of another (`timeline.rs`). Otherwise the first node that is back after the server was away would
/// take all others for dead.
macro_rules! dead {
    () => {
        "SELECT n.id, n.held FROM punctual.node n WHERE n.until <= coalesce($1, punctual.clock()) AND \
         ($1 IS NOT NULL OR n.left_at IS NOT NULL OR punctual.clock() >= \
          punctual.later(greatest((extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint, \
                                  (SELECT m.value FROM punctual.meta m WHERE m.name = 'failover')), n.lease))"
    };
}

/// Whether others follow a job that is held, if it is lost.
macro_rules! followed {
    () => {
        "(j.follow IS NOT NULL OR j.asked IS NOT NULL) AND j.complete IS NOT DISTINCT FROM j.fence"
    };
}

/// Which jobs to take.
#[derive(Clone, Copy)]
enum Which {
    /// At most so many of those that others do not follow.
    Plain(usize),
    This(JobId),
}

pub(super) fn rescue(
    session: &mut Session,
    node: NodeId,
    most: usize,
    given: Option<i64>,
) -> Answer<Vec<Rescued>> {
    if session.query(concat!(dead!(), " LIMIT 1"), &[&given])?.is_empty() {
        return Ok(Vec::new());
    }
    if given.is_none() {
        timeline::watch(session)?;
    }
    let mut rescued = session.transaction(|session| take(session, node, Which::Plain(most), given))?;
    let room = most.saturating_sub(rescued.len());
    let followed = take_followed(session, node, room, given, &mut rescued);
    // Whoever is told of an error must be able to believe that nothing was done.
    if rescued.is_empty() {
        followed?;
    }
    rescued.sort_unstable_by_key(|rescued| rescued.id);
    Ok(rescued)
}

/// Takes those that others follow, as far as that is possible; what went wrong last is the error.
fn take_followed(
    session: &mut Session,
    node: NodeId,
    most: usize,
    given: Option<i64>,
    rescued: &mut Vec<Rescued>,
) -> Answer<()> {
    let mut ids = followed(session, most, given)?;
    fastrand::shuffle(&mut ids);
    let (mut failures, mut result) = (0, Ok(()));
    for id in ids {
        let taken = session.transaction(|session| {
            session.batch(&format!("SET LOCAL lock_timeout = {}", SHORT.as_millis()))?;
            take(session, node, Which::This(id), given)
        });
        match taken {
            Ok(more) => rescued.extend(more),
            Err(fault) => (failures, result) = (failures + 1, Err(fault)),
        }
        if failures == MOST_FAILURES || session.is_closed() {
            break;
        }
    }
    result
}

/// Jobs of dead nodes that are done, and that others follow.
fn followed(session: &mut Session, most: usize, given: Option<i64>) -> Answer<Vec<JobId>> {
    let sql = concat!(
        "WITH n AS (",
        dead!(),
        ") SELECT j.id FROM n CROSS JOIN LATERAL unnest(n.held) h (id) \
         JOIN punctual.job j ON j.id = h.id AND j.owner = n.id AND j.state = 1 WHERE ",
        followed!(),
        " LIMIT $2"
    );
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(session.query(sql, &[&given, &most])?.iter().map(|row| JobId::from_i64(row.get(0))).collect())
}

/// In a transaction.
fn take(session: &mut Session, node: NodeId, which: Which, given: Option<i64>) -> Answer<Vec<Rescued>> {
    let alive = "SELECT FROM punctual.node WHERE id = $1 AND until > coalesce($2, punctual.clock())";
    if session.query(alive, &[&node.as_i64(), &given])?.is_empty() {
        return Ok(Vec::new());
    }
    // One that renews at this moment, or is rescued by another, is left alone.
    let dead = session.query(concat!(dead!(), " ORDER BY n.id FOR UPDATE SKIP LOCKED"), &[&given])?;
    let (nodes, held): (Vec<i64>, Vec<Vec<i64>>) =
        dead.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, Vec<i64>>(1))).unzip();
    let now = moment(session, given)?;
    let sql = concat!(
        "SELECT ",
        living!(),
        " FROM punctual.job j JOIN punctual.line l ON l.id = j.line WHERE j.id = ANY ($1) AND j.owner = ANY ($2) \
         AND j.state = 1 AND CASE WHEN ",
        followed!(),
        " THEN j.id = $4 ELSE $4 IS NULL END \
         ORDER BY j.crashes >= 2 OR j.crashes = 1 AND j.max_crashes <= 2 DESC, j.id LIMIT $3 FOR UPDATE OF j SKIP LOCKED"
    );
    let (most, this) = match which {
        Which::Plain(most) => (most, None),
        Which::This(id) => (1, Some(id.as_i64())),
    };
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let orphans = session.query(sql, &[&held.concat(), &nodes, &limit, &this])?;
    let (mut moves, mut rescued, mut following) = (Moves::default(), Vec::new(), Vec::new());
    for (job, next) in lost_together(orphans.iter().map(rows::read).collect(), most, now) {
        following.extend(follow_ups(&job, &next, &[]).into_iter().map(|follow_up| (job.id, follow_up)));
        rescued.push(Rescued::new(job.id, job.owner.unwrap_or(NodeId::from_i64(0)), next.state));
        moves.push(&job, next);
    }
    moves.apply(session, now, true)?;
    follow::accept(session, following, now)?;
    session.query(FORGET, &[&nodes])?;
    Ok(rescued)
}
