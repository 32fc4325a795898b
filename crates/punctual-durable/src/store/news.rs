//! What processes that share a store tell each other, and how it is written down.
//!
//! All of it is a courtesy: it may be lost, come late, come twice, or be made up by somebody else. Whoever hears something
//! looks into the store before believing it, and looks from time to time without having heard anything.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::News;
use crate::job::JobId;

/// Hears news, without blocking; answers whether it wants to hear more.
pub(super) type Hear = Arc<dyn Fn(&News) -> bool + Send + Sync>;

/// Jobs in one message: few enough for a notification of PostgreSQL, which has at most 8,000 bytes.
const MOST: usize = 300;

impl News {
    /// As messages. What there is to run needs no words.
    pub(super) fn encode(&self) -> Vec<String> {
        let (word, ids) = match self {
            Self::Jobs => return vec![String::new()],
            Self::Waiting(ids) => ('w', ids),
            Self::Over(ids) => ('o', ids),
        };
        let message = |ids: &[JobId]| {
            ids.iter().fold(word.to_string(), |mut text, id| {
                let _ = write!(text, " {}", id.as_i64());
                text
            })
        };
        ids.chunks(MOST).map(message).collect()
    }

    /// What a message says; one that cannot be read says that something has happened.
    pub(super) fn decode(message: &str) -> Self {
        let mut words = message.split(' ');
        let word = words.next();
        let ids = || words.filter_map(|word| word.parse().ok()).map(JobId::from_i64).take(MOST).collect();
        match word {
            Some("w") => Self::Waiting(ids()),
            Some("o") => Self::Over(ids()),
            _ => Self::Jobs,
        }
    }
}

/// Everybody in this process who wants to hear.
#[derive(Clone, Default)]
pub(super) struct Ears(Arc<Mutex<Vec<Hear>>>);

impl Ears {
    pub(super) fn add(&self, hear: Hear) {
        self.lock().push(hear);
    }

    /// Tells everybody, without the lock, and forgets those who do not want to hear more.
    pub(super) fn tell(&self, news: &News) {
        let all = self.lock().clone();
        let deaf: Vec<Hear> = all.into_iter().filter(|hear| !hear(news)).collect();
        if !deaf.is_empty() {
            self.lock().retain(|hear| !deaf.iter().any(|gone| Arc::ptr_eq(gone, hear)));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Hear>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ears").field(&self.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn ids(ids: impl IntoIterator<Item = i64>) -> Vec<JobId> {
        ids.into_iter().map(JobId::from_i64).collect()
    }

    #[test]
    fn news_are_heard_as_they_were_told_in_messages_that_fit() {
        for news in [News::Jobs, News::Waiting(ids([7, i64::MAX, -1])), News::Over(ids([1]))] {
            let messages = news.encode();
            assert_eq!(messages.len(), 1);
            assert_eq!(News::decode(&messages[0]), news);
        }
        let long: Vec<String> = News::Over(ids((0..700).map(|n| i64::MAX - n))).encode();
        assert!(long.len() == 3 && long.iter().all(|message| message.len() < 7_900));
        let count = |message: &String| match News::decode(message) {
            News::Over(ids) => ids.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(long.iter().map(count).sum::<usize>(), 700);
        assert_eq!(News::Waiting(Vec::new()).encode(), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_read_is_news_all_the_same_and_does_no_harm() {
        for noise in ["\u{1}", "x 1 2", "W 1", "\u{fffd}"] {
            assert_eq!(News::decode(noise), News::Jobs, "{noise:?}");
        }
        assert_eq!(News::decode("o 1 x 99999999999999999999 2 "), News::Over(ids([1, 2])));
        let many = format!("w{}", " 1".repeat(100_000));
        assert!(matches!(News::decode(&many), News::Waiting(ids) if ids.len() == MOST));
    }

    #[test]
    fn who_does_not_want_to_hear_more_is_not_told_again() {
        let (ears, count) = (Ears::default(), Arc::new(AtomicU32::new(0)));
        for stays in [true, false] {
            let count = Arc::clone(&count);
            ears.add(Arc::new(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                stays
            }));
        }
        ears.tell(&News::Jobs);
        ears.tell(&News::Jobs);
        assert_eq!(count.load(Ordering::SeqCst), 3);
        assert_eq!(ears.lock().len(), 1);
    }
}
