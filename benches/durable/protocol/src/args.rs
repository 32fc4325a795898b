//! The command line: a workload, a peer, and `key=value` for whatever the workload asks for.

use std::str::FromStr;

use crate::Trouble;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Args {
    /// What to measure.
    pub workload: String,
    /// Whom.
    pub peer: String,
    /// Where its jobs are kept.
    pub url: String,
    pairs: Vec<(String, String)>,
}

impl Args {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Trouble> {
        let usage = || Trouble::Failed("usage: <workload> <peer> url=<store> key=value…".to_owned());
        let (workload, peer) = (words.next().ok_or_else(usage)?, words.next().ok_or_else(usage)?);
        let pairs = words.map(|word| match word.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(usage()),
        });
        let pairs: Vec<(String, String)> = pairs.collect::<Result<_, _>>()?;
        let url = pairs.iter().find(|(key, _)| key == "url").map(|(_, url)| url.clone()).unwrap_or_default();
        Ok(Self { workload, peer, url, pairs })
    }

    /// The value of `key`, or `default`.
    ///
    /// # Errors
    /// If it is there and makes no sense.
    pub fn get<T: FromStr>(&self, key: &str, default: T) -> Result<T, Trouble> {
        match self.pairs.iter().find(|(name, _)| name == key) {
            None => Ok(default),
            Some((_, value)) => {
                value.parse().map_err(|_| Trouble::Failed(format!("`{key}={value}` is not a value")))
            }
        }
    }

    /// The words for another process that measures the same peer on the same store.
    pub(crate) fn words_for(&self, workload: &str) -> Vec<String> {
        let pairs = self.pairs.iter().map(|(key, value)| format!("{key}={value}"));
        [workload.to_owned(), self.peer.clone()].into_iter().chain(pairs).collect()
    }
}
