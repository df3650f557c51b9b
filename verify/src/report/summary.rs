//! The verdict, what was promised, predicted and measured beside it, and what the words mean.

use super::cells::{estimate_cell, percentile_cell};
use super::findings::{Findings, ReportMeta};
use super::page::{escape, list, table as tabulate};
use crate::words::time;
use crate::{Arm, Arms, Comparison, Foreseen, Kept, Percentile, TwoWay, Verdict, PERCENTILES};

/// The verdict and why.
pub(super) fn verdict(meta: &ReportMeta, findings: Findings) -> String {
    let (tone, mark, words, why) = match findings {
        Findings::AsIfAlone(comparison, _) => said(comparison.verdict, &comparison.why),
        Findings::Percentiles { kept, .. } => said(kept.verdict, &kept.why),
        Findings::Two(..) => (
            "cannot-tell",
            '–',
            "no verdict",
            "two runs differ by chance too, and how much shows only in more runs of the reference (--baseline FILE, twice)",
        ),
    };
    let outcome = if meta.outcome.is_empty() { String::new() } else { format!(", {}", escape(&meta.outcome)) };
    format!(
        "<div class=\"verdict {tone}\"><strong><span aria-hidden=\"true\">{mark}</span> {words}</strong>{outcome}<p>{}.</p></div>\n",
        escape(why)
    )
}

fn said(verdict: Verdict, why: &str) -> (&'static str, char, &'static str, &str) {
    let tone = match verdict {
        Verdict::Kept => "kept",
        Verdict::Missed => "missed",
        Verdict::CannotTell => "cannot-tell",
    };
    (tone, verdict.mark(), verdict.words(), why)
}

/// Promised, predicted and measured, side by side.
pub(super) fn table(findings: Findings) -> String {
    let (rows, note) = match findings {
        Findings::AsIfAlone(comparison, arms) => as_if_alone(comparison, arms),
        Findings::Two(two, _) => side_by_side(two),
        Findings::Percentiles { kept, foreseen, .. } => percentiles(kept, foreseen),
    };
    if rows.len() < 2 {
        return String::new();
    }
    format!("<h2>Promised, predicted, measured</h2>\n{}<p class=\"note\">{note}</p>\n", tabulate(&rows))
}

fn head(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

const NOTHING: &str = "–";

fn as_if_alone(comparison: &Comparison, arms: &Arms) -> (Vec<Vec<String>>, String) {
    let row = |arm: Arm| comparison.rows.iter().find(|row| row.arm == arm);
    let [promised, predicted, measured] = [arms.reference(), Arm::Predicted, arms.judged()].map(row);
    let mut rows =
        vec![head(&["", &format!("promised:<br/>{}", arms.reference().name()), "predicted", "measured", ""])];
    if promised.is_none() && measured.is_none() {
        return (Vec::new(), String::new());
    }
    for (place, p) in PERCENTILES.into_iter().enumerate() {
        let cell = |row: Option<&crate::Row>| {
            row.and_then(|row| row.percentiles.get(place)).map_or(NOTHING.into(), percentile_cell)
        };
        rows.push(vec![format!("p{p}"), cell(promised), cell(predicted), cell(measured), String::new()]);
    }
    let distance = |arm| comparison.distance(arm).map_or(NOTHING.into(), |distance| estimate_cell(distance, time));
    rows.push(vec![
        "distance".into(),
        comparison.limit.map_or(NOTHING.into(), |limit| format!("≤ {}", time(limit))),
        distance(Arm::Predicted),
        distance(arms.judged()),
        marked(comparison.verdict),
    ]);
    let note = "Small print below a number: its 95 % interval. The verdict is about the last row: how far apart the whole distributions \
                are, not single percentiles.";
    (rows, note.into())
}

fn side_by_side(two: &TwoWay) -> (Vec<Vec<String>>, String) {
    let mut rows = vec![head(&["", "reference", "predicted", "measured"])];
    for (place, p) in PERCENTILES.into_iter().enumerate() {
        let cell = |of: &[Percentile]| of.get(place).map_or(NOTHING.into(), percentile_cell);
        rows.push(vec![
            format!("p{p}"),
            cell(&two.a),
            cell(two.predicted.as_deref().unwrap_or_default()),
            cell(&two.b),
        ]);
    }
    rows.push(vec!["distance".into(), NOTHING.into(), NOTHING.into(), estimate_cell(two.w1, time)]);
    rows.push(vec!["KS".into(), NOTHING.into(), NOTHING.into(), estimate_cell(two.ks, |share| format!("{share:.3}"))]);
    let named = ["the reference", "the measured run"].into_iter().zip(two.never_finished());
    let unfinished: String = named
        .filter_map(|(run, words)| Some(format!(" Of {run}, {}, and count as slower than any.", words?)))
        .collect();
    let note = format!(
        "Small print below a number: its 95 % interval. Distance: Wasserstein-1, the area between two distribution functions; \
         KS: Kolmogorov-Smirnov, the largest height between them.{unfinished}"
    );
    (rows, note)
}

fn percentiles(kept: &Kept, foreseen: &[Foreseen]) -> (Vec<Vec<String>>, String) {
    let names = foreseen.iter().map(|one| one.name());
    let names: Vec<&str> = ["", "promised"].into_iter().chain(names).chain(["measured", ""]).collect();
    let mut rows = vec![head(&names)];
    for point in &kept.points {
        let cell = |one: &Foreseen| match (one, one.at(point.promised.percentile)) {
            (_, None) => NOTHING.into(),
            (Foreseen::Simulated(_), Some(at)) => time(at.ns() as f64),
            (_, Some(at)) => format!("≤ {}", time(at.ns() as f64)),
        };
        let promised =
            [point.promised.percentile.to_string(), format!("≤ {}", time(point.promised.within.ns() as f64))];
        let found = [percentile_cell(&point.measured), marked(point.verdict)];
        rows.push(promised.into_iter().chain(foreseen.iter().map(cell)).chain(found).collect());
    }
    let unfinished = match kept.unfinished {
        0 => String::new(),
        some => format!(" {some} of them never finished, and count as slower than any."),
    };
    let note = format!(
        "{} jobs in {}.{unfinished} Small print below a number: its 95 % interval; ? where so few jobs do not bound it.",
        kept.jobs,
        crate::words::count(kept.runs, "run")
    );
    (rows, note)
}

fn marked(verdict: Verdict) -> String {
    format!("<span aria-hidden=\"true\">{}</span> {}", verdict.mark(), verdict.words().replace("promise ", ""))
}

/// What the words of the report mean, for who reads the first one.
pub(super) fn meaning(findings: Findings) -> String {
    let foreseen = match findings {
        Findings::Percentiles { foreseen, .. } => foreseen,
        _ => &[],
    };
    let lines: &[(&str, &str)] = match findings {
        Findings::AsIfAlone(..) => &[
            ("promised", "The response times of the service with a core to itself (the reference): not an average, the whole distribution."),
            ("predicted", "What the plan's simulation said before anything was measured."),
            ("distance", "The area between two distribution functions (Wasserstein-1): by how much a response time differs, on average over all ranks."),
            ("noise floor, limit", "Two runs of the reference differ too. The limit is twice what they stay under with 95 % probability."),
            ("promise kept", "The whole 95 % interval of the measured distance is within the limit: shown, not only not refuted."),
            ("promise missed", "The whole interval is beyond the limit, or jobs never finished that did in the reference."),
            ("cannot tell", "The interval straddles the limit, or there is too little evidence. More or longer runs would tell."),
        ],
        Findings::Two(..) => &[
            ("distance", "The area between two distribution functions (Wasserstein-1): by how much a response time differs, on average over all ranks."),
            ("95 % interval", "Where the true value lies, as far as so many jobs can tell. One that reaches 0 means that no difference is shown."),
        ],
        Findings::Percentiles { .. } => &[
            ("promised", "So many of all requests are answered within that time: p99 ≤ 20 ms leaves one in a hundred out."),
            ("promise kept", "The whole 95 % interval of every percentile is within its promise."),
            ("promise missed", "The whole interval of one is beyond it."),
            ("cannot tell", "An interval straddles a promise: more or longer runs would tell."),
        ],
    };
    let (first, rest) = lines.split_at(1);
    let foreseen: Vec<(&str, &str)> = foreseen.iter().map(|one| (one.name(), one.means())).collect();
    let lines: Vec<(String, String)> =
        [first, &foreseen, rest].concat().iter().map(|(name, words)| (name.to_string(), words.to_string())).collect();
    format!("<h2>What the words mean</h2>\n<div class=\"prose\">{}</div>\n", list(&lines))
}
