//! The suite that every store must pass: the invariants of `store/mod.rs`, one property each.
//!
//! Whoever writes a store implements [`Subject`] for it and lets [`conformance_tests!`](crate::conformance_tests)
//! make the tests:
//!
//! ```
//! use punctual::ManualClock;
//! use punctual_durable::{MemoryStore, Store, conformance::{LEASE, Subject}};
//! use std::sync::Arc;
//!
//! #[derive(Debug)]
//! struct InMemory(ManualClock, Arc<MemoryStore>);
//!
//! impl Subject for InMemory {
//!     fn store(&self) -> Arc<dyn Store> { self.1.clone() }
//!     fn clock(&self) -> &ManualClock { &self.0 }
//!     fn crash(&mut self) { self.0.advance(LEASE) }
//! }
//!
//! # #[allow(unused)]
//! fn in_memory() -> InMemory {
//!     let clock = ManualClock::new();
//!     InMemory(clock.clone(), Arc::new(MemoryStore::with_time(clock)))
//! }
//! punctual_durable::conformance_tests!(in_memory);
//! ```
//!
//! Properties panic when they do not hold.

mod accepting;
mod claiming;
mod counting;
mod following;
mod looking;
mod model;
mod moving;
mod reporting;
mod rescuing;
mod scheduling;
mod telling;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::ManualClock;

use crate::job::{Due, JobId, JobRecord, NewJob, NodeId};
use crate::store::{Exchange, Exchanged, Peek, Recorded, Report, Store, Tenure, Ticket, Verdict};
use crate::time::Timestamp;

pub use accepting::*;
pub use claiming::*;
pub use counting::*;
pub use following::*;
pub use looking::*;
pub use model::*;
pub use moving::*;
pub use reporting::*;
pub use rescuing::*;
pub use scheduling::*;
pub use telling::*;

/// The lease that nodes take in the suite.
pub const LEASE: Duration = Duration::from_secs(10);

/// A store under test.
pub trait Subject: fmt::Debug {
    /// The store, as it is now.
    fn store(&self) -> Arc<dyn Store>;

    /// What the store's time follows.
    fn clock(&self) -> &ManualClock;

    /// The process that has the store open dies, and enough time passes ([`LEASE`] at most) for its nodes to count
    /// as dead. From now on [`store`](Self::store) is what the next process opens.
    fn crash(&mut self);

    /// Checks whatever can be checked from within.
    fn verify(&self) {}
}

/// Makes a test of each property; the argument is a function that makes a new, empty [`Subject`].
#[macro_export]
macro_rules! conformance_tests {
    ($make:path) => {
        $crate::conformance_tests! { $make:
            acknowledged_jobs_survive_a_crash
            a_batch_with_one_bad_job_is_refused_as_a_whole
            a_unique_key_is_held_until_the_job_is_over
            a_conflict_is_settled_as_the_newcomer_asked
            a_key_twice_in_one_batch_is_one_job
            ids_are_never_given_twice
            a_sweep_takes_nothing_that_is_not_due
            a_job_is_claimed_once
            a_ticket_of_another_version_claims_nothing
            unknown_kinds_are_never_claimed
            lanes_share_the_room_and_none_starves
            equal_lanes_go_by_due_time_then_id
            paused_queues_are_left_alone_until_resumed
            a_queue_never_has_more_claims_than_its_limit
            a_node_without_a_lease_claims_nothing
            a_peek_shows_the_earliest_and_says_when_to_look_again
            a_peek_at_nothing_says_so
            done_is_recorded_once_and_frees_the_key
            a_failed_job_waits_and_dies_with_its_last_attempt
            snoozed_and_released_jobs_keep_their_attempts
            a_report_with_the_wrong_owner_or_fence_changes_nothing
            a_report_sent_twice_is_recorded_once
            a_cancel_before_the_claim_wins
            a_cancel_after_the_claim_reaches_the_owner
            one_stale_report_does_not_hurt_its_batch
            disowned_jobs_wait_again
            jobs_of_a_dead_node_are_rescued
            a_rescued_job_refuses_its_old_owner
            a_job_that_kills_its_nodes_dies
            a_job_does_not_die_of_what_another_may_have_done
            an_attempt_that_ends_clears_the_crashes
            jobs_of_a_living_node_are_never_rescued
            a_node_that_leaves_frees_its_jobs_at_once
            nodes_are_told_with_what_they_hold_and_whether_they_live
            a_dead_job_lives_again_unless_its_key_is_taken
            a_rescheduled_job_moves_and_others_do_not
            filters_find_what_they_describe
            purge_and_trim_forget_only_what_is_over
            hostile_text_comes_back_as_it_was
            what_nobody_may_be_called_is_not_found
            the_ends_of_time_are_ordinary_instants
            a_schedule_saved_again_is_the_same_schedule
            a_change_of_the_job_changes_nothing_about_when
            every_occurrence_happens_once
            overlapping_occurrences_follow_the_policy
            no_more_occurrences_are_alive_than_allowed
            a_job_may_be_due_later_than_its_occurrence
            a_schedule_stops_after_so_many_failures_in_a_row
            an_occurrence_knows_how_many_were_missed_before_it
            an_occurrence_replaces_the_one_before_it
            a_fixed_delay_counts_from_the_end_of_the_last
            a_paused_schedule_makes_nothing_until_it_is_resumed
            a_backfill_makes_the_occurrences_it_names
            schedules_are_seen_by_those_who_know_their_kind
            a_chain_goes_on_in_the_transaction_in_which_a_link_is_done
            follow_ups_are_accepted_once_and_only_from_the_holder
            a_chain_ends_with_a_link_that_is_not_done
            a_follow_up_whose_key_is_taken_blocks_nothing
            what_a_handler_says_is_kept_in_order_and_once
            whoever_does_not_hold_a_job_says_nothing_of_it
            a_log_is_forgotten_with_its_job
            a_copy_has_everything_once
            a_job_that_moved_in_is_a_job_like_others
            a_job_with_the_greatest_numbers_moves_in_and_blocks_nobody
            what_was_claimed_moves_in_as_lost
            what_was_completed_moves_in_as_done_and_what_follows_it_blocks_nothing
            a_fixed_delay_goes_on_whatever_became_of_its_occurrence_on_the_way
            a_page_that_cannot_be_taken_in_leaves_nothing
            what_nodes_count_is_added_up
            lines_tell_what_waits_where
            the_density_of_what_comes_is_seen
            a_check_finds_orphans_and_nothing_where_nothing_is
            every_answer_is_that_of_the_memory_store
        }
    };
    ($make:path: $($property:ident)*) => {
        $(
            #[test]
            fn $property() {
                $crate::conformance::$property(&mut $make());
            }
        )*
    };
}

/// The kind that nodes in the suite know.
const KIND: &str = "known";

fn kinds() -> Arc<[String]> {
    Arc::new([KIND.to_owned()])
}

fn job() -> NewJob {
    NewJob::new(KIND, "{}")
}

fn in_seconds(seconds: u64) -> Due {
    Due::After(Duration::from_secs(seconds))
}

/// What one node of the suite does, in few words.
struct Hand {
    store: Arc<dyn Store>,
    node: NodeId,
}

impl Hand {
    /// A node with a fresh lease.
    fn new(subject: &dyn Subject) -> Self {
        let hand = Self { store: subject.store(), node: NodeId::random() };
        hand.renew();
        hand
    }

    fn renew(&self) {
        assert_eq!(self.store.renew(self.node, LEASE).unwrap().tenure, Tenure::Active);
    }

    fn add(&self, job: NewJob) -> JobId {
        self.store.enqueue(vec![job]).unwrap()[0].id()
    }

    fn exchange(&self, exchange: Exchange) -> Exchanged {
        self.store.exchange(self.node, exchange).unwrap()
    }

    fn sweep(&self, most: usize) -> Vec<JobRecord> {
        self.exchange(Exchange::new(kinds()).sweep(most)).claimed
    }

    fn sweep_ids(&self, most: usize) -> Vec<JobId> {
        self.sweep(most).iter().map(|job| job.id).collect()
    }

    /// Adds a job that is due and claims it.
    fn hold(&self, job: NewJob) -> JobRecord {
        let id = self.add(job);
        let claimed = self.sweep(1).pop().expect("it is due");
        assert_eq!(claimed.id, id);
        claimed
    }

    fn report(&self, job: &JobRecord, verdict: Verdict) -> Recorded {
        let report = Report::new(job.id, job.fence, verdict);
        self.exchange(Exchange::new(kinds()).reports(vec![report])).recorded[0]
    }

    fn get(&self, id: JobId) -> JobRecord {
        self.store.job(id).unwrap().expect("it is known")
    }

    fn peek(&self, until: Timestamp, most: usize) -> (Vec<Ticket>, Option<Timestamp>) {
        let peeked = self.store.peek(&Peek::new(kinds(), until, most)).unwrap();
        (peeked.tickets, peeked.next)
    }
}
