//! Curves over one quantity, as a drawing: panels side by side, each with its axes and, below them, the names of its lines.

use std::fmt::Write;

/// Of a panel: narrow enough to be read on a phone without scrolling.
const WIDTH: f64 = 420.0;
/// Without the names of the lines, which need rows of their own.
const HEIGHT: f64 = 320.0;
/// Room for six digits and, beside them, what grows upward.
const LEFT: f64 = 84.0;
/// Room for half of the last number below.
const RIGHT: f64 = 28.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 52.0;
/// A row of names: where it begins, how high it is, what a line before a name takes, what a letter takes at most in the larger
/// of the page's two sizes, and what is between two.
const EDGE: f64 = 12.0;
const ROW: f64 = 19.0;
const SAMPLE: f64 = 28.0;
const LETTER: f64 = 8.4;
const GAP: f64 = 14.0;
/// Panels side by side in one drawing.
const COLUMNS: usize = 2;

/// As the other drawings, in the reader's light or dark scheme; without variables, which not all programs that draw know.
const STYLE: &str = "\
.curves .paper{fill:#fff}.curves text{fill:#5b5b62}.curves .grid{stroke:#dcdce0;fill:none}\
.curves .title{fill:#1c1c1e;font-weight:600}.curves .line{stroke-width:2;fill:none;stroke-linejoin:round}\
.curves .limit{stroke:#1c1c1e;stroke-width:1.5;stroke-dasharray:6 4;fill:none}\
.curves .c0{stroke:#1466b8}.curves .c1{stroke:#c2410c}.curves .c2{stroke:#15803d}.curves .c3{stroke:#7c3aed}.curves .c4{stroke:#a16207}.curves .c5{stroke:#be185d}\
@media(prefers-color-scheme:dark){.curves .paper{fill:#161618}.curves text{fill:#a8a8b2}.curves .grid{stroke:#38383e}\
.curves .title{fill:#ececf0}.curves .limit{stroke:#ececf0}\
.curves .c0{stroke:#6cb4ff}.curves .c1{stroke:#ff9563}.curves .c2{stroke:#5fd38a}.curves .c3{stroke:#b99bff}.curves .c4{stroke:#e0b84a}.curves .c5{stroke:#ff84b8}}";
/// Colours of [`STYLE`].
const COLOURS: usize = 6;
/// Dashes of lines, so that colour alone tells no two apart.
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "12 4"];

/// One pair of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it; may be empty.
    pub title: String,
    /// What grows to the right, with its unit.
    pub across: String,
    /// What grows upward, with its unit.
    pub up: String,
    /// Whether steps to the right multiply instead of adding.
    pub logarithmic: bool,
    /// The highest value that is drawn; none: all.
    pub top: Option<f64>,
    /// What is drawn.
    pub lines: Vec<Line>,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Line {
    /// Below the panel, where names are listed.
    pub name: String,
    /// Ascending to the right. What is not finite is left out and breaks the line.
    pub points: Vec<[f64; 2]>,
    /// A limit, not a result: drawn with dashes.
    pub limit: bool,
}

/// `panels` as one self-contained SVG.
pub fn curves_svg(panels: &[Panel]) -> String {
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = |panel: &Panel| places(panel).last().map_or(0.0, |place| place[1] + ROW);
    let tall = HEIGHT + panels.iter().map(rows).fold(0.0, f64::max);
    let (width, height) = (WIDTH * columns as f64, tall * panels.len().div_ceil(columns) as f64);
    let mut svg = format!(
        "<svg class=\"curves\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n",
        escaped(&panels.first().map_or(String::new(), named))
    );
    for (number, panel) in panels.iter().enumerate() {
        let (x, y) = (WIDTH * (number % columns) as f64, tall * (number / columns) as f64);
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        draw(&mut svg, panel);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

/// A panel in words.
fn named(panel: &Panel) -> String {
    let of = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
    format!("{} over {}{of}", panel.up, panel.across)
}

/// Where the names of lines stand below their panel: in rows none of which is wider than it.
fn places(panel: &Panel) -> Vec<[f64; 2]> {
    let (mut x, mut y) = (EDGE, 0.0);
    let mut place = |line: &Line| {
        let wide = SAMPLE + LETTER * line.name.chars().count() as f64;
        if x > EDGE && x + wide > WIDTH {
            (x, y) = (EDGE, y + ROW);
        }
        let place = [x, y];
        x += wide + GAP;
        place
    };
    panel.lines.iter().map(&mut place).collect()
}

fn draw(svg: &mut String, panel: &Panel) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let seen = || panel.lines.iter().flat_map(|line| &line.points).filter(|point| point.iter().all(|x| x.is_finite()));
    let least = seen().map(|point| point[0]).fold(f64::INFINITY, f64::min);
    let most = seen().map(|point| point[0]).fold(f64::NEG_INFINITY, f64::max);
    let top = panel.top.unwrap_or_else(|| seen().map(|point| point[1]).fold(0.0, f64::max) * 1.05);
    let (least, most, top) =
        if least < most && top > 0.0 { (least, most, top) } else { (least.min(0.0), least.max(0.0) + 1.0, 1.0) };
    let logarithmic = panel.logarithmic && least > 0.0;
    let x = |value: f64| {
        let share =
            if logarithmic { (value / least).ln() / (most / least).ln() } else { (value - least) / (most - least) };
        LEFT + share * (right - LEFT)
    };
    let y = |value: f64| floor - (value / top).min(1.0) * (floor - TOP);
    let across = if logarithmic { decades(least, most) } else { round_steps(least, most) };
    for value in across {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{0:.1} {floor:.1}V{TOP}\"/><text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"middle\">{2}</text>",
            x(value),
            floor + 17.0,
            shown(value)
        );
    }
    for value in round_steps(0.0, top) {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{right}\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            y(value),
            LEFT - 7.0,
            y(value) + 4.0,
            shown(value)
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"{EDGE}\" y=\"20\">{}</text>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(16 {:.1})rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(&panel.title),
        (LEFT + right) / 2.0,
        HEIGHT - 12.0,
        escaped(&panel.across),
        HEIGHT / 2.0,
        escaped(&panel.up)
    );
    let mut colour = 0;
    for (line, [left, down]) in panel.lines.iter().zip(places(panel)) {
        let style = if line.limit {
            "class=\"limit\"".to_string()
        } else {
            colour += 1;
            let dashes = DASHES[(colour - 1) % DASHES.len()];
            format!("class=\"line c{}\" stroke-dasharray=\"{dashes}\"", (colour - 1) % COLOURS)
        };
        let mut path = String::new();
        let mut before: Option<[f64; 2]> = None;
        for &point in &line.points {
            let there = point.iter().all(|x| x.is_finite());
            // Above the top a line is not drawn, but how it gets there is.
            let above = there && point[1] > top && before.is_none_or(|before| before[1] > top);
            if !there || above {
                before = there.then_some(point);
                continue;
            }
            if let Some(before) = before.filter(|before| before[1] > top) {
                let share = (top - before[1]) / (point[1] - before[1]);
                let _ = write!(path, "M{:.1} {:.1}", x(before[0] + share * (point[0] - before[0])), y(top));
            }
            let command = if before.is_some() { "L" } else { "M" };
            let end = match before {
                Some(before) if point[1] > top => {
                    let share = (top - before[1]) / (point[1] - before[1]);
                    [before[0] + share * (point[0] - before[0]), top]
                }
                _ => point,
            };
            let _ = write!(path, "{command}{:.1} {:.1}", x(end[0]), y(end[1]));
            before = Some(point);
        }
        let at = HEIGHT + 6.0 + down;
        let _ = writeln!(
            svg,
            "<path {style} d=\"{path}\"/>\n<path {style} d=\"M{left:.1} {at}h22\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + SAMPLE,
            at + 4.0,
            escaped(&line.name)
        );
    }
}

/// Four to ten round values within.
fn round_steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|k| k * power).find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..).map(|k| k as f64 * step).take_while(|value| *value <= high * (1.0 + 1e-9)).take(20).collect()
}

/// 1, 2 and 5 times powers of ten.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let all = (first..first + 20).flat_map(|power| [1.0, 2.0, 5.0].map(|k| k * 10f64.powi(power)));
    all.filter(|value| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(value)).collect()
}

fn shown(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(lines: Vec<Line>) -> Panel {
        let words = |text: &str| text.to_string();
        Panel { title: words("a < b & c"), across: words("W"), up: words("ms"), logarithmic: false, top: None, lines }
    }

    #[test]
    fn a_drawing_is_xml_with_a_path_for_every_line_and_breaks_where_nothing_is_known() {
        let line = |points: &[[f64; 2]]| Line { name: "P = 1 <ms>".into(), points: points.to_vec(), limit: false };
        let broken = line(&[[0.0, 1.0], [1.0, f64::NAN], [2.0, 3.0], [3.0, 2.0]]);
        let svg = curves_svg(&[panel(vec![broken]), panel(vec![]), panel(vec![line(&[[1.0, 1.0]])])]);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let first = document.descendants().find(|node| node.attribute("class") == Some("line c0")).unwrap();
        let path = first.attribute("d").unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_line_that_leaves_at_the_top_is_cut_there() {
        let points = vec![[0.0, 30.0], [1.0, 20.0], [2.0, 10.0], [3.0, 0.0]];
        let cut = Panel { top: Some(15.0), ..panel(vec![Line { name: String::new(), points, limit: false }]) };
        let svg = curves_svg(&[cut]);
        let document = roxmltree::Document::parse(&svg).unwrap();
        let path = document.descendants().find(|node| node.attribute("class") == Some("line c0")).unwrap();
        // From (1.5, 15), half way: 15 is the top.
        let (left, right) = (LEFT, WIDTH - RIGHT);
        let from = format!("M{:.1} {TOP:.1}", left + (right - left) / 2.0);
        assert!(path.attribute("d").unwrap().starts_with(&from), "{path:?} {from}");
    }

    #[test]
    fn every_name_is_on_the_drawing_and_on_no_other() {
        let line = |name: usize| Line { name: "x".repeat(name), points: vec![[0.0, 1.0], [1.0, 2.0]], limit: false };
        for names in [vec![1], vec![12; 7], vec![45, 3, 3], vec![3, 44, 20, 20]] {
            let panel = panel(names.iter().map(|&name| line(name)).collect());
            let boxes: Vec<[f64; 3]> = places(&panel)
                .iter()
                .zip(&names)
                .map(|(&[x, y], &name)| [x, x + SAMPLE + LETTER * name as f64, y])
                .collect();
            assert!(boxes.iter().all(|&[left, right, _]| left >= 0.0 && right <= WIDTH), "{boxes:?}");
            let apart = |a: &[f64; 3], b: &[f64; 3]| a[2] != b[2] || a[1] < b[0] || b[1] < a[0];
            assert!((0..boxes.len()).all(|i| boxes[..i].iter().all(|one| apart(one, &boxes[i]))), "{boxes:?}");
            let svg = curves_svg(&[panel]);
            let tall: f64 = svg.split("viewBox=\"0 0 420 ").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            assert!(boxes.iter().all(|of| HEIGHT + of[2] + 10.0 <= tall), "{tall} {boxes:?}");
        }
    }

    #[test]
    fn steps_are_round_and_within() {
        assert_eq!(round_steps(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(decades(0.3, 6.0), [0.5, 1.0, 2.0, 5.0]);
    }
}
