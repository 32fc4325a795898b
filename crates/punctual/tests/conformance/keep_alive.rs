//! How long idle threads stay.
