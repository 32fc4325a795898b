//! Bringing near what is no longer far: the earliest part of the far entries, a little in every call.
//!
//! When too little is near, a *sifting* begins. It chooses a new limit, [plans](super::plan) the leaves for what is below
//! that, then goes through the slots one after the other
//! and brings what is not above that limit to where it belongs. It does so in small steps, one for each call of the
//! queue, and is over long before the calls have used up what was near when it began.
//!
//! # States
//! ```text
//!        near < breadth / 32 + LOW         sample full              all leaves added         every slot looked at
//! idle ───────────────────────▶ drawing ─────────────▶ planning ──────────────────▶ sifting ─────────────────────▶ clearing ──▶ idle
//!   │                              └── too few found: all that is far, no plan ───────▲  └── if nothing was planned ──────────────▲
//!   └── few far, and more than half of them wanted: all, no plan ─────────────────────┘
//!
//! planning, sifting ── nothing far any more ──▶ clearing
//! ```
//!
//! # Invariants
//! While planning, sifting and clearing, besides those of [`far`](super::far):
//! 1. The front has nothing above the floor, which is the limit of before. Whatever is about to break this, a refill
//!    or an insert, first lets the sifting *catch up*: it is brought to its end at once.
//! 2. Slots before `at`, and from `end` on, have nothing far that is not above the new limit, but for what is `leaving`. (What comes while sifting is far
//!    only if it is above that, so it does not matter which slot it gets.)
//! 3. A leaf may be without any stamp if its bound is not below `vacant`, which is above the floor. At every other time none is: so the
//!    front, which does not go above the floor before, never meets one.
//! 4. While planning the limit is still that of before: what is planned is above it, and nothing comes there.
//!
//! # Protocol
//! - *Drawing.* Slots are drawn at random, and the limit is about when the wanted share of the far ones among them is due.
//! - *Planning.* One leaf after the other is added at the end of the index, for what will come: the first just above the floor. So
//!   the leaf before that gets nothing from above it, and the front may have all of it.
//! - *Sifting.* A chunk in which nothing is due early enough is passed by. In the others every slot is looked at; what is
//!   far and not above the limit gets a stamp, in the leaf that the index finds for it. What the earliest of the rest is,
//!   is known when the chunk has been looked through.
//! - *Clearing.* Group by group of the index, leaves to which nothing has come are dropped. This is seen to, in the same small steps, also
//!   when nothing is far any more.
//! - *How much.* So that near there will be as much as a quarter of the breadth of the slab. Where few have been cancelled
//!   while they were far, they will fire, and it is cheapest to put them in order once: then up to `PLENTY` more are
//!   brought. If that is more than half of what is far, all of it.
//!
//! # Why the front does not catch up with it
//! Let the slab have the breadth B when a sifting begins. It looks at each slot once, and
//! at each chunk that is absent (B), moves at most each entry (B),
//! and splits leaves to make room: 144 moves for 432 stamps looked at (3 B). Together no more than 5 B. A plan has
//! at most B/160 leaves, each of which is added (2) and looked at and dropped again at worst (5, with groups that are joined): B/20. Each call does
//! `BUDGET` = 384 of it, except calls that have done as much by themselves, which are one in fifty. So it is over after
//! B/74 calls and some 60 for the drawing, and at worst each of them takes one entry from what was
//! near. But B/32 + `LOW` were near, and `LOW` is more than those 60, the front and the first leaf have.
//!
//! An insert takes nothing from what is near, so some of them may share a step: 64 of them make B grow by 64, which moves
//! the beginning by two entries, and one step does the work of 76. A cancel of what is far takes nothing from it either.
//!
//! Whoever has time may begin earlier and take steps of its own, smaller ones ([`TimerQueue::tend_ahead`]). Then more is
//! near than has to be, and so many calls, the *grace*, take no step at all: at worst each of them has taken one entry from
//! what was near, and when they have, there is still as much as above. Left to the pauses between them, a sifting costs
//! entries that fall due densely nothing.
//!
//! In truth it moves about B/4 and is over after some B/200 calls. That it finds so many rests on the sample: that of
//! 256 far entries 56 are among the earliest 2 % will not happen by chance. Somebody who knows the sequence of draws could
//! arrange it, and gets a long call when the front catches up; never a wrong order. Where not one draw in sixteen finds anything
//! far, because most chunks are absent, all that is far is brought near.
//!
//! # Cost
//! For each entry that is brought near: some looks at slots that are in a row in memory, one search
//! in an index that is a quarter as large as that of all entries would be, one push. Hardly a leaf is split.
//!
//! # Paths not taken
//! - *An eighth at a time, or half:* 210–250 and 200–230 ns for a pop at a million entries, where a quarter has
//!   186–209; for pop and insert together 276–312 and 272–359 against 230–255. Less is more looks, more is more misses.
//!   (Measured when what is far had stamps in leaves.)
//! - *Piles of piles:* far leaves whose size grows with their distance, each with its own bound, split in steps. A
//!   stamp would be moved and its link written at each level; one level and a few cheap looks are simpler, and proved.

use alloc::vec::Vec;

use super::coarse::Coarse;
use super::index::LeafId;
use super::leaf::{LEAF, Leaf};
use super::plan::Plan;
use super::slab::Found;
use super::slab::NONE;
use super::stamp::{Order, Stamp, order};
use super::tenant::Tenant;
use super::{TimerQueue, Values};
use crate::TaskKey;

/// Less than this and a 32nd of the breadth is too little near.
const LOW: usize = if cfg!(test) { 10 } else { 1_024 };
/// A sifting is to leave this and a quarter of the breadth near.
const ENOUGH: usize = if cfg!(test) { 16 } else { 4_096 };
/// The same, where few are cancelled while they are far: what will fire anyway is put in order once and for all, as
/// long as that fits into a cache.
const PLENTY: usize = if cfg!(test) { 40 } else { 1 << 17 };
/// Whoever has time brings more near while less than this and an eighth of the breadth is.
const AHEAD: usize = if cfg!(test) { 20 } else { 1 << 15 };
/// In a call that has done so much work nothing more is begun.
const BUDGET: u64 = if cfg!(test) { 6 } else { 384 };
/// The same for whoever has time, so that what comes meanwhile does not wait for long.
const SPARE: u64 = BUDGET / 4;
/// Far entries from which the next limit is chosen.
const SAMPLE: usize = if cfg!(test) { 16 } else { 256 };
/// Fewer than this are brought near without a plan, if all are.
const MANY: usize = if cfg!(test) { 4 } else { 4_096 };
/// So many entries are sought before they are brought near.
const FEW: usize = if cfg!(test) { 3 } else { 16 };
/// Draws in one call.
const DRAWS: usize = if cfg!(test) { 4 } else { 64 };
/// Draws in all.
const MOST_DRAWS: usize = 16 * SAMPLE;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Idle,
    Drawing,
    Planning,
    Sifting,
    Clearing,
}

#[derive(Debug)]
pub(super) struct Sift {
    pub(super) stage: Stage,
    /// When far entries are due.
    sample: Vec<Coarse>,
    draws: usize,
    plan: Plan,
    /// Leaves from this bound on may be without an entry; `None` if none is.
    pub(super) vacant: Option<Order>,
    random: u64,
    /// Slots before this one have been looked at.
    pub(super) at: u64,
    /// Slots from this one on need not be.
    pub(super) end: u64,
    /// What is not due after this is to leave.
    until: Coarse,
    /// When the first entry that stays far in this chunk is due, of those before `at`.
    earliest: Coarse,
    /// Entries that are to leave next, of slots before `at`. Some may have been cancelled since they were found.
    pub(super) leaving: Vec<Stamp>,
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
            plan: Plan::new(),
            vacant: None,
            random: 0x9e37_79b9_7f4a_7c15,
            at: 0,
            end: 0,
            until: Coarse::NEVER,
            earliest: Coarse::NEVER,
            leaving: Vec::new(),
            grace: 0,
            work: 0,
        }
    }

    /// Idle and without memory; but draws will go on from where they are, and what is vacant is.
    pub(super) fn reset(&self) -> Self {
        Self { random: self.random, vacant: self.vacant, ..Self::new() }
    }

    /// Whether leaves above the floor are not yet what they will be.
    pub(super) const fn is_apart(&self) -> bool {
        matches!(self.stage, Stage::Planning | Stage::Sifting | Stage::Clearing)
    }

    /// Whether this chunk has been looked at in part, or something is about to leave it.
    pub(super) fn is_in(&self, chunk_of: impl Fn(u32) -> usize, chunk: usize) -> bool {
        self.at < self.end && chunk_of(self.at as u32) == chunk
            || self.leaving.iter().any(|stamp| chunk_of(stamp.key.slot) == chunk)
    }

    /// Some number below `below`, which is at most 2³².
    fn draw(&mut self, below: u64) -> u32 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * below) >> 32) as u32
    }
}

impl<T, E: Tenant<T>> TimerQueue<T, E> {
    /// Takes a step, if there is too little near or a sifting under way. To be called by whatever changes the queue.
    #[inline]
    pub(super) fn tend(&mut self) {
        if self.far.sift.stage != Stage::Idle
            || self.far.live > 0 && self.near() < self.slab.breadth() / 32 + LOW
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
        let few_cancelled = self.far.cancelled <= self.far.live / 8;
        self.far.sift.stage != Stage::Idle
            || self.far.live > 0 && few_cancelled && self.near() < self.slab.breadth() / 8 + AHEAD
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
            let is_ripe =
                !self.far.sift.is_apart() || self.index.second_bound().is_some_and(|bound| bound <= end);
            let is_all = self.far.live == 0 && self.far.sift.stage == Stage::Idle;
            if first.is_some() && is_ripe || is_all {
                return first;
            }
            self.catch_up();
        }
    }

    /// Brings the sifting to its end at once, or a whole one if none is under way.
    #[cold]
    pub(super) fn catch_up(&mut self) {
        while self.far.live > 0 || self.far.sift.stage != Stage::Idle {
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
            Stage::Planning => self.plan(budget),
            Stage::Sifting => self.sift(budget),
            Stage::Clearing => self.clear(budget),
        }
    }

    /// How many entries are to be brought near.
    fn wanted(&self) -> usize {
        let enough = if self.far.cancelled > self.far.live / 8 { ENOUGH } else { PLENTY };
        (self.slab.breadth() / 4 + enough).saturating_sub(self.near())
    }

    /// Whether what would be left is not worth another sifting.
    fn wants_all(&self) -> bool {
        self.far.live <= self.wanted() * 2
    }

    fn begin(&mut self) {
        self.far.sift.grace = self.near().saturating_sub(self.slab.breadth() / 32 + LOW);
        if self.far.live < MANY && self.wants_all() {
            self.begin_sifting(Coarse::LAST);
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
            // Where there is none nothing is drawn: else those in chunks with few would be drawn more often.
            let slot = sift.draw(self.slab.end());
            let due = Coarse::from_link(self.slab.link(slot));
            sift.sample.extend((due != Coarse::NEVER).then_some(due));
        }
        if sift.sample.len() >= SAMPLE {
            self.begin_planning();
        } else if sift.draws >= MOST_DRAWS {
            self.begin_sifting(Coarse::LAST);
        }
    }

    /// Finds out until when there is, by the sample, as much due as is wanted.
    fn begin_planning(&mut self) {
        let (wanted, wants_all) = (self.wanted(), self.wants_all());
        let sift = &mut self.far.sift;
        self.work += 2 * sift.sample.len() as u64;
        sift.sample.sort_unstable();
        let len = sift.sample.len();
        let rank = (len as u64 * wanted as u64 / self.far.live as u64) as usize;
        let rank = if wants_all { len - 1 } else { rank.min(len - 1) };
        sift.until = if wants_all { Coarse::LAST } else { sift.sample[rank] };
        sift.stage = Stage::Planning;
        // The last leaf below the floor gets nothing more from above it.
        let first = self.far.floor.saturating_add(1);
        sift.plan = Plan::of(first, rank + 1, len, self.far.live);
        sift.vacant = Some(first);
        self.plan(0);
    }

    /// Adds the next leaves that are planned, one at least.
    fn plan(&mut self, budget: u64) {
        let before = self.work();
        loop {
            let sift = &mut self.far.sift;
            if sift.plan.is_over() {
                let until = sift.until;
                return self.begin_sifting(until);
            }
            self.work += 2;
            if let Some(bound) = sift.plan.next(&sift.sample) {
                // Without memory for stamps until some come.
                let id = self.leaves.insert(Leaf::new(bound, 0), NONE).slot;
                self.index.add_last(bound, id);
            }
            if self.work() - before >= budget {
                return;
            }
        }
    }

    fn begin_sifting(&mut self, until: Coarse) {
        self.far.limit = order(until.last(), u64::MAX);
        let sift = &mut self.far.sift;
        sift.stage = Stage::Sifting;
        sift.until = until;
        (sift.at, sift.end) = (0, self.slab.end());
    }

    fn sift(&mut self, budget: u64) {
        let before = self.work();
        loop {
            let spent = self.work() - before;
            if spent >= budget || self.far.sift.stage != Stage::Sifting {
                return;
            }
            if let Some(stamp) = self.far.sift.leaving.pop() {
                self.bring_near(stamp);
            } else if self.far.sift.at < self.far.sift.end {
                self.look(budget - spent);
            } else {
                return self.begin_clearing();
            }
        }
    }

    pub(super) fn begin_clearing(&mut self) {
        let sift = &mut self.far.sift;
        sift.stage = Stage::Clearing;
        (sift.at, sift.end) = (0, 0);
        if sift.vacant.is_none() {
            self.end_sifting();
        }
    }

    /// Drops planned leaves to which nothing has come.
    fn clear(&mut self, budget: u64) {
        let before = self.work();
        while let Some(from) = self.far.sift.vacant {
            if self.work() - before >= budget {
                return;
            }
            let (leaves, work) = (&mut self.leaves, &mut self.work);
            self.far.sift.vacant = self.index.sweep(from, |id| {
                let is_kept = leaves.tenant(id).len() > 0;
                if !is_kept {
                    *work += 1;
                    let key = leaves.key(id);
                    leaves.remove(key);
                }
                is_kept
            });
        }
        self.end_sifting();
    }

    fn end_sifting(&mut self) {
        let sift = &mut self.far.sift;
        sift.stage = Stage::Idle;
        sift.grace = 0;
        self.far.floor = self.far.limit;
        self.far.high = self.near() + self.near() / 8;
        // Not forgotten at once: where timers are cancelled again and again, the next wait would bring them all near.
        self.far.cancelled /= 2;
    }

    /// Looks at the next slots, so many at most, for entries that are to leave.
    fn look(&mut self, most: u64) {
        let sift = &mut self.far.sift;
        let chunk = Values::<E>::chunk_of(sift.at as u32);
        let slots = Values::<E>::slots_of(chunk);
        let Some(earliest) = self.far.earliest.get_mut(chunk) else {
            // Nothing in it has ever been far, nor in those behind it.
            sift.at = sift.end;
            return;
        };
        if sift.at == slots.start {
            if *earliest > sift.until {
                self.work += 1;
                sift.at = slots.end;
                return;
            }
            // What comes into it from now on is noted there, and what is found here.
            *earliest = Coarse::NEVER;
            sift.earliest = Coarse::NEVER;
        }
        let stop = slots.end.min(sift.at.saturating_add(most));
        let mut keys = [TaskKey::NONE; FEW];
        let mut found = 0;
        while sift.at < stop && found < FEW {
            let most = (stop - sift.at) as usize;
            let Found { key, stopped, looks } = self.slab.find(sift.at as u32, most, |link| {
                let due = Coarse::from_link(link);
                let leaves = due <= sift.until;
                if !leaves {
                    sift.earliest = sift.earliest.min(due);
                }
                leaves
            });
            self.work += looks.max(1);
            sift.at = stopped;
            if let Some(key) = key {
                keys[found] = key;
                found += 1;
            }
        }
        if sift.at == slots.end {
            *earliest = sift.earliest.min(*earliest);
        }
        // One after the other: where each is somewhere else in memory, all are waited for together.
        sift.leaving.extend(keys[..found].iter().filter_map(|&key| {
            let tenant = self.slab.get(key)?;
            Some(Stamp { deadline: tenant.deadline(), number: tenant.number(), key })
        }));
    }

    /// Puts a far entry where it belongs, unless it was cancelled.
    fn bring_near(&mut self, stamp: Stamp) {
        self.work += 1;
        if !self.slab.is_live(stamp.key) {
            return;
        }
        let order = stamp.order();
        self.far.live -= 1;
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
        if self.far.live == 0 {
            self.close();
        }
    }
}
