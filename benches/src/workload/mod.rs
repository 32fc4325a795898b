//! What is measured. One file each, generic over the peer.

pub(crate) mod fire;
pub(crate) mod idle;
pub(crate) mod insert;
pub(crate) mod lateness;
pub(crate) mod memory;
pub(crate) mod pause;
pub(crate) mod periodic;
pub(crate) mod ping;
pub(crate) mod producers;
pub(crate) mod timeout;
