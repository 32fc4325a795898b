//! What newer JDKs added.
