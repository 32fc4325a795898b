//! Jobs that handlers complete in transactions of their own: what these did has happened exactly once.

use std::sync::Arc;

use punctual::ManualClock;
use punctual_durable::{
    Backoff, Cancelling, Done, Exchange, Filter, JobContext, JobError, JobId, JobState, Jobs, KindOptions,
    LogLine, NewJob, OnConflict, Outcome, PostgresStore, Store, Update,
};

use crate::{Database, Hand, LEASE, kinds, work};

fn booked(database: &Database) -> i64 {
    database.client().query_one("SELECT count(*) FROM booked", &[]).unwrap().get(0)
}

#[test]
fn a_job_that_is_completed_is_done_whatever_the_handler_answers() {
    let database = Database::new();
    let store = database.open();
    database.client().batch_execute("CREATE TABLE booked (job bigint)").unwrap();
    let (url, completes) = (database.url.clone(), Arc::clone(&store));
    let handler = move |how: String, cx: &JobContext| -> Result<Outcome, JobError> {
        let mut mine = postgres::Client::connect(&url, postgres::NoTls)?;
        let mut transaction = mine.transaction()?;
        transaction.execute("INSERT INTO booked VALUES ($1)", &[&cx.id().as_i64()])?;
        completes.complete_in(&mut transaction, cx)?;
        if how == "rolls back" && cx.attempt() == 1 {
            return Err("no".into());
        }
        transaction.commit()?;
        match how.as_str() {
            "fails" => Err("too late".into()),
            "panics" => panic!("too late"),
            "snoozes" => Ok(Outcome::Snooze(LEASE)),
            _ => Ok(Done),
        }
    };
    let options = KindOptions::new().backoff(Backoff::fixed(std::time::Duration::from_millis(1)));
    let jobs = Jobs::on(store).handle_with("book", options, handler).start().unwrap();
    let ways = ["is done", "fails", "panics", "snoozes", "rolls back"];
    let ids: Vec<JobId> = ways.iter().map(|how| jobs.enqueue(how.to_string()).send().unwrap().id()).collect();
    for (id, how) in ids.iter().zip(ways) {
        let job = jobs.outcome(*id).join().unwrap();
        let attempts = if how == "rolls back" { 2 } else { 1 };
        assert_eq!((job.state, job.attempt), (JobState::Done, attempts), "{how}");
    }
    assert_eq!(booked(&database), ways.len() as i64);
    jobs.shutdown(LEASE).unwrap();
}

/// From SQL, as any language may; the node dies between the commit and its report.
#[test]
fn what_was_completed_by_a_dead_node_is_done_and_followed() {
    for gone in ["killed", "disowned"] {
        let (database, clock) = (Database::new(), ManualClock::new());
        let open = || Arc::new(PostgresStore::open_with_time(&database.url, clock.clone()).unwrap());
        let hand = Hand::on(open());
        let jobs = vec![work().then(NewJob::new("tell", "2")), work()];
        let ids: Vec<JobId> = hand.store.enqueue(jobs).unwrap().iter().map(|job| job.id()).collect();
        let claimed = hand.sweep(9).claimed;
        let mut mine = database.client();
        let complete = "SELECT punctual.complete($1, $2)";
        let (id, fence) = (claimed[0].id.as_i64(), claimed[0].fence.as_i64());
        mine.execute(complete, &[&id, &fence]).unwrap();
        assert!(hand.store.job(ids[0]).unwrap().unwrap().completed);
        if gone == "killed" {
            clock.advance(LEASE);
            let heir = Hand::on(open());
            let rescued = heir.store.rescue(heir.id, 9).unwrap();
            let states: Vec<JobState> = rescued.iter().map(|rescued| rescued.state).collect();
            assert_eq!(states, [JobState::Done, JobState::Scheduled]);
        } else {
            let exchange = Exchange::new(kinds()).disown_all_but(vec![]);
            assert_eq!(hand.store.exchange(hand.id, exchange).unwrap().followed.len(), 1);
        }
        let [first, second] = [ids[0], ids[1]].map(|id| hand.store.job(id).unwrap().unwrap());
        assert_eq!((first.state, first.crashes, first.completed), (JobState::Done, 0, false), "{gone}");
        assert_eq!(second.state, JobState::Scheduled, "{gone}: the other is run again");
        let next = hand.store.find(&Filter::new().parent(ids[0])).unwrap();
        assert_eq!((next.len(), next[0].kind.as_str()), (1, "tell"), "{gone}");

        // What somebody else has by now cannot be completed, and the transaction comes to nothing.
        let (id, fence) = (claimed[1].id.as_i64(), claimed[1].fence.as_i64());
        mine.batch_execute("CREATE TABLE booked (job bigint)").unwrap();
        let mut transaction = mine.transaction().unwrap();
        transaction.execute("INSERT INTO booked VALUES (1)", &[]).unwrap();
        let error = transaction.execute(complete, &[&id, &fence]).unwrap_err();
        assert_eq!(error.code().unwrap().code(), "PU003");
        let _ = transaction.commit();
        assert_eq!(booked(&database), 0);
    }
}

/// What follows one of them has a key that somebody is about to take, in a transaction that does not end.
#[test]
fn a_transaction_that_does_not_end_keeps_nobody_from_being_rescued_but_whom_it_concerns() {
    let (database, clock) = (Database::new(), ManualClock::new());
    let open = || Arc::new(PostgresStore::open_with_time(&database.url, clock.clone()).unwrap());
    let hand = Hand::on(open());
    let then = |key: &str| work().then(NewJob::new("tell", "2").unique(key, OnConflict::Keep));
    let jobs = vec![then("taken"), work(), then("free"), then("free, too")];
    let ids: Vec<JobId> = hand.store.enqueue(jobs).unwrap().iter().map(|job| job.id()).collect();
    let mut mine = database.client();
    for job in hand.sweep(9).claimed.iter().filter(|job| !job.then.is_empty()) {
        let held: [&(dyn postgres::types::ToSql + Sync); 2] = [&job.id.as_i64(), &job.fence.as_i64()];
        mine.execute("SELECT punctual.complete($1, $2)", &held).unwrap();
    }
    let mut endless = mine.transaction().unwrap();
    let enqueue = "SELECT punctual.enqueue('tell', '1', unique_key => 'taken')";
    let taker = JobId::from_i64(endless.query_one(enqueue, &[]).unwrap().get(0));
    clock.advance(LEASE);
    let heir = Hand::on(open());
    let rescue = || -> Vec<(JobId, JobState)> {
        let rescued = heir.store.rescue(heir.id, 9).unwrap();
        rescued.iter().map(|rescued| (rescued.id, rescued.state)).collect()
    };
    let (done, again) = (JobState::Done, JobState::Scheduled);
    assert_eq!(rescue(), [(ids[1], again), (ids[2], done), (ids[3], done)]);
    let followed = |id: JobId| heir.store.find(&Filter::new().parent(id)).unwrap().len();
    assert_eq!([ids[2], ids[3]].map(followed), [1, 1]);
    assert_eq!(heir.store.job(ids[0]).unwrap().unwrap().state, JobState::Claimed);
    let error = heir.store.rescue(heir.id, 9).unwrap_err();
    assert!(error.is_transient(), "{error}");
    endless.commit().unwrap();
    assert_eq!(rescue(), [(ids[0], done)], "when it has ended after all");
    let note = heir.store.job(ids[0]).unwrap().unwrap().note.unwrap();
    assert!(note.contains(&format!("job {taker} has the unique key")), "{note}");
    assert_eq!((followed(ids[0]), rescue()), (0, vec![]));
}

/// With the key of the job itself: that is free when it is over, and not before.
#[test]
fn what_was_asked_for_follows_a_completed_job_once_whatever_comes_after() {
    let database = Database::new();
    let store = database.open();
    let (url, completes) = (database.url.clone(), Arc::clone(&store));
    let handler = move |how: String, cx: &JobContext| -> Result<Outcome, JobError> {
        cx.then(cx.client().enqueue(1_u32).unique(&how))?;
        let mut mine = postgres::Client::connect(&url, postgres::NoTls)?;
        let mut transaction = mine.transaction()?;
        completes.complete_in(&mut transaction, cx)?;
        assert!(cx.then(cx.client().enqueue(2_u32)).unwrap_err().is_invalid(), "too late");
        if how == "rolls back" {
            return Ok(Done);
        }
        if how == "tries twice" {
            transaction.rollback()?;
            transaction = mine.transaction()?;
            completes.complete_in(&mut transaction, cx)?;
        }
        transaction.commit()?;
        let error = completes.complete_in(&mut mine.transaction()?, cx).unwrap_err();
        assert!(error.is_conflict(), "it has been: {error}");
        if how == "is lost" {
            // Its node is taken for dead by another, and reports later.
            let heir = Hand::on(Arc::clone(&completes));
            let gone = "UPDATE punctual.node SET until = 0, left_at = 0 WHERE id <> $1";
            mine.execute(gone, &[&heir.id.as_i64()])?;
            assert_eq!(heir.store.rescue(heir.id, 9)?.len(), 1);
            heir.store.leave(heir.id)?;
            completes.renew(cx.record().owner.unwrap(), LEASE)?;
        }
        if how == "fails" { Err("too late".into()) } else { Ok(Done) }
    };
    let jobs = Jobs::on(store).lease(LEASE).concurrency(1).handle("book", handler);
    let jobs = jobs.handle("tell", |_: u32, _: &JobContext| Ok(Done)).start().unwrap();
    for how in ["is done", "fails", "rolls back", "tries twice", "is lost"] {
        let id = jobs.enqueue(how.to_owned()).unique(how).send().unwrap().id();
        assert_eq!(jobs.outcome(id).join().unwrap().state, JobState::Done, "{how}");
        let next = jobs.find(&Filter::new().kind("tell").parent(id)).unwrap();
        assert_eq!(next.len(), 1, "{how}");
        assert_eq!(jobs.outcome(next[0].id).join().unwrap().state, JobState::Done, "{how}");
    }
    jobs.shutdown(LEASE).unwrap();
}

/// Its transaction may take as long as it likes, and wait for whom it likes.
#[test]
fn nobody_waits_for_the_commit_of_a_handler_that_completes_its_job() {
    let database = Database::new();
    let store = database.open();
    let (url, completes) = (database.url.clone(), Arc::clone(&store));
    let handler = move |_: String, cx: &JobContext| -> Result<Outcome, JobError> {
        cx.log("before");
        let mut mine = postgres::Client::connect(&url, postgres::NoTls)?;
        let mut transaction = mine.transaction()?;
        completes.complete_in(&mut transaction, cx)?;
        cx.log("after");
        let other = cx.client().enqueue(1_u32).send()?.id();
        assert_eq!(cx.client().outcome(other).join()?.state, JobState::Done);
        assert_eq!(cx.client().log(cx.id())?.lines.len(), 2, "they came before the report of the other");
        assert_eq!(cx.client().cancel(cx.id())?, Cancelling::Requested);
        transaction.commit()?;
        Ok(Done)
    };
    let jobs = Jobs::on(store).lease(LEASE).concurrency(2).handle("book", handler);
    let jobs = jobs.handle("other", |_: u32, _: &JobContext| Ok(Done)).start().unwrap();
    let id = jobs.enqueue(String::new()).send().unwrap().id();
    assert_eq!(jobs.outcome(id).join().unwrap().state, JobState::Done);
    jobs.shutdown(LEASE).unwrap();
}

/// What was asked at the call is asked again at the commit, and that counts.
#[test]
fn a_job_that_is_lost_before_the_commit_is_not_completed_by_it() {
    let (database, clock) = (Database::new(), ManualClock::new());
    let open = || Arc::new(PostgresStore::open_with_time(&database.url, clock.clone()).unwrap());
    let hand = Hand::on(open());
    hand.store.enqueue(vec![work()]).unwrap();
    let held = hand.sweep(1).claimed.remove(0);
    let mut mine = database.client();
    mine.batch_execute("CREATE TABLE booked (job bigint)").unwrap();
    let mut transaction = mine.transaction().unwrap();
    transaction.execute("INSERT INTO booked VALUES (1)", &[]).unwrap();
    let complete = "SELECT punctual.complete($1, $2)";
    let mut undone = transaction.transaction().unwrap();
    undone.execute(complete, &[&held.id.as_i64(), &held.fence.as_i64()]).unwrap();
    undone.rollback().unwrap();
    transaction.execute(complete, &[&held.id.as_i64(), &held.fence.as_i64()]).unwrap();
    clock.advance(LEASE);
    let heir = Hand::on(open());
    assert_eq!(heir.store.rescue(heir.id, 9).unwrap()[0].state, JobState::Scheduled);
    let error = transaction.commit().unwrap_err();
    assert_eq!(error.code().unwrap().code(), "PU003");
    assert_eq!(booked(&database), 0);
    assert_eq!(hand.store.job(held.id).unwrap().unwrap().state, JobState::Scheduled);
    let left = "SELECT count(*) FROM punctual.completing";
    assert_eq!(mine.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
}

/// As any transaction of that kind that meets another; and nothing has happened.
#[test]
fn a_strict_transaction_may_have_to_be_repeated_to_complete_a_job_that_talks() {
    let database = Database::new();
    let hand = Hand::new(&database);
    hand.store.enqueue(vec![work()]).unwrap();
    let held = hand.sweep(1).claimed.remove(0);
    let mut mine = database.client();
    let mut complete = |meanwhile: &dyn Fn()| {
        let builder = mine.build_transaction().isolation_level(postgres::IsolationLevel::RepeatableRead);
        let mut transaction = builder.start().unwrap();
        let call = "SELECT punctual.complete($1, $2)";
        transaction.execute(call, &[&held.id.as_i64(), &held.fence.as_i64()]).unwrap();
        meanwhile();
        transaction.commit().map_err(|error| error.code().unwrap().code().to_owned())
    };
    let say = || {
        let mut said = Update::new(held.id, held.fence);
        said.lines = vec![LogLine::new(held.fence, 0, hand.store.now(), "something")];
        hand.store.exchange(hand.id, Exchange::new(kinds()).updates(vec![said])).unwrap();
    };
    assert_eq!(complete(&say), Err("40001".to_owned()));
    assert!(!hand.store.job(held.id).unwrap().unwrap().completed);
    assert_eq!(complete(&|| ()), Ok(()));
    assert!(hand.store.job(held.id).unwrap().unwrap().completed);
}

#[test]
fn an_attempt_that_has_been_superseded_cannot_complete_its_job() {
    let database = Database::new();
    let store = database.open();
    let (url, completes) = (database.url.clone(), Arc::clone(&store));
    let (sender, errors) = std::sync::mpsc::channel();
    let handler = move |_: u32, cx: JobContext| {
        let (url, completes, sender) = (url.clone(), Arc::clone(&completes), sender.clone());
        async move {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (mut mine, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                let by = |number: i64| format!("UPDATE punctual.job SET owner = owner + {number}");
                // Somebody else has it by now.
                mine.batch_execute(&by(1)).await?;
                let mut transaction = mine.transaction().await?;
                let error = completes.complete_in_async(&mut transaction, &cx).await.unwrap_err();
                sender.send((error.is_conflict(), error.to_string()))?;
                transaction.rollback().await?;
                mine.batch_execute(&by(-1)).await?;
                let mut transaction = mine.transaction().await?;
                completes.complete_in_async(&mut transaction, &cx).await?;
                transaction.commit().await?;
                Err("it is done".into())
            })
        }
    };
    let jobs = Jobs::on(store).handle_async("book", handler).start().unwrap();
    let id = jobs.enqueue(1_u32).send().unwrap().id();
    assert_eq!(jobs.outcome(id).join().unwrap().state, JobState::Done);
    let (conflict, text) = errors.try_recv().unwrap();
    assert!(conflict && text.starts_with(&format!("job {id} is not held under fence ")), "{text}");
    jobs.shutdown(LEASE).unwrap();
}
