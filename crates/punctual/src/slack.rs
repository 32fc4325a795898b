//! How exactly the kernel ends a timed wait of the calling thread.
//!
//! Linux may end a wait up to the thread's *timer slack* late, to serve several with one interrupt; the default
//! of 50 µs is the largest part of a timer's lateness. Elsewhere there is nothing to set.

#[cfg(all(target_os = "linux", not(punctual_loom)))]
use std::num::NonZeroU64;
use std::time::Duration;

/// Best effort: a kernel that refuses leaves the wait as exact as it was.
#[cfg(all(target_os = "linux", not(punctual_loom)))]
pub(crate) fn set(slack: Duration) {
    let nanos = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
    // The kernel takes zero for "back to the default"; a caller who says zero means the least there is.
    let nanos = NonZeroU64::new(nanos).unwrap_or(NonZeroU64::MIN);
    let _ = rustix::thread::set_current_timer_slack(Some(nanos));
}

#[cfg(not(all(target_os = "linux", not(punctual_loom))))]
pub(crate) fn set(_slack: Duration) {}
