//! The free-standing task.
