//! The server does what tests rely on.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_testbed::{Postgres, Settings};

#[test]
fn databases_are_fresh_and_apart() {
    let server = Postgres::shared();
    let (one, two) = (server.fresh_database(), server.fresh_database());
    let open = |url: &str| postgres::Client::connect(url, postgres::NoTls).unwrap();
    open(&one).batch_execute("CREATE TABLE mine ()").unwrap();
    assert!(open(&two).batch_execute("SELECT * FROM mine").is_err());
    server.drop_database(&one);
    assert!(postgres::Client::connect(&one, postgres::NoTls).is_err());
}

#[test]
fn what_was_committed_survives_an_immediate_stop() {
    let server = Postgres::start(Settings::durable());
    let url = server.fresh_database();
    let open = || postgres::Client::connect(&url, postgres::NoTls);
    open().unwrap().batch_execute("CREATE TABLE t (x int); INSERT INTO t VALUES (7)").unwrap();
    server.stop_immediate();
    assert!(open().is_err(), "it is down");
    server.restart();
    let row = open().unwrap().query_one("SELECT x FROM t", &[]).unwrap();
    assert_eq!(row.get::<_, i32>(0), 7);
}

#[test]
fn a_standby_follows_and_takes_over() {
    let server = Postgres::start(Settings::fast());
    let standby = server.standby();
    let sql = "CREATE TABLE t (x int); INSERT INTO t VALUES (7)";
    server.connect("postgres").batch_execute(sql).unwrap();
    server.await_standby(&standby);
    assert!(standby.connect("postgres").batch_execute("INSERT INTO t VALUES (8)").is_err(), "not yet");
    server.stop_immediate();
    standby.promote();
    let mut client = standby.connect("postgres");
    client.batch_execute("INSERT INTO t VALUES (8)").unwrap();
    assert_eq!(client.query_one("SELECT sum(x) FROM t", &[]).unwrap().get::<_, i64>(0), 15);
}

#[test]
fn terminated_backends_are_gone_and_others_are_not() {
    let server = Postgres::shared();
    let (one, two) = (server.fresh_database(), server.fresh_database());
    let open = |url: &str| postgres::Client::connect(url, postgres::NoTls).unwrap();
    let (mut broken, mut whole) = (open(&one), open(&two));
    assert_eq!(server.terminate_backends(&one), 1);
    assert!(broken.batch_execute("SELECT 1").is_err());
    whole.batch_execute("SELECT 1").unwrap();
}

#[test]
fn a_password_is_asked_for() {
    let server = Postgres::start(Settings::fast().password("secret"));
    let right = server.url("postgres");
    assert!(postgres::Client::connect(&right, postgres::NoTls).is_ok());
    let wrong = right.replace(":secret@", ":guess@");
    assert!(postgres::Client::connect(&wrong, postgres::NoTls).is_err());
}

/// Run as a process of its own by the next test; alone, it does nothing.
#[test]
fn start_a_server_and_say_where() {
    if std::env::var_os("PUNCTUAL_TESTBED_VICTIM").is_some() {
        let server = Postgres::start(Settings::fast().tls());
        println!("\nport {}", server.port().unwrap());
        println!("authority {}", server.authority().unwrap().display());
        loop {
            std::thread::park();
        }
    }
}

#[test]
fn a_server_does_not_outlive_a_process_that_is_killed() {
    use std::io::{BufRead, BufReader};
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "start_a_server_and_say_where", "--nocapture"])
        .env("PUNCTUAL_TESTBED_VICTIM", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut find =
        |word: &str| lines.find_map(|line| Some(line.strip_prefix(word)?.trim().to_owned())).unwrap();
    let port: u16 = find("port ").parse().unwrap();
    let authority = std::path::PathBuf::from(find("authority "));
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    // A hanging test is the failure.
    while TcpStream::connect(("127.0.0.1", port)).is_ok() || authority.exists() {
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
