//! Bringing near what is no longer far: the earliest part of the far stamps, a little in every call.
//!
//! When too little is near, a *sifting* begins. It chooses a new limit, then goes through the far leaves one by one
//! and moves what is not above that limit to where it belongs. It does so in small steps, one for each call of the
//! queue, and is over long before the calls have used up what was near when it began.
//!
//! # States
//! ```text
//!        near < stamps / 32 + LOW          sample full           every leaf sifted
//! idle ───────────────────────▶ drawing ──────────────▶ sifting ──────────────────▶ idle
//!   └── and more wanted than half of what is far: no sample, all of it ──▲
//! ```
//!
//! # Invariants
//! While sifting, besides those of [`far`](super::far):
//! 1. The front has nothing above the floor, which is the limit of before. Whatever is about to break this, a refill
//!    or an insert, first lets the sifting *catch up*: it is brought to its end at once.
//! 2. The far leaves from `todo` on have been sifted: they have nothing that is not above the new limit. Only the
//!    `current` leaf still has such stamps, `leaving` of them, at its end.
//! 3. The tail has been sifted. So what comes while sifting, and what is poured, need not be looked at again.
//!
//! # Protocol
//! - *Drawing.* Live stamps are drawn at random, and the limit is the order below which there is the wanted share of
//!   them; or, where most of what is below is below that stamp's leaf too, the bound of this leaf. Arrivals in order,
//!   with one and the same delay, make leaves that are slices of time, and a limit between two of them.
//! - *Sifting a leaf.* One whose bound is above the limit is passed by. Else its stamps are parted, and those at its
//!   end leave it, each by a search in the index. A leaf of which all is to leave is *adopted* by the index as it
//!   is, if nothing there is between its stamps: slices of time go back and forth without a stamp being moved.
//! - What is left of a leaf stays; if that is little, it is poured into the tail.
//! - *How much.* So that a quarter of what is far will be near. Where few have been cancelled while they were far,
//!   they will fire, and it is cheapest to put them in order once: then up to `PLENTY` more are brought.
//!
//! # Why the front does not catch up with it
//! Let the far leaves have A stamps when a sifting begins. It looks at each once (A), or twice where a leaf is adopted,
//! moves at most each (A), pours at most a quarter (A/4), and splits leaves to make room: one that it filled itself,
//! 144 moves for 432 stamps looked at (3 A), or one that was adopted full, of 288 stamps (1.5 A). Together less than
//! 8 A. Each call does `BUDGET` = 384 of it, except calls that have done as much by themselves, which are one in fifty.
//! So it is over after A/47 calls and some 60 for the drawing, and at worst each of them takes one entry from what was
//! near. But A/32 + `LOW` were near, and `LOW` is more than those 60, the front and the first leaf have.
//!
//! An insert takes nothing from what is near, so some of them may share a step: 64 of them make A grow by 64, which moves
//! the beginning by two entries, and one step does the work of 48. A cancel of what is far takes nothing from it either.
//!
//! Whoever has time may begin earlier and take steps of its own, smaller ones ([`TimerQueue::tend_ahead`]). Then more is
//! near than has to be, and so many calls, the *grace*, take no step at all: at worst each of them has taken one entry from
//! what was near, and when they have, there is still as much as above. Left to the pauses between them, a sifting costs
//! entries that fall due densely nothing.
//!
//! In truth it moves about A/4 and is over after some A/160 calls. That it finds so many rests on the sample: that of
//! 256 live stamps 56 are among the earliest 2 % will not happen by chance. Somebody who knows the sequence of draws could
//! arrange it, and gets a long call when the front catches up; never a wrong order.
//!
//! # Cost
//! For each entry that is brought near: up to four looks at stamps in memory that is read in a row, one slot, one search
//! in an index that is a quarter as large as that of all entries would be, one push.
//!
//! # Paths not taken
//! - *An eighth at a time, or half:* 210–250 and 200–230 ns for a pop at a million entries, where a quarter has
//!   186–209; for pop and insert together 276–312 and 272–359 against 230–255. Less is more looks, more is more misses.
//! - *A look at all slots,* to drop the dead of the whole leaf: a miss for each stamp that stays, four times over.
//!   Cancels see to the dead.
//! - *Piles of piles:* far leaves whose size grows with their distance, each with its own bound, split in steps. A
//!   stamp would be moved and its link written at each level; one level and four cheap looks are simpler, and proved.

use alloc::vec::Vec;

use super::TimerQueue;
use super::index::LeafId;
use super::leaf::LEAF;
use super::slab::NONE;
use super::stamp::{Order, Stamp};

/// Less than this and a 32nd of the far stamps is too little near.
const LOW: usize = if cfg!(test) { 10 } else { 1_024 };
/// A sifting is to leave this and a quarter of the far stamps near.
const ENOUGH: usize = if cfg!(test) { 16 } else { 4_096 };
/// The same, where few are cancelled while they are far: what will fire anyway is put in order once and for all, as
/// long as that fits into a cache.
const PLENTY: usize = if cfg!(test) { 40 } else { 1 << 17 };
/// Whoever has time brings more near while less than this and an eighth of the far stamps is.
const AHEAD: usize = if cfg!(test) { 20 } else { 1 << 15 };
/// In a call that has done so much work nothing more is begun.
const BUDGET: u64 = if cfg!(test) { 6 } else { 384 };
/// The same for whoever has time, so that what comes meanwhile does not wait for long.
const SPARE: u64 = BUDGET / 4;
/// What a look at a leaf costs, in stamps.
const LOOK: u64 = if cfg!(test) { 1 } else { 8 };
/// Live stamps from which the next limit is chosen.
const SAMPLE: usize = if cfg!(test) { 16 } else { 256 };
/// Draws in one call.
const DRAWS: usize = if cfg!(test) { 4 } else { 64 };
/// Draws in all. One in ten finds a live stamp even where leaves are a quarter full and half of that is dead.
const MOST_DRAWS: usize = 16 * SAMPLE;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Idle,
    Drawing,
    Sifting,
}

#[derive(Debug)]
pub(super) struct Sift {
    pub(super) stage: Stage,
    /// Orders of live far stamps, each with the bound of its leaf.
    sample: Vec<(Order, Order)>,
    draws: usize,
    random: u64,
    /// So many far leaves, the first, have not been sifted.
    pub(super) todo: usize,
    /// The leaf that is being sifted, or `NONE`.
    pub(super) current: LeafId,
    /// So many of its stamps, the last, are to leave it.
    pub(super) leaving: usize,
    /// So many calls need not take a step.
    grace: usize,
    /// All work of the queue up to the last step.
    work: u64,
}

impl Sift {
    pub(super) const fn new() -> Self {
        Self {
            stage: Stage::Idle,
            sample: Vec::new(),
            draws: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            todo: 0,
            current: NONE,
            leaving: 0,
            grace: 0,
            work: 0,
        }
    }

    /// Idle and without memory; but draws will go on from where they are.
    pub(super) fn reset(&self) -> Self {
        Self { random: self.random, ..Self::new() }
    }

    /// This leaf is no longer among the far ones.
    pub(super) fn forget(&mut self, id: LeafId) {
        if self.current == id {
            self.current = NONE;
            self.leaving = 0;
        }
    }

    /// Some number below `below`, which is at most 2³².
    fn draw(&mut self, below: usize) -> usize {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * below as u64) >> 32) as usize
    }
}

impl<T> TimerQueue<T> {
    /// Takes a step, if there is too little near or a sifting under way. To be called by whatever changes the queue.
    #[inline]
    pub(super) fn tend(&mut self) {
        if self.far.live > 0
            && (self.far.sift.stage != Stage::Idle || self.near() < self.far.stamps / 32 + LOW)
        {
            self.take_step();
        }
    }

    /// Brings a little nearer what will be due, before that has to be done by whatever changes the queue; says whether there
    /// is more to do. For whoever waits for the next deadline anyway: entries that fall due densely are put in order in the
    /// pauses between them, and not when the next is due already.
    ///
    /// Where many are cancelled before they come near, it leaves them alone.
    ///
    /// ```
    /// use punctual_engine::{Tick, TimerQueue};
    ///
    /// let mut queue = TimerQueue::new();
    /// for number in 0..100_000 {
    ///     queue.insert(Tick::from_nanos(number * 7_919 % 100_003), number, ());
    /// }
    /// while queue.tend_ahead() {}
    /// queue.verify();
    /// ```
    pub fn tend_ahead(&mut self) -> bool {
        if !self.can_tend_ahead() {
            return false;
        }
        self.advance(SPARE);
        self.far.sift.work = self.work();
        self.can_tend_ahead()
    }

    /// Whether [`tend_ahead`](Self::tend_ahead) would do anything.
    #[must_use]
    pub fn can_tend_ahead(&self) -> bool {
        let few_cancelled = self.far.cancelled <= self.far.stamps / 8;
        self.far.live > 0
            && (self.far.sift.stage != Stage::Idle
                || few_cancelled && self.near() < self.far.stamps / 8 + AHEAD)
    }

    #[cold]
    fn take_step(&mut self) {
        let done = self.work() - self.far.sift.work;
        if self.far.sift.grace > 0 {
            self.far.sift.grace -= 1;
        } else if self.far.sift.stage == Stage::Idle || done < BUDGET {
            self.advance(BUDGET);
        }
        self.far.sift.work = self.work();
    }

    /// The first leaf, if nothing far belongs before its end; `None` if there is no leaf at all.
    pub(super) fn ripe_leaf(&mut self) -> Option<LeafId> {
        loop {
            let first = self.index.first_leaf();
            let end = self.far.floor.saturating_add(1);
            let is_ripe = self.far.floor == self.far.limit
                || self.index.second_bound().is_some_and(|bound| bound <= end);
            if first.is_some() && is_ripe || self.far.live == 0 {
                return first;
            }
            self.catch_up();
        }
    }

    /// Brings the sifting to its end at once, or a whole one if none is under way.
    #[cold]
    pub(super) fn catch_up(&mut self) {
        while self.far.live > 0 {
            self.advance(u64::MAX);
            if self.far.sift.stage == Stage::Idle {
                return;
            }
        }
    }

    fn advance(&mut self, budget: u64) {
        match self.far.sift.stage {
            Stage::Idle => self.begin(),
            Stage::Drawing => self.draw(),
            Stage::Sifting => self.sift(budget),
        }
    }

    /// How many entries are to be brought near.
    fn wanted(&self) -> usize {
        let enough = if self.far.cancelled > self.far.stamps / 8 { ENOUGH } else { PLENTY };
        (self.far.stamps / 4 + enough).saturating_sub(self.near())
    }

    fn begin(&mut self) {
        self.far.sift.grace = self.near().saturating_sub(self.far.stamps / 32 + LOW);
        if self.far.live <= self.wanted() * 2 {
            self.begin_sifting(Order::MAX);
            return;
        }
        let sift = &mut self.far.sift;
        sift.stage = Stage::Drawing;
        sift.draws = 0;
        sift.sample.clear();
        sift.sample.reserve_exact(SAMPLE + DRAWS);
    }

    fn draw(&mut self) {
        let sift = &mut self.far.sift;
        self.work += DRAWS as u64;
        sift.draws += DRAWS;
        for _ in 0..DRAWS {
            let leaf = self.leaves.tenant(self.far.leaves[sift.draw(self.far.leaves.len())]);
            // Where there is no stamp nothing is drawn: else those in short leaves would be drawn more often.
            let stamp = leaf.stamps.get(sift.draw(LEAF));
            if let Some(stamp) = stamp.filter(|stamp| self.slab.is_live(stamp.key)) {
                sift.sample.push((stamp.order(), leaf.bound));
            }
        }
        if sift.sample.len() >= SAMPLE {
            let limit = self.next_limit();
            self.begin_sifting(limit);
        } else if sift.draws >= MOST_DRAWS {
            self.begin_sifting(Order::MAX);
        }
    }

    /// The order up to which there is, by the sample, what is wanted.
    fn next_limit(&mut self) -> Order {
        let wanted = self.wanted();
        let sample = &mut self.far.sift.sample;
        self.work += sample.len() as u64;
        let rank = (sample.len() as u64 * wanted as u64 / self.far.live as u64) as usize;
        let rank = rank.min(sample.len() - 1);
        let &mut (order, bound) = sample.select_nth_unstable(rank).1;
        // Where leaves are slices of time, rather between two of them than across one.
        let below = sample[..rank].iter().filter(|(order, _)| *order < bound).count();
        if below > rank / 2 { bound - 1 } else { order }
    }

    fn begin_sifting(&mut self, limit: Order) {
        self.far.limit = limit;
        self.release_tail();
        let sift = &mut self.far.sift;
        sift.stage = Stage::Sifting;
        sift.todo = self.far.leaves.len();
    }

    fn sift(&mut self, budget: u64) {
        let before = self.work();
        while self.work() - before < budget {
            if self.far.sift.leaving > 0 {
                self.leave();
            } else if !self.next_leaf() {
                break;
            }
        }
        self.close_if_empty();
    }

    pub(super) fn end_sifting(&mut self) {
        self.far.sift.stage = Stage::Idle;
        self.far.sift.grace = 0;
        self.far.floor = self.far.limit;
        self.far.high = self.near() + self.near() / 8;
        // Not forgotten at once: where timers are cancelled again and again, the next wait would bring them all near.
        self.far.cancelled /= 2;
    }

    /// Takes up the next leaf that is to be sifted. If there is none the sifting is over, and this `false`.
    fn next_leaf(&mut self) -> bool {
        let done = core::mem::replace(&mut self.far.sift.current, NONE);
        if done != NONE {
            self.tidy(done);
        }
        let Some(todo) = self.far.sift.todo.checked_sub(1) else {
            self.end_sifting();
            return false;
        };
        let id = self.far.leaves[todo];
        self.far.sift.todo = todo;
        self.far.sift.current = id;
        self.work += LOOK;
        if self.leaves.tenant(id).bound <= self.far.limit {
            self.part();
        }
        true
    }

    /// Puts what is to leave the current leaf at its end, or lets the index adopt the leaf.
    pub(super) fn part(&mut self) {
        let id = self.far.sift.current;
        let leaf = self.leaves.tenant_mut(id);
        self.work += leaf.len() as u64;
        let stay = leaf.part(self.far.limit);
        if stay == 0 && leaf.len() > LEAF / 4 && leaf.live() > 0 && self.adopt(id) {
            return;
        }
        // This also brings the slots that will be needed next into the cache, all misses at once.
        let leaf = self.leaves.tenant_mut(id);
        self.far.stamps -= leaf.drop_dead_from(stay, &self.slab);
        self.far.sift.leaving = leaf.len() - stay;
    }

    /// Moves a leaf of which all is to leave into the index as it is, if nothing there is between its stamps.
    fn adopt(&mut self, id: LeafId) -> bool {
        let (lowest, highest) = self.leaves.tenant(id).span();
        let found = self.index.find(lowest);
        if let Some((_, before)) = found {
            self.work += LEAF as u64;
            if self.leaves.tenant(before).highest_below(lowest).is_none() {
                return false;
            }
        }
        let next = match found {
            Some((place, _)) => self.index.bound_after(place),
            None => self.index.first_bound(),
        };
        if next.is_some_and(|next| next <= highest) {
            return false;
        }
        self.far.take(&mut self.leaves, id);
        self.leaves.tenant_mut(id).bound = lowest;
        match found {
            Some((place, _)) => self.index.add_after(place, lowest, id),
            None => self.index.add_first(lowest, id),
        }
        true
    }

    /// Takes one of the stamps that are to leave the current leaf out of it.
    fn leave(&mut self) {
        let id = self.far.sift.current;
        self.far.sift.leaving -= 1;
        if let Some(stamp) = self.leaves.tenant_mut(id).stamps.pop() {
            self.bring_near(stamp, id);
        }
    }

    /// Puts a stamp that was in the far leaf `from` where it belongs, if it is live.
    fn bring_near(&mut self, stamp: Stamp, from: LeafId) {
        self.work += 1;
        self.far.stamps -= 1;
        if !self.slab.is_live(stamp.key) {
            self.leaves.tenant_mut(from).dead -= 1;
            return;
        }
        self.far.live -= 1;
        let order = stamp.order();
        let id = match self.index.find(order) {
            Some((place, leaf)) if self.leaves.tenant(leaf).len() == LEAF => {
                self.make_room(place, leaf, order)
            }
            Some((_, leaf)) => leaf,
            // It is above the floor, so by 1 above all of the front.
            None => self.leave_to_leaves(order),
        };
        self.slab.relink(stamp.key, id);
        self.leaves.tenant_mut(id).push(stamp);
    }
}
