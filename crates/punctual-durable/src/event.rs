//! What a node tells the outside while it works.

use std::fmt;

use crate::error::Error;
use crate::job::{JobId, JobState, NodeId};

/// Something worth knowing that no caller waits for; see [`JobsBuilder::observe`](crate::JobsBuilder::observe).
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The node may claim jobs now.
    Active,
    /// Another node has the store to itself; this one waits to take over.
    Standby,
    /// A job has been moved on by this node; if it failed, with what it said.
    Recorded {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: &'a str,
        /// Where it is now.
        state: JobState,
        /// What went wrong.
        error: Option<&'a str>,
    },
    /// What a handler did was not recorded: the job had been taken from this node.
    Stale {
        /// The job.
        id: JobId,
    },
    /// What became of a job cannot be recorded: the store refuses it for good, while it takes others. The job will be run
    /// again. (One that must not be, see [`at_most_once`](crate::KindOptions::at_most_once), is recorded as failed.)
    Unrecorded {
        /// The job.
        id: JobId,
        /// Its kind.
        kind: &'a str,
        /// Why the store refuses it.
        error: &'a Error,
    },
    /// A job was taken from a node that had died.
    Rescued {
        /// The job.
        id: JobId,
        /// The dead node.
        from: NodeId,
        /// Where the job is now.
        state: JobState,
    },
    /// The store failed. Unless the node is shutting down, it tries again.
    StoreFailed(&'a Error),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("claiming jobs"),
            Self::Standby => f.write_str("another node has the store; standing by"),
            Self::Recorded { id, kind, state, error: None } => write!(f, "{kind} job {id} is {state}"),
            Self::Recorded { id, kind, state, error: Some(error) } => {
                write!(f, "{kind} job {id} failed and is {state}: {error}")
            }
            Self::Stale { id } => {
                write!(f, "job {id} had been taken from this node: its outcome was not recorded")
            }
            Self::Unrecorded { id, kind, error } => {
                write!(
                    f,
                    "the outcome of {kind} job {id} cannot be recorded, so it will be run again: {error}"
                )
            }
            Self::Rescued { id, from, state } => write!(f, "job {id} of the dead {from:?} is {state}"),
            Self::StoreFailed(error) => write!(f, "the store failed: {error}"),
        }
    }
}
