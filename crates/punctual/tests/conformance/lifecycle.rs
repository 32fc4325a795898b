//! From running to terminated.
