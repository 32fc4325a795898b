//! What the kernel knows about this process.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Processor time used so far by all threads, in nanoseconds.
pub(crate) fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Bytes of memory that are resident.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages: u64 = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number of pages");
    pages * rustix::param::page_size() as u64
}

/// Context switches so far of all threads but the main one.
pub(crate) fn switches() -> u64 {
    let main = std::process::id().to_string();
    let threads = fs::read_dir("/proc/self/task").expect("/proc is there").flatten();
    let others = threads.filter(|thread| thread.file_name().to_string_lossy() != main.as_str());
    // A thread may end between being listed and being read.
    others
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .map(|s| of_thread(&s))
        .sum()
}

fn of_thread(status: &str) -> u64 {
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.filter_map(|line| line.rsplit_once('\t')?.1.parse::<u64>().ok()).sum()
}
