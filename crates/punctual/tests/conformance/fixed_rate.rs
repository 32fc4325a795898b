//! Fixed rate: a grid that does not move.
