//! What several rounds say together.

/// The middle of some samples, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// `None` if there are no samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Self { median, min, max })
    }
}

/// Which figures are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

impl Better {
    /// How many times as dear `value` is as `base`: above 1 is always worse. `None` where that has no meaning.
    pub(crate) fn ratio(self, value: f64, base: f64) -> Option<f64> {
        let ratio = match self {
            Better::Less => value / base,
            Better::More => base / value,
        };
        ratio.is_finite().then_some(ratio)
    }
}

/// Three significant digits or so, for people.
pub(crate) fn human(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        0.0 => "0".to_owned(),
        size if size >= 999_500.0 => format!("{:.2} M", value / 1e6),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.001 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        let summary = Summary::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(summary, Summary { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn one_sample_out_of_five_does_not_move_the_median() {
        assert_eq!(Summary::of(&[5.0, 5.0, 9000.0, 5.0, 5.0]).unwrap().median, 5.0);
    }

    #[test]
    fn a_ratio_above_one_is_worse_whichever_way_is_better() {
        assert_eq!(Better::Less.ratio(300.0, 100.0), Some(3.0));
        assert_eq!(Better::More.ratio(1e6, 5e6), Some(5.0));
        assert_eq!(Better::Less.ratio(1.0, 0.0), None);
        assert_eq!(Better::Less.ratio(0.0, 0.0), None);
    }

    #[test]
    fn figures_have_about_three_digits() {
        let shown = [0.0, 0.0421, 1.234, 12.34, 123.4, 999_499.0, 1_234_567.0, f64::NAN].map(human);
        assert_eq!(shown, ["0", "0.04", "1.23", "12.3", "123", "999499", "1.23 M", "–"]);
    }
}
