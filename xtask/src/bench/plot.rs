//! `cargo xtask bench --plot`: pictures of what the last run has found.
//!
//! Two kinds: what an operation costs against how much is pending, and how lateness is distributed. Both axes that
//! show times are logarithmic: what matters is how many times one is another.

use super::cases::OURS;
use super::stats::human;
use crate::json::Value;
use std::fs;
use std::path::Path;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 480.0;
/// Left, top, right and bottom of where curves are drawn; labels stand to the right.
const FRAME: [f64; 4] = [70.0, 50.0, 640.0, 420.0];
/// Ours is drawn first in this list's first colour, thick; the machine's own price is grey and dashed.
const COLOURS: [&str; 9] =
    ["#c2185b", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#bcbd22", "#7f7f7f"];

/// One picture: curves over marked places of a horizontal axis.
#[derive(Debug)]
struct Chart {
    title: String,
    unit: String,
    /// Places on the horizontal axis and what stands there.
    marks: Vec<(f64, String)>,
    curves: Vec<Curve>,
}

#[derive(Debug)]
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

pub(crate) fn command(results: &Path, directory: &Path) -> Result<(), String> {
    let text = fs::read_to_string(results).map_err(|error| {
        format!("cannot read {}: {error}; run `cargo xtask bench` first", results.display())
    })?;
    let json = Value::parse(&text)?;
    let cases = json.member("cases").items();
    let growths = [("insert", "n"), ("timeout", "pending")].map(|(name, key)| growth(cases, name, key));
    let mut written = 0;
    for chart in growths.into_iter().chain(cases.iter().filter_map(distribution)) {
        if chart.curves.is_empty() {
            continue;
        }
        let file = directory.join(chart.file());
        fs::write(&file, chart.svg()).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        println!("   {}", file.display());
        written += 1;
    }
    if written == 0 { Err("the last run has nothing that can be drawn".to_owned()) } else { Ok(()) }
}

/// What an operation costs against the number of tasks, where a workload was measured at several.
fn growth(cases: &[Value], workload: &str, key: &str) -> Chart {
    let mut chart = Chart {
        title: format!("{workload}: cost against size"),
        unit: String::new(),
        marks: Vec::new(),
        curves: Vec::new(),
    };
    for case in cases.iter().filter(|case| case.member("workload").text() == Some(workload)) {
        let args = case.member("args");
        let is_plain = ["producers", "order"].iter().all(|other| args.member(other) == &Value::Null);
        let size = args.member(key).text().and_then(|size| size.parse::<f64>().ok());
        let (Some(size), Some(figure), true) = (size, case.member("figure").text(), is_plain) else {
            continue;
        };
        chart.unit = case.member("unit").text().unwrap_or_default().to_owned();
        chart.marks.push((size.log10(), human(size)));
        for row in case.member("rows").items() {
            let median = row.member("figures").member(figure).member("median").number();
            if let (Some(name), Some(median)) = (row.member("peer").text(), median) {
                chart.add(name, (size.log10(), median));
            }
        }
    }
    if chart.marks.len() < 2 {
        chart.curves.clear();
    }
    chart
}

const SHARES: [&str; 9] = ["p1", "p10", "p25", "p50", "p75", "p90", "p99", "p999", "max"];

/// How times are distributed, where a case has shares of them.
fn distribution(case: &Value) -> Option<Chart> {
    let name = case.member("workload").text()?;
    if !["lateness", "periodic", "ping"].contains(&name) {
        return None;
    }
    let args = case.member("args").members().iter();
    let args: Vec<_> =
        args.map(|(key, value)| format!("{key}={}", value.text().unwrap_or_default())).collect();
    let marks = SHARES.iter().enumerate().map(|(at, share)| (at as f64, (*share).to_owned())).collect();
    let title = format!("{name} {}: distribution", args.join(" "));
    let mut chart = Chart { title, unit: "µs".to_owned(), marks, curves: Vec::new() };
    for row in case.member("rows").items() {
        for (at, share) in SHARES.iter().enumerate() {
            let median = row.member("figures").member(&format!("{share}_us")).member("median").number();
            if let (Some(name), Some(median)) = (row.member("peer").text(), median) {
                chart.add(name, (at as f64, median));
            }
        }
    }
    Some(chart)
}

impl Chart {
    /// The title as a file name.
    fn file(&self) -> String {
        let words = self.title.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-") + ".svg"
    }

    /// A time of zero has no place on a logarithmic axis.
    fn add(&mut self, name: &str, (x, y): (f64, f64)) {
        let point = (x, y.max(0.01));
        match self.curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => self.curves.push(Curve { name: name.to_owned(), points: vec![point] }),
        }
    }

    fn svg(&self) -> String {
        let [left, top, right, bottom] = FRAME;
        let (low, high) = self.decades();
        let (first, last) = extremes(self.marks.iter().map(|(x, _)| *x));
        let place = |x: f64, y: f64| {
            let across = (x - first) / (last - first).max(f64::MIN_POSITIVE);
            let up = (y.log10() - low) / (high - low);
            (left + across * (right - left), bottom - up * (bottom - top))
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        svg += &label(left, 24.0, "start", "#000", &format!("{} ({})", self.title, self.unit));
        for decade in low as i32..=high as i32 {
            let y = place(first, 10_f64.powi(decade)).1;
            svg += &line((left, y), (right, y), "#ddd");
            svg += &label(left - 8.0, y + 4.0, "end", "#444", &human(10_f64.powi(decade)));
        }
        for (x, mark) in &self.marks {
            let x = place(*x, 1.0).0;
            svg += &line((x, top), (x, bottom), "#eee");
            svg += &label(x, bottom + 18.0, "middle", "#444", mark);
        }
        let mut ends = Vec::new();
        for (at, curve) in self.curves.iter().enumerate() {
            let (colour, style) = look(at, &curve.name);
            let points: Vec<_> = curve.points.iter().map(|(x, y)| place(*x, *y)).collect();
            let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            svg += &format!(
                "<polyline fill=\"none\" stroke=\"{colour}\" {style} points=\"{}\"/>\n",
                path.join(" ")
            );
            ends.extend(points.last().map(|(_, y)| (*y, colour, curve.name.as_str())));
        }
        svg + &names(ends) + "</svg>\n"
    }

    /// The powers of ten between which everything lies.
    fn decades(&self) -> (f64, f64) {
        let (low, high) =
            extremes(self.curves.iter().flat_map(|curve| &curve.points).map(|(_, y)| y.log10()));
        (low.floor(), high.ceil().max(low.floor() + 1.0))
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

fn look(at: usize, name: &str) -> (&'static str, &'static str) {
    match name {
        OURS => (COLOURS[0], "stroke-width=\"3.5\""),
        _ if name.starts_with(OURS) => (COLOURS[0], "stroke-width=\"2\" stroke-dasharray=\"2 3\""),
        _ if name.starts_with("floor") || name.starts_with("nanosleep") => {
            ("#888", "stroke-width=\"1.5\" stroke-dasharray=\"6 4\"")
        }
        _ => (COLOURS[1 + at % (COLOURS.len() - 1)], "stroke-width=\"1.5\""),
    }
}

/// The names at the ends of their curves, pushed apart where they would cover each other.
fn names(mut ends: Vec<(f64, &str, &str)>) -> String {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = f64::NEG_INFINITY;
    let mut svg = String::new();
    for (y, colour, name) in ends {
        let at = y.max(free);
        free = at + 15.0;
        svg += &label(FRAME[2] + 10.0, at + 4.0, "start", colour, name);
    }
    svg
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

fn label(x: f64, y: f64, anchor: &str, colour: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"cases":[
        {"workload":"insert","args":{"n":"1000"},"figure":"ns","unit":"ns","rows":[
            {"peer":"punctual","figures":{"ns":{"median":50}}},{"peer":"jdk","figures":{"ns":{"median":150}}}]},
        {"workload":"insert","args":{"n":"1000000"},"figure":"ns","unit":"ns","rows":[
            {"peer":"punctual","figures":{"ns":{"median":90}}}]},
        {"workload":"insert","args":{"n":"7","producers":"8"},"figure":"ns","unit":"ns","rows":[]},
        {"workload":"ping","args":{"n":"9"},"figure":"p50_us","unit":"us","rows":[
            {"peer":"floor","figures":{"p50_us":{"median":2},"max_us":{"median":0}}}]}]}"#;

    #[test]
    fn a_curve_has_a_point_for_each_size_and_other_variants_are_left_out() {
        let json = Value::parse(SAMPLE).unwrap();
        let chart = growth(json.member("cases").items(), "insert", "n");
        assert_eq!(chart.marks.len(), 2);
        let lengths: Vec<_> =
            chart.curves.iter().map(|curve| (curve.name.as_str(), curve.points.len())).collect();
        assert_eq!(lengths, [("punctual", 2), ("jdk", 1)]);
        assert!(growth(json.member("cases").items(), "timeout", "pending").curves.is_empty());
    }

    #[test]
    fn everything_drawn_is_a_number_inside_the_picture() {
        let json = Value::parse(SAMPLE).unwrap();
        let chart = json.member("cases").items().iter().find_map(distribution).unwrap();
        let svg = chart.svg();
        assert_eq!(chart.file(), "ping-n-9-distribution.svg");
        assert!(svg.contains(">floor</text>") && svg.trim_end().ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
