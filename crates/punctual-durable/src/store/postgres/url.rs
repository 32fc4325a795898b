//! Where a server is, and how far it is to be trusted: `postgres://user:password@host:port/database?sslmode=verify-full`.
//!
//! The driver reads URLs, but knows neither `verify-ca`, `verify-full` nor `sslrootcert`: these are taken out first. They
//! mean what they mean to libpq. Nothing here prints a password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::{Error, Result};

/// How TLS is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trust {
    /// Not at all.
    Plain,
    /// With whoever answers: this keeps listeners out, not impostors.
    Anybody,
    /// With whoever has a certificate by these authorities, whatever it is for.
    Authority(Option<PathBuf>),
    /// With whoever has a certificate by these authorities for the name that was asked for.
    Name(Option<PathBuf>),
}

/// A database: how to reach it, and what to call it in messages.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) trust: Trust,
    /// Host, port and database.
    pub(super) name: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (start, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "sslmode" => mode = Some(value.to_owned()),
                "sslrootcert" => authorities = Some(PathBuf::from(decode(value))),
                _ => rest.push(pair),
            }
        }
        let plain = if rest.is_empty() { start.to_owned() } else { format!("{start}?{}", rest.join("&")) };
        // The driver's message names what is wrong, and never the URL.
        let mut config = Config::from_str(&plain).map_err(|error| {
            Error::invalid("the URL of the database makes no sense").with_source(why(&error))
        })?;
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        let (ssl, trust) = match (mode.as_deref().unwrap_or("prefer"), authorities) {
            ("disable", _) => (SslMode::Disable, Trust::Plain),
            ("allow" | "prefer", _) => (SslMode::Prefer, Trust::Anybody),
            ("require", None) => (SslMode::Require, Trust::Anybody),
            ("require", authorities) | ("verify-ca", authorities) => {
                (SslMode::Require, Trust::Authority(authorities))
            }
            ("verify-full", authorities) => (SslMode::Require, Trust::Name(authorities)),
            (other, _) => {
                return Err(Error::invalid(format!(
                    "the sslmode {other:?} is none of disable, prefer, require, verify-ca and verify-full"
                )));
            }
        };
        // On a socket of this machine there is nobody in between.
        let local = config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
        let (ssl, trust) = if local { (SslMode::Disable, Trust::Plain) } else { (ssl, trust) };
        config.ssl_mode(ssl);
        let name = describe(&config);
        complete(&mut config);
        Ok(Self { config, trust, name })
    }
}

/// What was not said is said so that a host that is gone is noticed.
fn complete(config: &mut Config) {
    if config.get_application_name().is_none() {
        config.application_name("punctual");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(15));
    }
    config.keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5));
    config.keepalives_retries(3);
}

fn describe(config: &Config) -> String {
    let ports = config.get_ports();
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = ports.first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    format!("{host}:{port}/{database}")
}

/// The text of an error and of those behind it: the driver tells only its own part.
pub(super) fn why(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut texts: Vec<String> = chain.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%');
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("name", &self.name)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_mean_what_they_mean_to_libpq() {
        let trust =
            |query: &str| Address::parse(&format!("postgres://me:secret@db:5433/shop{query}")).unwrap().trust;
        let file = || Some(PathBuf::from("/etc/a b.pem"));
        assert_eq!(trust(""), Trust::Anybody);
        assert_eq!(trust("?sslmode=disable"), Trust::Plain);
        assert_eq!(trust("?sslmode=require"), Trust::Anybody);
        assert_eq!(trust("?sslmode=require&sslrootcert=/etc/a%20b.pem"), Trust::Authority(file()));
        assert_eq!(trust("?sslmode=verify-ca"), Trust::Authority(None));
        assert_eq!(trust("?sslrootcert=%2fetc/a%20b.pem&sslmode=verify-full"), Trust::Name(file()));
    }

    #[test]
    fn what_makes_no_sense_is_said_without_the_password() {
        for (url, message) in [
            ("postgres://me:secret@db/shop?sslmode=maybe", "\"maybe\""),
            ("postgres://me:secret@db/shop?colour=red", "colour"),
            ("postgres://me:secret@db:port/shop", "port"),
        ] {
            let error = Address::parse(url).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(error.is_invalid() && text.contains(message) && !text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn a_database_is_called_by_where_it_is() {
        let name = |url: &str| Address::parse(url).unwrap().name;
        assert_eq!(name("postgres://me:secret@db:5433/shop?sslmode=require"), "db:5433/shop");
        assert_eq!(name("postgresql://me@db"), "db:5432/me");
        assert!(!format!("{:?}", Address::parse("postgres://me:secret@db").unwrap()).contains("secret"));
    }

    #[test]
    fn odd_escapes_are_taken_as_they_are() {
        assert_eq!(decode("a%2Fb%"), "a/b%");
        assert_eq!(decode("%zz%e2%82%ac"), "%zz€");
    }
}
