//! What is measured, with which numbers, and who takes part.

use super::stats::Better;

/// Ourselves, in every ratio.
pub(crate) const OURS: &str = "punctual";

/// How a peer is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The Rust program in `benches/`.
    Kit,
    /// The Java program in `benches/java/`.
    Java,
    /// The Go program in `benches/go/`.
    Go,
}

/// Everybody who can be named with `--peers`.
pub(crate) const PEERS: &[(&str, Program)] = &[
    ("jdk", Program::Java),
    ("jdk-fjp", Program::Java),
    ("netty", Program::Java),
    ("go", Program::Go),
    ("tokio", Program::Kit),
    ("tokio-delay-queue", Program::Kit),
    ("scheduled-thread-pool", Program::Kit),
    ("async-io", Program::Kit),
    ("hash-wheel", Program::Kit),
];

/// Those of `--quick`.
pub(crate) const FEW: &[&str] = &["jdk", "tokio", "scheduled-thread-pool"];

/// The ids for `--only`, and what they are.
pub(crate) const WORKLOADS: &[(&str, &str)] = &[
    ("F", "prices of the machine"),
    ("W1", "insert"),
    ("W2", "timeout pattern"),
    ("W3", "fire"),
    ("W3b", "burst"),
    ("W4", "lateness"),
    ("W5", "periodic"),
    ("W6", "memory"),
    ("W7", "idle"),
    ("W8", "ping"),
    ("W9", "pause"),
    ("W10", "producers"),
];

/// Those of `--growth`.
pub(crate) const GROWING: &[&str] = &["W1", "W2", "W3", "W3b", "W4", "W5", "W10"];

/// One table: a workload with its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// One of [`WORKLOADS`].
    pub(crate) id: &'static str,
    /// What the kit calls it.
    pub(crate) workload: &'static str,
    pub(crate) args: Vec<(&'static str, String)>,
    /// The key of the figure that is compared, and its unit.
    pub(crate) figure: (&'static str, &'static str),
    pub(crate) better: Better,
    /// Keys of further columns.
    pub(crate) extras: &'static [&'static str],
    /// Ours in another guise, and what no peer is: shown in this case only.
    pub(crate) beside: &'static [&'static str],
    /// What the machine charges; the first is what ratios are taken to.
    pub(crate) floors: &'static [&'static str],
    /// Whether peers take part.
    pub(crate) has_peers: bool,
}

impl Case {
    pub(crate) fn title(&self) -> String {
        let mut all = WORKLOADS.iter().chain(super::durable::WORKLOADS);
        let name = all.find(|(id, _)| *id == self.id).map_or("", |(_, name)| name);
        let args: Vec<_> = self.args.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {name} · {} {}", self.id, self.workload, args.join(" ")).trim_end().to_owned()
    }
}

/// How much of everything.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Tasks of W1; and how many of W2 are pending.
    pub(crate) sizes: Vec<u64>,
    pub(crate) pending: Vec<u64>,
    /// Threads of W10.
    pub(crate) producers: Vec<u64>,
    /// Threads of W3 and W3b.
    pub(crate) workers: Vec<u64>,
    /// Deadlines a second in W4.
    pub(crate) rates: Vec<u64>,
    pub(crate) is_quick: bool,
}

impl Scale {
    pub(crate) fn full() -> Self {
        Self {
            sizes: vec![1_000, 100_000, 1_000_000],
            pending: vec![100_000, 1_000_000],
            producers: vec![4, 8],
            workers: vec![1, 2],
            rates: vec![10_000, 100_000],
            is_quick: false,
        }
    }

    pub(crate) fn quick() -> Self {
        Self {
            sizes: vec![100_000],
            pending: vec![100_000],
            producers: vec![4],
            workers: vec![1],
            rates: vec![10_000],
            is_quick: true,
        }
    }

    /// How everything grows with size, producers and workers.
    pub(crate) fn growth() -> Self {
        let powers = vec![1_000, 10_000, 100_000, 1_000_000, 10_000_000];
        let threads = vec![1, 2, 4, 8];
        Self {
            sizes: powers.clone(),
            pending: powers,
            producers: threads.clone(),
            workers: threads,
            ..Self::full()
        }
    }

    /// The same in small, to try it.
    pub(crate) fn quick_growth() -> Self {
        let powers = vec![1_000, 10_000, 100_000];
        let threads = vec![1, 2, 4];
        Self {
            sizes: powers.clone(),
            pending: powers,
            producers: threads.clone(),
            workers: threads,
            ..Self::quick()
        }
    }

    /// `full`, or `quick` if this is quick.
    fn pick(&self, full: u64, quick: u64) -> String {
        if self.is_quick { quick } else { full }.to_string()
    }
}

pub(crate) fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = vec![Case { has_peers: false, extras: PARTS, ..case("F", "parts", ("clock_ns", "ns")) }];
    let nanos = ("ns", "ns a call");
    let insert = Case { extras: &["settle_ms"], ..case("W1", "insert", nanos) };
    for &n in &scale.sizes {
        cases.push(insert.with(&[("n", n.to_string())]));
    }
    let largest = scale.sizes.iter().max().copied().unwrap_or(0);
    if !scale.is_quick {
        cases.push(insert.with(&[("n", largest.to_string()), ("producers", "2".to_owned())]));
    }
    let middle = scale.sizes[scale.sizes.len() / 2].to_string();
    cases.push(insert.with(&[("n", middle.clone()), ("order", "descending".to_owned())]));

    let extras = &["grown_bytes", "live_bytes", "settle_ms"];
    let timeout = Case { extras, ..case("W2", "timeout", ("ns", "ns a pair")) };
    let pairs = || ("n", scale.pick(500_000, 100_000));
    for &pending in &scale.pending {
        let mut args = vec![("pending", pending.to_string()), pairs()];
        // So many are not there before the first of them would be due.
        args.extend((pending > 1_000_000).then(|| ("seconds", "300".to_owned())));
        cases.push(timeout.with(&args));
    }
    let pending = scale.pending[(scale.pending.len() - 1) / 2].to_string();
    if !scale.is_quick {
        let two = ("producers", "2".to_owned());
        cases.push(timeout.with(&[("pending", pending.clone()), pairs(), two]));
        let held = ("held", "1".to_owned());
        cases.push(timeout.with(&[("pending", pending.clone()), pairs(), held]));
    }

    // As many tasks to a millisecond in both scales: no rate above that can be seen.
    for (id, spread) in [("W3", scale.pick(100, 20)), ("W3b", "0".to_owned())] {
        for &workers in &scale.workers {
            let fire = Case { better: Better::More, ..case(id, "fire", ("per_s", "tasks a second")) };
            let fire = Case { extras: &["submit_ns", "disorder", "early_us"], ..fire };
            let n = ("n", scale.pick(1_000_000, 200_000));
            cases.push(fire.with(&[n, ("spread_ms", spread.clone()), ("workers", workers.to_string())]));
        }
    }

    let millis = || ("millis", scale.pick(5_000, 700));
    let late = Case {
        extras: &["p99_us", "p999_us", "max_us", "cpu_ms", "early_us"],
        beside: &["punctual-50us"],
        floors: &["nanosleep-1ns", "nanosleep-50us"],
        ..case("W4", "lateness", ("p50_us", "µs late, median"))
    };
    for &rate in &scale.rates {
        cases.push(late.with(&[("rate", rate.to_string()), millis()]));
    }
    let extras = &["p99_us", "p999_us", "max_us", "cpu_ns", "early_us"];
    cases.push(Case { id: "W5", workload: "periodic", extras, ..late.with(&[millis()]) });

    let memory = case("W6", "memory", ("bytes", "bytes a task"));
    for keep in ["0", "1"] {
        if keep == "0" || !scale.is_quick {
            cases.push(memory.with(&[("n", scale.pick(1_000_000, 200_000)), ("keep", keep.to_owned())]));
        }
    }
    let idle =
        Case { extras: &["cpu_us_per_s"], ..case("W7", "idle", ("switches_per_s", "switches a second")) };
    cases.push(idle.with(&[("millis", scale.pick(5_000, 500))]));
    let ping = case("W8", "ping", ("p50_us", "µs a round, median"));
    let ping =
        Case { extras: &["p99_us", "p999_us"], floors: &["floor", "floor-apart", "floor-spin"], ..ping };
    cases.push(ping.with(&[("n", scale.pick(20_000, 3_000))]));
    let pause = Case {
        extras: &["insert_us", "cancel_us", "pop_us"],
        beside: &["engine", "engine-heap"],
        ..case("W9", "pause", ("longest_us", "µs, the longest call"))
    };
    cases.push(pause.with(&[("n", scale.pick(1_000_000, 100_000))]));

    // As many as with two producers in W1 and W2, beside which these are read; but not ten millions.
    let inserts = if scale.is_quick { middle } else { largest.min(1_000_000).to_string() };
    for &producers in &scale.producers {
        let producers = || ("producers", producers.to_string());
        cases.push(Case { id: "W10", ..insert.with(&[("n", inserts.clone()), producers()]) });
        cases.push(Case { id: "W10", ..timeout.with(&[("pending", pending.clone()), pairs(), producers()]) });
    }
    cases
}

const PARTS: &[&str] = &[
    "malloc_free_64_ns",
    "malloc_fresh_64_ns",
    "mutex_ns",
    "mutex_shared_ns",
    "atomic_add_ns",
    "atomic_add_shared_ns",
    "futex_wake_nobody_ns",
    "futex_wake_sleeper_ns",
];

fn case(id: &'static str, workload: &'static str, figure: (&'static str, &'static str)) -> Case {
    Case {
        id,
        workload,
        args: Vec::new(),
        figure,
        better: Better::Less,
        extras: &[],
        beside: &[],
        floors: &["floor"],
        has_peers: true,
    }
}

impl Case {
    fn with(&self, args: &[(&'static str, String)]) -> Case {
        Case { args: args.to_vec(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_measured_in_both_scales() {
        for scale in [Scale::full(), Scale::quick()] {
            let cases = cases(&scale);
            for (id, _) in WORKLOADS {
                assert!(cases.iter().any(|case| case.id == *id), "{id}");
            }
            assert!(cases.iter().all(|case| WORKLOADS.iter().any(|(id, _)| *id == case.id)));
        }
    }

    #[test]
    fn no_case_is_measured_twice() {
        for scale in [Scale::full(), Scale::quick(), Scale::growth(), Scale::quick_growth()] {
            let mut titles: Vec<_> = cases(&scale).iter().map(Case::title).collect();
            let all = titles.len();
            titles.sort_unstable();
            titles.dedup();
            assert_eq!(titles.len(), all);
        }
    }

    #[test]
    fn a_title_can_be_given_to_the_kit() {
        let cases = cases(&Scale::quick());
        let case = cases.iter().find(|case| case.id == "W2").unwrap();
        assert_eq!(case.title(), "W2 timeout pattern · timeout pending=100000 n=100000");
    }
}
