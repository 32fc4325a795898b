//! Models of the bit that locks a task, and of its number beside its extra.

use std::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use punctual_engine::Tick;

use super::{Header, Kind, Traits};
use crate::loom_support::explore;
use crate::task::{TaskId, Turn};

static NOBODY: Kind = Kind {
    erase: |_: NonNull<Header>| unreachable!("there is no task"),
    typify: || unreachable!("there is no task"),
    perform: |_, _| unreachable!("there is no task"),
    free: |_| unreachable!("there is no task"),
    needs_drop: false,
    layout: super::Layout::new::<Header>(),
};

struct Shared {
    header: Header,
    guarded: UnsafeCell<u32>,
}

fn add(shared: &Shared) {
    // Past the gate: the bit alone.
    let word = shared.header.lock_word();
    // SAFETY: it is what the lock guards, and loom tells of a race.
    shared.guarded.with_mut(|guarded| unsafe { *guarded += 1 });
    shared.header.unlock_word(word);
}

/// One thread comes to have to do with the task while another gives it a place: both are there in the end. A task that
/// was refused has two references, one of which may be with that other thread.
#[test]
fn a_number_is_never_written_over_an_extra() {
    explore(4, || {
        let place = Turn { deadline: Tick::from_nanos(5), id: TaskId(7) };
        let set: [(u32, fn(&Header, Turn)); 2] = [(3, Header::set_place), (2, Header::set_refused_place)];
        for (references, set) in set {
            extra_beside(references, |header| set(header, place), place);
        }
    });
}

fn extra_beside(references: u32, set: impl FnOnce(&Header), place: Turn) {
    let header = Arc::new(Header::new(Traits::default(), references, &NOBODY));
    let other = {
        let header = Arc::clone(&header);
        thread::spawn(move || header.lock().links_of_own(|_| ()))
    };
    set(&header);
    other.join().unwrap();
    assert!(header.extra().is_some() && header.plain_key().is_none());
    assert_eq!(header.place(), place);
}

#[test]
fn the_bit_lets_one_in_at_a_time() {
    explore(3, || {
        let header = Header::new(Traits::default(), 1, &NOBODY);
        let shared = Arc::new(Shared { header, guarded: UnsafeCell::new(0) });
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared))
        };
        add(&shared);
        other.join().unwrap();
        // SAFETY: the other thread is gone.
        shared.guarded.with(|guarded| assert_eq!(unsafe { *guarded }, 2));
    });
}
