//! What was measured, and how it is written down.

use super::cases::{Case, OURS};
use super::stats::{Better, Summary};
use crate::json::quoted as text;

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// It is not installed, or cannot do this.
    Unsupported(String),
    /// It did not pass its own verification, or did not end.
    Failed(String),
}

impl Trouble {
    pub(crate) fn reason(&self) -> &str {
        match self {
            Trouble::Unsupported(why) | Trouble::Failed(why) => why,
        }
    }
}

/// What one process printed.
pub(crate) type Sample = Vec<(String, f64)>;

/// One who takes part in a case.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) peer: &'static str,
    pub(crate) samples: Vec<Sample>,
    pub(crate) trouble: Option<Trouble>,
}

impl Row {
    pub(crate) fn summary(&self, key: &str) -> Option<Summary> {
        let value = |sample: &Sample| sample.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
        Summary::of(&self.samples.iter().filter_map(value).collect::<Vec<_>>())
    }

    fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in self.samples.iter().flatten() {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        keys
    }
}

/// One case and all who took part.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) rows: Vec<Row>,
}

impl Measured {
    pub(crate) fn row(&self, peer: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.peer == peer)
    }
}

/// Everything, as JSON: for each figure of each row the median, the extremes and the samples in their order.
pub(crate) fn to_json(machine: &[(&str, String)], rounds: usize, all: &[Measured]) -> String {
    let machine = object(machine.iter().map(|(key, value)| (*key, text(value))));
    let cases = list(all.iter().map(case_to_json), "\n    ");
    format!("{{\n  \"machine\": {machine},\n  \"rounds\": {rounds},\n  \"cases\": {cases}\n}}\n")
}

fn case_to_json(measured: &Measured) -> String {
    let case = &measured.case;
    let better = match case.better {
        Better::Less => "less",
        Better::More => "more",
    };
    object([
        ("id", text(case.id)),
        ("workload", text(case.workload)),
        ("args", object(case.args.iter().map(|(key, value)| (*key, text(value))))),
        ("figure", text(case.figure.0)),
        ("unit", text(case.figure.1)),
        ("better", text(better)),
        ("rows", list(measured.rows.iter().map(|row| row_to_json(measured, row)), "\n      ")),
    ])
}

fn row_to_json(measured: &Measured, row: &Row) -> String {
    let case = &measured.case;
    let ratio = |base: Option<&str>| {
        let base = measured.row(base?)?.summary(case.figure.0)?;
        case.better.ratio(row.summary(case.figure.0)?.median, base.median)
    };
    let figures = row.keys().into_iter().filter_map(|key| {
        let Summary { median, min, max } = row.summary(key)?;
        let values = row.samples.iter().flatten().filter(|(name, _)| name == key).map(|(_, v)| number(*v));
        let summary = [("median", number(median)), ("min", number(min)), ("max", number(max))];
        Some((key, object(summary.into_iter().chain([("samples", list(values, ""))]))))
    });
    let mut members = vec![("peer", text(row.peer)), ("figures", object(figures))];
    let ratios = [("to_ours", ratio(Some(OURS))), ("to_floor", ratio(case.floors.first().copied()))];
    members.extend(ratios.into_iter().filter_map(|(key, value)| Some((key, number(value?)))));
    match &row.trouble {
        Some(Trouble::Unsupported(why)) => members.push(("unsupported", text(why))),
        Some(Trouble::Failed(why)) => members.push(("failed", text(why))),
        None => {}
    }
    object(members)
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members = members.into_iter().map(|(key, value)| format!("{}: {value}", text(key)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

fn list(items: impl Iterator<Item = String>, before: &str) -> String {
    let between = if before.is_empty() { ", ".to_owned() } else { format!(",{before}") };
    format!("[{before}{}]", items.collect::<Vec<_>>().join(&between))
}

/// JSON knows no infinities.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "null".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Scale, cases};
    use super::*;
    use crate::json::Value;

    #[test]
    fn what_is_written_can_be_read_back() {
        let case = cases(&Scale::quick()).into_iter().find(|case| case.id == "W1").unwrap();
        let sample = |ns: f64| vec![("ns".to_owned(), ns), ("settle_ms".to_owned(), f64::NAN)];
        let ours = Row { peer: OURS, samples: vec![sample(80.0), sample(90.0)], trouble: None };
        let failed = Some(Trouble::Failed("a \"task\"\nran twice".to_owned()));
        let jdk = Row { peer: "jdk", samples: vec![sample(170.0)], trouble: failed };
        let measured = Measured { case, rows: vec![ours, jdk] };
        let json = Value::parse(&to_json(&[("cpu", "a\\b".to_owned())], 2, &[measured])).unwrap();
        assert_eq!(json.member("machine").member("cpu").text(), Some("a\\b"));
        let case = &json.member("cases").items()[0];
        assert_eq!(case.member("args").member("n").text(), Some("100000"));
        let rows = case.member("rows").items();
        assert_eq!(rows[0].member("figures").member("ns").member("median"), &Value::Number(85.0));
        assert_eq!(rows[0].member("figures").member("ns").member("samples").items().len(), 2);
        assert_eq!(rows[1].member("to_ours"), &Value::Number(2.0));
        assert_eq!(rows[1].member("failed").text(), Some("a \"task\"\nran twice"));
    }
}
