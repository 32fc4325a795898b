//! What processes that share a store tell each other, and how it is written down.
//!
//! All of it is a courtesy: it may be lost, come late, come twice, or be made up by somebody else. Whoever hears something
//! looks into the store before believing it, and looks from time to time without having heard anything.

use std::fmt;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "sqlite")]
use super::Enqueued;
use super::{News, Ticket};
use crate::job::JobId;
#[cfg(feature = "sqlite")]
use crate::job::NewJob;
use crate::lane::Lane;
use crate::time::Timestamp;

/// Hears news, without blocking; answers whether it wants to hear more.
pub(super) type Hear = Arc<dyn Fn(&News) -> bool + Send + Sync>;

/// Jobs in one message: few enough for a notification of PostgreSQL, which has at most 8,000 bytes.
const MOST: usize = 300;

/// New jobs in one message, with their due times.
const MOST_NEW: usize = 100;

impl News {
    /// What there is to say of these jobs when they have been accepted. (In PostgreSQL a function says it.)
    #[cfg(feature = "sqlite")]
    pub(super) fn of(jobs: &[NewJob]) -> impl FnOnce(&[Enqueued]) -> Self + use<> {
        let kind = jobs.first().map(|job| job.kind.clone());
        let kind = kind.filter(|kind| jobs.len() <= MOST_NEW && jobs.iter().all(|job| job.kind == *kind));
        let new =
            |accepted: &Enqueued| if let Enqueued::New(ticket) = accepted { Some(*ticket) } else { None };
        move |accepted| {
            let tickets = accepted.iter().map(new).collect::<Option<Vec<Ticket>>>();
            kind.zip(tickets).map_or(Self::Jobs, |(kind, tickets)| Self::New(kind, tickets))
        }
    }

    /// As messages. What there is to run needs no words.
    pub(super) fn encode(&self) -> Vec<String> {
        let (word, ids) = match self {
            Self::Jobs => return vec![String::new()],
            Self::New(kind, tickets) => return encode_new(kind, tickets),
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
            Some("n") => decode_new(message).unwrap_or(Self::Jobs),
            Some("w") => Self::Waiting(ids()),
            Some("o") => Self::Over(ids()),
            _ => Self::Jobs,
        }
    }
}

/// New jobs: `n`, their lane, the id and due time of each, a bar and their kind, which may be any words. PostgreSQL
/// writes it, too: `punctual.accept_and_ring`.
fn encode_new(kind: &str, tickets: &[Ticket]) -> Vec<String> {
    let plain = |ticket: &Ticket| ticket.version == 1 && ticket.lane == tickets[0].lane;
    // Others are found by looking.
    if !(1..=MOST_NEW).contains(&tickets.len()) || !tickets.iter().all(plain) {
        return vec![String::new()];
    }
    let mut text = format!("n {}", tickets[0].lane.index());
    for ticket in tickets {
        let _ = write!(text, " {} {}", ticket.id.as_i64(), ticket.due.as_micros());
    }
    vec![text + "|" + kind]
}

fn decode_new(message: &str) -> Option<News> {
    let (numbers, kind) = message.strip_prefix("n ")?.split_once('|')?;
    let mut numbers = numbers.split(' ').map(|word| word.parse::<i64>().ok());
    let lane = Lane::from_index(usize::try_from(numbers.next()??).ok()?);
    let mut tickets = Vec::new();
    while let Some(id) = numbers.next() {
        let (id, due) = (JobId::from_i64(id?), Timestamp::from_micros(numbers.next()??));
        tickets.push(Ticket { id, version: 1, due, lane });
    }
    (tickets.len() <= MOST_NEW).then(|| News::New(kind.to_owned(), tickets))
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

    fn ticket(id: i64, due: i64) -> Ticket {
        Ticket { id: JobId::from_i64(id), version: 1, due: Timestamp::from_micros(due), lane: Lane::Normal }
    }

    fn ids(ids: impl IntoIterator<Item = i64>) -> Vec<JobId> {
        ids.into_iter().map(JobId::from_i64).collect()
    }

    #[test]
    fn news_are_heard_as_they_were_told_in_messages_that_fit() {
        let new = |kind: &str, tickets: &[Ticket]| News::New(kind.to_owned(), tickets.to_vec());
        for news in [
            News::Jobs,
            News::Waiting(ids([7, i64::MAX, -1])),
            News::Over(ids([1])),
            new("a|b c n 1|", &[ticket(1, i64::MIN), ticket(i64::MAX, 0)]),
            new("k", &[ticket(i64::MIN, i64::MAX); MOST_NEW]),
        ] {
            let messages = news.encode();
            assert!(messages.len() == 1 && messages[0].len() < 7_000);
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
        let urgent = Ticket { lane: Lane::Urgent, ..ticket(1, 1) };
        let again = Ticket { version: 2, ..ticket(1, 1) };
        for more in [&[urgent, ticket(2, 1)][..], &[again], &[], &[ticket(1, 1); MOST_NEW + 1]] {
            assert_eq!(new("k", more).encode(), [""], "these are found by looking: {more:?}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn what_is_told_of_jobs_names_them_if_they_are_few_and_new_and_alike() {
        let of = |kinds: &[&str], accepted: &[Enqueued]| {
            let jobs: Vec<NewJob> = kinds.iter().map(|kind| NewJob::new(*kind, "")).collect();
            News::of(&jobs)(accepted)
        };
        let new = |id| Enqueued::New(ticket(id, 5));
        assert_eq!(
            of(&["k", "k"], &[new(1), new(2)]),
            News::New("k".to_owned(), vec![ticket(1, 5), ticket(2, 5)])
        );
        assert_eq!(of(&["k", "l"], &[new(1), new(2)]), News::Jobs);
        assert_eq!(of(&["k", "k"], &[new(1), Enqueued::Existing(JobId::from_i64(2))]), News::Jobs);
        assert_eq!(of(&["k", "k"], &[new(1), Enqueued::Replaced(ticket(2, 5))]), News::Jobs);
        assert_eq!(of(&["k"; MOST_NEW + 1], &[new(1); MOST_NEW + 1]), News::Jobs);
        assert_eq!(of(&[], &[]), News::Jobs);
    }

    #[test]
    fn what_cannot_be_read_is_news_all_the_same_and_does_no_harm() {
        let long = format!("n 1{}|k", " 1 1".repeat(MOST_NEW + 1));
        let noises = [
            "\u{1}",
            "x 1 2",
            "W 1",
            "\u{fffd}",
            "n",
            "n 1 2 3",
            "n |k",
            "n x|k",
            "n 1 2|k",
            "n 1 2 x|k",
            &long,
        ];
        for noise in noises {
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
