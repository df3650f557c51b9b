//! Distribution functions as inline SVG, drawn with the page's colours (CSS classes named after the arms).

use crate::sample::rank;
use crate::words::time;
use crate::{Arm, Sample, PERCENTILES};
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 330.0;
/// Room for six characters in the larger of the page's two sizes: `0.01 %`.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// Most points of a curve.
const POINTS: usize = 400;

/// The distribution function of one arm.
pub(crate) struct Curve {
    arm: Arm,
    jobs: usize,
    /// Response time in ns, and how many jobs are no slower; rising in both.
    points: Vec<(u64, usize)>,
    /// Only these points are known; nothing is to be drawn between them.
    markers: bool,
}

impl Curve {
    /// The curve of `sample` in at most [`POINTS`] points, all of them exact: at evenly spaced ranks for the body, at
    /// logarithmically spaced ones for the tail, and at the table's percentiles. O(points · log n).
    pub(crate) fn new(arm: Arm, sample: &Sample) -> Self {
        let n = sample.len();
        let each = (POINTS - PERCENTILES.len()) / 2;
        let body = (0..each).map(|i| 1 + i * n.saturating_sub(1) / (each - 1));
        let tail = (0..each).map(|i| n - ((n as f64).powf(i as f64 / (each - 1) as f64) as usize).min(n));
        let table = PERCENTILES.map(|p| rank(p, n));
        let finished = sample.finished();
        let mut ranks: Vec<usize> = body.chain(tail).chain(table).chain([n]).map(|r| r.min(finished.len())).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut points: Vec<(u64, usize)> = ranks
            .into_iter()
            .filter_map(|rank| finished.get(rank.checked_sub(1)?))
            .map(|&ns| (ns, finished.partition_point(|&other| other <= ns)))
            .collect();
        points.dedup();
        Curve { arm, jobs: n, points, markers: false }
    }

    /// A curve of which only percentiles are known: `(p, ns)`.
    pub(crate) fn of_percentiles(arm: Arm, known: &[(f64, u64)]) -> Self {
        let jobs = 100_000;
        Curve { arm, jobs, points: known.iter().map(|&(p, ns)| (ns, rank(p, jobs))).collect(), markers: true }
    }

    /// The response time that a share `p` of the jobs do not exceed, as far as it is drawn.
    fn at(&self, p: f64) -> Option<(u64, usize)> {
        let wanted = rank(100.0 * p, self.jobs);
        self.points.iter().copied().find(|&(_, count)| count >= wanted)
    }
}

/// A scale from times to columns.
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) logarithmic: bool,
}

impl Axis {
    /// Logarithmic if the times span more than a factor of 20.
    fn spanning(low: u64, high: u64) -> Self {
        let (low, high) = (low.max(1) as f64, high.max(1) as f64);
        match high / low {
            span if span > 20.0 => Axis { low: low * 0.9, high: high * 1.1, logarithmic: true },
            _ => {
                let margin = ((high - low) * 0.05).max(high * 0.005).max(1.0);
                Axis { low: (low - margin).max(0.0), high: high + margin, logarithmic: false }
            }
        }
    }

    fn x(&self, ns: f64) -> f64 {
        let share = match self.logarithmic {
            true => (ns.max(1.0) / self.low).ln() / (self.high / self.low).ln(),
            false => (ns - self.low) / (self.high - self.low),
        };
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
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

/// One view of all `curves` as an `<svg>` element; empty if there is nothing to draw.
pub(crate) fn svg(view: View, curves: &[Curve]) -> String {
    let times = |p: f64| curves.iter().filter_map(move |c| Some(c.at(p).or(c.points.last().copied())?.0));
    let last = if view == View::Body { 0.999 } else { 1.0 };
    let (Some(low), Some(high)) = (curves.iter().filter_map(|c| Some(c.points.first()?.0)).min(), times(last).max())
    else {
        return String::new();
    };
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
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}\">\n");
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
    curves.iter().for_each(|curve| name_curve(&mut svg, view, curve, &axis, &y));
    svg + "</svg>\n"
}

/// The curve as steps, or its known points as circles.
fn draw(svg: &mut String, view: View, curve: &Curve, axis: &Axis, y: &dyn Fn(f64) -> f64) {
    let slower = |count: usize| (curve.jobs - count) as f64 / curve.jobs as f64;
    let class = class(curve.arm);
    let visible = curve.points.iter().filter(|&&(ns, _)| ns as f64 <= axis.high);
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
    for &(ns, count) in visible {
        let x = axis.x(ns as f64);
        let _ = match path.is_empty() {
            true => write!(path, "M{x:.1} {:.1}V{:.1}", y(1.0), y(slower(count))),
            false => write!(path, "H{x:.1}V{:.1}", y(slower(count))),
        };
    }
    // F stays at 1, or below it where jobs never finished, beyond the slowest job.
    let complete = curve.points.last().is_some_and(|&(_, count)| count == curve.jobs);
    if view == View::Body || !complete {
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
    let (x, anchor) = if x > 0.6 * WIDTH { (x - 8.0, "end") } else { (x + 8.0, "start") };
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

    #[test]
    fn a_curve_has_at_most_400_points_and_no_percentile_moves_visibly() {
        let times = (1..=100_000u64).map(|k| Some(1000 + k * k % 1_000_003 * k));
        let sample = Sample::from_responses(times).unwrap();
        let curve = Curve::new(Arm::Whole, &sample);
        assert!((300..=POINTS).contains(&curve.points.len()), "{}", curve.points.len());
        for p in PERCENTILES.into_iter().chain([100.0]) {
            assert_eq!(curve.at(p / 100.0).map(|(ns, _)| ns), sample.percentile(p), "p{p}");
        }
        // Elsewhere the drawn step is off by no more than 0.6 % of the jobs in the body, 10 % of the slower ones in the tail.
        for window in curve.points.windows(2) {
            let (slower, missed) = (sample.len() - window[0].1, window[1].1 - window[0].1);
            assert!(missed * 100 <= sample.len() && (missed * 100 <= slower * 10 || missed <= 2), "{window:?}");
        }
    }

    #[test]
    fn runs_without_finished_jobs_and_constant_runs_can_be_drawn() {
        for times in [vec![], vec![None, None], vec![Some(0)], vec![Some(7); 5], vec![Some(7), None]] {
            let curve = Curve::new(Arm::Giusto, &Sample::from_responses(times).unwrap());
            for view in [View::Body, View::Tail] {
                let svg = svg(view, std::slice::from_ref(&curve));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn no_label_is_clipped_at_the_left_however_many_jobs_there_are() {
        for jobs in [100, 150_000, 150_001, 2_000_000, 1_000_000_000] {
            let curve = Curve { arm: Arm::Whole, jobs, points: vec![(100, jobs / 2), (300, jobs)], markers: false };
            for view in [View::Body, View::Tail] {
                let svg = svg(view, std::slice::from_ref(&curve));
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
