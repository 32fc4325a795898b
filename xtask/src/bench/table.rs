//! A table for people.

use super::cases::OURS;
use super::results::{Measured, Row};
use super::stats::{Better, human};

/// The table of one case.
pub(crate) fn render(measured: &Measured) -> String {
    if measured.case.has_peers { comparison(measured) } else { prices(measured) }
}

/// A line for each figure, where there is nobody to compare.
fn prices(measured: &Measured) -> String {
    let case = &measured.case;
    let mut lines = vec![["", "median", "min", "max"].map(str::to_owned).to_vec()];
    for key in std::iter::once(&case.figure.0).chain(case.extras) {
        for summary in measured.rows.iter().filter_map(|row| row.summary(key)) {
            let figures = [summary.median, summary.min, summary.max].map(human);
            lines.push(std::iter::once((*key).to_owned()).chain(figures).collect());
        }
    }
    format!("== {}\n", case.title()) + &align(&lines, &[])
}

/// A line for each who took part, and one for each who could not, with the reason.
pub(crate) fn comparison(measured: &Measured) -> String {
    let case = &measured.case;
    let better = match case.better {
        Better::Less => "less is better",
        Better::More => "more is better",
    };
    let title = format!("== {} · {}, {better}\n", case.title(), case.figure.1);
    let shown: Vec<&str> = case.extras.iter().copied().filter(|key| is_known(measured, key)).collect();
    let heading = ["", "median", "min", "max", "× ours", "× floor"].into_iter().chain(shown.iter().copied());
    let mut lines = vec![heading.map(str::to_owned).collect::<Vec<_>>()];
    let mut notes = Vec::new();
    for row in &measured.rows {
        let Some(summary) = row.summary(case.figure.0) else {
            let why = row.trouble.as_ref().map_or("not measured", |trouble| trouble.reason());
            notes.push((lines.len(), why.to_owned()));
            lines.push(vec![row.peer.to_owned(), "–".to_owned()]);
            continue;
        };
        let ratio = |base: Option<&str>| {
            let base = base.and_then(|name| measured.row(name)?.summary(case.figure.0));
            base.and_then(|base| case.better.ratio(summary.median, base.median)).map_or("–".to_owned(), human)
        };
        let mut line = vec![row.peer.to_owned()];
        line.extend([summary.median, summary.min, summary.max].map(human));
        line.push(ratio(Some(OURS)));
        line.push(ratio(case.floors.first().copied()));
        line.extend(shown.iter().map(|key| row.summary(key).map_or(String::new(), |s| human(s.median))));
        lines.push(line);
    }
    title + &align(&lines, &notes)
}

fn is_known(measured: &Measured, key: &str) -> bool {
    measured.rows.iter().any(|row: &Row| row.summary(key).is_some())
}

/// Columns of equal width: the first to the left, numbers to the right, notes at the end of their lines.
pub(crate) fn align(lines: &[Vec<String>], notes: &[(usize, String)]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let mut shown = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            shown += &if column == 0 { format!("   {cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        if let Some((_, note)) = notes.iter().find(|(line, _)| *line == at) {
            shown += &format!("  {note}");
        }
        text += shown.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Scale, cases};
    use super::super::results::Trouble;
    use super::*;

    #[test]
    fn prices_are_listed_one_below_the_other() {
        let case = cases(&Scale::quick()).into_iter().find(|case| case.id == "F").unwrap();
        let sample = vec![("clock_ns".to_owned(), 31.0), ("mutex_ns".to_owned(), 16.5)];
        let rows = vec![Row { peer: "floor", samples: vec![sample], trouble: None }];
        let text = render(&Measured { case, rows });
        assert_eq!(
            text,
            "== F prices of the machine · parts\n             median   min   max\n   \
             clock_ns    31.0  31.0  31.0\n   mutex_ns    16.5  16.5  16.5\n"
        );
    }

    #[test]
    fn ratios_are_to_ours_and_to_the_floor_and_a_reason_stands_for_a_figure() {
        let case = cases(&Scale::quick()).into_iter().find(|case| case.id == "W3").unwrap();
        let row = |peer, samples: &[f64]| {
            let samples = samples.iter().map(|value| vec![("per_s".to_owned(), *value)]).collect();
            Row { peer, samples, trouble: None }
        };
        let mut wheel = row("hash-wheel", &[]);
        wheel.trouble = Some(Trouble::Unsupported("runs everything on one thread".to_owned()));
        let rows = vec![row("punctual", &[4e6, 5e6, 4.5e6]), row("jdk", &[9e5]), wheel, row("floor", &[9e6])];
        let text = render(&Measured { case, rows });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "== W3 fire · fire n=200000 spread_ms=20 workers=1 · tasks a second, more is better",
                "               median     min     max  × ours  × floor",
                "   punctual    4.50 M  4.00 M  5.00 M    1.00     2.00",
                "   jdk         900000  900000  900000    5.00     10.0",
                "   hash-wheel       –  runs everything on one thread",
                "   floor       9.00 M  9.00 M  9.00 M    0.50     1.00",
            ]
        );
    }
}
