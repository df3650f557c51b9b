//! The report: what was promised, predicted and measured, the verdict and what it means, and how it was obtained, in one
//! HTML file.

mod arms;
mod boxes;
mod cells;
mod findings;
mod jobs;
pub(crate) mod page;
mod sides;
mod summary;

pub use findings::{Drawing, Findings, ReportMeta};
pub use jobs::slowest;

use crate::plot::{svg, Curve, View};
use crate::words::count;
use crate::REPLICATES;
use page::{details, escape, list, page, table};
use sides::{Known, Side};

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
        Findings::AsIfAlone(comparison, arms) => (Some(comparison.seed), arms.voided.as_slice(), true),
        Findings::Two(two, arms) => (Some(two.seed), arms.voided.as_slice(), false),
        Findings::Percentiles { .. } => (None, &[][..], false),
    };
    let mut statistics =
        "95 % intervals of percentiles by order statistics of as many independent jobs as tell as much (batch means)"
            .to_string();
    if let Some(seed) = seed {
        statistics += &format!(
            "; of distances by {REPLICATES} resamples of jobs in blocks of neighbours (circular block bootstrap), seed {seed}"
        );
    }
    if least {
        statistics += &format!(
            "; rounds are resampled too; at least {} rounds of at least {} jobs a run",
            crate::MIN_ROUNDS,
            crate::MIN_JOBS
        );
    }
    let mut lines = meta.lines.clone();
    lines.push(("statistics".into(), statistics));
    let left_out = match voided {
        [] => String::new(),
        _ => {
            let items: String = voided.iter().map(|why| format!("<li>{}</li>\n", escape(why))).collect();
            details(&format!("{} left out", count(voided.len(), "run")), &format!("<ul>\n{items}</ul>\n"))
        }
    };
    format!("<h2>How it was obtained</h2>\n{}{left_out}", list(&lines))
}
