//! Models of who stands aside: whoever does comes back when the others no longer get on, in whatever order they come and go.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::aside::Aside;
use super::ready::Ready;
use crate::loom_support::explore;
use crate::park::Parker;

fn worker(aside: &Arc<Aside>, ready: &Arc<Ready>) -> JoinHandle<()> {
    let (aside, ready) = (Arc::clone(aside), Arc::clone(ready));
    thread::spawn(move || {
        if aside.may_stand() {
            aside.stand(&Parker::current(), &ready);
        }
    })
}

/// Two workers that may stand aside, while a third takes so many tasks; all come back, as a deadlock would show.
fn all_come_back(taken: usize) {
    explore(3, move || {
        let (aside, ready) = (Arc::new(Aside::new()), Arc::new(Ready::new()));
        (0..3).for_each(|_| aside.arrive());
        let workers = [worker(&aside, &ready), worker(&aside, &ready)];
        (0..taken).for_each(|_| ready.count_taken());
        workers.map(|worker| worker.join().unwrap());
        assert_eq!(aside.at_work(), 3);
    });
}

#[test]
fn all_who_stand_aside_come_back_when_nothing_is_taken() {
    all_come_back(0);
}

#[test]
fn all_who_stand_aside_come_back_when_too_little_is_taken() {
    all_come_back(1);
}
