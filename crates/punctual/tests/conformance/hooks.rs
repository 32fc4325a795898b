//! Hooks round runs and threads.
