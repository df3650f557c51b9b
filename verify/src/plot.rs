//! Distribution functions as inline SVG, drawn with the page's colours (CSS classes named after the arms).

use crate::sample::rank;
use crate::words::time;
use crate::{Arm, Sample, PERCENTILES};
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 310.0;
/// Room for six characters in the larger of the page's two sizes: `0.01 %`.
const LEFT: f64 = 62.0;
/// Room for half of the last number below.
const RIGHT: f64 = 28.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// How far the drawing of a curve may be from the curve, in units of the drawing: less than a reader sees.
const FINE: f64 = 0.5;

/// The distribution function of one arm.
pub(crate) struct Curve {
    arm: Arm,
    jobs: usize,
    /// Every step: response time in ns, and how many jobs are no slower; rising in both.
    steps: Vec<(u64, usize)>,
    /// Only these points are known; nothing is to be drawn between them.
    markers: bool,
}

impl Curve {
    /// The curve of `sample`, all of its steps. O(n).
    pub(crate) fn new(arm: Arm, sample: &Sample) -> Self {
        let mut steps: Vec<(u64, usize)> = Vec::new();
        for (index, &ns) in sample.finished().iter().enumerate() {
            match steps.last_mut() {
                Some(last) if last.0 == ns => last.1 = index + 1,
                _ => steps.push((ns, index + 1)),
            }
        }
        Curve { arm, jobs: sample.len(), steps, markers: false }
    }

    /// A curve of which only percentiles are known: `(p, ns)`.
    pub(crate) fn of_percentiles(arm: Arm, known: &[(f64, u64)]) -> Self {
        let jobs = 100_000;
        Curve { arm, jobs, steps: known.iter().map(|&(p, ns)| (ns, rank(p, jobs))).collect(), markers: true }
    }

    /// The response time that a share `p` of the jobs do not exceed, as far as it is known.
    fn at(&self, p: f64) -> Option<(u64, usize)> {
        let wanted = rank(100.0 * p, self.jobs);
        self.steps.get(self.steps.partition_point(|&(_, count)| count < wanted)).copied()
    }

    /// In words, for who cannot see it.
    fn words(&self) -> String {
        let percentile = |p: f64| self.at(p / 100.0).map(|(ns, _)| format!("{p} % within {}", time(ns as f64)));
        let known: Vec<String> = PERCENTILES.into_iter().filter_map(percentile).collect();
        format!("{}: {}.", self.arm.name(), known.join(", "))
    }
}

/// A percentile that was promised: `(percent, ns)`.
pub(crate) type Mark = (f64, u64);

/// A scale from times to columns.
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) logarithmic: bool,
}

impl Axis {
    /// Logarithmic if the times span more than a factor of 20.
    pub(crate) fn spanning(low: u64, high: u64) -> Self {
        let (low, high) = (low.max(1) as f64, high.max(1) as f64);
        match high / low {
            span if span > 20.0 => Axis { low: low * 0.9, high: high * 1.1, logarithmic: true },
            _ => {
                let margin = ((high - low) * 0.05).max(high * 0.005).max(1.0);
                Axis { low: (low - margin).max(0.0), high: high + margin, logarithmic: false }
            }
        }
    }

    /// Where on the scale, from 0 to 1.
    pub(crate) fn share(&self, ns: f64) -> f64 {
        let share = match self.logarithmic {
            true => (ns.max(1.0) / self.low).ln() / (self.high / self.low).ln(),
            false => (ns - self.low) / (self.high - self.low),
        };
        share.clamp(0.0, 1.0)
    }

    fn x(&self, ns: f64) -> f64 {
        LEFT + self.share(ns) * (WIDTH - LEFT - RIGHT)
    }

    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let decade = |k: i32| 10f64.powi(k);
            let within = |ns: &f64| (self.low..=self.high).contains(ns);
            let digits: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            return (first..=last).flat_map(|k| digits.iter().map(move |d| d * decade(k))).filter(within).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|d| d * power).into_iter().find(|s| *s >= rough).unwrap_or(rough).max(1.0);
        let first = (self.low / step).ceil() as u64;
        (first..first + 12).map(|k| k as f64 * step).filter(|ns| *ns <= self.high).collect()
    }
}

/// Which view of the distributions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum View {
    /// F: the share of jobs done within a time.
    Body,
    /// 1 − F on a logarithmic axis: the share of jobs that took longer.
    Tail,
}

/// One view of all `curves` as an `<svg>` element, with what was promised; empty if there is nothing to draw.
pub(crate) fn svg(view: View, curves: &[Curve], promised: &[Mark]) -> String {
    let times = |p: f64| curves.iter().filter_map(move |c| Some(c.at(p).or(c.steps.last().copied())?.0));
    let last = if view == View::Body { 0.999 } else { 1.0 };
    let first = curves.iter().filter_map(|c| Some(c.steps.first()?.0)).min();
    let latest = times(last).chain(promised.iter().map(|&(_, ns)| ns)).max();
    let (Some(low), Some(high)) = (first, latest) else {
        return String::new();
    };
    let low = promised.iter().map(|&(_, ns)| ns).fold(low, u64::min);
    let axis = Axis::spanning(low, high);
    let decades = curves.iter().map(|c| (c.jobs as f64).log10().ceil() as i32).max().unwrap_or(2).clamp(2, 9);
    let (floor, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let y = |slower: f64| {
        let height = match view {
            View::Body => 1.0 - slower,
            View::Tail => 1.0 + slower.log10().max(f64::from(-decades)) / f64::from(decades),
        };
        floor - height * (floor - TOP)
    };
    let name = match view {
        View::Body => "Share of jobs done within a response time",
        View::Tail => "Share of jobs that took longer, logarithmic",
    };
    let words: Vec<String> = curves.iter().map(Curve::words).collect();
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<title>{name}</title>\n<desc>{}</desc>\n",
        words.join(" ")
    );
    let mut line = |class: &str, x1: f64, y1: f64, x2: f64, y2: f64, at: &str, words: String| {
        let (tx, ty) = if at == "end" { (x1 - 6.0, y1 + 4.0) } else { (x1, y1 + 17.0) };
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>\
             <text x=\"{tx:.1}\" y=\"{ty:.1}\" text-anchor=\"{at}\">{words}</text>"
        );
    };
    for ns in axis.ticks() {
        line("grid", axis.x(ns), floor, axis.x(ns), TOP, "middle", short(ns));
    }
    match view {
        View::Body => (0..=4).for_each(|k| {
            let share = f64::from(k) / 4.0;
            line("grid", LEFT, y(1.0 - share), right, y(1.0 - share), "end", format!("{} %", 25 * k));
        }),
        View::Tail => (0..=decades).for_each(|k| {
            let height = y(10f64.powi(-k));
            line("grid", LEFT, height, right, height, "end", percent(2 - k));
        }),
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">response time{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        if axis.logarithmic { ", logarithmic" } else { "" },
    );
    curves.iter().for_each(|curve| draw(&mut svg, view, curve, &axis, &y));
    for &(p, ns) in promised {
        let (x, y) = (axis.x(ns as f64), y(1.0 - p / 100.0));
        let (text, anchor) = if x > 0.9 * WIDTH { (x - 9.0, "end") } else { (x + 9.0, "start") };
        let _ = writeln!(
            svg,
            "<path class=\"promised\" d=\"M{x:.1} {:.1}v10m-5 -5h10\"/>\
             <text class=\"name\" x=\"{text:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">p{p}</text>",
            y - 5.0,
            y + 18.0,
        );
    }
    curves.iter().for_each(|curve| name_curve(&mut svg, view, curve, &axis, &y));
    svg + "</svg>\n"
}

/// The curve as steps, or its known points as circles.
fn draw(svg: &mut String, view: View, curve: &Curve, axis: &Axis, y: &dyn Fn(f64) -> f64) {
    let slower = |count: usize| (curve.jobs - count) as f64 / curve.jobs as f64;
    let class = class(curve.arm);
    let visible = curve.steps.iter().filter(|&&(ns, _)| ns as f64 <= axis.high);
    if curve.markers {
        for &(ns, count) in visible {
            let _ = writeln!(
                svg,
                "<circle class=\"curve {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>",
                axis.x(ns as f64),
                y(slower(count))
            );
        }
        return;
    }
    let mut path = String::new();
    let mut drawn: Option<(f64, f64)> = None;
    let mut visible = visible.peekable();
    while let Some(&(ns, count)) = visible.next() {
        let (x, height) = (axis.x(ns as f64), y(slower(count)));
        // What is too small to be seen is left out, but the last step is always there.
        let near = |(px, py): (f64, f64)| (x - px).abs() < FINE && (height - py).abs() < FINE;
        if visible.peek().is_some() && drawn.is_some_and(near) {
            continue;
        }
        let _ = match drawn {
            None => write!(path, "M{x:.1} {:.1}V{height:.1}", y(1.0)),
            Some(_) => write!(path, "H{x:.1}V{height:.1}"),
        };
        drawn = Some((x, height));
    }
    // F stays at 1, or below it where jobs never finished, beyond the slowest job.
    let complete = curve.steps.last().is_some_and(|&(_, count)| count == curve.jobs);
    if drawn.is_some() && (view == View::Body || !complete) {
        let _ = write!(path, "H{:.1}", WIDTH - RIGHT);
    }
    let _ = writeln!(svg, "<path class=\"curve {class}\" d=\"{path}\"/>");
}

/// The arm's name beside its curve, each arm at a height of its own.
fn name_curve(svg: &mut String, view: View, curve: &Curve, axis: &Axis, y: &dyn Fn(f64) -> f64) {
    let step = match curve.arm {
        Arm::Predicted => 1,
        Arm::Whole | Arm::Reference => 2,
        Arm::Unprotected => 3,
        Arm::Giusto | Arm::Measured => 4,
    };
    let share = match view {
        View::Body => 0.2 * f64::from(step) - 0.08,
        View::Tail => 1.0 - 10f64.powf(-0.6 * f64::from(step)),
    };
    let Some((ns, count)) = curve.at(if curve.markers { 0.5 } else { share }) else { return };
    let share = if curve.markers { count as f64 / curve.jobs as f64 } else { share };
    let x = axis.x(ns as f64);
    // To the right of points is what was promised.
    let left = if curve.markers { 0.3 } else { 0.6 };
    let (x, anchor) = if x > left * WIDTH { (x - 8.0, "end") } else { (x + 8.0, "start") };
    let _ = writeln!(
        svg,
        "<text class=\"name {}\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        class(curve.arm),
        y(1.0 - share) + 4.0,
        curve.arm.name()
    );
}

/// A tick's time without idle decimals: `5 ms`, `12.5 ms`.
pub(crate) fn short(ns: f64) -> String {
    let words = time(ns);
    match words.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => words,
    }
}

/// 10^k per cent, never wider than `0.01 %`, whatever the number of jobs.
fn percent(k: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    match k {
        -2.. => format!("{} %", 10f64.powi(k)),
        _ => format!("10⁻{} %", DIGITS[k.unsigned_abs() as usize % 10]), // svg() draws no more than 9 decades
    }
}

/// The arm's CSS class.
pub(crate) fn class(arm: Arm) -> &'static str {
    match arm {
        Arm::Predicted => "predicted",
        Arm::Whole | Arm::Reference => "whole",
        Arm::Unprotected => "unprotected",
        Arm::Giusto | Arm::Measured => "giusto",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The corners of a path of M, H and V.
    fn corners(path: &str) -> Vec<(f64, f64)> {
        let (mut x, mut y, mut corners) = (0.0, 0.0, Vec::new());
        let starts: Vec<usize> = path.char_indices().filter(|(_, c)| c.is_alphabetic()).map(|(at, _)| at).collect();
        for (nth, &at) in starts.iter().enumerate() {
            let words = &path[at + 1..*starts.get(nth + 1).unwrap_or(&path.len())];
            let numbers: Vec<f64> = words.split(' ').map(|number| number.parse().unwrap()).collect();
            match &path[at..=at] {
                "M" => (x, y) = (numbers[0], numbers[1]),
                "H" => x = numbers[0],
                _ => y = numbers[0],
            }
            corners.push((x, y));
        }
        corners
    }

    #[test]
    fn a_drawn_curve_is_never_visibly_off_exact_at_the_slowest_and_short() {
        // A long tail, few values, and a million jobs.
        let long = (1..=200_000u64).map(|k| Some(1000 + k * k % 1_000_003 * k)).collect();
        let few = (0..1000u64).map(|k| Some(5 + k % 3)).collect();
        let many = (1..=1_000_000u64).map(|k| Some(50_000 + 100_000_000 / k)).collect();
        for times in [long, few, many] as [Vec<Option<u64>>; 3] {
            let sample = Sample::from_responses(times).unwrap();
            let curve = Curve::new(Arm::Whole, &sample);
            let (low, high) = (sample.finished()[0], sample.percentile(100.0).unwrap());
            let axis = Axis::spanning(low, high);
            let y = |slower: f64| 300.0 - 250.0 * (1.0 - slower);
            let mut svg = String::new();
            draw(&mut svg, View::Tail, &curve, &axis, &y);
            let path = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
            assert!(path.len() < 30_000, "{}", path.len());
            let drawn = corners(path);
            let mut nearest = 0;
            for &(ns, count) in &curve.steps {
                let (x, height) = (axis.x(ns as f64), y((sample.len() - count) as f64 / sample.len() as f64));
                let off = |(px, py): (f64, f64)| (x - px).abs().max((height - py).abs());
                // Corners and steps go the same way, so the search may go on where it was.
                while off(drawn[nearest]) > FINE + 0.06 {
                    nearest += 1;
                    assert!(nearest < drawn.len(), "nothing is drawn at {ns} ns, {count} jobs");
                }
            }
            let last = (axis.x(high as f64), y(0.0));
            let end = drawn[drawn.len() - 1];
            assert!((end.0 - last.0).abs() < 0.06 && (end.1 - last.1).abs() < 0.06, "{end:?} {last:?}");
        }
    }

    #[test]
    fn what_was_promised_is_on_the_drawing_wherever_it_lies() {
        let curve = Curve::new(Arm::Giusto, &Sample::from_responses((100..200).map(Some)).unwrap());
        for ns in [1, 150, 1_000_000] {
            let svg = svg(View::Body, std::slice::from_ref(&curve), &[(99.0, ns)]);
            let mark = svg.split("class=\"promised\" d=\"M").nth(1).unwrap();
            let x: f64 = mark.split(' ').next().unwrap().parse().unwrap();
            assert!((LEFT..=WIDTH - RIGHT).contains(&x), "{ns}: {x}");
        }
    }

    #[test]
    fn runs_without_finished_jobs_and_constant_runs_can_be_drawn() {
        for times in [vec![], vec![None, None], vec![Some(0)], vec![Some(7); 5], vec![Some(7), None]] {
            let curve = Curve::new(Arm::Giusto, &Sample::from_responses(times).unwrap());
            for view in [View::Body, View::Tail] {
                let svg = svg(view, std::slice::from_ref(&curve), &[]);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn no_label_is_clipped_at_the_left_however_many_jobs_there_are() {
        for jobs in [100, 150_000, 150_001, 2_000_000, 1_000_000_000] {
            let curve = Curve { arm: Arm::Whole, jobs, steps: vec![(100, jobs / 2), (300, jobs)], markers: false };
            for view in [View::Body, View::Tail] {
                let svg = svg(view, std::slice::from_ref(&curve), &[]);
                let labels: Vec<&str> =
                    svg.split("<text ").filter(|text| text.starts_with("x=") && text.contains("%<")).collect();
                assert!(labels.len() >= 3);
                for label in labels {
                    let x: f64 = label.split('"').nth(1).unwrap().parse().unwrap();
                    let text = &label[label.find('>').unwrap() + 1..label.find('<').unwrap()];
                    // 0.62 em a character is wider than the digits of common fonts; 14 px is the size on narrow screens.
                    assert!(text.chars().count() as f64 * 0.62 * 14.0 <= x, "{text} ends at {x}");
                }
            }
        }
    }
}
