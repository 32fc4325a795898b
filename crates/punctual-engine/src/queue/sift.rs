//! Finding what is no longer far: the earliest part of the far entries, a little in every call.
//!
//! When too little is near, a *sifting* begins. It chooses a new limit, goes through the slots one after the other, and makes a
//! mark of each entry that is not above that limit; the marks are [sorted](super::sorter), and stand in [line](super::line) from
//! then on. All this is done in small steps, one for each call of the queue, and is over long before the calls have used up what was near
//! when it began.
//!
//! # States
//! ```text
//!        near < breadth / 32 + LOW      sample full           every slot looked at       sorted           looked through
//! idle ───────────────────────▶ drawing ───────────▶ sifting ─────────────────────▶ sorting ──────▶ lining ──────────────▶ clearing ──▶ idle
//!   │                              └── too few: all ────▲                                                                    ▲
//!   └── few far, and more than half of them wanted: all ─┘                                                                    │
//! drawing, sifting, sorting, lining ── nothing far any more ──────────────────────────────────────────────────────────────────┤
//! idle ── nobody in line any more ────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//! While sifting, sorting and lining, besides those of [`far`](super::far) and [`line`](super::line):
//! 1. The front has nothing above the *floor*: that of the line, or else the limit of before, or what has been looked
//!    through since. When nothing is left below it, the sifting has to *catch up*: it is brought to its end at once.
//! 2. Slots before `at`, and from `end` on, have nothing far that is not above the new limit, but for what was found. (What comes while
//!    sifting is far only if it is above that, so it does not matter which slot it gets.)
//! 3. `found` is how many of those that were found are still far.
//!
//! # Protocol
//! - *Drawing.* Slots are drawn at random, and the limit is about when the wanted share of the far ones among them is due.
//! - *Sifting.* A chunk in which nothing is due early enough is passed by. In the others every slot is looked at. What the earliest of
//!   the rest is, is known when the chunk has been looked through.
//! - *Sorting.* See there.
//! - *Lining.* Many that are due at the same instant, about, cannot be called together; such a *crowd* goes to the leaves now,
//!   where each is sought its place. The others stand in line. Where few of them are dead nobody need be looked at, and they join it
//!   together, at the end. Where more are dead, or have come to be by then, the living are picked out, and each joins as soon as it
//!   has been: whoever is cancelled after that is the line's to know of. So no entry is looked at twice.
//! - *Clearing.* Memory is given back, some sheets at a time.
//! - *How much.* So that near, or in line, there will be as much as a quarter of the breadth of the slab. Where few have been cancelled
//!   while they were far, they will fire, and it is cheapest to put them in order once: then up to `PLENTY` more are
//!   brought. If that is more than half of what is far, all of it.
//!
//! # Why the front does not catch up with it
//! Let the slab have the breadth B when a sifting begins. It looks at each slot once, and at each chunk that is absent (B), makes at
//! most as many marks (B), moves each for three digits (3 B), and looks them through, twice if many were cancelled meanwhile (2 B). If
//! all of them are crowds, each is brought to the leaves (B), which are split to make room: 144 moves for 432 stamps looked at (3 B). Together no more than
//! 11 B, and less than 3 B where a quarter is found and there is no crowd. Each call does
//! `BUDGET` = 384 of it, except calls that have done as much by themselves, which are one in fifty. So it is over after
//! B/34 calls and some 60 for the drawing, and at worst each of them takes one entry from what was
//! near. But B/32 + `LOW` were near, and `LOW` is more than those 60, the front and the first leaf have.
//!
//! An insert takes nothing from what is near, and adds nothing to what is sought, so some of them may share a step. A cancel of what
//! is far takes nothing from it either; one of what stands in line does.
//!
//! Whoever has time may begin earlier and take steps of its own, smaller ones ([`TimerQueue::tend_ahead`]). Then more is
//! near than has to be, and so many calls, the *grace*, take no step at all: at worst each of them has taken one entry from
//! what was near, and when they have, there is still as much as above. Left to the pauses between them, a sifting costs
//! entries that fall due densely nothing.
//!
//! That it finds so many rests on the sample: that of
//! 256 far entries 56 are among the earliest 2 % will not happen by chance. Somebody who knows the sequence of draws could
//! arrange it, and gets a long call when the front catches up; never a wrong order. Where not one draw in sixteen finds anything
//! far, because most chunks are absent, all that is far is brought near.
//!
//! # Cost
//! For each entry that is found: some looks at slots that are in a row in memory, and five moves of twelve bytes, most of them in a row.
//!
//! # Paths not taken
//! - *Every entry sought its leaf when it was found,* in leaves that were planned from the sample: each was looked at, somewhere in
//!   memory, written to the end of one of a thousand leaves, somewhere else, and looked at again when its leaf was sorted. A million tasks within
//!   100 ms, medians of eleven: 3.06 to 3.26 million a second with one worker; a worker that had nothing else to do took 340 ns for each,
//!   and takes 274.
//! - *An eighth at a time, and 8,192 to 32,768 more:* an entry's way through the queue took 3 to 30 % longer. Less is more looks. *Half,
//!   and up to a million more:* level.
//! - *Looking through again as long as many have been cancelled meanwhile:* where thirty are cancelled between two steps there always were,
//!   until most of what had been found was dead. A schedule and cancel among a million, four million times: 298 to 230 ns.
//! - *Piles of piles:* far leaves whose size grows with their distance, each with its own bound, split in steps. A
//!   stamp would be moved and its link written at each level; one level and a few cheap looks are simpler, and proved.

use alloc::vec::Vec;

use super::coarse::Coarse;
use super::line::CROWD;
use super::sorter::{Mark, Sorter, add};
use super::stamp::{Order, Stamp, order};
use super::tenant::Tenant;
use super::{TimerQueue, Values};

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
/// Fewer than this need no sample, if all are wanted.
const MANY: usize = if cfg!(test) { 4 } else { 4_096 };
/// Draws in one call.
const DRAWS: usize = if cfg!(test) { 4 } else { 64 };
/// Draws in all.
const MOST_DRAWS: usize = 16 * SAMPLE;
/// More dead than this do not come to stand in line.
const DEAD: usize = if cfg!(test) { 4 } else { 256 };
/// What it takes to give a sheet back.
const PER_SHEET: u64 = if cfg!(test) { 2 } else { 16 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Idle,
    Drawing,
    Sifting,
    Sorting,
    Lining,
    Clearing,
}

#[derive(Debug)]
pub(super) struct Sift {
    pub(super) stage: Stage,
    /// When far entries are due.
    sample: Vec<Coarse>,
    draws: usize,
    random: u64,
    /// Slots before this one have been looked at.
    pub(super) at: u64,
    /// Slots from this one on need not be.
    pub(super) end: u64,
    /// What is not due after this is wanted.
    pub(super) until: Coarse,
    /// The limit of before.
    pub(super) floor: Order,
    /// When the first entry that stays far in this chunk is due, of those before `at`.
    earliest: Coarse,
    sorter: Sorter,
    /// How many of those that were found still live, and are far.
    pub(super) found: usize,
    check: Check,
    /// So many calls take no step.
    grace: usize,
    /// What had been done, of the work of the whole queue, after the last call.
    work: u64,
}

/// How far marks have been looked through for those that are not to stand in line.
#[derive(Clone, Copy, Debug)]
struct Check {
    /// Marks before this one have been looked at.
    at: usize,
    /// There are so many; behind them is what others have moved away from.
    end: usize,
    /// So many of these are to stay, the first.
    kept: usize,
    /// Where those begin that are due when the last was, about.
    same: usize,
    /// Whether they are a crowd.
    is_crowd: bool,
    /// Of a crowd, those before this one have been brought near.
    brought: usize,
    /// Whether the living are picked out.
    sweeps: bool,
}

impl Check {
    const fn new() -> Self {
        Self { at: 0, end: 0, kept: 0, same: 0, is_crowd: false, brought: 0, sweeps: false }
    }
}

impl Sift {
    pub(super) const fn new() -> Self {
        Self {
            stage: Stage::Idle,
            sample: Vec::new(),
            draws: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            at: 0,
            end: 0,
            until: Coarse::NEVER,
            floor: 0,
            earliest: Coarse::NEVER,
            sorter: Sorter::new(),
            found: 0,
            check: Check::new(),
            grace: 0,
            work: 0,
        }
    }

    /// Whether the limit is above what is still being sought, or put in order.
    #[inline]
    pub(super) const fn is_apart(&self) -> bool {
        matches!(self.stage, Stage::Sifting | Stage::Sorting | Stage::Lining)
    }

    /// Whether a sifting is under way.
    #[inline]
    pub(super) const fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::Drawing | Stage::Sifting | Stage::Sorting | Stage::Lining)
    }

    /// Whether a far entry that is due then, and does not stand in line, has been found.
    pub(super) fn has_found(&self, slot: u32, due: Coarse) -> bool {
        self.is_apart() && due <= self.until && !(self.at..self.end).contains(&u64::from(slot))
    }

    /// Whether this chunk has been looked at in part.
    pub(super) fn is_in(&self, chunk_of: impl Fn(u32) -> usize, chunk: usize) -> bool {
        self.at < self.end && chunk_of(self.at as u32) == chunk
    }

    /// Marks for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        self.sorter.capacity()
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

    /// What is far, or stands in line, is above this.
    #[inline]
    pub(super) fn floor(&self) -> Order {
        if self.line.live > 0 {
            self.line.floor
        } else if self.far.sift.is_apart() {
            self.far.sift.floor
        } else {
            self.far.floor
        }
    }

    /// Brings near what comes next of all that is far; says whether anything is.
    pub(super) fn approach(&mut self) -> bool {
        if self.line.live > 0 {
            self.call();
        } else if self.far.live > 0 || self.far.sift.is_apart() {
            self.catch_up();
        } else {
            return false;
        }
        true
    }

    /// Brings the sifting to its end at once, or a whole one if none is under way.
    #[cold]
    fn catch_up(&mut self) {
        if self.far.sift.stage == Stage::Clearing {
            // There is time for that later.
            self.far.sift.stage = Stage::Idle;
        }
        loop {
            self.advance(u64::MAX);
            if !self.far.sift.is_under_way() {
                return;
            }
        }
    }

    fn advance(&mut self, budget: u64) {
        match self.far.sift.stage {
            Stage::Idle => self.begin(),
            Stage::Drawing => self.draw(),
            Stage::Sifting => self.sift(budget),
            Stage::Sorting => self.sort(budget),
            Stage::Lining => self.line_up(budget),
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
            sift.sample.extend((due != Coarse::NEVER && !self.line.has(due)).then_some(due));
        }
        if sift.sample.len() >= SAMPLE {
            self.choose();
        } else if sift.draws >= MOST_DRAWS {
            self.begin_sifting(Coarse::LAST);
        }
    }

    /// Finds out until when there is, by the sample, as much due as is wanted.
    fn choose(&mut self) {
        let (wanted, wants_all) = (self.wanted(), self.wants_all());
        let sift = &mut self.far.sift;
        self.work += 2 * sift.sample.len() as u64;
        sift.sample.sort_unstable();
        let len = sift.sample.len();
        let rank = (len as u64 * wanted as u64 / self.far.live as u64) as usize;
        let until = if wants_all { Coarse::LAST } else { sift.sample[rank.min(len - 1)] };
        self.begin_sifting(until);
    }

    fn begin_sifting(&mut self, until: Coarse) {
        let sift = &mut self.far.sift;
        sift.stage = Stage::Sifting;
        sift.sample = Vec::new();
        sift.until = until;
        sift.floor = self.far.floor;
        sift.found = 0;
        (sift.at, sift.end) = (0, self.slab.end());
        self.far.floor = order(until.last(), u64::MAX);
        self.far.limit = self.far.limit.max(self.far.floor);
    }

    fn sift(&mut self, budget: u64) {
        let before = self.work();
        loop {
            if self.far.sift.at >= self.far.sift.end {
                self.far.sift.stage = Stage::Sorting;
                return;
            }
            let spent = self.work() - before;
            if spent >= budget {
                return;
            }
            self.look(budget - spent);
        }
    }

    /// Looks at the next slots, so many at most, for entries that are wanted.
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
        let before = sift.sorter.pile.len();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (stopped, looks) = self.slab.look(sift.at as u32, most, |key, link| {
            let due = Coarse::from_link(link);
            if due > sift.until {
                sift.earliest = sift.earliest.min(due);
            } else if !self.line.has(due) {
                sift.sorter.add(Mark { due, key });
            }
        });
        let found = sift.sorter.pile.len() - before;
        self.work += looks.max(1) + found as u64;
        sift.found += found;
        sift.at = stopped;
        if sift.at == slots.end {
            *earliest = sift.earliest.min(*earliest);
        }
    }

    fn sort(&mut self, budget: u64) {
        let sift = &mut self.far.sift;
        self.work += sift.sorter.step(budget);
        if sift.sorter.is_over() {
            let end = sift.sorter.pile.len();
            self.begin_check(end);
        }
    }

    /// Has the first `end` marks looked through.
    fn begin_check(&mut self, end: usize) {
        let sift = &mut self.far.sift;
        sift.stage = Stage::Lining;
        sift.check = Check { end, sweeps: end - sift.found > DEAD, ..Check::new() };
    }

    /// Looks through what has been sorted: crowds go to the leaves, the others to the line, now or when all are looked through.
    fn line_up(&mut self, budget: u64) {
        let before = self.work();
        loop {
            let Check { at, end, is_crowd, brought, .. } = self.far.sift.check;
            let has_crowd = is_crowd && brought < at;
            if at == end && !has_crowd {
                break;
            }
            if self.work() - before >= budget {
                return;
            }
            self.work += 1;
            if has_crowd {
                self.far.sift.check.brought += 1;
                self.bring_mark(brought);
            } else {
                self.check_next();
            }
        }
        self.keep_same();
        self.end_sifting();
    }

    fn check_next(&mut self) {
        let sift = &mut self.far.sift;
        let Check { at, same, is_crowd, .. } = sift.check;
        if sift.sorter.pile.get(same).due != sift.sorter.pile.get(at).due {
            self.keep_same();
            let check = &mut self.far.sift.check;
            (check.same, check.is_crowd) = (at, false);
        } else if !is_crowd && at - same >= CROWD {
            (sift.check.is_crowd, sift.check.brought) = (true, same);
        }
        self.far.sift.check.at = at + 1;
    }

    /// Those that are due at the same instant as the last, about, stay if they are no crowd; or those of them who live join the line.
    fn keep_same(&mut self) {
        let Sift { check, sorter, .. } = &mut self.far.sift;
        if check.is_crowd {
            return;
        }
        if check.sweeps {
            return self.join_line();
        }
        for at in check.same..check.at {
            sorter.pile.keep(check.kept, sorter.pile.get(at));
            check.kept += 1;
        }
    }

    /// Those who live of all that are due at the same instant, about, join the line.
    fn join_line(&mut self) {
        let Sift { check, sorter, found, floor, .. } = &mut self.far.sift;
        let (same, end) = (check.same, check.at);
        if same == end {
            return;
        }
        let (due, before) = (sorter.pile.get(same).due, *found);
        for at in same..end {
            let mark = sorter.pile.get(at);
            if self.slab.is_live(mark.key) {
                // All of them in one row, so that until then nobody is in line, and others are not who are due at the same instant.
                let room = if *found == before { end - at } else { 0 };
                self.line.open_row(room, || sorter.blank()).marks.push(mark);
                *found -= 1;
            }
        }
        let joined = before - *found;
        if joined > 0 {
            self.far.live -= joined;
            self.line.close_row(joined, *floor);
        }
        *floor = order(due.last(), u64::MAX);
    }

    /// One of a crowd goes to where it belongs.
    fn bring_mark(&mut self, at: usize) {
        let key = self.far.sift.sorter.pile.get(at).key;
        self.work += 1;
        let Some(tenant) = self.slab.get(key) else { return };
        let stamp = Stamp { deadline: tenant.deadline(), number: tenant.number(), key };
        self.far.sift.found -= 1;
        self.far.live -= 1;
        self.bring_near(stamp);
    }

    fn end_sifting(&mut self) {
        let sift = &mut self.far.sift;
        let kept = sift.check.kept;
        if kept - sift.found > DEAD {
            // So many were cancelled meanwhile.
            return self.begin_check(kept);
        }
        let litter = &mut self.line.litter;
        let sorter = core::mem::replace(&mut sift.sorter, Sorter::new());
        let sheets = sorter.into_pile(litter).into_sheets(sift.check.kept, litter);
        let found = core::mem::take(&mut sift.found);
        if found > 0 {
            self.far.live -= found;
            self.line.append(sheets, found, sift.floor);
        } else {
            add(litter, sheets);
        }
        // Not forgotten at once: where timers are cancelled again and again, the next wait would bring them all near.
        self.far.cancelled /= 2;
        sift.grace = 0;
        sift.stage = Stage::Idle;
        self.far.high = self.near() + self.near() / 8;
        if self.far.live == 0 {
            self.close();
        }
        self.clear_if_idle();
    }

    /// Nothing is far any more: what was found is not, either.
    pub(super) fn abandon(&mut self) {
        let sift = &mut self.far.sift;
        core::mem::replace(&mut sift.sorter, Sorter::new()).into_litter(&mut self.line.litter);
        (sift.at, sift.end, sift.grace, sift.found) = (0, 0, 0, 0);
        sift.sample = Vec::new();
        sift.stage = Stage::Idle;
        self.clear_if_idle();
    }

    /// Has what is not needed any more given back.
    pub(super) fn clear_if_idle(&mut self) {
        if self.far.sift.stage == Stage::Idle && !self.line.litter.is_empty() {
            self.far.sift.stage = Stage::Clearing;
        }
    }

    /// Gives sheets back.
    fn clear(&mut self, budget: u64) {
        let most = usize::try_from(budget / PER_SHEET).unwrap_or(usize::MAX).max(1);
        let litter = &mut self.line.litter;
        let left = litter.len().saturating_sub(most);
        self.work += PER_SHEET * (litter.len() - left) as u64;
        litter.truncate(left);
        if litter.is_empty() {
            *litter = Vec::new();
            self.far.sift.stage = Stage::Idle;
        }
    }
}
