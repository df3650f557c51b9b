//! How far measured times are spread.

use crate::table::table;
pub(crate) use giusto_answers::simulated_path::quantiles;

/// From this time on a table is in milliseconds.
const LONG: u64 = 10_000_000;

/// A table of [`quantiles`], each row with its name.
pub(crate) fn spread(rows: &[(&str, &[u64; 4])]) -> String {
    let is_long = rows.iter().any(|(_, values)| values[3] >= LONG);
    let mut lines = vec![["", "p50", "p99", "p99.9", "max"].map(String::from).to_vec()];
    for (name, values) in rows {
        let cells = values.iter().map(|&ns| match is_long {
            true => format!("{:.3} ms", ns as f64 / 1e6),
            false => format!("{:.1} us", ns as f64 / 1e3),
        });
        lines.push(std::iter::once(name.to_string()).chain(cells).collect());
    }
    table(&lines, 1)
}
