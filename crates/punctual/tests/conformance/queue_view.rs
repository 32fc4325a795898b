//! What is waiting.
