//! Tasks that use their own executor.
