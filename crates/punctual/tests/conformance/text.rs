//! How things print.
