//! Where values live while their entries wait.
//!
//! A slab hands out slots and takes them back. Each slot carries the generation of its tenant, so that an
//! old key, or an old stamp in some leaf, is recognised by one comparison; and a *link*, a number that
//! belongs to the tenant's owner (the queue keeps there the leaf that holds the tenant's stamp, if one does). Tenants can
//! be found by their link, in the order of their slots.
//!
//! # States
//! ```text
//!          insert                 remove
//! free ────────────▶ occupied ────────────▶ free, generation + 1
//!                     ▲   │        └──────▶ retired, if no generation is left
//!              insert │   │ remove, if few are warm
//!                     │   ▼
//!                     warm, generation + 1 ──▶ free, if few are left
//!
//! chunk: absent ── first insert ──▶ present ── last tenant leaves ──▶ spare ── another spare ──▶ absent
//! ```
//!
//! # Invariants
//! 1. A pair (slot, generation) is handed out at most once in the life of the slab. A chunk that goes away
//!    leaves its highest generation behind, and starts from there if it comes back.
//! 2. `RETIRED` is never handed out, and a slot that has reached it never has a tenant again.
//! 3. A chunk is in `roomy` exactly if it can give a slot, and knows its place there.
//! 4. At most one chunk is present without a tenant: the spare.
//! 5. A warm slot counts as a tenant of its chunk. There are no more of them than [`WARM`], nor than the chunks that the tenants
//!    would fill: so for their sake at most twice the chunks stay that are needed.
//!
//! # Cost
//! Every operation touches one slot, one chunk header and at most two places of `roomy`; these are spared where tenants come and
//! go in turn, all over the chunks, as those do that are cancelled: what is freed in a chunk that is not asked first is
//! kept *warm*, and given out next. Memory comes and
//! goes a chunk at a time, so growing never moves what is there, and a queue that empties gives its memory
//! back on the way; but a chunk stays as long as one of its tenants. A slab says how large its chunks are: `1 <<
//! BITS` slots. Chunk 0 grows by doubling, so that a small queue stays small: half a chunk is moved at most.
//! The slot freed last is the next to be given out: it is still in the cache.
//!
//! # Paths not taken
//! - *One `Vec`:* doubling it at ten million entries copies hundreds of megabytes in one call.
//! - *One free list through all chunks:* one load less, but a chunk could not leave before the slab is empty.
//! - *Generations apart from values:* a purge would read 4 bytes of a dense array instead of a line per
//!   entry. But it is just this line that the pop or the cancel needs, and fetching many at once when a leaf
//!   becomes the front is what makes firing fast.

use alloc::vec::Vec;
use core::ops::Range;

use crate::TaskKey;

/// No slot, no chunk, no link.
pub(super) const NONE: u32 = u32::MAX;
/// Most slots that are kept warm. As many may be freed at once by whoever cancels several.
const WARM: usize = 128;
/// The generation after the last: the first that does not fit into 31 bits is never needed, so whoever stores keys
/// has a bit to spare.
const RETIRED: u32 = u32::MAX >> 1;

#[derive(Debug)]
pub(super) struct Slab<T, const BITS: u32> {
    chunks: Vec<Chunk<T>>,
    /// Slots that were freed of late; the last is given out first.
    warm: Vec<u32>,
    /// Chunks that can give a slot; the last is asked first.
    roomy: Vec<u32>,
    /// Chunks that are absent and may come back.
    absent: Vec<u32>,
    /// The one chunk that is present without a tenant, or `NONE`.
    spare: u32,
    /// The first generation of a chunk that has never been there.
    first: u32,
    len: usize,
    /// How many chunks are present.
    present: usize,
    /// Slots moved so far.
    work: u64,
}

#[derive(Debug)]
struct Chunk<T> {
    /// Grows up to a full chunk; empty while the chunk is absent.
    slots: Vec<Slot<T>>,
    /// First of the free slots among `slots`, or `NONE`.
    free: u32,
    tenants: u32,
    /// Place in `roomy`, or `NONE`.
    place: u32,
    /// The generation in which slots begin.
    first: u32,
    /// No generation above this one was ever reached here.
    highest: u32,
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    /// Of the tenant; if there is none, of the next.
    generation: u32,
    /// Of the tenant; if there is none, the next free slot.
    link: u32,
}

impl<T, const BITS: u32> Slab<T, BITS> {
    const CHUNK: usize = 1 << BITS;

    pub(super) const fn new() -> Self {
        Self::with_first_generation(0)
    }

    pub(super) const fn with_first_generation(first: u32) -> Self {
        Self {
            chunks: Vec::new(),
            warm: Vec::new(),
            roomy: Vec::new(),
            absent: Vec::new(),
            spare: NONE,
            first,
            len: 0,
            present: 0,
            work: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// How much there is to look at for whoever looks at all slots: these, and a word for each chunk.
    #[inline]
    pub(super) fn breadth(&self) -> usize {
        (self.present << BITS) + self.chunks.len()
    }

    /// All slots have numbers below this.
    pub(super) fn end(&self) -> u64 {
        (self.chunks.len() as u64) << BITS
    }

    pub(super) const fn work(&self) -> u64 {
        self.work
    }

    /// Gives `value` a slot.
    #[inline]
    pub(super) fn insert(&mut self, value: T, link: u32) -> TaskKey {
        let Some(warm) = self.warm.pop() else { return self.insert_in_chunk(value, link) };
        let (number, index) = Self::split(warm);
        let slot = &mut self.chunks[number].slots[index];
        slot.value = Some(value);
        slot.link = link;
        self.len += 1;
        TaskKey { slot: warm, generation: slot.generation }
    }

    fn insert_in_chunk(&mut self, value: T, link: u32) -> TaskKey {
        let number = match self.roomy.last() {
            Some(&number) => number,
            None => self.add_chunk(),
        };
        let chunk = &mut self.chunks[number as usize];
        let index = chunk.free;
        let (index, generation) = if let Some(slot) = chunk.slots.get_mut(index as usize) {
            chunk.free = slot.link;
            slot.link = link;
            slot.value = Some(value);
            (index, slot.generation)
        } else {
            if chunk.slots.len() == chunk.slots.capacity() {
                self.work += chunk.slots.len() as u64;
            }
            let index = chunk.slots.len() as u32;
            chunk.slots.push(Slot { value: Some(value), generation: chunk.first, link });
            (index, chunk.first)
        };
        chunk.tenants += 1;
        self.len += 1;
        if !chunk.has_room(Self::CHUNK) {
            chunk.place = NONE;
            self.roomy.pop();
        }
        if self.spare == number {
            self.spare = NONE;
        }
        TaskKey { slot: number << BITS | index, generation }
    }

    /// The tenant that `key` names, and its link.
    #[inline(always)]
    pub(super) fn remove(&mut self, key: TaskKey) -> Option<(T, u32)> {
        let (number, index) = Self::split(key.slot);
        let chunk = self.chunks.get_mut(number)?;
        let slot = chunk.slots.get_mut(index)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        // Whoever looks for a link finds tenants only.
        let link = core::mem::replace(&mut slot.link, NONE);
        self.len -= 1;
        slot.generation += 1;
        chunk.highest = chunk.highest.max(slot.generation);
        // In 64 bits: with fewer, `NONE` and one would be nothing, which is how long an empty `roomy` is.
        let is_first = u64::from(chunk.place) + 1 == self.roomy.len() as u64;
        let is_retired = slot.generation == RETIRED;
        if is_first && chunk.tenants > 1 && !is_retired {
            slot.link = chunk.free;
            chunk.free = index as u32;
            chunk.tenants -= 1;
        } else if self.warm.len() < (self.len >> BITS).min(WARM) && !is_retired {
            self.warm.push(key.slot);
        } else {
            self.give_back(key.slot);
        }
        if self.warm.len() > self.len >> BITS {
            self.cool();
        }
        Some((value, link))
    }

    /// Gives a slot without a tenant back to its chunk, which is the first to be asked from now on.
    #[inline(never)]
    fn give_back(&mut self, slot: u32) {
        let (number, index) = Self::split(slot);
        let chunk = &mut self.chunks[number];
        chunk.tenants -= 1;
        let is_vacant = chunk.tenants == 0;
        let slot = &mut chunk.slots[index];
        if slot.generation != RETIRED {
            slot.link = core::mem::replace(&mut chunk.free, index as u32);
            let (place, end) = (chunk.place, self.roomy.len() as u32);
            if place == NONE {
                chunk.place = end;
                self.roomy.push(number as u32);
            } else if place + 1 != end {
                chunk.place = end - 1;
                let other = core::mem::replace(&mut self.roomy[end as usize - 1], number as u32);
                self.roomy[place as usize] = other;
                self.chunks[other as usize].place = place;
            }
        }
        if is_vacant {
            self.spare_or_forget(number as u32);
        }
    }

    /// Gives one warm slot back to its chunk.
    #[cold]
    fn cool(&mut self) {
        let slot = self.warm.pop().expect("one that is warm");
        self.give_back(slot);
    }

    /// Where the slot of this key is in memory.
    #[inline]
    pub(super) fn place_of(&self, key: TaskKey) -> *const () {
        self.slot(key.slot).map_or(core::ptr::null(), |slot| core::ptr::from_ref(slot).cast())
    }

    /// Whether the tenant that `key` names is still there.
    #[inline]
    pub(super) fn is_live(&self, key: TaskKey) -> bool {
        // A stamp's generation was handed out; by 1 it is the slot's only while that tenant is there.
        self.slot(key.slot).is_some_and(|slot| slot.generation == key.generation)
    }

    #[inline]
    pub(super) fn get(&self, key: TaskKey) -> Option<&T> {
        let slot = self.slot(key.slot)?;
        if slot.generation == key.generation { slot.value.as_ref() } else { None }
    }

    /// Gives the tenant that `key` names another link; `false` if it is gone.
    #[inline]
    pub(super) fn relink(&mut self, key: TaskKey, link: u32) -> bool {
        let (number, index) = Self::split(key.slot);
        match self.chunks.get_mut(number).and_then(|chunk| chunk.slots.get_mut(index)) {
            Some(slot) if slot.generation == key.generation => {
                slot.link = link;
                true
            }
            _ => false,
        }
    }

    /// Looks from slot `from` on, at `most` slots of its chunk, and shows the key and the link of each. Says before which slot it has
    /// stopped, and how many it has looked at. Of a chunk that is absent there is nothing to look at.
    pub(super) fn look(&self, from: u32, most: usize, mut show: impl FnMut(TaskKey, u32)) -> (u64, u64) {
        let (number, start) = Self::split(from);
        let slots = self.chunks.get(number).map_or(&[][..], |chunk| &chunk.slots);
        let stop = slots.len().min(start.saturating_add(most));
        let rest = slots.get(start..stop).unwrap_or_default();
        for (slot, &Slot { generation, link, .. }) in (from..).zip(rest) {
            show(TaskKey { slot, generation }, link);
        }
        let end = if stop == slots.len() { Self::CHUNK } else { stop };
        (u64::from(from) - start as u64 + end as u64, rest.len() as u64)
    }

    /// The tenants in that chunk, and their links.
    pub(super) fn tenants_of(&self, chunk: usize) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.slots);
        slots.iter().filter_map(|slot| Some((slot.link, slot.value.as_ref()?)))
    }

    /// All tenants, and their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TaskKey, &T)> {
        self.chunks.iter().enumerate().flat_map(|(number, chunk)| {
            chunk.slots.iter().enumerate().filter_map(move |(index, slot)| {
                let key = TaskKey { slot: (number << BITS | index) as u32, generation: slot.generation };
                Some((key, slot.value.as_ref()?))
            })
        })
    }

    /// The numbers of the slots of that chunk.
    pub(super) const fn slots_of(chunk: usize) -> Range<u64> {
        (chunk as u64) << BITS..(chunk as u64 + 1) << BITS
    }

    /// The chunk of a slot.
    #[inline]
    pub(super) const fn chunk_of(slot: u32) -> usize {
        Self::split(slot).0
    }

    /// The link of the tenant of this slot.
    pub(super) fn link(&self, slot: u32) -> u32 {
        self.slot(slot).map_or(NONE, |slot| slot.link)
    }

    /// The tenant of this slot.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn tenant(&self, slot: u32) -> &T {
        self.slot(slot).and_then(|slot| slot.value.as_ref()).expect("the slot has a tenant")
    }

    /// The tenant of this slot, to change.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn tenant_mut(&mut self, slot: u32) -> &mut T {
        let (number, index) = Self::split(slot);
        self.chunks[number].slots[index].value.as_mut().expect("the slot has a tenant")
    }

    /// The key of the present tenant of this slot.
    pub(super) fn key(&self, slot: u32) -> TaskKey {
        TaskKey { slot, generation: self.slot(slot).map_or(RETIRED, |slot| slot.generation) }
    }

    /// Slots for which there is memory.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.slots.capacity()).sum()
    }

    /// Gives all memory back, if nobody is in. Keys stay stale for ever.
    pub(super) fn release(&mut self) {
        assert!(self.len == 0, "released a slab with {} tenants", self.len);
        let highest = self.chunks.iter().map(|chunk| chunk.highest).fold(self.first, u32::max);
        if highest < RETIRED / 2 {
            let work = self.work;
            *self = Self { work, ..Self::with_first_generation(highest) };
        } else if self.spare != NONE {
            // One slot has seen billions of tenants. The others should not be aged with it: keep the headers.
            self.forget(self.spare);
            self.spare = NONE;
        }
    }

    /// The chunk of a slot, and its place there.
    #[inline]
    const fn split(slot: u32) -> (usize, usize) {
        ((slot >> BITS) as usize, slot as usize & (Self::CHUNK - 1))
    }

    #[inline]
    fn slot(&self, slot: u32) -> Option<&Slot<T>> {
        let (number, index) = Self::split(slot);
        self.chunks.get(number)?.slots.get(index)
    }

    #[cold]
    fn add_chunk(&mut self) -> u32 {
        let number = self.absent.pop().unwrap_or_else(|| {
            let number = self.chunks.len() as u32;
            assert!(number < NONE >> BITS, "more than {} entries", NONE);
            self.chunks.push(Chunk {
                slots: Vec::new(),
                free: NONE,
                tenants: 0,
                place: NONE,
                first: self.first,
                highest: self.first,
            });
            number
        });
        let chunk = &mut self.chunks[number as usize];
        if number != 0 {
            chunk.slots.reserve_exact(Self::CHUNK);
        }
        chunk.first = chunk.highest;
        chunk.place = self.roomy.len() as u32;
        self.roomy.push(number);
        self.present += 1;
        number
    }

    /// The last tenant of this chunk has left.
    #[cold]
    fn spare_or_forget(&mut self, number: u32) {
        if self.spare == NONE && self.chunks[number as usize].has_room(Self::CHUNK) {
            self.spare = number;
        } else {
            self.forget(number);
        }
    }

    /// Gives the memory of a chunk without tenants back.
    fn forget(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        chunk.slots = Vec::new();
        chunk.free = NONE;
        self.present -= 1;
        if chunk.place != NONE {
            let place = chunk.place as usize;
            chunk.place = NONE;
            self.roomy.swap_remove(place);
            if let Some(&moved) = self.roomy.get(place) {
                self.chunks[moved as usize].place = place as u32;
            }
        }
        // By 2 a chunk in which a slot was retired does not come back.
        if self.chunks[number as usize].highest != RETIRED {
            self.absent.push(number);
        }
    }

    /// Checks every invariant.
    pub(super) fn verify(&self) {
        let mut len = 0;
        let mut spares = 0;
        for (number, chunk) in self.chunks.iter().enumerate() {
            let occupied = chunk.slots.iter().filter(|slot| slot.value.is_some()).count();
            let warm = self.warm.iter().filter(|slot| Self::split(**slot).0 == number).count();
            let tenants = occupied + warm;
            assert!(tenants == chunk.tenants as usize, "chunk {number} miscounts its tenants");
            len += occupied;
            let mut free = 0;
            let mut at = chunk.free;
            while let Some(slot) = chunk.slots.get(at as usize) {
                assert!(slot.value.is_none(), "a free slot of chunk {number} has a tenant");
                assert!(slot.generation != RETIRED, "slab invariant 2: a retired slot is free");
                free += 1;
                assert!(free <= chunk.slots.len(), "the free list of chunk {number} runs in a circle");
                at = slot.link;
            }
            let retired = chunk.slots.iter().filter(|slot| slot.generation == RETIRED).count();
            assert!(tenants + free + retired == chunk.slots.len(), "chunk {number} lost a slot");
            let highest = chunk.slots.iter().map(|slot| slot.generation).fold(chunk.first, u32::max);
            assert!(highest <= chunk.highest, "slab invariant 1: chunk {number} forgot a generation");
            let present = chunk.slots.capacity() > 0;
            let placed = chunk.place != NONE;
            assert!(
                placed == (present && chunk.has_room(Self::CHUNK)),
                "slab invariant 3: room in chunk {number}"
            );
            if placed {
                assert!(self.roomy[chunk.place as usize] == number as u32, "slab invariant 3: place");
            }
            if present && tenants == 0 {
                assert!(self.spare == number as u32, "slab invariant 4: chunk {number} is a second spare");
                spares += 1;
            }
        }
        assert!(len == self.len, "the slab miscounts its tenants");
        let present = self.chunks.iter().filter(|chunk| chunk.slots.capacity() > 0).count();
        assert!(present == self.present, "the slab miscounts its chunks");
        let most = (self.len >> BITS).min(WARM);
        assert!(self.warm.len() <= most, "slab invariant 5: {} are warm", self.warm.len());
        for (at, &warm) in self.warm.iter().enumerate() {
            let vacant =
                self.slot(warm).is_some_and(|slot| slot.value.is_none() && slot.generation != RETIRED);
            assert!(vacant && !self.warm[..at].contains(&warm), "slab invariant 5: slot {warm} is warm");
        }
        assert!((self.spare != NONE) == (spares == 1), "slab invariant 4: the spare is not there");
        let placed = self.chunks.iter().filter(|chunk| chunk.place != NONE).count();
        assert!(placed == self.roomy.len(), "slab invariant 3: a chunk is in `roomy` twice");
    }
}

impl<T> Chunk<T> {
    #[inline]
    fn has_room(&self, size: usize) -> bool {
        self.free != NONE || self.slots.len() < size
    }
}

#[cfg(test)]
mod tests {
    use super::{NONE, RETIRED, Slab};
    use crate::TaskKey;
    use std::collections::HashSet;
    use std::vec::Vec;

    /// Invariant 2: the last generation is used, the one after it never, and the slot is given up.
    #[test]
    fn a_slot_is_retired_when_its_generations_are_used_up() {
        let mut slab = Slab::<u32, 1>::with_first_generation(RETIRED - 2);
        let mut seen = HashSet::new();
        for value in 0..100 {
            let key = slab.insert(value, NONE);
            slab.verify();
            assert!(seen.insert(key), "{key:?} was handed out twice");
            assert_ne!(key.generation, RETIRED);
            if value % 3 != 0 {
                assert_eq!(slab.remove(key), Some((value, NONE)));
                slab.verify();
            }
            assert_eq!(slab.remove(TaskKey { slot: key.slot, generation: RETIRED }), None);
            assert_eq!(slab.remove(TaskKey { generation: key.generation + 1, ..key }), None);
        }
        assert_eq!(slab.len(), 34);
    }

    /// Invariant 1: through any number of chunks that go and come back, and slabs that are emptied.
    #[test]
    fn no_key_is_handed_out_twice() {
        let mut slab = Slab::<usize, 2>::new();
        let mut seen = HashSet::new();
        for round in 0..50 {
            let count = 1 + round * 7 % 40;
            let mut keys: Vec<TaskKey> = (0..count).map(|value| slab.insert(value, 7)).collect();
            for &key in &keys {
                assert!(seen.insert(key), "{key:?} was handed out twice");
            }
            if round % 2 == 0 {
                keys.reverse();
            }
            for key in keys {
                assert!(slab.is_live(key));
                assert!(slab.remove(key).is_some_and(|(_, link)| link == 7));
                assert!(!slab.is_live(key));
                slab.verify();
            }
            assert!(slab.capacity() <= 4, "only the spare is left");
            if round % 5 == 0 {
                slab.release();
                assert_eq!(slab.capacity(), 0);
                slab.verify();
            }
        }
    }

    /// One slot that has seen too many tenants does not age the others when the slab is released.
    #[test]
    fn release_keeps_headers_rather_than_ageing_all_slots() {
        let mut slab = Slab::<(), 1>::with_first_generation(RETIRED / 2);
        let keys = [(); 6].map(|()| slab.insert((), NONE));
        for key in keys {
            slab.remove(key);
        }
        slab.release();
        slab.verify();
        assert_eq!((slab.capacity(), slab.chunks.len()), (0, 3));
        let again = [(); 6].map(|()| slab.insert((), NONE));
        assert!(again.iter().all(|key| !keys.contains(key)));
    }

    /// Invariant 5: whatever is kept warm goes when few are left.
    #[test]
    fn nothing_is_kept_warm_for_its_own_sake() {
        let mut slab = Slab::<usize, 2>::new();
        let mut keys: Vec<TaskKey> = (0..1_000).map(|value| slab.insert(value, NONE)).collect();
        // The first of each chunk stays, so every chunk does.
        let stay: Vec<TaskKey> = keys.iter().copied().step_by(4).collect();
        keys.retain(|key| !stay.contains(key));
        for (at, key) in keys.into_iter().enumerate() {
            slab.remove(key);
            assert_eq!(slab.warm.len(), super::WARM.min(at + 1).min(slab.len() / 4));
            slab.verify();
        }
        for (left, key) in stay.into_iter().enumerate().rev() {
            slab.remove(key);
            slab.verify();
            assert!(slab.capacity() <= 4 * (left + left / 4 + 1), "{} for {left}", slab.capacity());
        }
        assert!(slab.warm.is_empty());
    }

    /// The slot freed last is given out first, and so on back, one for each chunk: it is still in the cache.
    #[test]
    fn freed_slots_are_reused_at_once() {
        let mut slab = Slab::<u32, 2>::new();
        let keys: Vec<TaskKey> = (0..64).map(|value| slab.insert(value, NONE)).collect();
        for &at in &[5, 60, 33, 50, 9] {
            slab.remove(keys[at]);
            slab.verify();
        }
        for &at in &[9, 50, 33, 60, 5] {
            assert_eq!(slab.insert(0, NONE).slot, keys[at].slot);
            slab.verify();
        }
    }
}
