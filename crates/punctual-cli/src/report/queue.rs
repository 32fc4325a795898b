//! Bytes on their way to our own output: bounded, and never a trap for a worker.
//!
//! Whoever reads our output may be slow, or have stopped reading. Events are short and are always taken. The output
//! of jobs waits for room, so that a slow reader slows a flood down and nothing is lost; but if no room comes
//! for as long as [`PATIENCE`], it is dropped and counted: a reader that is gone must not keep jobs from
//! ending.
//!
//! # Locks
//! One, for all of it; nothing is called under it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::process::Stream;

/// Output of jobs that may be on its way.
const ROOM: usize = 1 << 20;
/// Events that may be on their way. Nobody reads them when there are so many.
const ROOM_FOR_EVENTS: usize = 16 << 20;
/// How long a job's output waits for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to the printer.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something came, or it was closed.
    filled: Condvar,
    /// Something went, or all has gone.
    emptied: Condvar,
}

#[derive(Default, Debug)]
struct State {
    parcels: VecDeque<Parcel>,
    /// Of all parcels together, those that are being written included.
    bytes: usize,
    /// Counts what has been written: if it does not move, nobody reads.
    written: u64,
    /// Bytes of output that found no room, here or where they went.
    dropped: u64,
    is_stuck: bool,
    is_closed: bool,
    /// The printer has written its last.
    is_over: bool,
}

/// Some lines for one of our outputs.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) stream: Stream,
    pub(crate) text: Vec<u8>,
}

/// What the printer gets.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Parcels, and how many bytes were dropped since the last delivery.
    Some(Vec<Parcel>, u64),
    /// Nothing came in time.
    Nothing,
    /// It is closed and empty.
    Closed,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed by single steps that do not panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event in, at once.
    pub(crate) fn event(&self, text: Vec<u8>) {
        let mut state = self.lock();
        if state.bytes > ROOM_FOR_EVENTS || state.is_closed {
            state.dropped += text.len() as u64;
            return;
        }
        state.put(Parcel { stream: Stream::Out, text });
        drop(state);
        self.filled.notify_one();
    }

    /// Puts output of a job in, when there is room.
    pub(crate) fn output(&self, parcel: Parcel) {
        let mut state = self.lock();
        while state.bytes > ROOM && !state.is_stuck && !state.is_closed {
            let before = state.written;
            let waited = self.emptied.wait_timeout(state, PATIENCE);
            let (guard, is_over) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.is_stuck |= is_over.timed_out() && state.bytes > ROOM && state.written == before;
        }
        if state.bytes > ROOM || state.is_closed {
            state.dropped += parcel.text.len() as u64;
            return;
        }
        state.put(parcel);
        drop(state);
        self.filled.notify_one();
    }

    /// Everything there is; waits for something as long as `patience`, or for ever.
    pub(crate) fn take(&self, patience: Option<Duration>) -> Delivery {
        let mut state = self.lock();
        if state.parcels.is_empty() && !state.is_closed {
            let nothing = |state: &mut State| state.parcels.is_empty() && !state.is_closed;
            state = match patience {
                Some(patience) => {
                    let waited = self.filled.wait_timeout_while(state, patience, nothing);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.filled.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner),
            };
        }
        if state.parcels.is_empty() {
            return if state.is_closed { Delivery::Closed } else { Delivery::Nothing };
        }
        let dropped = std::mem::take(&mut state.dropped);
        Delivery::Some(std::mem::take(&mut state.parcels).into(), dropped)
    }

    /// Tells that so many bytes have been written.
    pub(crate) fn wrote(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.written += 1;
        state.is_stuck = false;
        drop(state);
        self.emptied.notify_all();
    }

    /// Tells that so many bytes could not be written, and were given up.
    pub(crate) fn lost(&self, bytes: u64) {
        if bytes > 0 {
            self.lock().dropped += bytes;
        }
    }

    /// Tells that nothing more will be written.
    pub(crate) fn over(&self) {
        self.lock().is_over = true;
        self.emptied.notify_all();
    }

    /// Takes nothing more, and waits until everything has been written, or nothing is for `patience`.
    pub(crate) fn close(&self, patience: Duration) {
        let mut state = self.lock();
        state.is_closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
        while !state.is_over {
            let before = state.written;
            let waited = self.emptied.wait_timeout(state, patience);
            let (guard, is_over) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if is_over.timed_out() && state.written == before {
                return;
            }
        }
    }
}

impl State {
    fn put(&mut self, parcel: Parcel) {
        self.bytes += parcel.text.len();
        self.parcels.push_back(parcel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(size: usize) -> Parcel {
        Parcel { stream: Stream::Err, text: vec![b'x'; size] }
    }

    fn taken(queue: &Queue) -> (usize, u64) {
        match queue.take(Some(Duration::ZERO)) {
            Delivery::Some(parcels, dropped) => {
                (parcels.iter().map(|parcel| parcel.text.len()).sum(), dropped)
            }
            _ => (0, 0),
        }
    }

    #[test]
    fn output_waits_for_room_and_nothing_is_lost() {
        let queue = Queue::default();
        const PARCELS: usize = 40;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..PARCELS).for_each(|_| queue.output(parcel(ROOM / 4))));
            let mut bytes = 0;
            while bytes < PARCELS * (ROOM / 4) {
                if let Delivery::Some(parcels, dropped) = queue.take(None) {
                    let size = parcels.iter().map(|parcel| parcel.text.len()).sum();
                    assert!(size <= 2 * ROOM, "bounded");
                    assert_eq!(dropped, 0);
                    bytes += size;
                    queue.wrote(size);
                }
            }
        });
    }

    #[test]
    fn an_event_is_taken_however_full_it_is_with_output() {
        let queue = Queue::default();
        queue.output(parcel(ROOM + 1));
        queue.event(b"event".to_vec());
        assert_eq!(taken(&queue), (ROOM + 6, 0));
    }

    #[test]
    fn what_comes_after_the_end_is_dropped_and_the_end_is_told() {
        let queue = Queue::default();
        queue.event(b"last".to_vec());
        queue.close(Duration::ZERO);
        queue.event(b"too late".to_vec());
        queue.output(parcel(3));
        assert_eq!(taken(&queue), (4, 11));
        assert!(matches!(queue.take(None), Delivery::Closed));
    }

    #[test]
    fn a_close_returns_when_everything_has_been_written() {
        let queue = Queue::default();
        queue.event(b"text".to_vec());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(matches!(queue.take(None), Delivery::Some(..)));
                queue.wrote(4);
                assert!(matches!(queue.take(None), Delivery::Closed));
                queue.over();
            });
            queue.close(Duration::from_secs(3600));
        });
    }
}
