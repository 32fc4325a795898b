//! Submissions that race with shutdown.
