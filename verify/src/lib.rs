//! Was the promise kept? Pure statistics on job records: distributions, distances between them, how much they vary by
//! chance, a verdict, and a report for people. And will it be kept? An independent check of the certificates of a plan.
//!
//! Called by the command line (`giusto verify`, `run --trial`, `check --certificate`) and the studies. A plan flows in, and
//! what holds or the first thing that does not flows out ([`check_plan`]; with its site [`check_site`]). In flow response
//! times, run by run
//! ([`Sample`], from [`giusto_model::JobRecord`]), grouped in [`Arms`]; out flow a [`Comparison`] (serialisable), a
//! terminal [`table()`] and a self-contained HTML page ([`report_html`]), both as text. Its drawing serves results of
//! `analysis` and of studies too ([`plane_svg`], [`curves_svg`]). It reads and writes no file, takes
//! no measurement, decides no parameter, and uses no randomness but a seed that is handed in: the same seed gives the
//! same bytes on any number of threads.

mod arms;
mod block;
mod bootstrap;
mod cause;
mod certificate;
mod compare;
mod comparison;
mod curves;
mod demand;
mod distance;
mod drift;
mod error;
mod history;
mod interval;
mod judge;
mod kept;
mod plane;
mod plot;
mod report;
mod sample;
mod slices;
pub mod study;
mod table;
mod verdict;
mod words;

pub use arms::{Arm, Arms, Predicted, Round, Source};
pub use bootstrap::{Estimate, REPLICATES};
pub use cause::{Backlog, Cause, Circumstances};
pub use certificate::{
    check_plan, check_site, read_plan, unchecked, unchecked_in, Broken, Checked, CheckedCore, CheckedEnsemble,
    CheckedInterface, CheckedMode, CheckedPath, CheckedService, CheckedTopic, NoPlan, OfSite, Unchecked,
};
pub use compare::{compare, compare_two};
pub use comparison::{Comparison, NoiseFloor, Row, TwoWay};
pub use curves::{curves_svg, Line, Panel};
pub use demand::{Demand, DemandVerdict};
pub use distance::{kolmogorov_smirnov, wasserstein};
pub use drift::{Drift, Planned, BETWEEN_FALSE_ALARMS, WINDOW};
pub use error::Error;
pub use history::{History, Look, Past, Standing};
pub use judge::{MIN_CYCLES, MIN_JOBS, MIN_ROUNDS, NEGLIGIBLE};
pub use kept::{kept, table_kept, Foreseen, Kept, KeptPoint};
pub use plane::plane_svg;
pub use report::{report_html, slowest, Drawing, Findings, ReportMeta};
pub use sample::{Percentile, Sample, PERCENTILES};
pub use table::{table, table_two};
pub use verdict::Verdict;

/// Refuses runs that are one and the same: nothing is learnt from comparing a file with itself, and a promise would be kept.
/// `runs` are names and job records. O(runs² · jobs).
///
/// # Errors
/// [`Error::Same`] for the first two with equal records.
pub fn distinct(runs: &[(String, Vec<giusto_model::JobRecord>)]) -> Result<(), Error> {
    let pairs = (0..runs.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    match pairs.into_iter().find(|&(a, b)| runs[a].1 == runs[b].1) {
        Some((a, b)) => Err(Error::Same { first: runs[a].0.clone(), second: runs[b].0.clone() }),
        None => Ok(()),
    }
}
