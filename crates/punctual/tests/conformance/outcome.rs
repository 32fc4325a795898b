//! Values, failures and timed waits.
