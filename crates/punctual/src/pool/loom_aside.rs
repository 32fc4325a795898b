//! Models of who stands aside: whoever does comes back when the others no longer get on, in whatever order they come and go.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::aside::{Aside, MOMENT};
use super::ready::Ready;
use crate::loom_support::explore;
use crate::park::Parker;

fn worker(aside: &Arc<Aside>, ready: &Arc<Ready>) -> JoinHandle<()> {
    let (aside, ready) = (Arc::clone(aside), Arc::clone(ready));
    thread::spawn(move || {
        if aside.may_stand() {
            let _ = aside.stand(&Parker::current(), &ready, MOMENT, || true);
        }
    })
}

/// Two workers that may stand aside, while a third does this; all come back, as a deadlock would show, and so many are at work.
fn all_come_back(third: impl Fn(&Aside, &Ready) + Send + Sync + 'static, at_work: usize) {
    explore(3, move || {
        let (aside, ready) = (Arc::new(Aside::new()), Arc::new(Ready::new()));
        (0..3).for_each(|_| aside.arrive());
        let workers = [worker(&aside, &ready), worker(&aside, &ready)];
        third(&aside, &ready);
        workers.map(|worker| worker.join().unwrap());
        assert_eq!(std::iter::from_fn(|| aside.may_stand().then_some(())).count(), at_work - 1);
    });
}

#[test]
fn all_who_stand_aside_come_back_when_nothing_is_taken() {
    all_come_back(|_, _| (), 3);
}

#[test]
fn all_who_stand_aside_come_back_when_too_little_is_taken() {
    all_come_back(|_, ready| ready.count_taken(), 3);
}

#[test]
fn all_who_stand_aside_come_back_when_the_last_at_work_leaves() {
    all_come_back(|aside, _| aside.depart(), 2);
}
