//! A line of results.

use std::fmt;

#[derive(Debug, Default)]
pub(crate) struct Line(Vec<(&'static str, String)>);

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn put(mut self, key: &'static str, value: f64) -> Self {
        let text = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.3}") };
        self.0.push((key, text));
        self
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
