use giusto_model::{Bandwidth, Duration, TaskError};

/// Why there is no answer. Each text says what was expected and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// An empty task set.
    #[error("there is no task; expected at least one")]
    NoTasks,
    /// One of the tasks makes no sense by itself.
    #[error("task '{name}': {why}")]
    Task {
        /// Its name.
        name: String,
        /// What is wrong.
        why: TaskError,
    },
    /// U > 1.
    #[error("the tasks need {} of a core (U = {utilization}) and one core gives 100 %: run less, or less often", .utilization.percent())]
    Overload {
        /// Σ C/T.
        utilization: Bandwidth,
    },
    /// The hyperperiod is longer than 2^62 ns.
    #[error("the least common multiple of the task periods is longer than 146 years; round the periods down to a common step, such as 1 ms (a shorter period only asks for more)")]
    Hyperperiod,
    /// Exact arithmetic needs more than 64 bits.
    #[error("the exact share of the tasks needs more than 64 bits; round execution times up and periods down to a common step, such as 1 us")]
    Range,
    /// An answer would take too long to compute.
    #[error("{jobs} jobs would have to be looked at, and the limit is {limit}; ask for a shorter period, round the task periods down to a common step, or leave the offsets out (sporadic tasks need no whole hyperperiod)")]
    TooManyJobs {
        /// Jobs in the time to be looked at.
        jobs: u128,
        /// The most that is looked at.
        limit: u64,
    },
    /// A server period of 0, or an empty range of periods.
    #[error("the server period must be more than 0, and the shortest allowed not longer than the longest")]
    Period,
    /// A margin or a kept-free part that is more than a core.
    #[error("{what} is {value}; expected a share of one core, at most 100 %", value = .value.percent())]
    Share {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: Bandwidth,
    },
    /// A period that a [`Supply`](crate::share::Supply) was not built for.
    #[error("the supply was computed up to {reach}, not up to {asked}; build it for the longest period to be asked")]
    Reach {
        /// As far as it goes.
        reach: Duration,
        /// What was asked.
        asked: Duration,
    },
    /// B = 0 or B > P.
    #[error("a budget of {budget} every {period} is no share of a core; expected 0 < budget <= period")]
    Budget {
        /// B
        budget: Duration,
        /// P
        period: Duration,
    },
    /// Probabilities below 0 or that do not add up to 1, or a value of 0.
    #[error("the {what} are no distribution; expected values above 0 with probabilities that add up to 1")]
    Distribution {
        /// Of what.
        what: &'static str,
    },
    /// U ≥ W.
    #[error("the requests need {:.2} % of a core and the server gives {:.2} %: the queue grows without end; expected less load, or a larger budget", .utilization * 100.0, .bandwidth * 100.0)]
    Unstable {
        /// U = λ · mean work.
        utilization: f64,
        /// W = B/P.
        bandwidth: f64,
    },
    /// A percentile that is none.
    #[error("{p} is not a percentile; expected more than 0 and less than 100")]
    Percentile {
        /// What was asked.
        p: f64,
    },
    /// The slots would be too many.
    #[error("this takes about {states:.0} slots, and that is too many; expected a period of fewer service times, times that have a longer common divisor, or a load that is less close to the bandwidth")]
    Fine {
        /// How many.
        states: f64,
    },
    /// A percentile beyond what was computed.
    #[error("{lost:.1e} of all response times are beyond what can be computed, and a percentile among them was asked for; expected a lower one")]
    Beyond {
        /// Probability that lies beyond.
        lost: f64,
    },
}
