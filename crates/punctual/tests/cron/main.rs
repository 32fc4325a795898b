//! Cron, from outside.
