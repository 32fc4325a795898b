//! How exactly the kernel ends a timed wait of the calling thread.
//!
//! Linux may end a wait up to the thread's *timer slack* late, to serve several with one interrupt; the default
//! of 50 µs is the largest part of a timer's lateness. Elsewhere there is nothing to set.

use std::time::Duration;

pub(crate) use imp::{precisely, set};

#[cfg(all(target_os = "linux", not(punctual_loom)))]
mod imp {
    use std::num::NonZeroU64;

    use rustix::thread::{current_timer_slack, set_current_timer_slack};

    use super::Duration;

    /// The kernel tells it as a signed number of 32 bits. Two seconds are more than anybody asks for.
    const MOST: u64 = i32::MAX as u64;

    /// Best effort: a kernel that refuses leaves the wait as exact as it was.
    pub(crate) fn set(slack: Duration) {
        let nanos = u64::try_from(slack.as_nanos()).unwrap_or(MOST).min(MOST);
        // The kernel takes zero for "back to the default"; a caller who says zero means the least there is.
        let _ = set_current_timer_slack(NonZeroU64::new(nanos).or(Some(NonZeroU64::MIN)));
    }

    /// Waits with the least slack there is, whatever this thread has.
    pub(crate) fn precisely(wait: impl FnOnce()) {
        let usual = current_timer_slack().ok().filter(|nanos| (2..=MOST).contains(nanos));
        if usual.is_some() {
            set(Duration::ZERO);
        }
        wait();
        if let Some(nanos) = usual {
            set(Duration::from_nanos(nanos));
        }
    }

    #[cfg(test)]
    mod tests {
        use std::thread;
        use std::time::Duration;

        use super::{MOST, current_timer_slack, precisely, set};

        /// In a thread of its own: a thread keeps its slack.
        fn aside(test: impl FnOnce() + Send + 'static) {
            thread::spawn(test).join().unwrap();
        }

        #[test]
        fn a_precise_wait_has_no_slack_and_leaves_it_as_it_was() {
            aside(|| {
                for nanos in [1, 2, 50_000, 1_000_000_000, MOST] {
                    set(Duration::from_nanos(nanos));
                    let mut meanwhile = None;
                    precisely(|| meanwhile = current_timer_slack().ok());
                    assert_eq!((meanwhile, current_timer_slack().ok()), (Some(1), Some(nanos)));
                }
            });
        }

        #[test]
        fn the_least_is_a_nanosecond_and_the_most_what_the_kernel_can_tell() {
            aside(|| {
                for (asked, given) in
                    [(Duration::ZERO, 1), (Duration::from_secs(3), MOST), (Duration::MAX, MOST)]
                {
                    set(asked);
                    assert_eq!(current_timer_slack().ok(), Some(given));
                }
            });
        }
    }
}

#[cfg(not(all(target_os = "linux", not(punctual_loom))))]
mod imp {
    use super::Duration;

    pub(crate) fn set(_slack: Duration) {}

    #[cfg_attr(punctual_loom, allow(dead_code, reason = "models wait for nothing"))]
    pub(crate) fn precisely(wait: impl FnOnce()) {
        wait();
    }
}
