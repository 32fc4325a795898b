//! Exact order of deadline and submission.
