//! All arms of a comparison in one table.

use super::cells::{capital, estimate_cell, percentile_cell};
use super::page::table;
use crate::plot::class;
use crate::words::{count, time};
use crate::{Arm, Arms, Comparison, Row, PERCENTILES};
use std::fmt::Write;

pub(super) fn arms(comparison: &Comparison, arms: &Arms) -> String {
    let mut head = vec![String::new(), "jobs".into()];
    head.extend(PERCENTILES.map(|p| format!("p{p}")));
    head.extend([format!("distance from<br/>{}", arms.reference().name()), "KS".into()]);
    let rows = comparison.rows.iter().map(|row| cells(comparison, row));
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let mut note = String::from(
        "Small print below a number: its 95 % interval. Distance: Wasserstein-1, the area between two distribution functions; \
         KS: Kolmogorov-Smirnov, the largest height between them. Both: averages over the two runs of the reference in a round, \
         medians over the rounds.",
    );
    if let Some(limit) = comparison.limit {
        let _ = write!(note, " Limit: {}, twice the upper bound of the noise floor.", time(limit));
    }
    let ratios = [(arms.judged(), comparison.ratio_giusto), (Arm::Unprotected, comparison.ratio_unprotected)];
    for (arm, ratio) in ratios.into_iter().filter_map(|(arm, ratio)| Some((arm, ratio?))) {
        let _ = write!(note, " {}: {} times that bound.", capital(arm.name()), three_digits(ratio));
    }
    format!("<h2>All arms</h2>\n{}<p class=\"note\">{note}</p>\n", table(&rows))
}

fn cells(comparison: &Comparison, row: &Row) -> Vec<String> {
    let name = format!(
        "<svg class=\"swatch\" viewBox=\"0 0 36 12\" aria-hidden=\"true\"><path class=\"curve {}\" d=\"M0 6H36\"/></svg>{}",
        class(row.arm),
        row.arm.name()
    );
    let mut jobs = format!("{}<small>{}</small>", row.jobs, count(row.runs, "run"));
    if row.unfinished > 0 {
        let _ = write!(jobs, "<small>{} never finished</small>", row.unfinished);
    }
    let distance = match (comparison.distance(row.arm), comparison.floor) {
        (Some(distance), _) => estimate_cell(distance, time),
        (None, Some(floor)) if matches!(row.arm, Arm::Whole | Arm::Reference) => {
            format!("{}<small>noise, up to {}</small>", time(floor.median), time(floor.upper))
        }
        _ => "-".into(),
    };
    let ks = row.ks.map_or("-".into(), |ks| estimate_cell(ks, |share| format!("{share:.3}")));
    let percentiles = row.percentiles.iter().map(percentile_cell);
    [name, jobs].into_iter().chain(percentiles).chain([distance, ks]).collect()
}

fn three_digits(ratio: f64) -> String {
    let decimals = if ratio < 9.995 { 2 } else { usize::from(ratio < 99.95) };
    format!("{ratio:.decimals$}")
}
