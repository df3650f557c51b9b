//! What is simulated.

use giusto_model::{Bucket, Duration, Instant, Rate, ServerKind, Task};
use giusto_policy::{Order, When};
use std::sync::Arc;

/// Cores that are scheduled together, their servers, and what real mechanisms add.
#[derive(Clone, Debug)]
pub struct System {
    /// Who goes first.
    pub order: Order,
    /// 1 to 64; servers are not bound to one of them.
    pub cores: u32,
    /// At most 1,024, virtual CPUs counted.
    pub servers: Vec<ServerSpec>,
    /// The end of a budget is enforced at a multiple of this, as SCHED_DEADLINE does at the scheduler's tick; overrun is
    /// paid back. `None`: at once.
    pub tick: Option<Duration>,
    /// Processor time that the incoming server needs before its job goes on, on its budget.
    pub switch: Duration,
    /// Changes of reservations, in the order of their times.
    pub changes: Vec<(Instant, Change)>,
    /// What comes to tasks that wait for messages.
    pub messages: Messages,
}

/// Messages, each of which releases a job of a task that waits for them ([`Sporadic::Messages`]).
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// From outside, in any order.
    pub arrivals: Vec<(Instant, To)>,
    /// A job that ends at the first sends one to the second, which comes so much later.
    pub hops: Vec<(To, To, Duration)>,
    /// What else they go through: [`To::server`] counts on from the servers.
    pub between: Vec<Between>,
    /// What stands still for a while; of each server or place one after the other.
    pub stops: Vec<Stop>,
}

/// A server or place that does nothing for a while, and then goes on where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// As of [`To`].
    pub server: usize,
    /// From then
    pub from: Instant,
    /// until then.
    pub until: Instant,
    /// A job that it had begun it begins once more; of a bucket all tokens are gone.
    pub lost: bool,
}

/// Places that messages go through in the order in which they come, each as of the task that it will release.
#[derive(Clone, Debug, Default)]
pub struct Between {
    /// One after the other.
    pub by: Vec<Waypoint>,
    /// Others that come from outside, at random, and as of which task.
    pub others: Option<(Rate, u32)>,
    /// From so many ways, of which the task tells the number, a copy of each message has to come before it goes on, as of task
    /// 0; 0: all go on by themselves.
    pub waits: u32,
    /// The servers or places to which messages go on, each so much later; none: it is the end.
    pub to: Vec<Onward>,
}

/// Where messages go on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// Those of this task; `None`: all.
    pub of: Option<u32>,
    /// There
    pub to: To,
    /// so much later.
    pub takes: Duration,
}

impl Between {
    /// Where a message as of `task` goes on to: as of the same task, but to and from a place that waits for several, and where
    /// each task has its own way.
    pub(crate) fn going_on(&self, task: u32) -> impl Iterator<Item = (To, Duration)> + '_ {
        let own = self.to.iter().filter(move |onward| onward.of.is_none_or(|of| of == task));
        own.map(move |Onward { of, to, takes }| {
            let joins = self.waits > 0 || of.is_some() || to.task != 0;
            (To { task: if joins { to.task } else { task }, ..*to }, *takes)
        })
    }
}

/// The task that messages from elsewhere release, on the way of a path alone.
pub const OTHERS: u32 = 1;

/// One of these places.
#[derive(Clone, Debug)]
pub enum Waypoint {
    /// Each message takes a token, and waits for it; then it takes so long.
    Tokens(Bucket, Duration),
    /// It takes so long, with these probabilities (Σ = 1).
    Drawn(Vec<(Duration, f64)>),
}

/// A task, its copies counted one by one, of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct To {
    /// Which server.
    pub server: usize,
    /// Which of its tasks.
    pub task: u32,
}

impl System {
    /// One core, without lateness, switching costs and changes.
    pub fn new(order: Order, servers: Vec<ServerSpec>) -> System {
        System {
            order,
            cores: 1,
            servers,
            tick: None,
            switch: Duration::ZERO,
            changes: Vec::new(),
            messages: Messages::default(),
        }
    }
}

/// A change of a reservation; `server` counts virtual CPUs one by one.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Another reservation.
    Set {
        /// Which.
        server: usize,
        /// B.
        budget: Duration,
        /// P.
        period: Duration,
        /// Smaller is higher.
        priority: u32,
        /// At once, or with the next period.
        when: When,
    },
    /// Above all others for a while (M2-Xen).
    Boost {
        /// Which.
        server: usize,
        /// Until then.
        until: Instant,
    },
}

/// A server and what it serves.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The algorithm.
    pub kind: ServerKind,
    /// B; ignored for `unlimited`.
    pub budget: Duration,
    /// P; ignored for `unlimited`.
    pub period: Duration,
    /// First replenishment, without budget until then; 0: at the start.
    pub first: Duration,
    /// Smaller is higher.
    pub priority: u32,
    /// Virtual CPUs, each with this reservation, that share the workload: its scheduler is global among them. The first n
    /// are ready while there are n jobs.
    pub vcpus: u32,
    /// Its tasks; `None`: always ready, takes every cycle it can get.
    pub workload: Option<Workload>,
}

/// Tasks of a guest.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The tasks; copies are expanded one by one.
    pub tasks: Vec<Task>,
    /// Their scheduler.
    pub guest: Guest,
    /// How long jobs run.
    pub execution: Execution,
    /// When jobs of sporadic tasks come.
    pub sporadic: Sporadic,
}

/// The scheduler inside a service or VM. All are work-conserving and stable [LiH21, § 3.1.2]: ties go to the task listed
/// first, then to the earlier job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// First come, first served, not preemptive: a single-threaded server.
    Fifo,
    /// Shorter period first, preemptive.
    RateMonotonic,
    /// Shorter relative deadline first, preemptive.
    DeadlineMonotonic,
    /// In the order in which the tasks are listed, preemptive.
    Listed,
    /// Earlier absolute deadline first, preemptive.
    Edf,
}

/// Execution times of jobs.
#[derive(Clone, Debug)]
pub enum Execution {
    /// Always the worst case.
    Worst,
    /// Uniform over [f·C, C], f in percent.
    Uniform {
        /// f, at most 100.
        percent: u32,
    },
    /// Drawn from measured values, in ns, whatever the task's worst case; not empty, each from 1 ns to 73 years.
    Samples(Arc<[u64]>),
    /// C times a drawn factor, in millionths, as measured on a machine where the same work does not always take the same: also
    /// more than C. Not empty, none 0.
    Noisy {
        /// What is drawn from.
        ppm: Arc<[u32]>,
        /// Of the factors alone: with another, the same jobs come at the same times.
        seed: u64,
    },
}

/// Releases of tasks that do not keep an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sporadic {
    /// As soon as allowed: periodic from the offset. What the load generator sends.
    Densest,
    /// Gaps uniform over [T, 2T], first release at the offset [LiH21, § 3.4.1].
    Random,
    /// A Poisson stream with one job in T on average, from the offset.
    Poisson,
    /// A Poisson stream of batches: `0` jobs at once, one job in T on average.
    Batches(u32),
    /// A closed loop: after each job it sleeps for T − C on average, uniform within ± that many percent, so that alone it has a
    /// duty of C/T; held up it asks for less. It begins at the offset.
    Thinking {
        /// At most 100.
        percent: u32,
    },
    /// Recorded gaps in ns, over and over; not empty, not all 0.
    Gaps(Arc<[u64]>),
    /// One for each message that comes ([`Messages`]).
    Messages,
}

/// Why a system cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The policy core refuses it.
    #[error("server {index}: {why}")]
    Server {
        /// Which, from 0.
        index: usize,
        /// Why.
        why: String,
    },
    /// A task makes no sense.
    #[error("server {index}: {why}")]
    Task {
        /// Which server, from 0.
        index: usize,
        /// Why.
        why: giusto_model::TaskError,
    },
    /// Nothing to draw from.
    #[error("server {index}: no measured execution times to draw from; measure at least one request")]
    NoSamples {
        /// Which server, from 0.
        index: usize,
    },
    /// A measured time that no job can take.
    #[error("server {index}: a measured {what} time of {ns} ns; expected {least} ns or more, and less than 73 years: measure again")]
    Sample {
        /// Which server, from 0.
        index: usize,
        /// Execution or transport.
        what: &'static str,
        /// What was measured.
        ns: u64,
        /// The least that makes sense.
        least: u64,
    },
    /// Gaps between which time does not pass.
    #[error("server {index}: the recorded gaps of its arrivals must not be empty or all 0, and less than 73 years")]
    Gaps {
        /// Which server, from 0.
        index: usize,
    },
    /// Nothing would come of it.
    #[error("server {index}: a message for its task {task}, which waits for none")]
    Message {
        /// Which server, from 0.
        index: usize,
        /// Which of its tasks, from 0.
        task: u32,
    },
    /// Sleep that would have to be shorter than none.
    #[error("server {index}: sleeps that vary by {percent} %; expected at most 100")]
    Thinking {
        /// Which server, from 0.
        index: usize,
        /// What was given.
        percent: u32,
    },
    /// There is nothing to predict from.
    #[error(
        "no job finished within {within}; simulate longer, and check that the server's budget suffices for its tasks"
    )]
    NoJob {
        /// The horizon.
        within: Duration,
    },
    /// Too long or no time at all.
    #[error(
        "the time to simulate must be more than 0 and less than 73 years, and offsets and periods less than 73 years"
    )]
    Horizon,
    /// A drawing of it would be black.
    #[error(
        "more than {slices} stretches of processor time cannot be drawn: simulate a shorter time, such as two periods"
    )]
    TooLongToDraw {
        /// How many can.
        slices: usize,
    },
    /// A trace or record could not be written.
    #[error("cannot write what was observed: {0}")]
    Write(String),
}
