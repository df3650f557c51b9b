//! The report: what was promised, predicted and measured, the verdict and what it means, and how it was obtained, in one
//! HTML file.

mod arms;
mod boxes;
mod jobs;
pub(crate) mod page;
mod sides;
mod summary;

pub use jobs::slowest;

use crate::plot::{svg, Curve, View};
use crate::words::{count, time};
use crate::{Arms, Comparison, Estimate, Kept, Percentile, Sample, TwoWay, REPLICATES};
use giusto_model::PredictedPercentile;
use page::{details, escape, list, page, table};
use sides::{Known, Side};

/// What the report says besides the figures.
#[derive(Clone, Debug, Default)]
pub struct ReportMeta {
    /// Title of the page.
    pub title: String,
    /// Said after the verdict, for example what was left of the core for others; may be empty.
    pub outcome: String,
    /// How it was obtained, as names and values: commands, seed, kernel, noise and steal figures.
    pub lines: Vec<(String, String)>,
    /// Drawings of the schedule.
    pub schedule: Vec<Drawing>,
}

/// A drawing with what is said below it.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// SVG, inserted as it is.
    pub svg: String,
    /// What it shows.
    pub caption: String,
    /// The same in rows of cells, the first of which are their names; may be empty.
    pub table: Vec<Vec<String>>,
}

/// What the report is about.
#[derive(Clone, Copy, Debug)]
pub enum Findings<'a> {
    /// The latency of a whole core, or of a reference, was promised: a comparison of these arms.
    AsIfAlone(&'a Comparison, &'a Arms),
    /// Two runs side by side, without a verdict; the arms are those of [`Arms::of_files`].
    Two(&'a TwoWay, &'a Arms),
    /// Percentiles were promised.
    Percentiles {
        /// What became of them.
        kept: &'a Kept,
        /// The runs that were judged.
        runs: &'a [Sample],
        /// Runs of the same beside others without a plan; may be none.
        no_plan: &'a [Sample],
        /// What the plan predicted; may be none.
        predicted: &'a [PredictedPercentile],
    },
}

/// `findings` as one self-contained HTML page. All inserted text is escaped, but the drawings of the schedule. The same
/// findings give the same bytes. O(jobs · log jobs).
pub fn report_html(meta: &ReportMeta, findings: Findings) -> String {
    let sides = sides::of(findings);
    let body = [
        summary::verdict(meta, findings),
        summary::table(findings),
        match findings {
            Findings::AsIfAlone(comparison, of) => arms::arms(comparison, of),
            _ => String::new(),
        },
        distributions(findings, &sides),
        boxes(&sides),
        schedule(meta),
        summary::meaning(findings),
        obtained(meta, findings),
    ];
    page(&meta.title, &body.concat())
}

fn distributions(findings: Findings, sides: &[Side]) -> String {
    let curve = |side: &Side| match &side.known {
        Known::Jobs(sample) => Curve::new(side.arm, sample),
        Known::Percentiles(points) => Curve::of_percentiles(side.arm, points),
    };
    let curves: Vec<Curve> = sides.iter().map(curve).collect();
    let promised = match findings {
        Findings::Percentiles { kept, .. } => {
            kept.points.iter().map(|point| (point.promised.percentile.percent(), point.promised.within.ns())).collect()
        }
        _ => Vec::new(),
    };
    let crosses = if promised.is_empty() { "" } else { " A cross: what was promised." };
    let figure = |view, words: &str| match svg(view, &curves, &promised) {
        svg if svg.is_empty() => svg,
        svg => format!("<figure>\n{svg}<figcaption>{words}{crosses}</figcaption></figure>\n"),
    };
    let drawn = [
        figure(
            View::Body,
            "<b>Done within</b> a response time: share of jobs, all runs of an arm together. Further left is faster.",
        ),
        figure(
            View::Tail,
            "<b>Took longer</b>: the same jobs seen from the slowest, on a logarithmic scale. Lower is better.",
        ),
    ]
    .concat();
    if drawn.is_empty() {
        return drawn;
    }
    format!(
        "<h2>Distributions</h2>\n<div class=\"plots\">\n{drawn}</div>\n{}",
        details("The curves as a table", &table(&sides::quantiles(sides)))
    )
}

fn boxes(sides: &[Side]) -> String {
    let drawn = boxes::svg(&sides::boxed(sides));
    if drawn.is_empty() {
        return drawn;
    }
    format!(
        "<h2>Run by run</h2>\n<figure class=\"narrow\">\n{drawn}<figcaption>The box holds the middle half of the jobs, the line in it is the \
         median; whiskers from 1 to 99 %, a cross at 99.9 %, a dot at the slowest.</figcaption></figure>\n"
    )
}

fn schedule(meta: &ReportMeta) -> String {
    if meta.schedule.is_empty() {
        return String::new();
    }
    let figure = |Drawing { svg, caption, table: rows }: &Drawing| {
        let cells = |row: &Vec<String>| row.iter().map(|cell| escape(cell)).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        let below = if rows.is_empty() { String::new() } else { details("These jobs as a table", &table(&rows)) };
        format!(
            "<figure>\n<div class=\"scroll\" tabindex=\"0\">{svg}</div><figcaption>{}</figcaption>{below}</figure>\n",
            escape(caption)
        )
    };
    let figures: String = meta.schedule.iter().map(figure).collect();
    format!("<h2>Schedule</h2>\n<div class=\"plots\">\n{figures}</div>\n")
}

fn obtained(meta: &ReportMeta, findings: Findings) -> String {
    let (seed, voided, least) = match findings {
        Findings::AsIfAlone(comparison, arms) => (comparison.seed, arms.voided.as_slice(), true),
        Findings::Two(two, arms) => (two.seed, arms.voided.as_slice(), false),
        Findings::Percentiles { kept, .. } => (kept.seed, &[][..], false),
    };
    let mut statistics =
        format!("95 % intervals by {REPLICATES} resamples of jobs in blocks of neighbours (circular block bootstrap), seed {seed}");
    if least {
        statistics += &format!(
            "; rounds are resampled too; at least {} rounds of at least {} jobs a run",
            crate::MIN_ROUNDS,
            crate::MIN_JOBS
        );
    }
    let mut lines = meta.lines.clone();
    lines.push(("statistics".into(), statistics));
    if !voided.is_empty() {
        lines.push((format!("{} left out", count(voided.len(), "run")), voided.join("; ")));
    }
    format!("<h2>How it was obtained</h2>\n{}", list(&lines))
}

fn percentile_cell(percentile: &Percentile) -> String {
    let words = |ns: Option<u64>, otherwise: &str| ns.map_or(otherwise.into(), |ns| time(ns as f64));
    let upper = if percentile.low.is_none() { "never" } else { "?" };
    let ends = [words(percentile.low, "never"), words(percentile.high, upper)];
    format!("{}<small>{}</small>", words(percentile.value, "never"), interval(ends))
}

/// An interval in few characters: `135–136 us`, `0–11.6 us`, `468 us – 1.77 ms`; nothing if it is a point.
fn interval([low, high]: [String; 2]) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => String::new(),
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}–{high}"),
        (None, _) | (_, None) => format!("{low}–{high}"),
        _ => format!("{low} – {high}"),
    }
}

fn estimate_cell(estimate: Estimate, words: impl Fn(f64) -> String) -> String {
    format!("{}<small>{}</small>", words(estimate.value), interval([words(estimate.low), words(estimate.high)]))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
}
