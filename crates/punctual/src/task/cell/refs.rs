//! References to a task: counted, and thin where the queue has them.
//!
//! An `Arc<dyn Task>` is two words, and its counts two more beside the task. The queue has a million of these, and users may
//! have as many handles: a [`TaskRef`] is one word, the address of the header, which knows how to get from there to the whole
//! task, and one count of four bytes. So is a [`TypedRef`]. Nobody needs weak references.
//!
//! # Invariants
//! 1. The count in the header is that of the references. A task is freed by whoever gives up the last one, and not before.
//! 2. Every reference was made from the address in [`entrust`], so it may be used for the whole allocation.
//! 3. A [`TypedRef`] of a `T` is a reference to a task whose value is a `T`.
//! 4. Two [`Half`]s count as one reference. Neither gives it up alone, so both are good until they are joined.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, transmute};
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use super::extra::Traits;
use super::header::{Header, Kind};
use super::memory;
use super::{Body, Cell, Task, Typed};
use crate::fetch;
use crate::task::perform::{Ended, Run};

/// A task as the queue and the workers hold it.
pub(crate) struct TaskRef(NonNull<Header>);

/// A task whose value is a `T`, as handles hold it.
pub(crate) struct TypedRef<T>(NonNull<Header>, PhantomData<fn(T) -> T>);

/// From the header to the whole task, whose value is a `T`.
type Typify<T> = unsafe fn(NonNull<Header>) -> NonNull<dyn Typed<T>>;

/// A task as whoever makes it holds it.
pub(crate) struct Owner<T, B>(NonNull<Cell<T, B>>)
where
    T: Send + 'static,
    B: Body<T> + 'static;

/// Makes a task: one reference for its maker, one for the queue.
pub(crate) fn allocate<T, B>(traits: Traits, body: B) -> (Owner<T, B>, TaskRef)
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    let header = Header::new(traits, 2, Cell::<T, B>::KIND);
    entrust(|| Cell::new(header, body))
}

/// [`allocate`], for a task that runs once and that nothing sets apart.
#[inline]
pub(crate) fn allocate_plain<T, B>(body: B) -> (Owner<T, B>, TaskRef)
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    entrust(|| Cell::new(Header::plain(2, Cell::<T, B>::KIND), body))
}

/// `make` is called when there is memory for what it makes, so that this is written there at once: what is put together
/// elsewhere in small pieces and then moved in large ones is waited for.
#[inline]
fn entrust<T, B>(make: impl FnOnce() -> Cell<T, B>) -> (Owner<T, B>, TaskRef)
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    let place = memory::allocate(Layout::new::<Cell<T, B>>()).cast::<Cell<T, B>>();
    // SAFETY: memory for just that.
    unsafe { place.write(make()) };
    (Owner(place), TaskRef(place.cast()))
}

/// Drops a task and takes its memory back.
///
/// # Safety
/// It was made by [`entrust`], and nobody else has it any more.
unsafe fn free<C>(task: NonNull<C>) {
    struct Memory(NonNull<u8>, Layout);

    // Also if a destructor panics.
    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: what was in it is dropped, or was being dropped, and nobody has it.
            unsafe { memory::release(self.0, self.1) };
        }
    }

    let _memory = Memory(task.cast(), Layout::new::<C>());
    // SAFETY: for the caller to see to.
    unsafe { task.drop_in_place() };
}

impl<T, B> Cell<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    const KIND: &'static Kind = &Kind {
        erase: Self::erase,
        // SAFETY: a pointer to a function is as good as any other, as long as it is not called; `TypedRef` knows the type.
        typify: unsafe { transmute::<Typify<T>, unsafe fn()>(Self::typify) },
        perform: Self::perform_at,
        free: Self::free_at,
        needs_drop: std::mem::needs_drop::<T>(),
        layout: Layout::new::<Self>(),
    };

    /// # Safety
    /// As [`Kind`] says, like the three below.
    unsafe fn erase(header: NonNull<Header>) -> NonNull<dyn Task> {
        header.cast::<Self>()
    }

    unsafe fn typify(header: NonNull<Header>) -> NonNull<dyn Typed<T>> {
        header.cast::<Self>()
    }

    unsafe fn perform_at(header: NonNull<Header>, run: &Run<'_>) -> Ended {
        // SAFETY: it is the address of such a cell, which whoever asks refers to.
        unsafe { header.cast::<Self>().as_ref() }.perform_typed(run)
    }

    unsafe fn free_at(header: NonNull<Header>) {
        // SAFETY: it is the address of such a cell, and nobody else has it any more.
        unsafe { free(header.cast::<Self>()) };
    }
}

// SAFETY: a task is `Send` and `Sync` (the trait demands it), and is dropped by whichever thread has the last
// reference.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}
// SAFETY: as above; the value inside moves to whoever takes it, which `T: Send` was demanded for in `allocate`.
unsafe impl<T> Send for TypedRef<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for TypedRef<T> {}

// A panic leaves a task as good as it was: what it holds is changed under its lock, where nothing panics.
impl UnwindSafe for TaskRef {}
impl RefUnwindSafe for TaskRef {}
impl<T> UnwindSafe for TypedRef<T> {}
impl<T> RefUnwindSafe for TypedRef<T> {}

/// One of two that are a reference together: what a worker runs, and what the pool notes that it runs. To count the second
/// would cost every run two read-modify-writes. A half that is dropped alone keeps the task in memory for good.
pub(crate) struct Half(ManuallyDrop<TaskRef>);

impl Half {
    /// The reference that these two are.
    ///
    /// # Panics
    /// If they belong to different tasks.
    pub(crate) fn join(self, other: Half) -> TaskRef {
        assert!(self.0.0 == other.0.0, "halves of one reference");
        ManuallyDrop::into_inner(self.0)
    }
}

impl Deref for Half {
    type Target = TaskRef;

    fn deref(&self) -> &TaskRef {
        &self.0
    }
}

impl TaskRef {
    /// The reference that somebody has left at that address, who has it no more.
    pub(super) fn left_at(task: NonNull<Header>) -> Self {
        Self(task)
    }

    /// The same reference in two parts.
    pub(crate) fn halve(self) -> (Half, Half) {
        let twin = Self(self.0);
        (Half(ManuallyDrop::new(self)), Half(ManuallyDrop::new(twin)))
    }

    /// Gives the reference up, unless it is the last: that comes back. Nothing is dropped.
    pub(crate) fn give_up(self) -> Option<Self> {
        let reference = ManuallyDrop::new(self);
        let gone = reference.header().count.release_if_shared();
        (!gone).then(|| ManuallyDrop::into_inner(reference))
    }

    /// Brings the header into the cache, for whoever will need it soon.
    #[inline]
    pub(crate) fn fetch(&self) {
        fetch::for_writing(self.0.as_ptr());
    }

    /// Brings the task into the cache, for whoever will need it soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let first = self.0.as_ptr().cast::<u8>().cast_const();
        fetch::for_writing(first);
        // The smallest tasks are in one line, most others in two, of which the last word of a smallest one would be in the second.
        fetch::for_writing(first.wrapping_add(56));
        // When it has run, what it is in is told that it is free.
        fetch::for_writing(memory::home(first));
    }

    /// What tells it from all other tasks, while it is there. Not to be followed.
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: by 1 the task is there.
        unsafe { self.0.as_ref() }
    }

    /// Runs the task if it is waiting; see [`Ended`].
    #[inline]
    pub(crate) fn perform(&self, run: &Run<'_>) -> Ended {
        let perform = self.header().kind().perform;
        // SAFETY: as in `deref`.
        unsafe { perform(self.0, run) }
    }
}

impl Deref for TaskRef {
    type Target = dyn Task;

    fn deref(&self) -> &(dyn Task + 'static) {
        let erase = self.header().kind().erase;
        // SAFETY: `erase` was made for the type of this very task, by 2 the address is good for all of it, and by 1
        // it is there as long as `self`.
        unsafe { erase(self.0).as_ref() }
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        self.header().count.retain();
        Self(self.0)
    }
}

impl Drop for TaskRef {
    fn drop(&mut self) {
        if self.header().count.release() {
            let free = self.header().kind().free;
            // SAFETY: as in `deref`; by 1 nobody else has it any more.
            unsafe { free(self.0) };
        }
    }
}

impl<T> Deref for TypedRef<T> {
    type Target = dyn Typed<T>;

    fn deref(&self) -> &(dyn Typed<T> + 'static) {
        // SAFETY: by 3 this is what it was before `KIND` forgot its type.
        let typify = unsafe { transmute::<unsafe fn(), Typify<T>>(self.header().kind().typify) };
        // SAFETY: `typify` was made for the type of this very task, by 2 the address is good for all of it, and by 1
        // it is there as long as `self`.
        unsafe { typify(self.0).as_ref() }
    }
}

impl<T> TypedRef<T> {
    /// The reference that somebody has left at that address, who has it no more, or whose copy this is. The task's value is a `T`.
    #[inline]
    pub(super) fn left_at(task: NonNull<Header>) -> Self {
        Self(task, PhantomData)
    }

    /// Where the task is.
    #[inline]
    pub(super) fn address(&self) -> NonNull<Header> {
        self.0
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: by 1 the task is there.
        unsafe { self.0.as_ref() }
    }

    /// The same task without its type.
    #[inline]
    pub(crate) fn as_task(&self) -> &dyn Task {
        // SAFETY: as in `deref`.
        unsafe { (self.header().kind().erase)(self.0).as_ref() }
    }

    /// A second reference, without the type of the value.
    pub(crate) fn erase(&self) -> TaskRef {
        self.header().count.retain();
        TaskRef(self.0)
    }
}

impl<T> Clone for TypedRef<T> {
    fn clone(&self) -> Self {
        self.header().count.retain();
        Self(self.0, PhantomData)
    }
}

impl<T> Drop for TypedRef<T> {
    fn drop(&mut self) {
        if self.header().count.release() {
            let free = self.header().kind().free;
            // SAFETY: as in `deref`; by 1 nobody else has it any more.
            unsafe { free(self.0) };
        }
    }
}

impl<T, B> Owner<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    /// The same reference, without the type of the body.
    pub(crate) fn into_typed(self) -> TypedRef<T> {
        let cell = self.0;
        std::mem::forget(self);
        TypedRef(cell.cast(), PhantomData)
    }

    /// A second reference, without the type of the body.
    pub(crate) fn typed(&self) -> TypedRef<T> {
        self.header().count.retain();
        TypedRef(self.0.cast(), PhantomData)
    }
}

impl<T, B> Deref for Owner<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    type Target = Cell<T, B>;

    fn deref(&self) -> &Cell<T, B> {
        // SAFETY: by 1 the task is there.
        unsafe { self.0.as_ref() }
    }
}

impl<T, B> Drop for Owner<T, B>
where
    T: Send + 'static,
    B: Body<T> + 'static,
{
    fn drop(&mut self) {
        if self.header().count.release() {
            // SAFETY: by 1 nobody else has it any more.
            unsafe { free(self.0) };
        }
    }
}
