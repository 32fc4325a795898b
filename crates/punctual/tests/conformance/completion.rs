//! Results in order of completion.
