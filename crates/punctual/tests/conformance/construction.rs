//! Construction, settings and what they refuse.
