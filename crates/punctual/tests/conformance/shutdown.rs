//! What a shutdown leaves and what it ends.
