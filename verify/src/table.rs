//! Tables for the terminal. Columns line up: every character in them is one column wide.

use crate::words::{split, time};
use crate::{Arm, Comparison, Percentile, TwoWay, Verdict};

const NAME: usize = 18;
const CELL: usize = 11;

/// Numbers right-aligned, units below each other.
fn cell(ns: f64) -> String {
    let (number, unit) = split(ns);
    let text = if unit.is_empty() { number } else { format!("{number} {unit:<2}") };
    format!("{text:>CELL$}")
}

fn percentile_cells(percentiles: &[Percentile]) -> String {
    percentiles.iter().map(|p| cell(p.value.map_or(f64::INFINITY, |ns| ns as f64))).collect()
}

fn header(last: &str) -> String {
    let columns: String = crate::PERCENTILES.iter().map(|p| format!("{:>CELL$}", format!("p{p}"))).collect();
    format!("{:NAME$}{columns}   {last}\n", "")
}

/// The comparison as an aligned table: percentiles of every arm and its distance from a whole core. `outcome` is said after
/// the verdict on Giusto's line (for example what was left of the core for others); it may be empty. The reasons are in
/// [`Comparison::why`]. Ends with a line feed.
pub fn table(comparison: &Comparison, outcome: &str) -> String {
    let files = comparison.rows.iter().any(|row| row.arm == Arm::Reference);
    let mut text = header(if files { "distance from the reference" } else { "distance from a whole core" });
    for row in &comparison.rows {
        let distance = comparison.distance(row.arm).map(|d| d.value);
        let mark = |verdict: Verdict| format!("  {}", verdict.mark());
        let (distance, remark) = match row.arm {
            Arm::Predicted => (distance, String::new()),
            Arm::Whole | Arm::Reference => match comparison.floor {
                Some(floor) => (Some(floor.median), "  (noise floor)".into()),
                None => (None, String::new()),
            },
            Arm::Unprotected => {
                let known = comparison.distance_unprotected.zip(comparison.limit);
                (distance, known.map(|(d, limit)| mark(Verdict::of(d, limit))).unwrap_or_default())
            }
            Arm::Giusto | Arm::Measured => {
                let outcome = if outcome.is_empty() { String::new() } else { format!(", {outcome}") };
                let verdict = comparison.verdict;
                (distance, format!("{} {}{outcome}", mark(verdict), verdict.words()))
            }
        };
        let distance = distance.map_or(format!("{:>CELL$}", "-"), cell);
        let line = format!("{:NAME$}{}   {distance}{remark}", row.arm.name(), percentile_cells(&row.percentiles));
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Two runs as an aligned table below what was predicted, with the distances below, and how many jobs never finished. `names` are the
/// runs' names. Ends with a line feed.
pub fn table_two(two: &TwoWay, names: [&str; 2]) -> String {
    let mut text = header("").trim_end().to_string() + "\n";
    let predicted = two.predicted.iter().map(|percentiles| (Arm::Predicted.name(), percentiles));
    for (name, percentiles) in predicted.chain(names.into_iter().zip([&two.a, &two.b])) {
        let name: String = name.chars().take(NAME).collect();
        text += &format!("{name:NAME$}{}", percentile_cells(percentiles));
        text = text.trim_end().to_string() + "\n";
    }
    let (w1, ks) = (two.w1, two.ks);
    text += &format!(
        "Wasserstein distance         {} (95 % interval {} to {})\n",
        time(w1.value),
        time(w1.low),
        time(w1.high)
    );
    text += &format!("Kolmogorov-Smirnov distance  {:.4} (95 % interval {:.4} to {:.4})\n", ks.value, ks.low, ks.high);
    for (name, words) in names.into_iter().zip(two.never_finished()) {
        text += &words.map_or(String::new(), |words| format!("{name}: {words}\n"));
    }
    text
}
