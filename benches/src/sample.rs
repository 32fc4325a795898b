//! What many samples say in a few numbers.

use crate::line::Line;

/// The value below which `share` of the sorted samples are.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len() - 1;
    sorted[((last as f64 * share).round() as usize).min(last)]
}

const SHARES: [(&str, f64); 9] = [
    ("p1_us", 0.01),
    ("p10_us", 0.1),
    ("p25_us", 0.25),
    ("p50_us", 0.5),
    ("p75_us", 0.75),
    ("p90_us", 0.9),
    ("p99_us", 0.99),
    ("p999_us", 0.999),
    ("max_us", 1.0),
];

/// Quantiles of nanoseconds, in microseconds: enough of them to draw the distribution.
pub(crate) fn distribution(line: Line, mut nanos: Vec<u64>) -> Line {
    nanos.sort_unstable();
    SHARES.iter().fold(line, |line, (key, share)| line.put(key, quantile(&nanos, *share) as f64 / 1000.0))
}

pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
