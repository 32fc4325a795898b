//! Who may connect, how, and what is said to those who may not.

use std::sync::mpsc;
use std::time::Duration;

use punctual_durable::{Done, Filter, JobContext, JobId, Jobs, NewJob, PostgresStore, Store};
use punctual_testbed::{Postgres, Settings};

use crate::{Database, work};

fn refusal(url: &str) -> (String, punctual_durable::Error) {
    let error = PostgresStore::open(url).map(drop).unwrap_err();
    (error.to_string(), error)
}

#[test]
fn a_wrong_password_is_said_and_not_repeated() {
    let server = Postgres::start(Settings::fast().password("secret"));
    PostgresStore::open(&server.fresh_database()).unwrap();
    let (text, error) = refusal(&server.url("postgres").replace("secret", "guess"));
    assert!(error.is_invalid() && text.contains("password authentication failed"), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{}/postgres", server.port().unwrap())), "{text}");
    assert!(!text.contains("guess") && !format!("{error:?}").contains("guess"), "{text}");
}

#[test]
fn a_server_that_is_not_there_and_a_database_that_is_not_are_told_apart() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (text, error) = refusal(&format!("postgres://me@{nobody}/shop"));
    assert!(error.is_transient() && text.contains(&nobody.to_string()), "{text}");
    let (text, error) = refusal(&Postgres::shared().url("no_such_database"));
    assert!(error.is_invalid() && text.contains("no_such_database"), "{text}");
    let (text, error) = refusal("postgres://me@localhost/shop?sslmode=perhaps");
    assert!(error.is_invalid() && text.contains("perhaps"), "{text}");
}

#[test]
fn tls_is_demanded_refused_and_verified_as_the_url_says() {
    let server = Postgres::start(Settings::fast().tls());
    let url = server.fresh_database();
    let authority = server.authority().unwrap().display().to_string();
    let by_name = url.replace("127.0.0.1", "localhost");
    let stranger = Postgres::start(Settings::fast().tls());
    let other = stranger.authority().unwrap().display().to_string();
    let encrypted = |url: &str| {
        drop(PostgresStore::open(url).unwrap());
        let store = PostgresStore::open(url).unwrap();
        let sql = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                   WHERE a.application_name = 'punctual'";
        let encrypted: bool = server.connect("postgres").query_one(sql, &[]).unwrap().get(0);
        drop(store);
        encrypted
    };
    assert!(encrypted(&format!("{url}?sslmode=require")));
    assert!(encrypted(&url), "preferred");
    assert!(encrypted(&format!("{by_name}?sslmode=verify-full&sslrootcert={authority}")));
    assert!(encrypted(&format!("{url}?sslmode=verify-ca&sslrootcert={authority}")), "whatever the name");
    assert!(!encrypted(&format!("{url}?sslmode=disable")));

    for (wrong, what) in [
        (
            format!("{url}?sslmode=verify-full&sslrootcert={authority}"),
            "the certificate is not for an address",
        ),
        (format!("{by_name}?sslmode=verify-full&sslrootcert={other}"), "by another authority"),
        (format!("{by_name}?sslmode=verify-ca&sslrootcert={other}"), "by another authority"),
        (format!("{by_name}?sslmode=verify-full"), "by nobody whom the system trusts"),
        (format!("{by_name}?sslmode=verify-full&sslrootcert=/no/such/file"), "no file"),
    ] {
        let (text, error) = refusal(&wrong);
        assert!(error.is_invalid() && text.contains("certificate"), "{what}: {text}");
    }
    let (text, error) = refusal(&format!("{}?sslmode=require", Postgres::shared().url("postgres")));
    assert!(error.is_invalid() && text.contains("TLS"), "{text}");
}

#[test]
fn a_socket_in_a_folder_is_as_good_as_a_port() {
    let server = Postgres::start(Settings::fast());
    let name = server.fresh_database().rsplit('/').next().unwrap().to_owned();
    let store = PostgresStore::open(&server.socket_url(&name).unwrap()).unwrap();
    assert_eq!(store.enqueue(vec![work()]).unwrap().len(), 1);
}

#[test]
fn tables_of_a_later_version_are_left_alone() {
    let database = Database::new();
    drop(database.open());
    database.client().batch_execute("UPDATE punctual.meta SET value = 99 WHERE name = 'schema'").unwrap();
    let (text, error) = refusal(&database.url);
    assert!(error.is_broken() && text.contains("version 99"), "{text}");
    drop(Jobs::open(&database.url).map(drop).unwrap_err());
}

/// A role that may log in, and nothing else. Removed in the end.
struct Clerk<'a> {
    database: &'a Database,
    name: String,
}

impl<'a> Clerk<'a> {
    fn new(database: &'a Database) -> Self {
        let name = format!("a \"Clerk\" {:x}", fastrand::u32(..));
        database.client().batch_execute(&format!("CREATE ROLE {} LOGIN", Self::quoted(&name))).unwrap();
        Self { database, name }
    }

    fn quoted(name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    fn url(&self) -> String {
        let name = self.name.replace(' ', "%20").replace('"', "%22");
        self.database.url.replace("punctual@", &format!("{name}@"))
    }
}

impl Drop for Clerk<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let name = Self::quoted(&self.name);
            let sql = format!("DROP OWNED BY {name}; DROP ROLE {name}");
            self.database.client().batch_execute(&sql).unwrap();
        }
    }
}

#[test]
fn who_may_not_make_tables_or_use_them_is_told_what_somebody_else_must_run() {
    let database = Database::new();
    let (mut admin, clerk) = (database.client(), Clerk::new(&database));
    let (text, error) = refusal(&clerk.url());
    assert!(error.is_invalid() && text.contains("PostgresStore::migrations_from(0)"), "{text}");
    admin.batch_execute(&PostgresStore::migrations_from(0).unwrap()).unwrap();
    let (text, error) = refusal(&clerk.url());
    assert!(error.is_invalid() && text.contains("PostgresStore::grants()"), "{text}");
    admin.batch_execute(&PostgresStore::grants(&clerk.name)).unwrap();
    assert_eq!(PostgresStore::open(&clerk.url()).unwrap().enqueue(vec![work()]).unwrap().len(), 1);
    admin.batch_execute("UPDATE punctual.meta SET value = 1 WHERE name = 'schema'").unwrap();
    let (text, error) = refusal(&clerk.url());
    assert!(error.is_invalid() && text.contains("PostgresStore::migrations_from(1)"), "{text}");
}

/// Not even what everybody may do as a rule: call functions.
#[test]
fn a_role_with_the_grants_and_no_more_runs_nodes_and_calls_the_functions() {
    let database = Database::new();
    let (mut admin, clerk) = (database.client(), Clerk::new(&database));
    admin.batch_execute(&PostgresStore::migrations()).unwrap();
    admin.batch_execute("REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA punctual FROM PUBLIC").unwrap();
    admin.batch_execute(&PostgresStore::grants(&clerk.name)).unwrap();

    let (began, begins) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let jobs = Jobs::open(&clerk.url()).unwrap().handle("work", move |waits: bool, cx: &JobContext| {
        if waits {
            began.send((cx.id().as_i64(), cx.record().fence.as_i64())).unwrap();
            gate.lock().unwrap().recv().unwrap();
        }
        Ok(Done)
    });
    let jobs = jobs.start().unwrap();
    let mut sql = postgres::Client::connect(&clerk.url(), postgres::NoTls).unwrap();
    let mut number = |query: &str| sql.query_one(query, &[]).unwrap().get::<_, i64>(0);
    let completes = number("SELECT punctual.enqueue('work', 'true')");
    let (id, fence) = begins.recv().unwrap();
    assert_eq!(id, completes);
    let later = number("SELECT punctual.enqueue('work', 'false', delay => '1 hour', unique_key => 'k')");
    let never = number("SELECT punctual.enqueue('work', 'false', queue => 'other', delay => '1 hour')");
    let sql_says = format!("SELECT punctual.reschedule({later}, now()), punctual.cancel({never})");
    let said = sql.query_one(&sql_says, &[]).unwrap();
    assert_eq!((said.get::<_, bool>(0), said.get::<_, &str>(1)), (true, "cancelled"));
    sql.batch_execute(&format!("SELECT punctual.complete({id}, {fence})")).unwrap();
    go.send(()).unwrap();

    // What nodes and operators do besides.
    jobs.schedule("s").every(Duration::from_secs(3600)).job_as("work", false).save().unwrap();
    jobs.pause("other", "closed").unwrap();
    let by_us = jobs.enqueue_as("work", false).send().unwrap().id();
    for id in [completes, later, by_us.as_i64()] {
        let over = || jobs.job(JobId::from_i64(id)).unwrap().unwrap().state.is_over();
        while !over() {
            std::thread::yield_now();
        }
    }
    let states =
        "SELECT string_agg(DISTINCT state, ' ' ORDER BY state) FROM punctual.jobs WHERE schedule IS NULL";
    assert_eq!(sql.query_one(states, &[]).unwrap().get::<_, &str>(0), "cancelled done");
    jobs.doctor().unwrap();
    jobs.store().trim(punctual_durable::Timestamp::MAX, 10).unwrap();
    jobs.shutdown(Duration::from_secs(10)).unwrap();
    for forbidden in ["DROP TABLE punctual.job", "CREATE TABLE punctual.mine ()", "TRUNCATE punctual.past"] {
        sql.batch_execute(forbidden).unwrap_err();
    }
}

#[test]
fn many_that_open_a_new_database_at_once_find_one_set_of_tables() {
    let database = Database::new();
    let open = || {
        let store = database.open();
        store.enqueue(vec![NewJob::new("work", "{}")]).unwrap();
    };
    std::thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(open))));
    assert_eq!(database.open().find(&punctual_durable::Filter::new()).unwrap().len(), 6);
}

#[test]
fn a_store_can_be_called_from_within_an_async_runtime() {
    let database = Database::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let store = database.open();
        store.enqueue(vec![work()]).unwrap();
        store.find(&punctual_durable::Filter::new()).unwrap()
    });
    assert_eq!(found.len(), 1);
}

/// The driver refuses to block there: calls and the farewell are made elsewhere.
#[test]
fn a_store_may_be_used_and_dropped_within_an_async_runtime_and_outside_of_it() {
    let database = Database::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let count = |store: &PostgresStore| store.find(&Filter::new()).unwrap().len();
    let (outside, inside) = (database.open(), runtime.block_on(async { database.open() }));
    outside.enqueue(vec![work()]).unwrap();
    runtime.block_on(async {
        assert_eq!((count(&inside), count(&outside)), (1, 1));
        inside.enqueue(vec![work()]).unwrap();
        drop(outside);
    });
    assert_eq!(count(&inside), 2);
    drop(inside);
    // None is left behind: the server has heard from all of them.
    let mut watcher = database.client();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'punctual%'";
    while watcher.query_one(sql, &[]).unwrap().get::<_, i64>(0) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn more_callers_than_connections_are_all_served_whether_they_block_or_not() {
    const CALLERS: usize = 16;
    const CALLS: usize = 10;
    let database = Database::new();
    let store = database.open();
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let store = &store;
            scope.spawn(move || {
                let call = || (0..CALLS).for_each(|_| drop(store.enqueue(vec![work()]).unwrap()));
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                if caller % 2 == 0 { call() } else { runtime.block_on(async { call() }) }
            });
        }
    });
    assert_eq!(store.find(&Filter::new().limit(1_000)).unwrap().len(), CALLERS * CALLS);
    let mut watcher = database.client();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'punctual'";
    let connections: i64 = watcher.query_one(sql, &[]).unwrap().get(0);
    assert!((1..=4).contains(&connections), "{connections} connections");
}
