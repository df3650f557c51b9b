//! Cells of tables: numbers with their intervals.

use crate::words::time;
use crate::{Estimate, Percentile};

pub(super) fn percentile_cell(percentile: &Percentile) -> String {
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

pub(super) fn estimate_cell(estimate: Estimate, words: impl Fn(f64) -> String) -> String {
    format!("{}<small>{}</small>", words(estimate.value), interval([words(estimate.low), words(estimate.high)]))
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
}
