//! What a handle has of its task, in one word, and what becomes of a task that it has cancelled.
//!
//! # Invariants
//! Those of [`refs`](super::refs) and of [`apart`](super::apart).
//! 1. A task that has an [`Owner`] has never had a grip: it is made of the owner. From then on the header has the address of
//!    a tether, and every grip counts as one reference to that.
//! 2. The lowest bit of a grip's word says that it goes by the mark of its task, and then the next have the base of that. One grip
//!    of a task does at most: the first.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop};
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use punctual_engine::TaskKey;

use super::apart::{Apart, Base, Mark, Standing};
use super::header::Header;
use super::memory;
use super::refs::{Owner, TaskRef, TypedRef};
use super::{Body, Cell, Task, Typed};
use crate::fetch;
use crate::pool::{Tether, Tethers};
use crate::sync::atomic::Ordering;

/// A task whose value is a `T`, and a reference to what keeps its pool there: as handles hold them. The task has the address of the
/// other, and so has what is known of it [apart](super::apart).
pub(crate) struct Grip<T>(NonNull<Header>, PhantomData<fn(T) -> T>);

// A handle is what users have a million of.
const _: () = assert!(size_of::<Grip<String>>() == size_of::<usize>());

/// Invariant 2.
const BY_MARK: usize = 1;
const BASE_SHIFT: usize = 1;
const TAG: usize = (1 << (BASE_SHIFT + Base::BITS)) - 1;
const _: () = assert!(align_of::<Header>() > TAG);

// SAFETY: as for `TypedRef`, and a tether may be dropped by every thread.
unsafe impl<T> Send for Grip<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Grip<T> {}
impl<T> UnwindSafe for Grip<T> {}
impl<T> RefUnwindSafe for Grip<T> {}

impl<T> Grip<T> {
    /// The task.
    #[inline]
    fn task(&self) -> NonNull<Header> {
        let task = self.0.as_ptr().map_addr(|address| address & !TAG);
        // SAFETY: it is the address of a header again, which is not null.
        unsafe { NonNull::new_unchecked(task) }
    }

    /// What is known of the task apart, if the grip goes by that.
    #[inline]
    fn apart(&self) -> Option<(&Apart, Mark<'_>)> {
        let tag = self.0.addr().get();
        let base = Base::from_bits(tag >> BASE_SHIFT);
        // SAFETY: by 2 it was to go by its mark, and is there, since there is this grip.
        (tag & BY_MARK != 0).then(|| unsafe { Apart::of(self.task().as_ptr(), base) })
    }

    /// The task, if the grip goes by its mark.
    #[inline]
    pub(crate) fn by_mark(&self) -> Option<ByMark<'_>> {
        self.apart().map(|(_, mark)| ByMark { task: self.task(), mark })
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the grip is a reference to the task.
        unsafe { self.task().as_ref() }
    }

    /// The reference to the task that this is. Not to be dropped.
    #[inline]
    fn typed(&self) -> ManuallyDrop<TypedRef<T>> {
        ManuallyDrop::new(TypedRef::left_at(self.task()))
    }

    /// A second reference, without the type of the value.
    pub(crate) fn erase(&self) -> TaskRef {
        self.typed().erase()
    }

    /// A second reference.
    pub(crate) fn share(&self) -> TypedRef<T> {
        TypedRef::clone(&self.typed())
    }

    /// The same task without its type.
    #[inline]
    pub(crate) fn as_task(&self) -> &dyn Task {
        let erase = self.header().kind().erase;
        // SAFETY: as in `deref`.
        unsafe { erase(self.task()).as_ref() }
    }

    /// The address of the tether that this counts for.
    #[inline]
    fn tether_address(&self) -> *mut Tether {
        match self.apart() {
            // By 4 of `apart`: this grip is one of those.
            Some((apart, _)) => apart.owner(),
            // Relaxed: it was written before the first grip was made.
            None => self.header().tether.load(Ordering::Relaxed),
        }
    }

    /// What keeps the pool there.
    #[inline]
    pub(crate) fn tether(&self) -> &Tether {
        // SAFETY: by 1 this is a reference to it.
        unsafe { &*self.tether_address() }
    }
}

impl<T> Deref for Grip<T> {
    type Target = dyn Typed<T>;

    fn deref(&self) -> &(dyn Typed<T> + 'static) {
        let typed = self.typed();
        let task: *const (dyn Typed<T> + 'static) = &**typed;
        // SAFETY: the task is there as long as this grip, of which that was a copy.
        unsafe { &*task }
    }
}

impl<T> Clone for Grip<T> {
    fn clone(&self) -> Self {
        // SAFETY: as in `drop`; this one goes on to count for one, and the new one for another.
        unsafe { Arc::increment_strong_count(self.tether_address()) };
        let task = ManuallyDrop::new(self.share());
        Self(task.address(), PhantomData)
    }
}

impl<T> Drop for Grip<T> {
    #[inline]
    fn drop(&mut self) {
        if self.apart().is_some_and(|(_, mark)| mark.change(Standing::Cancelled, Standing::LetGo)) {
            // By 2 of `apart`.
            return;
        }
        // SAFETY: it came from `Arc::into_raw`, and by 1 this grip counts for one.
        let tether = unsafe { Arc::from_raw(self.tether_address()) };
        drop(ManuallyDrop::into_inner(self.typed()));
        // Last: what the task held may have been the user's, and is dropped while there is a pool.
        drop(tether);
    }
}

impl<T, B> Owner<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    /// Whether such tasks can go by their marks.
    pub(crate) const HAS_MARK: bool = !needs_drop::<B>() && memory::has_marks(Layout::new::<Cell<T, B>>());

    /// From now on the task goes by its mark, if it can. For whoever has made a plain task and has both references: if it has been
    /// shown to others it cannot.
    #[inline]
    pub(crate) fn go_by_mark<'a>(&self, tethers: &'a Tethers) -> Option<Marked<'a>> {
        let is_shown = !self.header().count.is_two();
        if !Self::HAS_MARK || is_shown {
            return None;
        }
        // SAFETY: it is in memory of that kind, and there.
        let (apart, mark) = unsafe { Apart::of(self.header(), Base::default()) };
        let tether = apart.owner_among(tethers)?;
        let base = mark.as_base();
        self.header().go_by_mark(base);
        Some(Marked { tether, base })
    }

    /// The same reference, without the type of the body, and with one to what keeps the pool there.
    #[inline]
    pub(crate) fn into_grip(self, tether: Arc<Tether>) -> Grip<T> {
        let tether = Arc::into_raw(tether).cast_mut();
        // Relaxed: whoever gets the grip gets this with it.
        self.header().tether.store(tether, Ordering::Relaxed);
        Grip(ManuallyDrop::new(self.into_typed()).address(), PhantomData)
    }

    /// The same of a task that [goes by its mark](Self::go_by_mark). `left` is a reference to the same tether, if one was left.
    #[inline]
    pub(crate) fn into_grip_by_mark(self, marked: &Marked<'_>, left: Option<Arc<Tether>>) -> Grip<T> {
        debug_assert!(left.as_ref().is_none_or(|left| Arc::ptr_eq(left, marked.tether)), "of another");
        let tag = marked.base.bits() << BASE_SHIFT | BY_MARK;
        let tether = left.unwrap_or_else(|| Arc::clone(marked.tether));
        let Grip(task, _) = *ManuallyDrop::new(self.into_grip(tether));
        Grip(task.map_addr(|address| address | tag), PhantomData)
    }
}

/// What the grip of a task is made with that goes by its mark.
pub(crate) struct Marked<'a> {
    /// By which it is to hold the pool.
    tether: &'a Arc<Tether>,
    base: Base,
}

impl<'a> Marked<'a> {
    /// What the grip will count for.
    #[inline]
    pub(crate) fn tether(&self) -> &'a Arc<Tether> {
        self.tether
    }
}

/// A task that goes by its mark, as whoever has the grip that does may cancel it.
pub(crate) struct ByMark<'a> {
    task: NonNull<Header>,
    mark: Mark<'a>,
}

impl ByMark<'_> {
    /// What will be written to by a cancel is wanted soon.
    #[inline]
    pub(crate) fn fetch(&self) {
        fetch::for_writing(self.mark.place());
    }

    /// Whether that is a reference to the same task.
    #[inline]
    pub(crate) fn is(&self, task: &TaskRef) -> bool {
        task.address() == self.task.addr().get()
    }

    /// The caller has it seen to. `None` if that will not do: it goes by its word, or it is over.
    #[inline]
    pub(crate) fn cancel(&self) -> Option<Gone> {
        self.mark.change(Standing::Open, Standing::Cancelled).then(|| Gone(self.task))
    }
}

/// A task that was cancelled by its mark, and does not know yet. It is told when this is settled or dropped; it has nothing of a
/// user's.
pub(crate) struct Gone(NonNull<Header>);

// SAFETY: as for `TaskRef`.
unsafe impl Send for Gone {}

impl Gone {
    fn header(&self) -> &Header {
        // SAFETY: by 2 of `apart` the task is there.
        unsafe { self.0.as_ref() }
    }

    /// The task is looked at soon.
    #[inline]
    pub(crate) fn fetch(&self) {
        fetch::for_writing(self.0.as_ptr());
    }

    /// Under which the queue has it; [`TaskKey::NONE`] while it is on its way there.
    pub(crate) fn key(&self) -> TaskKey {
        self.header().key()
    }

    /// Whether that is a reference to the same task.
    pub(crate) fn is(&self, task: &TaskRef) -> bool {
        task.address() == self.0.addr().get()
    }

    /// What is known of the task apart.
    #[inline]
    fn apart(&self) -> (&Apart, Mark<'_>) {
        // SAFETY: it has gone by its mark, and is there.
        unsafe { Apart::of(self.0.as_ptr(), self.header().base()) }
    }

    /// What the grip counted for, which has let go of the task.
    ///
    /// # Safety
    /// It has, the task is still there, and nobody asks twice.
    #[inline]
    unsafe fn left_by(apart: &Apart) -> Arc<Tether> {
        // SAFETY: by 4 of `apart` this is the tether that the grip counted for, and by 2 it has left the count.
        unsafe { Arc::from_raw(apart.owner()) }
    }

    /// The same as to drop it and what the queue had, in a fraction of the time if nobody else has the task, as usual. In that case
    /// what the handle held of the pool comes back.
    #[inline]
    pub(crate) fn settle(self, queued: TaskRef) -> Option<Arc<Tether>> {
        debug_assert!(self.is(&queued), "two tasks");
        let header = self.header();
        let (apart, mark) = self.apart();
        if mark.standing() != Standing::LetGo || !header.count.is_two() || !header.goes_by_mark() {
            return None;
        }
        let layout = header.kind().layout;
        // SAFETY: it has let go, and this is gone below.
        let tether = unsafe { Self::left_by(apart) };
        let (gone, _) = (ManuallyDrop::new(self), ManuallyDrop::new(queued));
        // SAFETY: by 2 of `apart` one reference was left to this, and the other is the caller's: nobody else has the task. It
        // was made with that layout, and nothing in it is to be dropped: not the body, by `go_by_mark`, and for all else
        // somebody would have taken the lock.
        unsafe { memory::release(gone.0.cast(), layout) };
        Some(tether)
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.header().close();
        let (apart, mark) = self.apart();
        if !mark.change(Standing::Cancelled, Standing::Closed) {
            // SAFETY: it was let go, and this is the end of what it was left to.
            let tether = unsafe { Self::left_by(apart) };
            drop(TaskRef::left_at(self.0));
            drop(tether);
        }
    }
}
