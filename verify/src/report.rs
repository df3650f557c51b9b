//! x
use crate::{Arms,Comparison};
/// What the report says besides the figures.
#[derive(Clone, Debug, Default)]
pub struct ReportMeta {
    /// Title of the page.
    pub title: String,
    /// What was left of the core for others or the like; said after the verdict.
    pub outcome: String,
    /// How it was obtained, as names and values: commands, seed, kernel, noise and steal figures.
    pub lines: Vec<(String, String)>,
}
/// stub
pub fn report_html(_meta: &ReportMeta, _comparison: &Comparison, _arms: &Arms) -> String { String::new() }
