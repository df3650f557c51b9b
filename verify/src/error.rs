//! Why job records cannot be compared.

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
    /// The sender of the jobs stood still, and with it the requests that would have shown what stopped it.
    #[error("the load generator itself stalled, so these are no response times of the service: {lateness}; measure it again \
             on a quieter machine")]
    Stalled {
        /// By how much, and the limit.
        lateness: giusto_model::Lateness,
    },
    /// More jobs than a run can have.
    #[error("a run of {jobs} jobs is too long; expected at most {most}: split it into several runs")]
    TooManyJobs {
        /// How many there are.
        jobs: usize,
        /// How many there may be.
        most: usize,
    },
    /// One run in two places.
    #[error(
        "{first} and {second} hold the same job records; expected a run of its own in every file: check the names"
    )]
    Same {
        /// Name of the one.
        first: String,
        /// Name of the other.
        second: String,
    },
    /// No run at all on one side.
    #[error("there is no job to compare in {side}; expected a run with at least one job: check the job files")]
    Empty {
        /// Which side.
        side: &'static str,
    },
}
