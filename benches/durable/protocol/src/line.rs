//! A line of results.

use std::fmt;

/// `key=value key=value …`, in the order in which they were put.
#[derive(Debug, Default)]
pub struct Line(Vec<(&'static str, String)>);

impl Line {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more result.
    #[must_use]
    pub fn put(mut self, key: &'static str, value: f64) -> Self {
        let text = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") };
        self.0.push((key, text));
        self
    }

    /// The same with the median, the 99th percentile, the 99.9th and the greatest of some times in microseconds, in
    /// milliseconds.
    #[must_use]
    pub fn put_times(self, mut micros: Vec<i64>) -> Self {
        micros.sort_unstable();
        let at = |part: f64| match micros.len() {
            0 => f64::NAN,
            count => micros[((count - 1) as f64 * part).round() as usize] as f64 / 1e3,
        };
        self.put("p50_ms", at(0.5)).put("p99_ms", at(0.99)).put("p999_ms", at(0.999)).put("max_ms", at(1.0))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}={value}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[test]
fn percentiles_are_values_that_occurred() {
    let line = Line::new().put("n", 2.0).put_times((1..=1000).rev().collect());
    assert_eq!(line.to_string(), "n=2 p50_ms=0.501 p99_ms=0.990 p999_ms=0.999 max_ms=1");
}
