//! Hints to the processor: what will be needed soon.
//!
//! Producers and workers write to the same memory in turn: tasks that are made where others were freed, letters that are written
//! where others were read. Each first touch waits until the line has come from the other processor, which takes as long as all the
//! rest of a submission. Whoever knows what is touched next says so here, and goes on meanwhile.
//!
//! # What the unsafe code buys
//! A million tasks within 100 ms on one worker, where the processors are far from each other: 3.7 to 5.0 million a second, and at
//! once 7.6 to 10.5 (see `docs/performance-log.md`). A hint does nothing else, whatever the address.

/// Brings a line of memory into the cache, for whoever will write to it soon.
#[inline]
pub(crate) fn for_writing<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, good for every address; every x86-64 of the last twenty years knows it.
    unsafe {
        std::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
