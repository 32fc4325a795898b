//! Bodies that are too large to be moved about.
//!
//! A body is moved from the caller into the task, from there to the thread that runs it, and back if it is to run again;
//! some of that is done under the lock of the task. A closure that captured an array of a few hundred kilobytes would
//! take many times that on the stack of a worker, where there are two megabytes. So beyond a size where the moves cost
//! more than an allocation, bodies are boxed when they come in, what is moved is a pointer, and they are called where
//! they are.

use super::Body;

/// Bodies that take more bytes than this are boxed.
const LARGE: usize = 1024;

/// Whether bodies of this type are boxed. Known when the program is compiled.
pub(crate) const fn is_large<B>() -> bool {
    size_of::<B>() > LARGE
}

/// A closure for one run, in a box.
pub(crate) struct LargeOnce<F>(pub(crate) Box<F>);

impl<T, F: FnOnce() -> T + Send> Body<T> for LargeOnce<F> {
    fn call(body: &mut Option<Self>) -> Option<T> {
        let LargeOnce(body) = body.take()?;
        // As an object it is called in its box; by its own type it would be moved out of it first.
        let body: Box<dyn FnOnce() -> T + Send + '_> = body;
        Some(body())
    }
}

/// A body for any number of runs, in a box.
pub(crate) struct Large<B>(Box<Option<B>>);

impl<B> Large<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Box::new(Some(body)))
    }

    /// The body of a task that was refused.
    pub(crate) fn into_inner(self) -> B {
        (*self.0).expect("a task that was refused has not been run")
    }
}

impl<T, B: Body<T>> Body<T> for Large<B> {
    fn call(body: &mut Option<Self>) -> Option<T> {
        B::call(&mut body.as_mut()?.0)
    }

    fn end_run(body: &mut Option<Self>) {
        if let Some(Self(body)) = body {
            B::end_run(body);
        }
    }
}
