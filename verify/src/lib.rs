//! Was the promise kept? Pure statistics on job records: distributions, distances between them, how much they vary by
//! chance, a verdict, and a report for people.
//!
//! Called by the command line (`giusto verify`, `run --trial`) and the studies. In flow response times, run by run
//! ([`Sample`], from [`giusto_model::JobRecord`]), grouped in [`Arms`]; out flow a [`Comparison`] (serialisable), a
//! terminal [`table()`] and a self-contained HTML page ([`report_html`]), both as text. It reads and writes no file, takes
//! no measurement, decides no parameter, and uses no randomness but a seed that is handed in: the same seed gives the
//! same bytes on any number of threads.

mod block;
mod bootstrap;
mod compare;
mod distance;
mod plot;
mod report;
mod sample;
mod table;
mod verdict;
mod words;

pub use bootstrap::{Estimate, REPLICATES};
pub use compare::{compare, compare_two, Arm, Arms, Comparison, NoiseFloor, Predicted, Row, TwoWay};
pub use distance::{kolmogorov_smirnov, wasserstein};
pub use report::{report_html, ReportMeta};
pub use sample::{Percentile, Sample, PERCENTILES};
pub use table::{table, table_two};
pub use verdict::{Verdict, MIN_JOBS};

/// Why job records cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A job that ends before it begins.
    #[error(
        "job {job} of task {task} finishes before its release; expected both stamps from one clock: measure it again"
    )]
    Backwards {
        /// Index of the task.
        task: u32,
        /// Number of the job within its task.
        job: u64,
    },
    /// More jobs than a run can have.
    #[error("a run of {jobs} jobs is too long; expected at most {}: split it into several runs", sample::MAX_JOBS)]
    TooManyJobs {
        /// How many there are.
        jobs: usize,
    },
    /// No run at all on one side.
    #[error("there is no job to compare in {side}; expected a run with at least one job: check the job files")]
    Empty {
        /// Which side.
        side: &'static str,
    },
}
