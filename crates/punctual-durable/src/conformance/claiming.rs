//! Properties of peek, claim and sweep.

use std::time::Duration;

use super::{Hand, KIND, LEASE, Subject, in_seconds, job, kinds};
use crate::job::{Due, JobId, JobState, NewJob, NodeId};
use crate::lane::Lane;
use crate::store::{Exchange, Peek, QueueChange, Verdict};
use crate::time::Timestamp;

/// Invariant 5.
pub fn a_sweep_takes_nothing_that_is_not_due(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let id = hand.add(job().due(Due::After(Duration::from_micros(10))));
    subject.clock().advance(Duration::from_micros(9));
    assert_eq!(hand.sweep(9), [], "a microsecond too early");
    subject.clock().advance(Duration::from_micros(1));
    assert_eq!(hand.sweep_ids(9), [id]);
}

/// Invariant 3.
pub fn a_job_is_claimed_once(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let ids: Vec<JobId> = (0..10).map(|_| hand.add(job())).collect();
    let (tickets, _) = hand.peek(hand.store.now(), 10);
    let exchange = Exchange::new(kinds()).claims(tickets.clone()).sweep(10);
    let claimed = hand.exchange(exchange).claimed;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    for pair in claimed.windows(2) {
        assert!(pair[0].fence < pair[1].fence, "fences grow");
    }
    for job in &claimed {
        assert_eq!((job.state, job.owner, job.attempt), (JobState::Claimed, Some(hand.node), 1));
        assert_eq!(hand.get(job.id), *job, "what is handed out is what is stored");
    }
    assert_eq!(hand.exchange(Exchange::new(kinds()).claims(tickets).sweep(10)).claimed, []);
    subject.verify();
}

/// A hint that is out of date costs nothing.
pub fn a_ticket_of_another_version_claims_nothing(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let id = hand.add(job().due(in_seconds(5)));
    let (old, _) = hand.peek(Timestamp::MAX, 10);
    hand.store.reschedule(id, in_seconds(6)).unwrap();
    assert_eq!(hand.exchange(Exchange::new(kinds()).claims(old)).claimed, []);
    let (new, _) = hand.peek(Timestamp::MAX, 10);
    let twice = [new.clone(), new].concat();
    let claimed = hand.exchange(Exchange::new(kinds()).claims(twice)).claimed;
    assert_eq!(claimed.len(), 1, "a claim may come before the due time, and once");
    subject.verify();
}

/// However one asks.
pub fn unknown_kinds_are_never_claimed(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let id = hand.add(NewJob::new("foreign", "{}"));
    let other: std::sync::Arc<[String]> = std::sync::Arc::new(["foreign".to_owned()]);
    let seen = hand.store.peek(&Peek::new(other, Timestamp::MAX, 9)).unwrap().tickets;
    assert_eq!(seen[0].id, id);
    assert_eq!(hand.peek(Timestamp::MAX, 9), (vec![], None));
    assert_eq!(hand.exchange(Exchange::new(kinds()).claims(seen).sweep(9)).claimed, []);
    let nothing = Exchange::new(std::sync::Arc::new([])).sweep(9);
    assert_eq!(hand.exchange(nothing).claimed, []);
}

/// See [`share`](crate::share).
pub fn lanes_share_the_room_and_none_starves(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    for lane in Lane::ALL {
        hand.store.enqueue(vec![job().lane(lane); 100]).unwrap();
    }
    let claimed = hand.sweep(15);
    let count = |lane| claimed.iter().filter(|job| job.lane == lane).count();
    assert_eq!(Lane::ALL.map(count), [8, 4, 2, 1]);
    let rest = hand.exchange(Exchange::new(kinds()).sweep(1_000));
    assert!(rest.drained && rest.claimed.len() == 385, "and all there is when there is room");
}

/// The order of claims is the order of due times.
pub fn equal_lanes_go_by_due_time_then_id(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let now = hand.store.now();
    let at = |micros: i64| Due::At(Timestamp::from_micros(now.as_micros() - micros));
    let dues = [3, 1, 2, 3, 1, 2];
    let queues = ["a", "b", "c", "c", "b", "a"];
    let ids: Vec<JobId> =
        dues.iter().zip(queues).map(|(due, queue)| hand.add(job().due(at(*due)).queue(queue))).collect();
    let order = [0, 3, 2, 5, 1, 4].map(|n: usize| ids[n]);
    let (tickets, _) = hand.peek(now, 9);
    assert_eq!(tickets.iter().map(|ticket| ticket.id).collect::<Vec<_>>(), order);
    assert_eq!(hand.sweep_ids(4), order[..4]);
    assert_eq!(hand.sweep_ids(4), order[4..]);
}

/// Also for tickets that were seen before.
pub fn paused_queues_are_left_alone_until_resumed(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let paused = hand.add(job().queue("mail"));
    let free = hand.add(job());
    let (seen, _) = hand.peek(hand.store.now(), 9);
    hand.store.set_queue("mail", QueueChange::Pause("the server is down".to_owned())).unwrap();
    let (tickets, next) = hand.peek(Timestamp::MAX, 9);
    assert_eq!((tickets.len(), tickets[0].id, next), (1, free, None));
    let claimed = hand.exchange(Exchange::new(kinds()).claims(seen).sweep(9)).claimed;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [free]);
    let queues = hand.store.queues().unwrap();
    let mail = queues.iter().find(|queue| queue.name == "mail").unwrap();
    assert_eq!(mail.paused.as_ref().unwrap().1, "the server is down");
    hand.store.set_queue("mail", QueueChange::Resume).unwrap();
    assert_eq!(hand.sweep_ids(9), [paused]);
    assert!(hand.store.set_queue("", QueueChange::Resume).unwrap_err().is_invalid());
}

/// However one asks, and across lanes and kinds.
pub fn a_queue_never_has_more_claims_than_its_limit(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.store.set_queue("narrow", QueueChange::Limit(Some(3))).unwrap();
    for lane in Lane::ALL {
        hand.store.enqueue(vec![job().queue("narrow").lane(lane); 5]).unwrap();
    }
    let (tickets, _) = hand.peek(hand.store.now(), 100);
    assert_eq!(tickets.len(), 3, "a peek shows no more than can be claimed");
    let exchange = Exchange::new(kinds()).claims(tickets[..2].to_vec()).sweep(100);
    let claimed = hand.exchange(exchange);
    assert_eq!(claimed.claimed.len(), 3);
    assert_eq!(hand.sweep(100), [], "it is full");
    assert_eq!(hand.peek(Timestamp::MAX, 100), (vec![], None), "and nothing is to be waited for");
    hand.report(&claimed.claimed[0], Verdict::Done);
    assert_eq!(hand.sweep(100).len(), 1, "one has left");
    hand.store.set_queue("narrow", QueueChange::Limit(Some(0))).unwrap();
    hand.report(&claimed.claimed[1], Verdict::Done);
    assert_eq!(hand.sweep(100), []);
    hand.store.set_queue("narrow", QueueChange::Limit(None)).unwrap();
    assert_eq!(hand.sweep(100).len(), 16);
    subject.verify();
}

/// Self-fencing has a second line of defence.
pub fn a_node_without_a_lease_claims_nothing(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    hand.add(job());
    let stranger = Hand { store: subject.store(), node: NodeId::random() };
    assert_eq!(stranger.sweep(9), []);
    let (tickets, _) = hand.peek(hand.store.now(), 9);
    assert_eq!(stranger.exchange(Exchange::new(kinds()).claims(tickets)).claimed, []);
    assert_eq!(hand.sweep(9).len(), 1);
}

/// Peeks are complete: what they do not show is not before the time they name.
pub fn a_peek_shows_the_earliest_and_says_when_to_look_again(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    let now = hand.store.now();
    for seconds in [5, 1, 4, 2, 3] {
        hand.add(job().due(in_seconds(seconds)).queue(if seconds % 2 == 0 { "even" } else { "odd" }));
    }
    let second = |seconds| now.after(Duration::from_secs(seconds));
    let dues = |(tickets, next): (Vec<crate::store::Ticket>, Option<Timestamp>)| {
        (tickets.iter().map(|ticket| ticket.due).collect::<Vec<_>>(), next)
    };
    assert_eq!(dues(hand.peek(now, 9)), (vec![], Some(second(1))));
    assert_eq!(dues(hand.peek(second(3), 9)), (vec![second(1), second(2), second(3)], Some(second(4))));
    assert_eq!(dues(hand.peek(second(3), 2)), (vec![second(1), second(2)], Some(second(3))), "not all fit");
    assert_eq!(dues(hand.peek(second(9), 9)).1, None);
    assert_eq!(dues(hand.peek(second(9), 0)), (vec![], Some(second(1))));
    subject.clock().advance(LEASE / 2);
    hand.renew();
    assert_eq!(dues(hand.peek(second(1), 9)).0, [second(1)], "time does not change what is shown");
    for (after, shown, overdue) in [(0, 1..4, false), (1, 2..4, true), (3, 4..4, true)] {
        let peek = Peek::new(kinds(), second(3), 9).after(second(after));
        let peeked = hand.store.peek(&peek).unwrap();
        let tickets: Vec<_> = peeked.tickets.iter().map(|ticket| ticket.due).collect();
        assert_eq!(tickets, shown.map(second).collect::<Vec<_>>());
        assert_eq!((peeked.next, peeked.overdue), (Some(second(4)), overdue));
    }
}

/// An empty store is a store.
pub fn a_peek_at_nothing_says_so(subject: &mut dyn Subject) {
    let hand = Hand::new(subject);
    assert_eq!(hand.peek(Timestamp::MAX, 9), (vec![], None));
    let exchanged = hand.exchange(Exchange::new(kinds()).sweep(9));
    assert!(exchanged.drained && exchanged.claimed.is_empty());
    let empty = hand.exchange(Exchange::new(kinds()));
    assert!(empty.claimed.is_empty() && empty.recorded.is_empty());
    assert_eq!(hand.store.job(JobId::from_i64(77)).unwrap(), None);
    assert!(!KIND.is_empty());
}
