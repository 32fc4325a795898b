//! What can go wrong between a program and its store.

use std::error::Error as StdError;
use std::fmt;

/// The result of everything that talks to a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store, or a request that makes no sense.
///
/// It says what it is about and can be asked what to do: [`is_transient`](Self::is_transient) errors are worth
/// another try, the others are not.
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The request is wrong, and will be so tomorrow.
    Invalid,
    /// The unique key is taken.
    Conflict,
    /// The store could not do it now: busy, full, unreachable.
    Transient,
    /// The store is damaged, foreign, or of a later version.
    Broken,
    /// The node or the store has been closed.
    Closed,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// A unique key that is taken.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// Something that may well succeed when tried again.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(Kind::Transient, message)
    }

    /// A store that cannot be used as it is.
    pub fn broken(message: impl Into<String>) -> Self {
        Self::new(Kind::Broken, message)
    }

    /// Something that has been closed.
    pub fn closed(message: impl Into<String>) -> Self {
        Self::new(Kind::Closed, message)
    }

    /// Adds the error behind this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error for somebody else: with the message of the source, without the source itself.
    pub(crate) fn copy(&self) -> Self {
        let source = self.source.as_ref().map(|source| source.to_string().into());
        Self { kind: self.kind, message: self.message.clone(), source }
    }

    /// Whether the request itself is wrong.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.kind == Kind::Invalid
    }

    /// Whether a unique key is taken.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind == Kind::Conflict
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.kind == Kind::Transient
    }

    /// Whether the store is damaged, not ours, or made by a later version.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.kind == Kind::Broken
    }

    /// Whether the request came after the end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.kind == Kind::Closed
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
