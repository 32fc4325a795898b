//! The whole in ten seconds, with a timeline: `cargo run --release --example tour`

use punctual::{
    Clock, CompletionQueue, DelayQueue, Executor, ManualClock, Observer, RunOutcome, Scheduler, SystemClock,
    TaskContext, TaskInfo, Tick, Timer,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One clock for all that is printed.
#[derive(Clone, Copy)]
struct Timeline(SystemClock);

impl Timeline {
    fn say(self, text: &str) {
        println!("{:>7.3} s  {text}", self.0.now().since(Tick::ZERO).as_secs_f64());
    }

    fn chapter(self, text: &str) {
        println!();
        self.say(text);
    }
}

/// Tells of panics; with it nothing fails in silence.
struct Report(Timeline);

impl Observer for Report {
    fn after_run(&self, task: TaskInfo<'_>, outcome: RunOutcome<'_>) {
        if let RunOutcome::Panicked(panic) = outcome {
            self.0.say(&format!("    (observer) {task} panicked in run {}: {panic}", task.runs()));
        }
    }
}

fn main() -> Outcome {
    // Panics of bodies are part of the tour; the observer prints them.
    std::panic::set_hook(Box::new(|_| {}));
    let line = Timeline(SystemClock::new());
    let pool = Executor::builder().core_threads(2).observer(Report(line)).thread_name("tour").build()?;

    values(&pool, line)?;
    order(line)?;
    periodic(&pool, line)?;
    lateness(&pool, line)?;
    ending(&pool, line)?;
    many(&pool, line)?;
    family(line)?;
    a_day_in_a_blink(line)?;

    line.chapter("Stopping well");
    pool.schedule(ms(300), move || line.say("    a delayed task still runs after the shutdown"))?;
    pool.schedule_at_fixed_rate(ms(0), ms(50), || ())?;
    pool.shutdown();
    line.say(&format!("  {}", *pool));
    assert!(pool.await_termination(Duration::from_secs(10)));
    line.say(&format!("  {}", *pool));
    Ok(())
}

fn values(pool: &Scheduler, line: Timeline) -> Outcome {
    line.chapter("A value after a delay");
    let answer = pool.schedule(ms(500), || 6 * 7)?;
    line.say(&format!("  scheduled {}, due {:.1?} from now", answer.id(), answer.remaining().duration()));
    line.say(&format!("  joined: {}", answer.join()?));
    let broken = pool.task(|| panic!("out of paper")).name("printer").start::<()>()?;
    line.say(&format!("  a handle keeps the reason: {}", broken.join().unwrap_err()));
    Ok(())
}

fn order(line: Timeline) -> Outcome {
    line.chapter("Exact order: by deadline, then by submission");
    let one = Executor::new(1);
    let done = Arc::new(std::sync::Mutex::new(Vec::new()));
    let start = one.clock().now();
    for (name, delay) in [("c", 30), ("a1", 10), ("b", 20), ("a2", 10), ("a3", 10)] {
        let done = Arc::clone(&done);
        // One instant for the three a's, to the nanosecond.
        one.task(move || done.lock().unwrap().push(name)).first(start.after(ms(delay))).start()?;
    }
    one.close()?;
    line.say(&format!("  ran {:?}", done.lock().unwrap()));
    Ok(())
}

fn periodic(pool: &Scheduler, line: Timeline) -> Outcome {
    line.chapter("Fixed rate keeps its grid, and a late run catches up");
    let beat = pool
        .task(move || {
            let cx = TaskContext::current();
            line.say(&format!("    tick {}", cx.runs()));
            if cx.runs() == 2 {
                let _ = cx.sleep(ms(450));
            }
        })
        .name("rate")
        .every(ms(200))
        .start()?;
    let _ = beat.wait_timeout(ms(1300));
    beat.cancel();

    line.chapter("A periodic task that panics ends, and everybody is told");
    let fragile = pool
        .task(move || {
            line.say("    run");
            assert!(TaskContext::current().runs() < 3, "third time unlucky");
        })
        .name("fragile")
        .every(ms(150))
        .start()?;
    line.say(&format!("  the handle: {}", fragile.join().unwrap_err()));
    Ok(())
}

fn lateness(pool: &Scheduler, line: Timeline) -> Outcome {
    line.chapter("How late? 2000 tasks at random instants within a second");
    let queue = CompletionQueue::new();
    let clock = pool.clock();
    let start = clock.now().after(ms(50));
    for n in 0..2000_u64 {
        let due = start.after(Duration::from_nanos(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000));
        let clock = Arc::clone(&clock);
        queue.push(pool.task(move || clock.now().since(due)).first(due).start()?);
    }
    let mut late = Vec::new();
    while let Some(handle) = queue.take()? {
        late.push(handle.join()?);
    }
    late.sort();
    line.say(&format!("  half start within {:?}, 99 % within {:?}, none early", late[1000], late[1980]));
    Ok(())
}

fn ending(pool: &Scheduler, line: Timeline) -> Outcome {
    line.chapter("A hundred thousand timeouts that do not happen");
    for _ in 0..100_000 {
        let _guard = pool.schedule(Duration::from_secs(30), || ())?.cancel_on_drop();
    }
    line.say(&format!("  {pool}"));

    line.chapter("A body that is told to stop");
    let (ended, end) = std::sync::mpsc::channel();
    let nap = pool.submit(move || ended.send(TaskContext::current().sleep(Duration::from_secs(3600))))?;
    let _ = nap.wait_timeout(ms(300));
    nap.interrupt();
    line.say(&format!("  its sleep of an hour returned {:?}", end.recv()?));
    Ok(())
}

fn many(pool: &Scheduler, line: Timeline) -> Outcome {
    line.chapter("The first that succeeds wins");
    let race = [("slow", 400), ("broken", 0), ("quick", 150)].map(|(name, millis)| {
        move || match millis {
            0 => Err("no route"),
            _ => TaskContext::current().sleep(ms(millis)).map(|()| name).map_err(|_| "interrupted"),
        }
    });
    line.say(&format!("  {}", pool.invoke_any(race)?));
    Ok(())
}

fn family(line: Timeline) -> Outcome {
    line.chapter("A delay queue between threads, and a timer");
    let queue = Arc::new(DelayQueue::new());
    let producer = Arc::clone(&queue);
    std::thread::spawn(move || {
        producer.push(ms(300), "second");
        producer.push(ms(150), "first");
    });
    line.say(&format!("  took {}", queue.take()?));
    line.say(&format!("  took {}", queue.take()?));
    let timer = Timer::new("tea")?;
    timer.schedule(ms(200), move || line.say("  tea is ready"))?.join()?;
    Ok(())
}

fn a_day_in_a_blink(line: Timeline) -> Outcome {
    line.chapter("A day of hourly work on a manual clock");
    let clock = ManualClock::new();
    let pool = Executor::builder().clock(clock.clone()).build()?;
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let hour = Duration::from_secs(3600);
    pool.schedule_at_fixed_rate(hour, hour, move || {
        count.fetch_add(1, Ordering::Relaxed);
    })?;
    clock.advance(24 * hour);
    line.say(&format!("  {} runs", runs.load(Ordering::Relaxed)));
    Ok(())
}
