//! Box plots: the runs of a report below each other, on one scale.

use super::page::escape;
use crate::plot::{class, short, Axis};
use crate::words::time;
use crate::{Arm, Sample};
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const SIDE: f64 = 16.0;
const ROW: f64 = 40.0;
const BOTTOM: f64 = 40.0;

/// What a box shows, in percent: whiskers, box, line; and beyond the whiskers two more.
const SHOWN: [f64; 7] = [1.0, 25.0, 50.0, 75.0, 99.0, 99.9, 100.0];

/// A run, or several as one.
pub(super) struct Boxed<'a> {
    pub(super) arm: Arm,
    pub(super) name: String,
    pub(super) sample: &'a Sample,
}

/// The box plots of those that have a job that finished; empty if none has. O(1) a row.
pub(super) fn svg(rows: &[Boxed]) -> String {
    let rows: Vec<(&Boxed, [Option<u64>; 7])> = rows
        .iter()
        .map(|row| (row, SHOWN.map(|p| row.sample.percentile(p))))
        .filter(|(_, shown)| shown[0].is_some())
        .collect();
    let known = || rows.iter().flat_map(|(_, shown)| shown).flatten().copied();
    let (Some(low), Some(high)) = (known().min(), known().max()) else { return String::new() };
    let axis = Axis::spanning(low, high);
    let x = |ns: u64| SIDE + axis.share(ns as f64) * (WIDTH - 2.0 * SIDE);
    let height = ROW * rows.len() as f64 + BOTTOM;
    let floor = height - BOTTOM;
    let words: Vec<String> = rows.iter().map(|(row, shown)| words(&row.name, shown)).collect();
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<title>Response times of each run as box plots</title>\n\
         <desc>{}</desc>\n",
        escape(&words.join(" "))
    );
    for ns in axis.ticks() {
        let at = x(ns as u64);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} 0V{floor}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            floor + 17.0,
            short(ns)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">response time{}</text>",
        WIDTH / 2.0,
        height - 6.0,
        if axis.logarithmic { ", logarithmic" } else { "" }
    );
    for (number, (row, shown)) in rows.iter().enumerate() {
        let _ =
            writeln!(svg, "<g class=\"box {}\" transform=\"translate(0 {})\">", class(row.arm), ROW * number as f64);
        draw(&mut svg, &row.name, shown, &x);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

fn draw(svg: &mut String, name: &str, shown: &[Option<u64>; 7], x: &dyn Fn(u64) -> f64) {
    let end = WIDTH - SIDE;
    // What never finished lies beyond the drawing.
    let [low, left, middle, right, high, rare, most] = shown.map(|ns| ns.map_or(end, x));
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{SIDE}\" y=\"14\">{}</text>\n\
         <path class=\"whisker\" d=\"M{low:.1} 23v10m0 -5H{left:.1}M{right:.1} 28H{high:.1}m0 -5v10\"/>\
         <rect x=\"{left:.1}\" y=\"21\" width=\"{:.1}\" height=\"14\"/><path class=\"median\" d=\"M{middle:.1} 21v14\"/>\
         <path class=\"whisker\" d=\"M{rare:.1} 25v6m-3 -3h6\"/><circle cx=\"{most:.1}\" cy=\"28\" r=\"3\"/>",
        escape(name),
        (right - left).max(1.0)
    );
}

fn words(name: &str, shown: &[Option<u64>; 7]) -> String {
    let at = |place: usize| shown[place].map_or("never".into(), |ns: u64| time(ns as f64));
    format!(
        "{name}: median {}, half of the jobs from {} to {}, 99 % within {}, slowest {}.",
        at(2),
        at(1),
        at(3),
        at(4),
        at(6)
    )
}
