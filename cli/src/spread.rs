//! How far measured times are spread.

use crate::table::table;

/// Median, 99 %, 99.9 % and largest, by nearest rank.
pub(crate) fn quantiles(values: &[u64]) -> [u64; 4] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = |per_mille: usize| {
        sorted.get((sorted.len() * per_mille).div_ceil(1000).saturating_sub(1)).copied().unwrap_or(0)
    };
    [rank(500), rank(990), rank(999), rank(1000)]
}

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
