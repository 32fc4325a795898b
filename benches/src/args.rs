//! The command line: a workload, a peer, and `key=value` for whatever the workload asks for.

use std::str::FromStr;
use std::time::Duration;

use crate::Trouble;

#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) workload: String,
    pub(crate) peer: String,
    pairs: Vec<(String, String)>,
}

impl Args {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Trouble> {
        let usage = || Trouble::Failed("usage: kit <workload> <peer> key=value…".to_owned());
        let (workload, peer) = (words.next().ok_or_else(usage)?, words.next().ok_or_else(usage)?);
        let pairs = words.map(|word| match word.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(usage()),
        });
        Ok(Self { workload, peer, pairs: pairs.collect::<Result<_, _>>()? })
    }

    /// The value of `key`, or `default`.
    pub(crate) fn get<T: FromStr>(&self, key: &str, default: T) -> Result<T, Trouble> {
        match self.pairs.iter().find(|(name, _)| name == key) {
            None => Ok(default),
            Some((_, value)) => {
                value.parse().map_err(|_| Trouble::Failed(format!("`{key}={value}` is not a value")))
            }
        }
    }

    pub(crate) fn millis(&self, key: &str, default: u64) -> Result<Duration, Trouble> {
        self.get(key, default).map(Duration::from_millis)
    }
}
