use crate::admission::ServerError;
use crate::bucket::BucketError;
use crate::interface::ResourceError;
use crate::path::PathError;
use giusto_model::{Bandwidth, Duration, TaskError};

/// Why there is no answer. Each text says what was expected and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A token bucket that makes no sense.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// Stages and flows that make no path.
    #[error(transparent)]
    Path(#[from] PathError),
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
    /// A resource that makes no sense, or not for this.
    #[error("the resource: {0}")]
    Resource(#[from] ResourceError),
    /// A quantum of 0.
    #[error("the quantum must be more than 0")]
    Quantum,
    /// Too many points to compare.
    #[error("the resource has so nearly the bandwidth of the tasks that millions of points would have to be compared; give it a little more, or round the task periods down to a common step, such as 1 ms")]
    TooClose,
    /// One of the servers makes no sense by itself.
    #[error("server {number}: {why}")]
    Server {
        /// Which, from 1.
        number: usize,
        /// What is wrong.
        why: ServerError,
    },
    /// Too many windows to compare.
    #[error("the servers leave so little of their core that millions of windows would have to be compared; make a budget a little smaller, or round the periods to a common step, such as 1 ms")]
    Steps,
    /// Work that is no [`Duration`].
    #[error("the tasks ask for more than 584 years of work in one window; run less, or less often")]
    Demand,
    /// A curve of the (α, Δ) plane with too many points.
    #[error("the curve takes more than {limit} points to draw; ask for it from a larger least bandwidth on, or round the task periods down to a common step, such as 1 ms")]
    Points {
        /// The most that are looked at.
        limit: u64,
    },
    /// A curve of the (α, Δ) plane that begins after the answer.
    #[error("the curve begins at a bandwidth of {}, and less may be enough for this period; ask for it from a smaller least bandwidth on", .from.percent())]
    Curve {
        /// Where it begins.
        from: Bandwidth,
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
    #[error("the requests need {utilization} of a core and the server gives {bandwidth}: the queue grows without end; expected less load, or a larger budget")]
    Unstable {
        /// U = λ · mean work, in percent.
        utilization: String,
        /// W = B/P, in percent.
        bandwidth: String,
    },
    /// A percentile that is none.
    #[error("{p} is not a percentile; expected more than 0 and less than 100")]
    Percentile {
        /// What was asked.
        p: String,
    },
    /// The slots would be too many.
    #[error("this takes about {states} slots, and that is too many; expected a period of fewer service times, times that have a longer common divisor, or a load that is less close to the bandwidth")]
    Fine {
        /// How many.
        states: u64,
    },
    /// A percentile beyond what was computed.
    #[error("{lost} of all response times are beyond what can be computed, and a percentile among them was asked for; expected a lower one")]
    Beyond {
        /// Probability that lies beyond.
        lost: String,
    },
    /// A range of periods with too many of them.
    #[error("the range has more than {limit} whole quanta; ask for a larger quantum, or a smaller range")]
    Periods {
        /// The most that are looked at.
        limit: u64,
    },
    /// A time that leaves no room to add a few of them up.
    #[error("{time} is too long; times up to 73 years are supported")]
    TooLong {
        /// Which.
        time: Duration,
    },
    /// No budget at all.
    #[error("no whole quantum of {quantum} fits into a period of {period} beside what a preemption costs")]
    Coarse {
        /// Of the server.
        period: Duration,
        /// Of the budget.
        quantum: Duration,
    },
    /// A task whose test takes too long.
    #[error("a task has {points} points to compare, and the limit is {limit}; leave out tasks with much shorter periods, or ask for EDF")]
    TooManyPoints {
        /// Of it.
        points: u128,
        /// The most.
        limit: u64,
    },
    /// An ensemble of one, whose leader is all there is.
    #[error("no server is left when the leader dies; expected an ensemble of three servers or more")]
    NoneLeft,
    /// A recovery beyond what a duration holds.
    #[error("the recovery takes longer than 584 years; expected shorter parts")]
    Recovery,
    /// It is not said how many packets a core processes, or that it processes any.
    #[error("a core that processes no packets keeps none in time; expected a capacity above 0")]
    NoCapacity,
    /// A bound beyond what a duration holds.
    #[error("packets may wait for longer than 584 years; expected smaller bursts, or cores that process more packets")]
    Wait,
}
