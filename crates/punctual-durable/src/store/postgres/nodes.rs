//! Who is there.

use super::session::{Answer, Session};
use crate::job::NodeId;
use crate::store::NodeRecord;
use crate::time::Timestamp;

/// Nodes whose lease is not over, and others that hold something. After the server was away, those are given time to come
/// back before they are rescued: they are not alive until they do.
pub(super) fn all(session: &mut Session, given: Option<i64>) -> Answer<Vec<NodeRecord>> {
    let sql = "SELECT s.id, s.alive, s.until, s.held FROM (\
                   SELECT n.id, n.until > coalesce($1, punctual.clock()) AS alive, n.until, \
                       (SELECT count(DISTINCT j.id) FROM unnest(n.held) h (id) \
                        JOIN punctual.job j ON j.id = h.id AND j.owner = n.id AND j.state = 1) AS held \
                   FROM punctual.node n) s \
               WHERE s.alive OR s.held > 0 ORDER BY s.id";
    let record = |row: &postgres::Row| {
        let until = Timestamp::from_micros(row.get(2));
        let held = usize::try_from(row.get::<_, i64>(3)).unwrap_or(0);
        NodeRecord::new(NodeId::from_i64(row.get(0)), row.get(1), Some(until), held)
    };
    Ok(session.query(sql, &[&given])?.iter().map(record).collect())
}
