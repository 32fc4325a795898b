//! Fixed delay: from end to start.
