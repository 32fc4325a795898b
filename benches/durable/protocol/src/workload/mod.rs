//! What is measured.

pub(crate) mod burn;
pub(crate) mod enqueue;
pub(crate) mod flow;
pub(crate) mod late;
pub(crate) mod restart;
pub(crate) mod start;

use crate::{Job, Peer, Trouble};

/// Jobs in one call.
const BATCH: usize = 1_000;

fn enqueue_in_batches<P: Peer>(peer: &P, jobs: &[Job]) -> Result<(), Trouble> {
    jobs.chunks(BATCH).try_for_each(|batch| peer.enqueue_many(batch))
}
