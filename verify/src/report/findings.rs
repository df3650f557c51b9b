//! What a report is about.

use crate::{Arms, Comparison, Foreseen, Kept, Sample, TwoWay};

/// What the report says besides the figures.
#[derive(Clone, Debug, Default)]
pub struct ReportMeta {
    /// Title of the page.
    pub title: String,
    /// Said after the verdict, for example what was left of the core for others; may be empty.
    pub outcome: String,
    /// How it was obtained, as names and values: commands, seed, kernel, noise and steal figures.
    pub lines: Vec<(String, String)>,
    /// Drawings of the schedule.
    pub schedule: Vec<Drawing>,
}

/// A drawing with what is said below it.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// SVG, inserted as it is.
    pub svg: String,
    /// What it shows.
    pub caption: String,
    /// The same in rows of cells, the first of which are their names; may be empty.
    pub table: Vec<Vec<String>>,
}

/// What the report is about.
#[derive(Clone, Copy, Debug)]
pub enum Findings<'a> {
    /// The latency of a whole core, or of a reference, was promised: a comparison of these arms.
    AsIfAlone(&'a Comparison, &'a Arms),
    /// Two runs side by side, without a verdict; the arms are those of [`Arms::of_files`].
    Two(&'a TwoWay, &'a Arms),
    /// Percentiles were promised.
    Percentiles {
        /// What became of them.
        kept: &'a Kept,
        /// The runs that were judged.
        runs: &'a [Sample],
        /// Runs of the same beside others without a plan; may be none.
        no_plan: &'a [Sample],
        /// What was foreseen; may be nothing.
        foreseen: &'a [Foreseen<'a>],
    },
}
