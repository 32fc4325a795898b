//! Numbers that add up.
