//! Where the two differ by intention, all in one place.
//!
//! - ST-051: in Java a cancelled task stays in the queue unless told otherwise, here it leaves unless told
//!   otherwise. Our pools start with `OnCancel::KeepUntilDue`.
//! - ST-052: in Java a cancelled entry that comes due is run without effect, and counted. Here it is dropped.
//!   Java's count is reduced by such runs.
//! - ST-081, ST-082: Java's `shutdownNow` returns cancelled entries as well, in no particular order. Here what is
//!   returned can be run. Cancelled entries are struck from Java's list, and both are sorted.
//! - ST-062, ST-084: in Java a task that was removed or drained is pending for ever, here until it is dropped.
//!   It is kept to the end of the program; then it is dropped, and no handle may be pending.
//! - ST-047: before 24, Java sorts delays beyond half its range wrongly beside overdue tasks. Its `forever` is
//!   half the range, ours is `Duration::MAX`.
//! - TP-064: below the core size, Java starts a thread also when a periodic task is queued again, here only a new
//!   task brings one. ST-101: without core threads, Java's last thread counts its keep-alive in whole rounds, here
//!   from when it went idle. So numbers of threads are compared for a core size of one only.
//!
//! Which of two threads is first is nobody's promise: with a core size of two, the lines of one step are sorted.

/// What Java would have said if it were as we mean to be.
pub(crate) fn translate(java: &[String]) -> Vec<String> {
    java.iter().map(|line| translate_line(line)).collect()
}

fn translate_line(line: &str) -> String {
    let (head, words) = line.split_once(": ").unwrap_or((line, ""));
    if head.ends_with(" look") {
        format!("{head}: {}", without_idle_runs(words))
    } else if head.ends_with(" stop") {
        format!("{head}: {}", without_cancelled(words))
    } else {
        line.to_owned()
    }
}

/// ST-052.
fn without_idle_runs(words: &str) -> String {
    let number = |name: &str| -> Option<u64> {
        words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let idle = number("idle-runs").expect("Java says how many runs had no effect");
    let completed = number("completed").expect("Java says how many runs there were") - idle;
    let kept = words.split(' ').filter(|word| !word.starts_with("idle-runs="));
    let replaced = kept.map(|word| match word.starts_with("completed=") {
        true => format!("completed={completed}"),
        false => word.to_owned(),
    });
    replaced.collect::<Vec<_>>().join(" ")
}

/// ST-081.
fn without_cancelled(words: &str) -> String {
    let kept = words.split(' ').filter(|word| !word.ends_with('!'));
    kept.collect::<Vec<_>>().join(" ")
}

/// Takes out of a trace what is nobody's promise with so many threads.
pub(crate) fn blur(threads: usize, trace: Vec<String>) -> Vec<String> {
    if threads == 1 {
        return trace;
    }
    let is_open = |word: &str| word.starts_with("threads=") || word.starts_with("most-threads=");
    let line = |line: &String| line.split(' ').filter(|word| !is_open(word)).collect::<Vec<_>>().join(" ");
    let mut blurred: Vec<String> = trace.iter().map(line).collect();
    if threads > 1 {
        blurred.split_mut(|line| line.contains(" main look: ")).for_each(<[String]>::sort_unstable);
    }
    blurred
}
