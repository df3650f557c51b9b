//! The report: one HTML file with everything in it, without scripts and without anything to fetch.

use crate::plot::{class, svg, Curve, View};
use crate::words::{count, time};
use crate::{Arm, Arms, Comparison, Estimate, Percentile, Predicted, Row, Sample, Verdict, PERCENTILES, REPLICATES};
use std::fmt::Write;

/// What the report says besides the figures.
#[derive(Clone, Debug, Default)]
pub struct ReportMeta {
    /// Title of the page.
    pub title: String,
    /// Said after the verdict, for example what was left of the core for others; may be empty.
    pub outcome: String,
    /// How it was obtained, as names and values: commands, seed, kernel, noise and steal figures.
    pub lines: Vec<(String, String)>,
    /// A drawing of the schedule (SVG, inserted as it is) and its caption; none if empty.
    pub schedule: (String, String),
}

/// The comparison as one self-contained HTML page: verdict, table, distribution functions (body and tail) and how it was
/// obtained. All inserted text is escaped. `arms` are those that were compared. O(jobs · log jobs).
pub fn report_html(meta: &ReportMeta, comparison: &Comparison, arms: &Arms) -> String {
    let title = escape(&meta.title);
    let css = include_str!("report.css");
    let body = [
        verdict(meta, comparison),
        table(comparison, arms),
        plots(comparison, arms),
        schedule(meta),
        obtained(meta, comparison, arms),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
         <style>\n{css}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}</body>\n</html>\n",
        body.concat()
    )
}

fn schedule(meta: &ReportMeta) -> String {
    let (svg, caption) = &meta.schedule;
    if svg.is_empty() {
        return String::new();
    }
    format!("<figure>\n{svg}<figcaption>{}</figcaption></figure>\n", escape(caption))
}

/// Text that may stand in an element or an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn verdict(meta: &ReportMeta, comparison: &Comparison) -> String {
    let verdict = comparison.verdict;
    let tone = match verdict {
        Verdict::Kept => "kept",
        Verdict::Missed => "missed",
        Verdict::CannotTell => "cannot-tell",
    };
    let outcome = if meta.outcome.is_empty() { String::new() } else { format!(", {}", escape(&meta.outcome)) };
    format!(
        "<div class=\"verdict {tone}\"><strong>{} {}</strong>{outcome}<p>{}.</p></div>\n",
        verdict.mark(),
        verdict.words(),
        escape(&comparison.why)
    )
}

fn table(comparison: &Comparison, arms: &Arms) -> String {
    let mut html =
        String::from("<h2>Response times</h2>\n<div class=\"scroll\"><table><thead><tr><th></th><th>jobs</th>");
    for p in PERCENTILES {
        let _ = write!(html, "<th>p{p}</th>");
    }
    html += "<th>distance from<br/>a whole core</th><th>KS</th></tr></thead><tbody>\n";
    comparison.rows.iter().for_each(|row| table_row(&mut html, comparison, row));
    html += "</tbody></table></div>\n";
    html += "<p class=\"note\">Small print below a number: its 95 % interval. Distance: Wasserstein-1, the area between two \
             distribution functions; KS: Kolmogorov-Smirnov, the largest height between them. Both: averages over the two \
             whole-core runs of the round, medians over the rounds.";
    if let Some(limit) = comparison.limit {
        let _ = write!(html, " Limit: {}, twice the upper bound of the noise floor.", time(limit));
    }
    let ratios = [(arms.judged(), comparison.ratio_giusto), (Arm::Unprotected, comparison.ratio_unprotected)];
    for (arm, ratio) in ratios.into_iter().filter_map(|(arm, ratio)| Some((arm, ratio?))) {
        let _ = write!(html, " {}: {} times that bound.", capital(arm.name()), three_digits(ratio));
    }
    html + "</p>\n"
}

fn table_row(html: &mut String, comparison: &Comparison, row: &Row) {
    let mut jobs = format!("{}<small>{}</small>", row.jobs, count(row.runs, "run"));
    if row.unfinished > 0 {
        let _ = write!(jobs, "<small>{} never finished</small>", row.unfinished);
    }
    let _ = write!(
        html,
        "<tr><td><svg class=\"swatch\" viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"curve {}\" d=\"M0 6H36\"/>\
         </svg>{}</td><td>{jobs}</td>",
        class(row.arm),
        row.arm.name()
    );
    for percentile in &row.percentiles {
        let _ = write!(html, "<td>{}</td>", percentile_cell(percentile));
    }
    let distance = match (comparison.distance(row.arm), comparison.floor) {
        (Some(distance), _) => estimate_cell(distance, time),
        (None, Some(floor)) if matches!(row.arm, Arm::Whole | Arm::Reference) => {
            format!("{}<small>noise, up to {}</small>", time(floor.median), time(floor.upper))
        }
        _ => "-".into(),
    };
    let ks = row.ks.map_or("-".into(), |ks| estimate_cell(ks, |share| format!("{share:.3}")));
    let _ = writeln!(html, "<td>{distance}</td><td>{ks}</td></tr>");
}

fn percentile_cell(percentile: &Percentile) -> String {
    let words = |ns: Option<u64>, otherwise: &str| ns.map_or(otherwise.into(), |ns| time(ns as f64));
    let ends = [words(percentile.low, "never"), words(percentile.high, "?")];
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

fn plots(comparison: &Comparison, arms: &Arms) -> String {
    let pooled = |arm: Arm| Sample::pool(arms.runs(arm)).ok().filter(|s| !s.is_empty()).map(|s| Curve::new(arm, &s));
    let predicted = match &arms.predicted {
        Some(Predicted::Sample(sample)) => Some(Curve::new(Arm::Predicted, sample)),
        Some(Predicted::Percentiles(_)) => comparison.rows.iter().find(|row| row.arm == Arm::Predicted).map(|row| {
            let known: Vec<_> = row.percentiles.iter().filter_map(|p| Some((p.p, p.value?))).collect();
            Curve::of_percentiles(Arm::Predicted, &known)
        }),
        None => None,
    };
    let curves = [predicted, pooled(arms.reference()), pooled(Arm::Unprotected), pooled(arms.judged())];
    let curves: Vec<Curve> = curves.into_iter().flatten().collect();
    let figure = |view, words: &str| match svg(view, &curves) {
        svg if svg.is_empty() => svg,
        svg => format!("<figure><figcaption>{words}</figcaption>\n{svg}</figure>\n"),
    };
    format!(
        "<h2>Distributions</h2>\n<div class=\"plots\">\n{}{}</div>\n",
        figure(View::Body, "<b>Done within</b> a response time: share of jobs, all runs of an arm together"),
        figure(View::Tail, "<b>Took longer</b>: the same jobs seen from the slowest, on a logarithmic scale")
    )
}

fn obtained(meta: &ReportMeta, comparison: &Comparison, arms: &Arms) -> String {
    let mut html = String::from("<h2>How it was obtained</h2>\n<dl>\n");
    let statistics = format!(
        "{REPLICATES} resamples of rounds, and of jobs in blocks of neighbours, seed {}; at least {} rounds of at least {} jobs a \
         run",
        comparison.seed,
        crate::MIN_ROUNDS,
        crate::MIN_JOBS
    );
    let mut lines = meta.lines.clone();
    lines.push(("statistics".into(), statistics));
    if !arms.voided.is_empty() {
        lines.push((format!("{} left out", count(arms.voided.len(), "run")), arms.voided.join("; ")));
    }
    for (name, value) in lines {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(&name), escape(&value));
    }
    html + "</dl>\n"
}

fn three_digits(ratio: f64) -> String {
    let decimals = if ratio < 9.995 { 2 } else { usize::from(ratio < 99.95) };
    format!("{ratio:.decimals$}")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
}
