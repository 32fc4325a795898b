//! The timer queue: the earliest of many entries, always exact, never a pause.
//!
//! An entry is a value with a deadline and a number. The queue gives entries out in order of (deadline, number);
//! the caller numbers them, usually in order of arrival, so that equal deadlines leave first in, first out. Any
//! entry can be cancelled by its key, and the next deadline can be read at any time without changing anything.
//!
//! # Structure
//! ```text
//!              earliest                                         limit                          latest
//! ramp         [ascending, ≤ 288] [ascending] …  wherever its entries are
//! front        [sorted, ≤ 256]     floor                          │
//! leaves                       [unsorted, ≤ 288] […] …            │
//! line                               in order, about …            │
//! far                                                             │  in the slab, in no order
//!
//! slab         deadline, number, value, generation, link, in chunks of 512; a link names the leaf that has the stamp
//! ```
//! What is compared and moved are *stamps*: deadline, number and key, 24 bytes that need no look at the slot.
//! The few earliest are in the *front*, sorted, and served from its end. Behind it are *leaves*: small unsorted
//! piles, each for a range of orders that begins at its bound. The [`index`] finds the leaf of an order. What is above the *limit*, and
//! that is nearly all, is [`far`]: it has no stamp, and is in its slot alone. As near entries leave,
//! the earliest of the far ones are [`sift`]ed out, a little in every call, [sorted](sorter) by about when they are due, and stand in
//! [`line`] from then on, until the front wants them. What comes meanwhile, and is not above the limit, goes to the leaves. All but what is
//! far is called *near*: some thousands (up to 130,000 where they are brought ahead of time) and between a 32nd and a quarter of
//! all.
//!
//! Beside all these is the [`ramp`]: what comes in order is kept in order, and never searched a place for.
//!
//! So an insert takes a slot, and for one in sixteen a search and a push besides; a pop pops; a cancel empties
//! the slot in the [`slab`] and leaves the stamp or the mark, if there is one, where it is, *dead*, to be dropped when its leaf is next
//! looked at. What is cancelled while it is far, as most timers are, has never been anywhere else than in its slot.
//!
//! There is no wheel, no base and no horizon: a deadline in the past, at the end of time or below what was
//! already given out is like any other. Time plays no part at all: the queue compares, the caller knows when.
//!
//! # Invariants
//! 1. The front is sorted, latest first, and holds all that is below the first bound and nothing above it.
//! 2. The last stamp of the front is live, unless there is none; so is the first of the ramp. So the next deadline is the
//!    earlier of two.
//! 3. A leaf of the index holds what is at or above its bound, below the next and not above the limit.
//! 4. Every leaf has a live stamp, and at most `SLACK` more dead ones than live. So behind the front, which is
//!    short, the earliest live stamp is in the first leaf, and leaves are at most a constant times what lives.
//! 5. Every entry has one slot; and one live stamp, whose leaf (or the front) its link names, unless it is far or in line.
//! 6. No key finds an entry other than its own, however often the slot was reused.
//! 7. Nothing that is far, or in line, belongs before what the front has: it is above the *floor*, and the front is not.
//!
//! What is on the ramp does not count in these, but in those of the ramp.
//!
//! # Protocol
//! - *Insert* above all that is on the ramp goes to its end. Otherwise, above the limit, it gets a slot and that is all. Below the first bound it goes into the front, by binary search; a
//!   full front gives its later half to a new leaf. Elsewhere it goes to the end of its leaf. A full leaf drops its
//!   dead if they are many; or, if the new order is above all it has, leaves it to the next leaf or to a fresh one, so
//!   that ascending arrivals fill leaves to the brim; or splits at the median. If too much is near then, the entries
//!   of the last leaf of the index become far ones, and the limit is below them.
//! - *Cancel* marks one more stamp of the linked leaf dead, if it is not far. If that breaks 4 the leaf is purged, merged with a
//!   small neighbour, or dropped; if it breaks 2 the front is *settled*: dead stamps go from
//!   its end.
//! - *Pop* takes the first of the ramp, or the front's last stamp, and settles. A front that has run empty takes the earliest 128 stamps of
//!   the first leaf (or all, if few more are there) and sorts them, or calls as many who are next in line. Taking a stamp writes its link, and this pass
//!   also brings the slots that will be needed next into the cache, all misses at once; calling somebody, the entry itself.
//! - *Each of the three* (of several inserts, or cancels of what is far, in a row the last will do) then takes a step of the sifting, if there is one or there should be.
//!
//! # Cost
//! With n entries, c = 288 stamps in a leaf:
//!
//! | | usual | at worst, in one call |
//! |---|---|---|
//! | insert | one slot; if near, two short searches and a push | one leaf scanned and split, another stowed: 3.5 c stamps, 192 places of the index |
//! | cancel | one slot; if near, one counter; if in line, two short searches | one leaf purged and merged; or as pop |
//! | pop | one slot | half a front dropped, some called to leaves that are split, a leaf purged and sorted: about 4 c stamps |
//! | a step of the sifting | nothing | 384 slots looked at, a leaf split: 3 c |
//! | next deadline | one load | one load |
//!
//! A call that has done 384 by itself takes no step, so none does more than 1,500. By 4 and the argument in [`sift`]
//! the worst does not depend on n, except for some short lists that grow with it: of groups, one for some 20,000 entries in
//! leaves, of chunks, 48 bytes for 512, of when the first far entry of each chunk is due, 4 bytes, and of sheets of marks, 40 bytes for 256. Nothing else is ever copied to
//! grow. A purge drops about half of what it looks at, so it costs each of the cancels before it two looks.
//!
//! Memory for an entry: in the slab 24 bytes and the value; 24 bytes of stamp in leaves that are 55 to 100 % full, if it is there; and
//! 12 bytes if it is in line, 24 while that is being put in order. A chunk of the slab stays as long as one of its tenants.
//!
//! # Paths not taken
//! Times are medians of five interleaved rounds in one program on a busy two-core machine: read them as ratios,
//! and differences below a third as none. Those of the wheel are from prototypes in another run.
//!
//! - *A radix wheel on the bits of (deadline xor base).* Its inserts were cheaper, 22 to 76 ns. But when its base
//!   enters a wide slot everything in it moves at once: 306,176 entries in one pop at a million pending. Splitting
//!   slots ahead of time still left 1,249 and doubled the price of a hold (67–74 → 141–166 ns at 100,000). It needs
//!   a side heap for orders below its base, and cannot tell its minimum without a scan.
//! - *A heap.* See [`ReferenceHeap`]. Random inserts cost the same there, 25 to 30 ns. But every pop is a walk through
//!   memory, and firing is what makes a timer late: pop and insert together 246 against some 150 ns at 100,000
//!   entries, 735 against some 250 at a million.
//! - *Sorted leaves, a B-tree:* each insert moves half a leaf, and most timers are cancelled before anyone asks
//!   for their order.
//! - *Removing a cancelled stamp at once:* needs its position in the slot, written on every move of every stamp.
//!   The link to a leaf is written only when a stamp changes leaves, about once in a life.
//! - *No link, and one count of the dead for all:* cancel touches one line less, but a run of dead leaves behind
//!   the front can be as long as the queue, and the pop that meets it pauses.
//! - *Nothing far:* the index finds a leaf for every entry at once. Processor time on a machine with far too much to
//!   do, medians, without → with far entries, which were in leaves then. At a million entries: insert 158 → 47 ns, pop 74 → 216, pop and insert
//!   together 346 → 313, cancel and insert 593 → 448; deadlines in order, insert and pop, 86 → 77. At 100,000, in
//!   instructions: insert 458 → 274, pop 326 → 838, pop and insert 795 → 947. What fires pays when it fires what it did
//!   not pay before, and a little more; what is cancelled, as most timers are, never does.
//! - *An inbox:* inserts gathered in an unsorted pile and moved into their leaves 128 at a time, so that cache
//!   misses overlap. Pop and insert at a million entries 371 → 291 ns, perhaps a gain; nothing at 100,000 or for
//!   inserts alone. What is far is an inbox that is emptied only of what is needed soon.

mod coarse;
mod far;
mod front;
mod heap;
mod index;
mod leaf;
mod line;
mod ramp;
mod sift;
mod slab;
mod sorter;
mod stamp;
mod tenant;
#[cfg(test)]
mod tests;
mod verify;

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::{TaskKey, Tick};
use coarse::Coarse;
use far::Far;
use front::SHORT;
use index::{Index, LeafId};
use leaf::{LEAF, Leaf};
use line::Line;
use ramp::Ramp;
use slab::{NONE, Slab};
use stamp::{Order, Stamp, deadline, order};

pub use heap::ReferenceHeap;
pub use tenant::{Stored, Tenant};

/// Which of those that come next a pop shows: it is wanted some hundred nanoseconds later, which is what a look at memory takes.
const AHEAD: usize = 5;

/// In a call that has done so much work no more entries are cancelled.
const ENOUGH_WORK: u64 = if cfg!(test) { 20 } else { 768 };

/// In chunks of 512.
type Values<E> = Slab<E, { if cfg!(test) { 3 } else { 9 } }>;
/// In chunks of 64.
type Leaves = Slab<Leaf, { if cfg!(test) { 2 } else { 6 } }>;

/// A queue of values with deadlines that gives the earliest first.
///
/// Entries leave in order of (deadline, number), exactly, whatever was inserted when. No call takes a time that
/// grows with the number of entries, except those that say so. The queue reads no clock: `now` is an argument.
///
/// ```
/// use core::time::Duration;
/// use punctual_engine::{Tick, TimerQueue};
///
/// let start = Tick::ZERO;
/// let second = Duration::from_secs(1);
/// let mut queue = TimerQueue::new();
/// queue.insert(start.after(2 * second), 0, "tea");
/// let alarm = queue.insert(start.after(second), 1, "alarm");
/// queue.insert(start.after(2 * second), 2, "biscuits");
///
/// assert_eq!(queue.next_deadline(), Some(start.after(second)));
/// assert_eq!(queue.cancel(alarm), Some("alarm"));
/// assert_eq!(queue.cancel(alarm), None);
///
/// assert_eq!(queue.pop_due(start.after(second)), None);
/// let now = start.after(3 * second);
/// let due: Vec<_> = std::iter::from_fn(|| queue.pop_due(now)).map(|fired| fired.value).collect();
/// assert_eq!(due, ["tea", "biscuits"]);
/// ```
pub struct TimerQueue<T, E = Stored<T>> {
    /// The earliest stamps, latest first, so that the earliest is the last.
    front: Vec<Stamp>,
    /// The leaf to which the front's tenants are linked; `NONE` until there was one.
    front_leaf: LeafId,
    index: Index,
    far: Far,
    line: Line,
    ramp: Ramp,
    leaves: Leaves,
    slab: Values<E>,
    /// Stamps looked at or moved so far.
    work: u64,
    values: PhantomData<T>,
}

/// An entry that has left the queue because its turn had come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired<T> {
    /// When it was due.
    pub deadline: Tick,
    /// Its number among entries of the same deadline.
    pub number: u64,
    /// What was queued.
    pub value: T,
}

/// Where an entry was that has been cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Was {
    OnRamp,
    Near,
    Far,
}

/// An entry that is in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a, T> {
    /// Its key.
    pub key: TaskKey,
    /// When it will be due.
    pub deadline: Tick,
    /// Its number among entries of the same deadline.
    pub number: u64,
    /// What is queued.
    pub value: &'a T,
}

/// How much memory a queue holds, for tests.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Stamps for which there is memory.
    pub stamps: usize,
    /// Values for which there is memory.
    pub slots: usize,
    /// Leaves for which there is memory.
    pub leaves: usize,
    /// Marks for which there is memory.
    pub marks: usize,
}

impl<T> TimerQueue<T> {
    /// An empty queue. It allocates nothing before the first insert.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_tenants()
    }
}

impl<T, E> TimerQueue<T, E> {
    /// An empty queue that keeps its entries in another way than as [`Stored`]: see [`Tenant`].
    #[must_use]
    pub const fn with_tenants() -> Self {
        Self {
            front: Vec::new(),
            front_leaf: NONE,
            index: Index::new(),
            far: Far::new(),
            line: Line::new(),
            ramp: Ramp::new(),
            leaves: Slab::new(),
            slab: Slab::new(),
            work: 0,
            values: PhantomData,
        }
    }

    /// How many entries there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// Queues `value` and returns the key under which it can be cancelled.
    ///
    /// `number` decides between equal deadlines: the lower leaves first. The caller chooses it, and may insert
    /// in any order, also below what has left before. No two entries in the queue should agree in deadline *and*
    /// number; if they do, either may leave first, and nothing else goes wrong.
    ///
    /// ```
    /// use punctual_engine::{Tick, TimerQueue};
    ///
    /// let mut queue = TimerQueue::new();
    /// let noon = Tick::from_nanos(12);
    /// queue.insert(noon, 8, "second");
    /// queue.insert(noon, 7, "first");
    /// assert_eq!(queue.pop().map(|fired| fired.value), Some("first"));
    /// queue.insert(Tick::ZERO, 9, "late, but earlier than all");
    /// assert_eq!(queue.next_deadline(), Some(Tick::ZERO));
    /// ```
    ///
    /// # Panics
    /// If there are about 2³² entries already.
    #[inline]
    pub fn insert(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let key = self.insert_untended(deadline, number, value);
        self.upkeep();
        key
    }

    /// [`insert`](Self::insert) without its share of the upkeep, for a few in a row: after at most 64 of them
    /// [`upkeep`](Self::upkeep) is to be called. So nobody who inserts a handful waits for a handful of steps. Whoever
    /// inserts many without it makes a later call long, and breaks nothing else.
    ///
    /// # Panics
    /// As `insert`.
    #[inline]
    pub fn insert_untended(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let order = order(deadline, number);
        if order > self.ramp.last {
            return self.insert_on_ramp(deadline, number, value);
        }
        self.miss_ramp();
        self.insert_behind(deadline, number, value)
    }

    /// Queues what does not go on the ramp.
    #[inline(always)]
    fn insert_behind(&mut self, deadline: Tick, number: u64, value: T) -> TaskKey {
        let order = order(deadline, number);
        if order > self.far.limit {
            return self.insert_far(deadline, number, value);
        }
        let id = self.near_leaf(order);
        let key = self.slab.insert(E::new(deadline, number, value), id);
        self.lay(id, Stamp { deadline, number, key });
        self.stow_if_high();
        key
    }

    /// The share of the upkeep of one insert, or of the few since the last.
    #[inline]
    pub fn upkeep(&mut self) {
        self.tend();
    }

    /// The leaf, or the front, for an order that is not above the limit; it has room.
    #[inline(always)]
    fn near_leaf(&mut self, order: Order) -> LeafId {
        match self.index.find(order) {
            Some((place, leaf)) if self.leaves.tenant(leaf).len() == LEAF => {
                self.make_room(place, leaf, order)
            }
            Some((_, leaf)) => leaf,
            // What is far, or in line, may come before it.
            None if order > self.floor() => self.leave_to_leaves(order),
            None if self.front.len() < SHORT && self.front_leaf != NONE => self.front_leaf,
            None => self.make_front_room(order),
        }
    }

    /// Adds a stamp to a leaf that is near, or to the front.
    #[inline(always)]
    fn lay(&mut self, id: LeafId, stamp: Stamp) {
        if id == self.front_leaf {
            let at = self.front.partition_point(|other| other.order() > stamp.order());
            self.front.insert(at, stamp);
        } else {
            self.leaves.tenant_mut(id).push(stamp);
        }
    }

    /// Takes an entry out before its turn; `None` if it has left already.
    ///
    /// ```
    /// # use punctual_engine::{Tick, TimerQueue};
    /// let mut queue = TimerQueue::new();
    /// let key = queue.insert(Tick::MAX, 0, 'x');
    /// assert!(queue.contains(key));
    /// assert_eq!(queue.cancel(key), Some('x'));
    /// queue.insert(Tick::MAX, 1, 'y');
    /// assert_eq!(queue.cancel(key), None, "a key never finds another entry");
    /// ```
    #[inline]
    pub fn cancel(&mut self, key: TaskKey) -> Option<T> {
        let (value, was) = self.cancel_untended(key)?;
        if was != Was::OnRamp {
            self.tend();
        }
        Some(value)
    }

    #[inline(always)]
    fn cancel_untended(&mut self, key: TaskKey) -> Option<(T, Was)> {
        let (tenant, id) = self.slab.remove(key)?;
        let value = tenant.into_value();
        let due = Coarse::from_link(id);
        if due != Coarse::NEVER {
            // Whoever stands in line counts as near.
            let was = if self.line.has(due) { Was::Near } else { Was::Far };
            self.leave_far(key, due);
            return Some((value, was));
        }
        let leaf = self.leaves.tenant_mut(id);
        leaf.dead += 1;
        if leaf.is_page {
            self.leave_ramp(id, key);
            return Some((value, Was::OnRamp));
        }
        if id == self.front_leaf {
            if self.front.last().is_some_and(|stamp| stamp.key == key) {
                self.settle();
            }
        } else if leaf.is_unfit() {
            self.thin(id);
        }
        Some((value, Was::Near))
    }

    /// [`cancel`](Self::cancel) for several at once, each of which `taken` gets; those that have left already are passed over.
    /// Their slots are brought into the cache together, and those that are far share the upkeep, so this is cheaper than one by
    /// one.
    ///
    /// Says how many of the keys it has seen to, the first ones. If each of a few should be dear, as may happen, it leaves the
    /// others for another time, lest this call be long.
    ///
    /// ```
    /// # use punctual_engine::{Tick, TimerQueue};
    /// let mut queue = TimerQueue::new();
    /// let keys = [5, 7, 9].map(|nanos| queue.insert(Tick::from_nanos(nanos), 0, nanos));
    /// queue.pop();
    /// let mut gone = Vec::new();
    /// let seen = queue.cancel_each(&keys, |value| gone.push(value));
    /// assert_eq!((seen, gone, queue.len()), (3, vec![7, 9], 0));
    /// ```
    #[must_use]
    pub fn cancel_each(&mut self, keys: &[TaskKey], mut taken: impl FnMut(T)) -> usize {
        // A look at all of them before anything is done: the misses overlap.
        if keys.iter().filter(|key| self.slab.is_live(**key)).count() == 0 {
            return keys.len();
        }
        let (before, mut seen) = (self.work(), 0);
        for key in keys {
            if self.work() - before > ENOUGH_WORK {
                break;
            }
            seen += 1;
            if let Some((value, was)) = self.cancel_untended(*key) {
                if was == Was::Near {
                    self.tend();
                }
                taken(value);
            }
        }
        self.tend();
        seen
    }

    /// Where the entry is in memory, or was: for whoever is about to cancel many, and asks the processor for all of them first.
    /// Not to be followed; null where there is nothing.
    ///
    /// ```
    /// # use punctual_engine::{TaskKey, Tick, TimerQueue};
    /// let mut queue = TimerQueue::new();
    /// let key = queue.insert(Tick::from_nanos(1), 0, ());
    /// assert!(!queue.place_of(key).is_null() && queue.place_of(TaskKey::NONE).is_null());
    /// ```
    #[inline]
    #[must_use]
    pub fn place_of(&self, key: TaskKey) -> *const () {
        self.slab.place_of(key)
    }

    /// Whether the entry is in the queue.
    #[must_use]
    pub fn contains(&self, key: TaskKey) -> bool {
        self.slab.get(key).is_some()
    }

    /// The value of an entry that is in the queue.
    #[must_use]
    pub fn get(&self, key: TaskKey) -> Option<&T> {
        self.slab.get(key).map(E::value)
    }

    /// When the earliest entry is due; `None` if the queue is empty. Always exact.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        // Both are at hand, so neither a page nor a slot is looked at.
        if self.is_on_ramp() {
            Some(deadline(self.ramp.first))
        } else {
            self.front.last().map(|stamp| stamp.deadline)
        }
    }

    /// When the entry behind the earliest is due, where that is at hand: for whoever wants to be there in time for it. It may be
    /// too early, of one that has been cancelled, but not too late. `None` if there is none, or nobody knows without a search.
    ///
    /// ```
    /// # use punctual_engine::{Tick, TimerQueue};
    /// let mut queue = TimerQueue::new();
    /// for nanos in [3, 1, 2] {
    ///     queue.insert(Tick::from_nanos(nanos), 0, ());
    /// }
    /// assert_eq!(queue.second_deadline(), Some(Tick::from_nanos(2)));
    /// ```
    #[must_use]
    pub fn second_deadline(&self) -> Option<Tick> {
        let (first, ramp) = (self.front.last(), self.ramp.live > 0);
        if self.is_on_ramp() {
            let page = self.leaves.tenant(*self.ramp.pages.front()?);
            let behind = match page.stamps.get(self.ramp.served + 1) {
                Some(stamp) => Some(stamp.deadline),
                None if self.ramp.live > 1 => return None,
                None => None,
            };
            return behind.into_iter().chain(first.map(|stamp| stamp.deadline)).min();
        }
        let behind = match self.front.len().checked_sub(2) {
            Some(at) => Some(self.front[at].deadline),
            // What is in the leaves is in no order.
            None if self.len() > self.front.len() + self.ramp.live => return None,
            None => None,
        };
        behind.into_iter().chain(ramp.then(|| deadline(self.ramp.first))).min()
    }

    /// The earliest stamp.
    #[inline]
    fn first(&self) -> Option<&Stamp> {
        if self.is_on_ramp() {
            let page = self.leaves.tenant(*self.ramp.pages.front()?);
            page.stamps.get(self.ramp.served)
        } else {
            self.front.last()
        }
    }

    /// Whether the earliest entry is on the ramp.
    #[inline]
    fn is_on_ramp(&self) -> bool {
        self.ramp.live > 0 && self.front.last().is_none_or(|stamp| self.ramp.first < stamp.order())
    }

    /// The earliest entry.
    #[must_use]
    pub fn peek(&self) -> Option<(TaskKey, Tick, u64, &T)> {
        let stamp = self.first()?;
        Some((stamp.key, stamp.deadline, stamp.number, self.get(stamp.key)?))
    }

    /// Takes out the earliest entry, if it is due at `now`: if its deadline is not after it.
    #[inline]
    pub fn pop_due(&mut self, now: Tick) -> Option<Fired<T>> {
        if self.next_deadline()? <= now { self.pop() } else { None }
    }

    /// Takes out the earliest entry, due or not.
    #[inline]
    pub fn pop(&mut self) -> Option<Fired<T>> {
        self.pop_and_show(|_| ())
    }

    /// [`pop`](Self::pop), which also shows a value that will most likely leave soon, where one is at hand: for whoever wants it
    /// in the cache by then. It is one of the next few, or the very next if there are not so many.
    ///
    /// ```
    /// use punctual_engine::{Tick, TimerQueue};
    ///
    /// let mut queue = TimerQueue::new();
    /// queue.insert(Tick::from_nanos(1), 0, "tea");
    /// queue.insert(Tick::from_nanos(2), 1, "biscuits");
    /// let mut next = None;
    /// let fired = queue.pop_and_show(|value| next = Some(*value));
    /// assert_eq!((fired.map(|fired| fired.value), next), (Some("tea"), Some("biscuits")));
    /// ```
    #[inline]
    pub fn pop_and_show(&mut self, show: impl FnOnce(&T)) -> Option<Fired<T>> {
        if self.is_on_ramp() {
            return self.pop_ramp(show);
        }
        let Stamp { deadline, number, key } = self.front.pop()?;
        let (tenant, _) = self.slab.remove(key)?;
        match self.front.last() {
            Some(next) if self.slab.is_live(next.key) => {
                let ahead = self.front.len().checked_sub(AHEAD).map_or(next, |at| &self.front[at]);
                if let Some(tenant) = self.slab.get(ahead.key) {
                    show(tenant.value());
                }
            }
            _ => self.settle(),
        }
        self.tend();
        Some(Fired { deadline, number, value: tenant.into_value() })
    }

    /// Takes out all entries, the earliest first, and gives all memory back. Takes time for each entry.
    ///
    /// ```
    /// # use punctual_engine::{Tick, TimerQueue};
    /// let mut queue = TimerQueue::new();
    /// for nanos in [3, 1, 2] {
    ///     queue.insert(Tick::from_nanos(nanos), 0, nanos);
    /// }
    /// assert_eq!(queue.drain().iter().map(|fired| fired.value).collect::<Vec<_>>(), [1, 2, 3]);
    /// assert!(queue.is_empty());
    /// ```
    pub fn drain(&mut self) -> Vec<Fired<T>> {
        let mut all = Vec::with_capacity(self.len());
        all.extend(core::iter::from_fn(|| self.pop()));
        let last = core::mem::replace(&mut self.front_leaf, NONE);
        // Nothing lives any more, so there is one page at most.
        for id in self.ramp.pages.drain(..).chain((last != NONE).then_some(last)) {
            let key = self.leaves.key(id);
            self.leaves.remove(key);
        }
        (self.front, self.ramp, self.far, self.line) = (Vec::new(), Ramp::new(), Far::new(), Line::new());
        self.leaves.release();
        self.slab.release();
        all
    }

    /// All entries, in no particular order. Takes time for each.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_, T>> {
        self.slab.iter().map(|(key, tenant)| Entry {
            key,
            deadline: tenant.deadline(),
            number: tenant.number(),
            value: tenant.value(),
        })
    }

    /// How many entries are due at `now`. Takes time for every few hundred of them, not for each; but for each entry
    /// that is far behind, if `now` is so late that some of those are due.
    ///
    /// ```
    /// # use punctual_engine::{Tick, TimerQueue};
    /// let mut queue = TimerQueue::new();
    /// for nanos in 0..1_000 {
    ///     queue.insert(Tick::from_nanos(nanos), 0, ());
    /// }
    /// assert_eq!(queue.due_count(Tick::from_nanos(499)), 500);
    /// ```
    #[must_use]
    pub fn due_count(&self, now: Tick) -> usize {
        let last = order(now, u64::MAX);
        let front = self.front.partition_point(|stamp| stamp.order() > last);
        let mut due = self.front[front..].iter().filter(|stamp| self.slab.is_live(stamp.key)).count();
        let is_due = |stamp: &Stamp| stamp.deadline <= now && self.slab.is_live(stamp.key);
        let mut leaves = self.index.iter().map_while(|(bound, id)| (bound <= last).then_some(id)).peekable();
        while let Some(id) = leaves.next() {
            let leaf = self.leaves.tenant(id);
            due += if leaves.peek().is_some() {
                leaf.live()
            } else {
                leaf.stamps.iter().filter(|stamp| is_due(stamp)).count()
            };
        }
        let mut pages = self.ramp.pages.iter().map(|&id| self.leaves.tenant(id)).peekable();
        while let Some(page) = pages.next() {
            due += match pages.peek() {
                Some(next) if next.bound <= last => page.live(),
                _ => page.stamps.iter().filter(|stamp| is_due(stamp)).count(),
            };
            if pages.peek().is_some_and(|next| next.bound > last) {
                break;
            }
        }
        due + self.far_due_count(now)
    }

    /// Stamps, slots and places looked at or moved since the queue was made.
    #[doc(hidden)]
    #[must_use]
    pub const fn work(&self) -> u64 {
        self.work + self.index.work() + self.slab.work() + self.leaves.work()
    }

    /// What the queue has memory for.
    #[doc(hidden)]
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let leaves = self.behind().map(|leaf| leaf.stamps.capacity());
        Footprint {
            stamps: self.front.capacity() + leaves.sum::<usize>(),
            slots: self.slab.capacity(),
            leaves: self.leaves.capacity(),
            marks: self.line.capacity() + self.far.sift.capacity(),
        }
    }

    /// All stamps, dead ones too.
    fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        self.front.iter().chain(self.behind().flat_map(|leaf| &leaf.stamps))
    }

    /// All leaves, and the pages of the ramp.
    fn behind(&self) -> impl Iterator<Item = &Leaf> {
        let ids = self.index.iter().map(|(_, id)| id).chain(self.ramp.pages.iter().copied());
        ids.map(|id| self.leaves.tenant(id))
    }
}

impl<T, E> Default for TimerQueue<T, E> {
    fn default() -> Self {
        Self::with_tenants()
    }
}

impl<T, E: Tenant<T>> fmt::Debug for TimerQueue<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerQueue")
            .field("len", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
