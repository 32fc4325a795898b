//! What becomes of refused tasks.
