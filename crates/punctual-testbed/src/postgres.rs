//! A PostgreSQL of our own, in a folder of its own.
//!
//! # Protocol
//! `initdb` makes a cluster in a temporary folder, owned by an unprivileged user if we are root (PostgreSQL refuses to
//! run as root); the server listens on a free port of the loopback and on a socket in the folder. It is stopped when the
//! [`Postgres`] is dropped, or when the process ends in whatever way, see `process.rs`. A free port may be taken by
//! another before the server has it: then the next is tried.
//!
//! `PUNCTUAL_TEST_PG` names a server to use instead of the shared one, by a URL whose user may create databases. What
//! needs to break its server starts one of its own all the same.

use std::fmt;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::certificate::Certificate;
use crate::process::{Guarded, User, become_user, find_programs};

/// The superuser of the servers.
const USER: &str = "punctual";

/// How often a server is asked whether it is up, before it counts as failed: two minutes on a machine that is busy.
const PATIENCE: (u32, Duration) = (6_000, Duration::from_millis(20));

/// How a server is set up. The default is fast, and forgets everything if the machine goes down.
///
/// ```
/// use punctual_testbed::Settings;
///
/// let settings = Settings::durable().tls().password("secret").option("max_connections", "20");
/// # let _ = settings;
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Settings {
    durable: bool,
    tls: bool,
    password: Option<String>,
    options: Vec<(String, String)>,
}

impl Settings {
    /// Without waiting for the disk.
    pub fn fast() -> Self {
        Self { durable: false, tls: false, password: None, options: Vec::new() }
    }

    /// PostgreSQL's own defaults: a commit is on the disk when it returns.
    pub fn durable() -> Self {
        Self { durable: true, ..Self::fast() }
    }

    /// Speaks TLS, with a certificate for `localhost` by an authority of its own.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Asks for this password (SCRAM). It must not need escaping in a URL.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Another setting, as in `postgresql.conf`.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::fast()
    }
}

/// A server. Dropping it stops it and removes everything.
pub struct Postgres {
    /// Where it can be reached, without the database: `postgres://user[:password]@host:port`.
    base: String,
    own: Option<Own>,
}

/// What we know of a server that we have started.
struct Own {
    programs: PathBuf,
    settings: Settings,
    user: Option<User>,
    port: u16,
    certificate: Option<Certificate>,
    running: Mutex<Option<Guarded>>,
    /// Removed after the server has been stopped.
    folder: TempDir,
}

impl Postgres {
    /// The server of this process: fast, started by the first who asks, or the one that `PUNCTUAL_TEST_PG` names.
    ///
    /// # Panics
    /// If there is none and none can be started; the message says what to install.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("PUNCTUAL_TEST_PG") {
            Ok(url) if !url.is_empty() => Self { base: base_of(&url), own: None },
            _ => Self::start(Settings::fast().option("max_connections", "300")),
        })
    }

    /// A server of one's own.
    ///
    /// # Panics
    /// If none can be started; the message says what to install.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let programs = find_programs("initdb").unwrap_or_else(|| {
            panic!(
                "no PostgreSQL found: neither initdb on the path nor /usr/lib/postgresql/*/bin; \
                 install it (Debian: apt-get install postgresql)"
            )
        });
        let user = User::unprivileged();
        let folder = tempfile::Builder::new().prefix("punctual-pg-").tempdir().expect("a temporary folder");
        User::give(user, folder.path());
        let certificate = settings.tls.then(|| Certificate::make_in(folder.path()));
        if let Some(Certificate { key, .. }) = &certificate {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(key, fs::Permissions::from_mode(0o600)).expect("our own file");
            User::give(user, key);
        }
        initialise(&programs, user, folder.path(), settings.password.as_deref());
        let running = Mutex::new(None);
        Self::up(Own { programs, settings, user, port: 0, certificate, running, folder })
    }

    /// A standby of this server: it follows until it is [promoted](Self::promote).
    ///
    /// # Panics
    /// If it is not ours, speaks TLS or asks for a password; or no standby can be started.
    #[must_use]
    pub fn standby(&self) -> Self {
        let own = self.own();
        assert!(own.certificate.is_none() && own.settings.password.is_none(), "only plain servers have them");
        let folder = tempfile::Builder::new().prefix("punctual-pg-").tempdir().expect("a temporary folder");
        User::give(own.user, folder.path());
        let program = "pg_basebackup";
        let beside = own.programs.join(program);
        let elsewhere = || find_programs(program).map(|folder| folder.join(program));
        let found = Some(beside).filter(|path| path.is_file()).or_else(elsewhere);
        let mut command = Command::new(found.expect("a PostgreSQL has pg_basebackup"));
        command.arg("-D").arg(folder.path().join("data"));
        command.args(["-h", "127.0.0.1", "-p", &own.port.to_string(), "-U", USER]);
        command.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        become_user(&mut command, own.user);
        let output = command.current_dir(folder.path()).output().expect("pg_basebackup can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pg_basebackup failed:\n{said}");
        let (programs, settings) = (own.programs.clone(), own.settings.clone());
        let (user, running) = (own.user, Mutex::new(None));
        Self::up(Own { programs, settings, user, port: 0, certificate: None, running, folder })
    }

    /// Waits until a standby has everything that its primary has now.
    ///
    /// # Panics
    /// If either cannot be reached.
    pub fn await_standby(&self, standby: &Self) {
        let mut primary = self.connect("postgres");
        // A commit that waits takes with it all that did not.
        primary
            .batch_execute("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'x', 'x')")
            .expect("the server answers");
        let row = primary.query_one("SELECT pg_current_wal_flush_lsn()::text", &[]);
        let end: String = row.expect("the server answers").get(0);
        let sql = "SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)";
        let mut client = standby.connect("postgres");
        while !client.query_one(sql, &[&end]).expect("the standby answers").get::<_, bool>(0) {
            std::thread::park_timeout(PATIENCE.1);
        }
    }

    /// Lets a standby take the place of its primary; returns when it can be written to.
    ///
    /// # Panics
    /// If it cannot be reached, or is none.
    pub fn promote(&self) {
        let row = self.connect("postgres").query_one("SELECT pg_promote(true, 120)", &[]);
        assert!(row.expect("the standby answers").get::<_, bool>(0), "it takes too long");
    }

    /// On a port that is free.
    fn up(mut own: Own) -> Self {
        for _ in 0..10 {
            own.port = free_port();
            let _ = fs::remove_file(own.log());
            if own.launch() {
                let password = own.settings.password.as_ref().map(|password| format!(":{password}"));
                let base =
                    format!("postgres://{USER}{}@127.0.0.1:{}", password.unwrap_or_default(), own.port);
                return Self { base, own: Some(own) };
            }
        }
        panic!("PostgreSQL does not start; its last words:\n{}", own.last_words());
    }

    /// The URL of a database there, over TCP.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.base)
    }

    /// The URL of a database there, over the socket in its folder; `None` if it is not ours.
    #[must_use]
    pub fn socket_url(&self, database: &str) -> Option<String> {
        let own = self.own.as_ref()?;
        let folder = own.folder.path().display().to_string().replace('/', "%2F");
        let password =
            own.settings.password.as_ref().map(|password| format!(":{password}")).unwrap_or_default();
        Some(format!("postgres://{USER}{password}@{folder}:{}/{database}", own.port))
    }

    /// Where it listens, if it is ours.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.own.as_ref().map(|own| own.port)
    }

    /// The certificate of the authority that has signed the server's, if it speaks TLS.
    #[must_use]
    pub fn authority(&self) -> Option<&Path> {
        Some(&self.own.as_ref()?.certificate.as_ref()?.authority)
    }

    /// A connection for looking behind the scenes, without TLS.
    ///
    /// # Panics
    /// If the server cannot be reached.
    #[must_use]
    pub fn connect(&self, database: &str) -> Client {
        Client::connect(&self.url(database), NoTls)
            .unwrap_or_else(|error| panic!("cannot connect: {error:?}"))
    }

    /// Makes an empty database and gives its URL.
    ///
    /// # Panics
    /// If the server cannot be reached, or refuses.
    #[must_use]
    pub fn fresh_database(&self) -> String {
        let name = format!("test_{:016x}", fastrand::u64(..));
        let sql = format!("CREATE DATABASE {name} TEMPLATE template0");
        self.connect("postgres").batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        self.url(&name)
    }

    /// Removes a database of [`fresh_database`](Self::fresh_database), whoever still uses it.
    ///
    /// # Panics
    /// If the server cannot be reached, or refuses.
    pub fn drop_database(&self, url: &str) {
        let name = url.rsplit('/').next().unwrap_or_default();
        let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        self.connect("postgres").batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Breaks every connection to the database of this URL; says how many.
    ///
    /// # Panics
    /// If the server cannot be reached, or refuses.
    pub fn terminate_backends(&self, url: &str) -> usize {
        let name = url.rsplit('/').next().unwrap_or_default();
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()";
        self.connect("postgres").query(sql, &[&name]).expect("the server answers").len()
    }

    /// Stops the server at once, as a power cut would: the next start recovers from the log. Nothing happens if it is
    /// stopped.
    ///
    /// # Panics
    /// If it is not ours.
    pub fn stop_immediate(&self) {
        self.own().stop("QUIT");
    }

    /// Stops the server in order, but does not wait for its clients.
    ///
    /// # Panics
    /// If it is not ours.
    pub fn stop_fast(&self) {
        self.own().stop("INT");
    }

    /// Starts a server that was stopped, or stops it first; on the same port.
    ///
    /// # Panics
    /// If it is not ours, or does not start.
    pub fn restart(&self) {
        let own = self.own();
        own.stop("QUIT");
        assert!(own.launch(), "PostgreSQL does not start again; its last words:\n{}", own.last_words());
    }

    /// What the server has logged, if it is ours.
    #[must_use]
    pub fn log(&self) -> String {
        self.own.as_ref().map_or_else(String::new, |own| fs::read_to_string(own.log()).unwrap_or_default())
    }

    fn own(&self) -> &Own {
        self.own.as_ref().expect("the server of PUNCTUAL_TEST_PG is not ours to stop: use `Postgres::start`")
    }
}

impl Own {
    fn lock(&self) -> MutexGuard<'_, Option<Guarded>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Starts the server and waits until it accepts connections; says whether it does.
    fn launch(&self) -> bool {
        let folder = self.folder.path();
        // One that was stopped hard has left its own behind.
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
        let mut server = Guarded::start(
            self.user,
            folder,
            &self.log(),
            &self.programs.join("postgres"),
            &self.arguments(),
        );
        let (tries, pause) = PATIENCE;
        for _ in 0..tries {
            if self.is_ready() {
                *self.lock() = Some(server);
                return true;
            }
            if !self.is_alive(&mut server) {
                break;
            }
            std::thread::park_timeout(pause);
        }
        server.stop("QUIT");
        false
    }

    /// The server writes its state into the last line of this file.
    fn is_ready(&self) -> bool {
        let state = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        state.lines().nth(7).is_some_and(|state| state.trim() == "ready")
    }

    /// Whether it may still become ready: it says in its log if it gives up.
    fn is_alive(&self, server: &mut Guarded) -> bool {
        server.is_running() && !self.last_words().contains("could not create any TCP/IP sockets")
    }

    fn arguments(&self) -> Vec<String> {
        let mut options = vec![
            ("port".to_owned(), self.port.to_string()),
            ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
            ("unix_socket_directories".to_owned(), self.folder.path().display().to_string()),
        ];
        let mut set = |name: &str, value: &str| options.push((name.to_owned(), value.to_owned()));
        if !self.settings.durable {
            for name in ["fsync", "synchronous_commit", "full_page_writes"] {
                set(name, "off");
            }
        }
        if let Some(certificate) = &self.certificate {
            set("ssl", "on");
            set("ssl_cert_file", &certificate.certificate.display().to_string());
            set("ssl_key_file", &certificate.key.display().to_string());
        }
        options.extend(self.settings.options.iter().cloned());
        let folder = ["-D".to_owned(), self.data().display().to_string()];
        let options =
            options.into_iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]);
        folder.into_iter().chain(options).collect()
    }

    fn stop(&self, signal: &str) {
        let server = self.lock().take();
        if let Some(server) = server {
            server.stop(signal);
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.stop("QUIT");
    }
}

fn initialise(programs: &Path, user: Option<User>, folder: &Path, password: Option<&str>) {
    let mut command = Command::new(programs.join("initdb"));
    command.arg("-D").arg(folder.join("data")).args(["-U", USER, "-E", "UTF8", "--locale=C", "--no-sync"]);
    match password {
        Some(password) => {
            let file = folder.join("password");
            fs::write(&file, password).expect("the folder is writable");
            User::give(user, &file);
            command.arg("--auth=scram-sha-256").arg("--pwfile").arg(file);
        }
        None => {
            command.arg("--auth=trust");
        }
    }
    become_user(&mut command, user);
    let output = command.current_dir(folder).output().expect("initdb can be started");
    assert!(output.status.success(), "initdb failed:\n{}", String::from_utf8_lossy(&output.stderr));
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}

/// A URL without its database and parameters.
fn base_of(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    url[..end].to_owned()
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("port", &self.port()).field("ours", &self.own.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_cut_where_the_database_begins() {
        assert_eq!(base_of("postgres://me:pw@host:5432/db?x=y"), "postgres://me:pw@host:5432");
        assert_eq!(base_of("postgres://host?x=y"), "postgres://host");
        assert_eq!(base_of("postgres://host"), "postgres://host");
    }
}
