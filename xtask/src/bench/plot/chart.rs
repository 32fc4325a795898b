//! A picture: curves over marked places, drawn as SVG.
//!
//! It follows the colours of the page it is shown on, light or dark; a viewer that does not know the difference sees it
//! light, and always on a background of its own. A peer has the same colour in every picture.

use super::super::cases::{OURS, PEERS};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 500.0;
/// Left, top, right and bottom of where curves are drawn; names stand to the right.
const FRAME: [f64; 4] = [70.0, 66.0, 630.0, 430.0];
/// Height of a line of names.
const LINE: f64 = 16.0;
/// One for each of the peers, legible on white and on black.
const COLOURS: [&str; 10] = [
    "#2f81f7", "#0e9aa7", "#3fa045", "#8e6bd8", "#d9730d", "#a5703b", "#9a9a00", "#cf5b9b", "#6f86a8",
    "#b8860b",
];
const OUR_COLOUR: &str = "#e5344a";
const STYLE: &str = "<style>\n\
    text { font: 12px sans-serif; fill: #1f2328 } .title { font-size: 15px; font-weight: bold }\n\
    .small { fill: #59636e } .back { fill: #fff } .grid { stroke: #d1d9e0 } .faint { stroke: #eaeef2 }\n\
    .floor { stroke: #818b98 } text.floor { fill: #59636e; stroke: none }\n\
    @media (prefers-color-scheme: dark) {\n\
    text { fill: #e6edf3 } .small, text.floor { fill: #9198a1 } .back { fill: #0d1117 }\n\
    .grid { stroke: #3d444d } .faint { stroke: #21262d } }\n\
    </style>\n";

/// One picture.
#[derive(Debug)]
pub(crate) struct Chart {
    /// The name of the file, without its ending.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Where it was measured.
    pub(crate) note: String,
    /// What the horizontal axis shows.
    pub(crate) across: &'static str,
    /// Places on the horizontal axis and what stands there.
    pub(crate) marks: Vec<(f64, String)>,
    pub(crate) curves: Vec<Curve>,
}

#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Chart {
    /// A figure of zero has no place on a logarithmic axis, and below a tenth nothing is told apart.
    pub(crate) fn add(&mut self, name: &str, (x, y): (f64, f64)) {
        let point = (x, y.max(0.1));
        match self.curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => self.curves.push(Curve { name: name.to_owned(), points: vec![point] }),
        }
    }

    pub(crate) fn svg(&self) -> String {
        let [left, top, right, bottom] = FRAME;
        let (low, high) = self.decades();
        let (first, last) = extremes(self.marks.iter().map(|(x, _)| *x));
        let place = |x: f64, y: f64| {
            let across = if last > first { (x - first) / (last - first) } else { 0.5 };
            let up = (y.log10() - low) / (high - low);
            (left + across * (right - left), bottom - up * (bottom - top))
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n{STYLE}\
             <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
        );
        svg += &label(left, 26.0, "start", "class=\"title\"", &self.title);
        svg += &label(left, 46.0, "start", "class=\"small\"", &self.note);
        svg += &label((left + right) / 2.0, bottom + 42.0, "middle", "class=\"small\"", self.across);
        for (value, is_decade) in ticks(low, high) {
            let y = place(first, value).1;
            svg += &line((left, y), (right, y), if is_decade { "grid" } else { "faint" });
            if is_decade || high - low <= 2.0 {
                svg += &label(left - 8.0, y + 4.0, "end", "class=\"small\"", &plain(value));
            }
        }
        for (x, mark) in &self.marks {
            let x = place(*x, 1.0).0;
            svg += &line((x, top), (x, bottom), "faint");
            svg += &label(x, bottom + 20.0, "middle", "class=\"small\"", mark);
        }
        let mut ends = Vec::new();
        // Ours comes last, on top of the others.
        let (ours, others): (Vec<_>, Vec<_>) = self.curves.iter().partition(|curve| curve.name == OURS);
        for curve in others.into_iter().chain(ours) {
            let points: Vec<_> = curve.points.iter().map(|(x, y)| place(*x, *y)).collect();
            svg += &drawn(&curve.name, &points);
            ends.extend(points.last().map(|end| (*end, curve.name.as_str())));
        }
        svg + &names(ends) + "</svg>\n"
    }

    /// The powers of ten between which everything lies.
    fn decades(&self) -> (f64, f64) {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let (low, high) = extremes(points.map(|(_, y)| y.log10()));
        (low.floor(), high.ceil().max(low.floor() + 1.0))
    }
}

/// A number on an axis: `0.1`, `1000`, `10 M`.
pub(crate) fn plain(number: f64) -> String {
    if number >= 1e6 {
        format!("{} M", number / 1e6)
    } else {
        format!("{}", (number * 100.0).round() / 100.0)
    }
}

/// 1, 2 and 5 of every power of ten; whether it is the 1.
fn ticks(low: f64, high: f64) -> impl Iterator<Item = (f64, bool)> {
    let all = (low as i32..=high as i32)
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| (digit * 10_f64.powi(decade), digit == 1.0)));
    all.filter(move |(value, _)| value.log10() <= high + 1e-9)
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// How a curve and its name look: attributes of the line, and of the name.
fn look(name: &str) -> (String, String) {
    if name.starts_with("floor") || name.starts_with("nanosleep") {
        let dashes = if name.ends_with("50us") { "2 4" } else { "7 4" };
        let line = format!("class=\"floor\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\"");
        return (line, "class=\"floor\"".to_owned());
    }
    if name == OURS {
        let name = format!("style=\"fill:{OUR_COLOUR};font-weight:bold\"");
        return (format!("stroke=\"{OUR_COLOUR}\" stroke-width=\"3.5\""), name);
    }
    if name.starts_with(OURS) {
        let line = format!("stroke=\"{OUR_COLOUR}\" stroke-width=\"2\" stroke-dasharray=\"2 3\"");
        return (line, format!("style=\"fill:{OUR_COLOUR}\""));
    }
    let at = PEERS.iter().position(|(peer, _)| *peer == name).unwrap_or(PEERS.len());
    let colour = COLOURS[at % COLOURS.len()];
    (format!("stroke=\"{colour}\" stroke-width=\"1.8\""), format!("style=\"fill:{colour}\""))
}

/// A curve; a dot if it is only one point.
fn drawn(name: &str, points: &[(f64, f64)]) -> String {
    let (style, _) = look(name);
    let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    match points {
        [(x, y)] => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"none\" {style}/>\n"),
        _ => format!(
            "<polyline fill=\"none\" stroke-linejoin=\"round\" {style} points=\"{}\"/>\n",
            path.join(" ")
        ),
    }
}

/// The names beside the ends of their curves, pushed apart where they would cover each other.
fn names(mut ends: Vec<((f64, f64), &str)>) -> String {
    ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    let places = apart(&ends.iter().map(|((_, y), _)| *y).collect::<Vec<_>>());
    let mut svg = String::new();
    for (((x, y), name), at) in ends.into_iter().zip(places) {
        let (_, style) = look(name);
        svg += &line((x + 3.0, y), (FRAME[2] + 18.0, at), "grid");
        svg += &label(FRAME[2] + 22.0, at + 4.0, "start", &style, name);
    }
    svg
}

/// Where names stand whose curves end at these heights, in order: a line apart, and within the picture.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut free = FRAME[1] - LINE;
    let down = heights.iter().map(|height| {
        let at = height.max(free);
        free = at + LINE;
        at
    });
    let mut places: Vec<f64> = down.collect();
    let mut limit = HEIGHT - LINE;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LINE;
    }
    places
}

fn line(from: (f64, f64), to: (f64, f64), class: &str) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
        from.0, from.1, to.0, to.1
    )
}

fn label(x: f64, y: f64, anchor: &str, style: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{text}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_line_apart_and_stay_within_the_picture() {
        let crowded = vec![FRAME[3]; 12];
        let places = apart(&crowded);
        assert!(places.windows(2).all(|two| two[1] - two[0] >= LINE), "{places:?}");
        assert!(places[0] > 0.0 && places[11] < HEIGHT, "{places:?}");
        assert_eq!(apart(&[100.0, 200.0]), [100.0, 200.0], "who has room stays where he is");
    }

    #[test]
    fn an_axis_is_marked_from_one_power_of_ten_to_another() {
        let marks: Vec<_> = ticks(1.0, 2.0).collect();
        assert_eq!(marks, [(10.0, true), (20.0, false), (50.0, false), (100.0, true)]);
        let shown = [0.1, 0.2, 1.0, 5000.0, 1e6, 5e7].map(plain);
        assert_eq!(shown, ["0.1", "0.2", "1", "5000", "1 M", "50 M"]);
    }

    #[test]
    fn no_two_peers_look_alike() {
        let mut looks: Vec<_> = PEERS.iter().map(|(peer, _)| look(peer)).collect();
        looks.extend([look(OURS), look("punctual-50us"), look("floor"), look("nanosleep-50us")]);
        let all = looks.len();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), all);
    }

    #[test]
    fn a_single_size_is_drawn_in_the_middle_and_everything_is_a_number() {
        let mut chart = Chart {
            name: "x".to_owned(),
            title: "a < b".to_owned(),
            note: String::new(),
            across: "",
            marks: vec![(3.0, "1000".to_owned())],
            curves: Vec::new(),
        };
        chart.add(OURS, (3.0, 0.0));
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("cx=\"350.0\""), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
