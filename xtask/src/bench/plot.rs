//! Pictures of what a run has found: what an operation costs against how much there is of something, and how lateness
//! is distributed. All figures are on logarithmic axes: what matters is how many times one is another.

mod chart;

use crate::json::Value;
use chart::{Chart, plain};
use std::fs;
use std::path::Path;

/// Draws everything that `results` has into `directory`.
pub(crate) fn command(results: &Path, directory: &Path) -> Result<(), String> {
    let text = fs::read_to_string(results).map_err(|error| {
        format!("cannot read {}: {error}; run `cargo xtask bench` first", results.display())
    })?;
    let charts = charts(&Value::parse(&text)?);
    if charts.is_empty() {
        return Err("the last run has nothing that can be drawn".to_owned());
    }
    fs::create_dir_all(directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    for chart in charts {
        let file = directory.join(&chart.name).with_extension("svg");
        fs::write(&file, chart.svg()).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("   {}", file.display());
    }
    Ok(())
}

/// A family of cases that differ in one number: a picture of the figure against it.
struct Growth {
    name: &'static str,
    id: &'static str,
    workload: &'static str,
    /// The argument that differs.
    key: &'static str,
    /// Those that make a case another family's.
    others: &'static [&'static str],
    title: &'static str,
    across: &'static str,
}

#[rustfmt::skip]
const GROWTHS: &[Growth] = &[
    Growth { name: "insert-by-size", id: "W1", workload: "insert", key: "n", others: &["producers", "order"],
        title: "Schedule a task (W1)", across: "tasks that are scheduled" },
    Growth { name: "timeout-by-size", id: "W2", workload: "timeout", key: "pending", others: &["producers", "held"],
        title: "Schedule a timeout and cancel another (W2)", across: "tasks that are pending" },
    Growth { name: "insert-by-producers", id: "W10", workload: "insert", key: "producers", others: &[],
        title: "Schedule a task from several threads (W10)", across: "threads that schedule" },
    Growth { name: "timeout-by-producers", id: "W10", workload: "timeout", key: "producers", others: &[],
        title: "Schedule a timeout and cancel another, from several threads (W10)", across: "threads that schedule" },
    Growth { name: "fire-by-workers", id: "W3", workload: "fire", key: "workers", others: &[],
        title: "Tasks that come due one after another, until all have run (W3)", across: "workers" },
    Growth { name: "burst-by-workers", id: "W3b", workload: "fire", key: "workers", others: &[],
        title: "Tasks that are due at once, until all have run (W3b)", across: "workers" },
];

fn charts(json: &Value) -> Vec<Chart> {
    let cases = json.member("cases").items();
    let note = note(json);
    let growths = GROWTHS.iter().filter_map(|growth| growth.chart(cases, &note));
    growths.chain(cases.iter().filter_map(|case| distribution(case, &note))).collect()
}

/// Where it was measured, and how often.
fn note(json: &Value) -> String {
    let machine = json.member("machine");
    let part = |name: &str| machine.member(name).text().unwrap_or("unknown").to_owned();
    let kernel: Vec<_> = part("kernel").splitn(3, '.').take(2).map(str::to_owned).collect();
    let rounds = match json.member("rounds").number() {
        Some(rounds) if rounds > 1.0 => format!("median of {rounds} rounds"),
        _ => "one round".to_owned(),
    };
    format!("{}, {} cores, Linux {}; {rounds}", part("processor"), part("cores"), kernel.join("."))
}

impl Growth {
    /// `None` if there are not two places to draw a line between.
    fn chart(&self, cases: &[Value], note: &str) -> Option<Chart> {
        let is_mine = |case: &&Value| {
            let is = |name: &str, value: &str| case.member(name).text() == Some(value);
            let is_plain = self.others.iter().all(|other| case.member("args").member(other) == &Value::Null);
            is("id", self.id) && is("workload", self.workload) && is_plain
        };
        let mut chart = Chart {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            note: note.to_owned(),
            across: self.across,
            marks: Vec::new(),
            curves: Vec::new(),
        };
        for case in cases.iter().filter(is_mine) {
            let size = case.member("args").member(self.key).text().and_then(|size| size.parse::<f64>().ok());
            let (Some(size), Some(figure)) = (size, case.member("figure").text()) else {
                continue;
            };
            chart.title = format!("{}, {}", self.title, case.member("unit").text().unwrap_or_default());
            chart.marks.push((size.log10(), plain(size)));
            for row in case.member("rows").items() {
                let median = row.member("figures").member(figure).member("median").number();
                if let (Some(name), Some(median)) = (row.member("peer").text(), median) {
                    chart.add(name, (size.log10(), median));
                }
            }
        }
        (chart.marks.len() > 1 && !chart.curves.is_empty()).then_some(chart)
    }
}

/// Shares of all starts, and how they are written.
const SHARES: [(&str, &str); 9] = [
    ("p1", "1 %"),
    ("p10", "10 %"),
    ("p25", "25 %"),
    ("p50", "50 %"),
    ("p75", "75 %"),
    ("p90", "90 %"),
    ("p99", "99 %"),
    ("p999", "99.9 %"),
    ("max", "all"),
];

/// How times are distributed, where a case has shares of them.
fn distribution(case: &Value, note: &str) -> Option<Chart> {
    let argument = |key: &str| case.member("args").member(key).text().unwrap_or_default();
    let workload = case.member("workload").text()?;
    let (name, title, across) = match workload {
        "lateness" => (
            format!("lateness-at-{}", argument("rate")),
            format!("How late tasks start, {} a second at random instants (W4), µs", argument("rate")),
            "of all tasks are at most so late",
        ),
        "periodic" => (
            "lateness-periodic".to_owned(),
            "How late runs of 10000 tasks with a period of 100 ms start (W5), µs".to_owned(),
            "of all runs are at most so late",
        ),
        "ping" => (
            "ping".to_owned(),
            "Schedule with no delay and wait for the result (W8), µs".to_owned(),
            "of all rounds take at most so long",
        ),
        _ => return None,
    };
    let marks = SHARES.iter().enumerate().map(|(at, (_, share))| (at as f64, (*share).to_owned())).collect();
    let mut chart = Chart { name, title, note: note.to_owned(), across, marks, curves: Vec::new() };
    for row in case.member("rows").items() {
        for (at, (share, _)) in SHARES.iter().enumerate() {
            let median = row.member("figures").member(&format!("{share}_us")).member("median").number();
            if let (Some(name), Some(median)) = (row.member("peer").text(), median) {
                chart.add(name, (at as f64, median));
            }
        }
    }
    (!chart.curves.is_empty()).then_some(chart)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"machine":{"processor":"P","cores":"2","kernel":"6.18.4-x.y"},"rounds":3,"cases":[
        {"id":"W1","workload":"insert","args":{"n":"1000"},"figure":"ns","unit":"ns a call","rows":[
            {"peer":"punctual","figures":{"ns":{"median":50}}},{"peer":"jdk","figures":{"ns":{"median":150}}}]},
        {"id":"W1","workload":"insert","args":{"n":"10000000"},"figure":"ns","unit":"ns a call","rows":[
            {"peer":"punctual","figures":{"ns":{"median":90}}}]},
        {"id":"W1","workload":"insert","args":{"n":"7","producers":"8"},"figure":"ns","unit":"ns","rows":[]},
        {"id":"W10","workload":"insert","args":{"n":"7","producers":"8"},"figure":"ns","unit":"ns","rows":[
            {"peer":"punctual","figures":{"ns":{"median":90}}}]},
        {"id":"W8","workload":"ping","args":{"n":"9"},"figure":"p50_us","unit":"us","rows":[
            {"peer":"floor","figures":{"p50_us":{"median":2},"max_us":{"median":0}}}]}]}"#;

    #[test]
    fn a_curve_has_a_point_for_each_size_and_other_variants_are_left_out() {
        let charts = charts(&Value::parse(SAMPLE).unwrap());
        let names: Vec<_> = charts.iter().map(|chart| chart.name.as_str()).collect();
        assert_eq!(names, ["insert-by-size", "ping"], "one number of producers makes no line");
        let marks: Vec<_> = charts[0].marks.iter().map(|(_, mark)| mark.as_str()).collect();
        assert_eq!(marks, ["1000", "10 M"]);
        let lengths: Vec<_> =
            charts[0].curves.iter().map(|curve| (curve.name.as_str(), curve.points.len())).collect();
        assert_eq!(lengths, [("punctual", 2), ("jdk", 1)]);
        assert_eq!(charts[0].note, "P, 2 cores, Linux 6.18; median of 3 rounds");
    }

    /// The short form of growth draws fewer: what the page shows must be drawn by the long one, and be there.
    #[test]
    fn the_page_shows_nothing_but_what_growth_draws() {
        use super::super::cases::{Scale, cases};
        use super::super::results::{Measured, Row, to_json};
        let is_growing = |id: &str| super::super::cases::GROWING.contains(&id);
        let measured = cases(&Scale::growth()).into_iter().filter(|case| is_growing(case.id)).map(|case| {
            let sample = [case.figure.0, "p99_us"].map(|key| (key.to_owned(), 1.0)).to_vec();
            Measured { rows: vec![Row { peer: "jdk", samples: vec![sample], trouble: None }], case }
        });
        let json = to_json(&[], 1, &measured.collect::<Vec<_>>());
        let drawn: Vec<_> =
            charts(&Value::parse(&json).unwrap()).into_iter().map(|chart| chart.name).collect();
        let page = include_str!("../../../docs/performance.md").split("(plots/").skip(1);
        let shown: Vec<_> = page.map(|rest| rest.split(".svg)").next().unwrap().to_owned()).collect();
        assert!(!shown.is_empty());
        for picture in shown {
            let file = format!("{}/../docs/plots/{picture}.svg", env!("CARGO_MANIFEST_DIR"));
            assert!(drawn.contains(&picture), "growth does not draw {picture}");
            assert!(std::path::Path::new(&file).is_file(), "{picture} is shown and not there");
        }
    }

    #[test]
    fn everything_drawn_is_a_number_and_has_a_name() {
        for chart in charts(&Value::parse(SAMPLE).unwrap()) {
            let svg = chart.svg();
            assert!(chart.curves.iter().all(|curve| svg.contains(&format!(">{}</text>", curve.name))));
            assert!(
                !svg.contains("NaN") && !svg.contains("inf") && svg.trim_end().ends_with("</svg>"),
                "{svg}"
            );
        }
    }
}
