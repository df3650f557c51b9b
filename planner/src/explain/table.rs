//! A table for people.

use giusto_model::Reason;

pub(super) fn row(reason: &Reason) -> [String; 3] {
    [reason.what.clone(), reason.value.clone(), reason.why.clone()]
}

/// Two columns as wide as their longest cell, then the reason.
pub(super) fn table(rows: &[[String; 3]]) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let (what, value) = (width(0), width(1));
    rows.iter().map(|[a, b, c]| format!("  {a:<what$}  {b:<value$}  {c}\n")).collect()
}
