//! Does a published experiment come out again? The claims of a `study.toml`, judged on the tables that its commands wrote, and its figures.
//!
//! A study plays many random task sets where a paper shows one, so that "A is below B" can have an interval: the sets are
//! resampled ([`judge`]). Form of the file: `studies/README.md`. Nothing is read or written here; texts come in.

mod claim;
mod error;
mod figure;
mod judge;
mod report;
mod table;

pub use claim::{Axis, Claim, Figure, Measure, Rule, Study};
pub use error::Error;
pub use figure::{figures, Drawn};
pub use judge::{failures, findings, judge, Finding, Interval, Judgement, CONFIDENCE, FEW, RESAMPLES};
pub use report::study_html;
pub use table::Table;

use std::collections::BTreeMap;

/// The table of which `who` says something.
fn named<'a>(who: &str, table: &str, tables: &'a BTreeMap<String, Table>) -> Result<&'a Table, Error> {
    tables.get(table).ok_or_else(|| Error::NoTable {
        claim: who.into(),
        table: table.into(),
        known: tables.keys().cloned().collect::<Vec<_>>().join(", "),
    })
}
