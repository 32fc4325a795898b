//! Several nodes on one database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use punctual_durable::{
    Done, Due, Event, Exchange, Exchanged, Filter, JobContext, JobState, Jobs, Lane, LogLine, MemoryStore,
    Moved, NodeId, OnConflict, OnLost, PostgresStore, Progress, QueueChange, Recorded, Report,
    ScheduleChange, Store, Timestamp, Update, Verdict, share, transfer,
};

use crate::{Database, Hand, kinds, new_ticket, work};

#[test]
fn no_job_is_claimed_by_two_of_four_that_sweep_at_once() {
    const JOBS: usize = 2_000;
    let database = Database::new();
    database.open().enqueue(vec![work(); JOBS]).unwrap();
    let (start, seen) = (Barrier::new(4), Mutex::new(BTreeSet::new()));
    let sweep_all = || {
        let hand = Hand::new(&database);
        start.wait();
        let mut answer = hand.sweep(50);
        while !answer.claimed.is_empty() || seen.lock().unwrap().len() < JOBS {
            let mut seen = seen.lock().unwrap();
            for job in &answer.claimed {
                assert!(seen.insert(job.id), "{} was claimed twice", job.id);
                assert_eq!((job.attempt, job.owner), (1, Some(hand.id)));
            }
            drop(seen);
            answer = hand.done(&answer, 50);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(sweep_all))));
    let done = database.open().find(&Filter::new().state(JobState::Done).limit(JOBS + 1)).unwrap();
    assert_eq!((seen.lock().unwrap().len(), done.len()), (JOBS, JOBS));
    let fences: BTreeSet<_> = done.iter().map(|job| job.fence).collect();
    assert_eq!(fences.len(), JOBS, "no fence is given twice");
}

#[test]
fn a_ticket_that_four_hold_is_claimed_by_one() {
    let database = Database::new();
    let hands: Vec<Hand> = (0..4).map(|_| Hand::new(&database)).collect();
    for _ in 0..20 {
        let due = Due::After(Duration::from_secs(60));
        let accepted = hands[0].store.enqueue(vec![work().due(due); 10]).unwrap();
        let tickets: Vec<_> = accepted.iter().map(new_ticket).collect();
        let start = Barrier::new(4);
        let claim = |hand: &Hand| {
            start.wait();
            let exchange = Exchange::new(kinds()).claims(tickets.clone());
            hand.store.exchange(hand.id, exchange).unwrap().claimed.len()
        };
        let claimed: usize = std::thread::scope(|scope| {
            let claims: Vec<_> = hands.iter().map(|hand| scope.spawn(|| claim(hand))).collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).sum()
        });
        assert_eq!(claimed, 10);
    }
}

#[test]
fn the_limit_of_a_queue_holds_over_all_nodes() {
    let database = Database::new();
    let store = database.open();
    store.set_queue("narrow", QueueChange::Limit(Some(5))).unwrap();
    store.enqueue(vec![work().queue("narrow"); 200]).unwrap();
    store.enqueue(vec![work(); 200]).unwrap();
    let (start, done) = (Barrier::new(4), Mutex::new(0));
    let sweep_all = || {
        let hand = Hand::new(&database);
        start.wait();
        let mut answer = hand.sweep(20);
        while *done.lock().unwrap() < 400 {
            // Nobody lets go meanwhile of what it holds: so the count is exact.
            let held = store.find(&Filter::new().queue("narrow").state(JobState::Claimed)).unwrap().len();
            assert!(held <= 5, "{held} are claimed");
            *done.lock().unwrap() += answer.claimed.len();
            answer = hand.done(&answer, 20);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(sweep_all))));
}

#[test]
fn a_node_that_holds_jobs_cannot_be_forgotten_by_hand() {
    let database = Database::new();
    let hand = Hand::new(&database);
    hand.store.enqueue(vec![work()]).unwrap();
    let answer = hand.sweep(1);
    let forget = || database.client().batch_execute("DELETE FROM punctual.node");
    let error = forget().unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("holds jobs"), "{error:?}");
    hand.done(&answer, 0);
    forget().unwrap();
}

#[test]
fn jobs_that_are_done_can_be_forgotten_at_once() {
    let database = Database::new();
    let store = PostgresStore::open(&database.url).unwrap().forget_done();
    let hand = Hand::on(std::sync::Arc::new(store));
    hand.store.enqueue(vec![work(); 3]).unwrap();
    let answer = hand.sweep(3);
    let done = hand.done(&answer, 0);
    assert_eq!(done.recorded, [Recorded::Over(JobState::Done); 3]);
    assert_eq!(hand.store.find(&Filter::new()).unwrap(), []);
    assert_eq!(hand.done(&answer, 0).recorded, [Recorded::Already; 3], "sent again");
    hand.store.enqueue(vec![work()]).unwrap();
    let mut wrong = hand.sweep(1);
    wrong.claimed[0].fence = punctual_durable::Fence::from_i64(1);
    assert_eq!(hand.done(&wrong, 0).recorded, [Recorded::Stale], "it is there, and not by this claim");
}

/// Whatever an attempt has left behind, in this life or before.
#[test]
fn with_a_job_that_is_forgotten_at_once_goes_all_that_was_kept_of_it() {
    let database = Database::new();
    let store = PostgresStore::open(&database.url).unwrap().forget_done();
    let hand = Hand::on(std::sync::Arc::new(store));
    let mut sql = database.client();
    let mut kept = || -> [i64; 4] {
        ["failure", "progress", "log", "past"].map(|table| {
            sql.query_one(&format!("SELECT count(*) FROM punctual.{table}"), &[]).unwrap().get(0)
        })
    };
    let say = |held: &Exchanged| {
        let (id, fence, now) = (held.claimed[0].id, held.claimed[0].fence, hand.store.now());
        let mut update = Update::new(id, fence);
        update.progress = Some(Progress::new(fence, now, 1, "a little"));
        update.lines = vec![LogLine::new(fence, 0, now, "a line")];
        hand.store.exchange(hand.id, Exchange::new(kinds()).updates(vec![update])).unwrap();
    };
    let report = |held: &Exchanged, verdict: Verdict| {
        let report = Report::new(held.claimed[0].id, held.claimed[0].fence, verdict);
        hand.store.exchange(hand.id, Exchange::new(kinds()).reports(vec![report])).unwrap();
    };
    let again = || Verdict::Retry { after: Duration::ZERO, error: "no".to_owned() };

    hand.store.enqueue(vec![work()]).unwrap();
    let held = hand.sweep(1);
    report(&held, again());
    let held = hand.sweep(1);
    assert_eq!(kept(), [1, 0, 0, 0]);
    hand.done(&held, 0);
    assert_eq!(kept(), [0; 4], "a failure");

    hand.store.enqueue(vec![work()]).unwrap();
    let held = hand.sweep(1);
    say(&held);
    assert_eq!(kept(), [0, 1, 1, 0]);
    hand.done(&held, 0);
    assert_eq!(kept(), [0; 4], "what it has said");

    hand.store.enqueue(vec![work()]).unwrap();
    let held = hand.sweep(1);
    report(&held, Verdict::Fail { error: "no".to_owned() });
    assert_eq!(kept(), [1, 0, 0, 1]);
    hand.store.retry(held.claimed[0].id, Due::Now).unwrap();
    hand.done(&hand.sweep(1), 0);
    assert_eq!(kept(), [0; 4], "what was before its death");

    let elsewhere = MemoryStore::new();
    elsewhere.enqueue(vec![work()]).unwrap();
    let node = NodeId::random();
    elsewhere.renew(node, crate::LEASE).unwrap();
    elsewhere.exchange(node, Exchange::new(kinds()).sweep(1)).unwrap();
    transfer(&elsewhere, &*hand.store).unwrap();
    assert_eq!(kept(), [1, 0, 0, 0]);
    hand.done(&hand.sweep(1), 0);
    assert_eq!(kept(), [0; 4], "what was in another store");
}

#[test]
fn lanes_are_shared_by_the_same_rule_in_sql() {
    let database = Database::new();
    drop(database.open());
    let mut sql = database.client();
    let statement = sql.prepare("SELECT punctual.share($1, $2)").unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let waiting: [usize; 4] = [(); 4].map(|()| random.usize(0..40) * random.usize(0..2));
        let room = random.usize(0..60);
        let numbers: Vec<i64> = waiting.iter().map(|n| i64::try_from(*n).unwrap()).collect();
        let given: Vec<i64> =
            sql.query_one(&statement, &[&i64::try_from(room).unwrap(), &numbers]).unwrap().get(0);
        let expected = share(room, waiting).map(|n| i64::try_from(n).unwrap());
        assert_eq!(given, expected, "room {room} waiting {waiting:?}");
    }
    assert_eq!(Lane::ALL.len(), 4);
}

/// Whoever only enqueues or looks has nobody who asks for the time.
#[test]
fn every_answer_that_knows_the_time_teaches_it() {
    let database = Database::new();
    let store = database.open();
    let mut sql = database.client();
    let later = || work().due(Due::After(Duration::from_secs(86_400)));
    let id = store.enqueue(vec![later()]).unwrap()[0].id();
    let keyed = || later().unique("k", OnConflict::Replace);
    store.enqueue(vec![keyed()]).unwrap();
    let calls: [(&str, &dyn Fn()); 7] = [
        ("enqueue and ring", &|| drop(store.enqueue(vec![work()]).unwrap())),
        ("enqueue", &|| drop(store.enqueue(vec![later()]).unwrap())),
        ("replace", &|| drop(store.enqueue(vec![keyed()]).unwrap())),
        ("reschedule", &|| assert!(matches!(store.reschedule(id, Due::Now), Ok(Moved::Waiting(_))))),
        ("cancel", &|| drop(store.cancel(vec![id]).unwrap())),
        ("schedule", &|| assert!(!store.set_schedule("none", ScheduleChange::Trigger).unwrap())),
        ("check", &|| drop(store.check().unwrap())),
    ];
    for (hours, (name, call)) in (1_u64..).zip(calls) {
        let before = store.now();
        sql.batch_execute(&format!(
            "CREATE OR REPLACE FUNCTION punctual.clock() RETURNS bigint LANGUAGE sql VOLATILE AS \
             $$ SELECT (extract(epoch FROM clock_timestamp() + interval '{hours} hours') * 1000000)::bigint $$"
        ))
        .unwrap();
        call();
        assert!(store.now() >= before.after(Duration::from_secs(3_600)), "{name}");
    }
}

#[test]
fn the_time_of_the_store_is_never_ahead_of_the_server() {
    let database = Database::new();
    let hand = Hand::new(&database);
    let mut sql = database.client();
    let statement = sql.prepare("SELECT punctual.clock()").unwrap();
    let mut behind = Vec::new();
    for _ in 0..200 {
        let ours = hand.store.now();
        let server = Timestamp::from_micros(sql.query_one(&statement, &[]).unwrap().get(0));
        assert!(ours <= server, "{ours} is ahead of {server}");
        behind.push(server.since(ours));
        hand.sweep(1);
    }
    behind.sort_unstable();
    assert!(behind[0] < Duration::from_secs(1), "and not a fixed value");
}

#[test]
fn news_reach_a_node_that_does_not_look() {
    let database = Database::new();
    let (sender, receiver) = channel();
    let jobs = Jobs::on(database.open())
        .poll_interval(Duration::from_secs(3_000))
        .lease(Duration::from_secs(9_000))
        .handle("work", move |_: serde_json::Value, cx: &JobContext| {
            sender.send(cx.id())?;
            Ok(Done)
        })
        .start()
        .unwrap();
    database.await_listeners(1);
    let mut sql = database.client();
    let other = database.open();
    for _ in 0..5 {
        let id = other.enqueue(vec![work()]).unwrap()[0].id();
        assert_eq!(receiver.recv().unwrap(), id, "told by another process");
    }
    let id: i64 = sql.query_one("SELECT punctual.enqueue('work')", &[]).unwrap().get(0);
    assert_eq!(receiver.recv().unwrap().as_i64(), id, "told by SQL");
    drop(jobs);
}

/// With a look every hour: without news this test would not end.
#[test]
fn what_another_process_waits_for_is_told_at_once() {
    let database = Database::new();
    let hour = Duration::from_secs(3_600);
    let open = || Jobs::on(database.open()).poll_interval(hour).lease(3 * hour);
    let (begun, beginnings) = channel();
    let (go_on, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let node = open()
        .handle("work", move |_: serde_json::Value, _: &JobContext| {
            begun.send(())?;
            gate.lock().unwrap().recv()?;
            Ok(Done)
        })
        .start()
        .unwrap();
    let others = [(); 2].map(|()| open().start().unwrap());
    database.await_listeners(1);
    for other in &others {
        let id = other.enqueue_as("work", 1).send().unwrap().id();
        beginnings.recv().unwrap();
        let waits = others.each_ref().map(|other| other.outcome(id));
        go_on.send(()).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap().state, JobState::Done);
        }
        // Taken back by one, waited for by both.
        let id = other.enqueue_as("work", 1).after(hour).send().unwrap().id();
        let waits = others.each_ref().map(|other| other.outcome(id));
        other.cancel(id).unwrap();
        for wait in waits {
            assert_eq!(wait.join().unwrap().state, JobState::Cancelled);
        }
    }
    drop(others);
    assert_eq!(node.shutdown(hour).unwrap(), 0);
}

#[test]
fn jobs_of_a_node_that_is_gone_are_run_by_another() {
    let database = Database::new();
    let (sender, receiver) = channel();
    // It dies without a word: nobody renews its lease.
    let dead = Hand::new(&database);
    dead.store.renew(dead.id, Duration::from_millis(1)).unwrap();
    dead.store.renew(dead.id, crate::LEASE).unwrap();
    let mut once = work();
    once.limits.on_lost = OnLost::Fail;
    dead.store.enqueue(vec![work(), once]).unwrap();
    let held = dead.sweep(9).claimed;
    assert_eq!(held.len(), 2);
    dead.store.renew(dead.id, Duration::from_millis(1)).unwrap();
    // The server has been up for less than ordinary leases in this test; that of the dead one is short.
    let (rescues, rescued) = channel();
    let jobs = Jobs::on(database.open())
        .lease(Duration::from_millis(300))
        .handle("work", move |_: serde_json::Value, cx: &JobContext| {
            sender.send(cx.id())?;
            Ok(Done)
        })
        .observe(move |event| {
            if let Event::Rescued { id, state, .. } = event {
                let _ = rescues.send((*id, *state));
            }
        })
        .start()
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), held[0].id);
    let rescued: BTreeMap<_, _> = [rescued.recv().unwrap(), rescued.recv().unwrap()].into();
    assert_eq!(rescued, BTreeMap::from([(held[0].id, JobState::Scheduled), (held[1].id, JobState::Dead)]));
    let late = Report::new(held[0].id, held[0].fence, Verdict::Done);
    let answer = dead.store.exchange(dead.id, Exchange::new(kinds()).reports(vec![late])).unwrap();
    assert_eq!(answer.recorded, [punctual_durable::Recorded::Stale]);
    drop(jobs);
}

#[test]
fn the_last_two_occurrences_that_end_at_once_do_not_miss_each_other() {
    use punctual_durable::{Cadence, NewSchedule, ScheduleChange};
    let database = Database::new();
    let hands: Arc<[Hand]> = (0..2).map(|_| Hand::new(&database)).collect();
    let store = database.open();
    let delay = Cadence::Delay(Duration::from_secs(3_600));
    store.save_schedule(NewSchedule::new("s", delay, work())).unwrap();
    store.set_schedule("s", ScheduleChange::Pause("by hand".to_owned())).unwrap();
    for _ in 0..10 {
        store.set_schedule("s", ScheduleChange::Trigger).unwrap();
        store.set_schedule("s", ScheduleChange::Trigger).unwrap();
        let held: Vec<_> = hands.iter().map(|hand| hand.sweep(1)).collect();
        assert!(held.iter().all(|answer| answer.claimed.len() == 1));
        database
            .client()
            .batch_execute("UPDATE punctual.schedule SET next = NULL, paused_at = NULL")
            .unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for (hand, answer) in hands.iter().zip(&held) {
                scope.spawn(|| {
                    start.wait();
                    hand.done(answer, 0);
                });
            }
        });
        assert!(store.schedules().unwrap()[0].next.is_some(), "whoever was last has set the next time");
        store.set_schedule("s", ScheduleChange::Pause("by hand".to_owned())).unwrap();
    }
}

/// Whoever ends an occurrence locks the job and then the schedule, and so does whoever replaces it: neither waits for the
/// other for ever, and whichever comes first, one occurrence follows.
#[test]
fn an_occurrence_that_ends_while_it_is_replaced_is_followed_by_one() {
    use punctual_durable::{Cadence, NewSchedule, Overlap};
    let database = Database::new();
    let (store, hand) = (database.open(), Hand::new(&database));
    let mut schedule = NewSchedule::new("s", Cadence::Every(Duration::from_secs(3_600)), work());
    schedule.overlap = Overlap::Replace;
    store.save_schedule(schedule).unwrap();
    for _ in 0..20 {
        store.set_schedule("s", ScheduleChange::Trigger).unwrap();
        let held = hand.sweep(1);
        assert_eq!(held.claimed.len(), 1);
        let come = "UPDATE punctual.schedule SET next = punctual.clock() - 10000000";
        database.client().batch_execute(come).unwrap();
        let now = store.now();
        let firing = store.due_schedules(&kinds(), now).unwrap()[0].firing(now, now).unwrap();
        assert!(firing.replaces);
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                hand.done(&held, 0);
            });
            start.wait();
            store.fire(vec![firing]).unwrap();
        });
        let waiting = store.find(&Filter::new().state(JobState::Scheduled)).unwrap();
        assert_eq!(waiting.len(), 1, "the new one, and no other");
        assert_eq!(store.job(held.claimed[0].id).unwrap().unwrap().state, JobState::Done);
        let new = hand.sweep(1);
        hand.done(&new, 0);
    }
}

/// What comes after the firing has seen what there is, and before it has the schedule, is not locked: waiting for it might
/// be waiting for ever.
#[test]
fn a_firing_stands_back_if_there_is_more_to_replace_than_it_has_seen() {
    use punctual_durable::{Cadence, NewSchedule, Overlap};
    let database = Database::new();
    let store = database.open();
    let mut schedule = NewSchedule::new("s", Cadence::Every(Duration::from_secs(3_600)), work());
    schedule.overlap = Overlap::Replace;
    store.save_schedule(schedule).unwrap();
    let mut other = database.client();
    other.batch_execute("UPDATE punctual.schedule SET next = punctual.clock() - 10000000").unwrap();
    let now = store.now();
    let seen = store.due_schedules(&kinds(), now).unwrap().remove(0);
    let mut transaction = other.transaction().unwrap();
    transaction.batch_execute("SELECT FROM punctual.schedule FOR UPDATE").unwrap();
    let made = std::thread::scope(|scope| {
        let fire = scope.spawn(|| store.fire(vec![seen.firing(now, now).unwrap()]).unwrap());
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event_type = 'Lock' AND query LIKE '%FROM punctual.schedule%FOR UPDATE%'";
        let mut sql = database.client();
        while sql.query_one(waits, &[]).unwrap().get::<_, i64>(0) == 0 {
            std::thread::yield_now();
        }
        let occurrence = "INSERT INTO punctual.job (due, line, on_lost, created, max_attempts, max_crashes, series, \
                          nominal, payload) SELECT punctual.clock(), punctual.line_of('default', 'work', 1::smallint), \
                          0, punctual.clock(), 1, 1, 's', punctual.clock(), '{}'";
        transaction.batch_execute(occurrence).unwrap();
        transaction.commit().unwrap();
        fire.join().unwrap()
    });
    assert_eq!((made, store.schedules().unwrap().remove(0)), (vec![], seen.clone()), "nothing has happened");
    let alive = store.find(&Filter::new()).unwrap();
    assert_eq!(alive.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Scheduled]);
    // Seen again, it is replaced.
    assert_eq!(store.fire(vec![seen.firing(now, now).unwrap()]).unwrap().len(), 1);
    assert_eq!(store.job(alive[0].id).unwrap().unwrap().state, JobState::Cancelled);
}

/// An older program that declares its schedules at every start does not undo what a newer one has made of them.
#[test]
fn a_schedule_that_cannot_be_read_is_not_replaced() {
    use punctual_durable::{Cadence, NewSchedule, ScheduleChange};
    let database = Database::new();
    let store = database.open();
    let schedule = |name| NewSchedule::new(name, Cadence::Every(Duration::from_secs(3_600)), work());
    store.save_schedule(schedule("s")).unwrap();
    let mut sql = database.client();
    sql.execute("UPDATE punctual.schedule SET definition = '{\"when\": \"ever\"}', version = 7", &[])
        .unwrap();
    for error in [
        store.save_schedule(schedule("s")).unwrap_err(),
        store.set_schedule("s", ScheduleChange::Trigger).unwrap_err(),
    ] {
        assert!(error.is_broken() && error.to_string().contains("\"s\""), "{error}");
    }
    assert_eq!(sql.query_one("SELECT version FROM punctual.schedule", &[]).unwrap().get::<_, i64>(0), 7);
    store.save_schedule(schedule("t")).unwrap();
    assert_eq!(store.schedules().unwrap().len(), 1, "the others go on");
    assert!(store.set_schedule("s", ScheduleChange::Remove).unwrap(), "it can be removed");
    store.save_schedule(schedule("s")).unwrap();
}
