//! Where the jobs of one test are kept.

use std::path::PathBuf;
use std::sync::Arc;

use punctual_durable::{PostgresStore, Result, SqliteStore, Store, SystemTimeSource, TimeSource};
use serde::{Deserialize, Serialize};

/// A store, as it is named to another process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Place {
    Sqlite(PathBuf),
    /// By its URL.
    Postgres(String),
}

impl Place {
    /// Of a server.
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Postgres(url) => url,
            Self::Sqlite(path) => panic!("{} is no server", path.display()),
        }
    }

    pub(crate) fn open(&self) -> Result<Arc<dyn Store>> {
        self.open_with_time(SystemTimeSource::default())
    }

    /// `time` is what a store goes by that has no clock of its own.
    pub(crate) fn open_with_time(&self, time: impl TimeSource) -> Result<Arc<dyn Store>> {
        match self {
            Self::Sqlite(path) => Ok(Arc::new(SqliteStore::open_with_time(path, time)?)),
            Self::Postgres(url) => Ok(Arc::new(PostgresStore::open(url)?)),
        }
    }
}
