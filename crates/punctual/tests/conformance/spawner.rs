//! Where threads come from, and do not.
