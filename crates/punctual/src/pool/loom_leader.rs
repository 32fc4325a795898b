//! Models of who waits for the clock, on a delay queue: takers are plain threads and there is nothing else to
//! explore. Every value that is put in and comes due is taken while somebody waits.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use crate::loom_support::{STEP, explore};
use crate::{Clock, DelayQueue, FutureTask, ManualClock};

type Queue = Arc<DelayQueue<u32>>;

fn queue() -> (ManualClock, Queue) {
    let clock = ManualClock::new();
    (clock.clone(), Arc::new(DelayQueue::with_clock(clock)))
}

fn taker(queue: &Queue) -> JoinHandle<u32> {
    let queue = Arc::clone(queue);
    thread::spawn(move || queue.take().unwrap())
}

fn joined(takers: [JoinHandle<u32>; 2]) -> [u32; 2] {
    let mut taken = takers.map(|taker| taker.join().unwrap());
    taken.sort_unstable();
    taken
}

#[test]
fn two_due_values_reach_two_takers() {
    explore(3, || {
        let (clock, queue) = queue();
        let takers = [taker(&queue), taker(&queue)];
        queue.push(clock.now(), 1);
        queue.push(clock.now(), 2);
        assert_eq!(joined(takers), [1, 2]);
        assert!(queue.is_empty());
    });
}

#[test]
fn one_due_value_after_the_other_needs_only_one_taker() {
    explore(3, || {
        let (clock, queue) = queue();
        let both = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || [queue.take().unwrap(), queue.take().unwrap()])
        };
        let other = {
            let (queue, clock) = (Arc::clone(&queue), clock.clone());
            thread::spawn(move || queue.push(clock.now(), 1))
        };
        queue.push(clock.now(), 2);
        other.join().unwrap();
        let mut taken = both.join().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn an_earlier_value_is_not_slept_through() {
    explore(3, || {
        let (clock, queue) = queue();
        let takers = [taker(&queue), taker(&queue)];
        queue.push(2 * STEP, 2);
        queue.push(STEP, 1);
        clock.jump(STEP);
        // The first comes out although the leader may have been waiting for the second.
        clock.jump(STEP);
        assert_eq!(joined(takers), [1, 2]);
    });
}

#[test]
fn an_earlier_value_comes_out_while_the_later_one_is_not_due() {
    explore(3, || {
        let (clock, queue) = queue();
        let early = taker(&queue);
        let pusher = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.push(2 * STEP, 2))
        };
        queue.push(STEP, 1);
        clock.jump(STEP);
        assert_eq!(early.join().unwrap(), 1);
        pusher.join().unwrap();
        assert_eq!(queue.drain(), [2]);
    });
}

#[test]
fn a_leader_whose_time_is_over_leaves_nobody_asleep() {
    explore(3, || {
        let (clock, queue) = queue();
        let until = clock.now().after(STEP);
        let impatient = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.take_until(Some(until)).unwrap())
        };
        let patient = taker(&queue);
        queue.push(2 * STEP, 1);
        clock.jump(STEP);
        clock.jump(STEP);
        if impatient.join().unwrap().is_some() {
            queue.push(STEP, 2);
            clock.jump(STEP);
        }
        patient.join().unwrap();
    });
}

#[test]
fn a_taker_that_is_interrupted_hands_on_what_it_was_called_for() {
    explore(3, || {
        let (clock, queue) = queue();
        let task = {
            let queue = Arc::clone(&queue);
            Arc::new(FutureTask::new(move || queue.take().is_ok()))
        };
        let interrupted = {
            let task = Arc::clone(&task);
            thread::spawn(move || task.run())
        };
        let other = taker(&queue);
        queue.push(clock.now(), 1);
        task.interrupt();
        interrupted.join().unwrap();
        // If the value went to the interrupted taker after all, there is another one for the other.
        queue.push(clock.now(), 2);
        other.join().unwrap();
    });
}
