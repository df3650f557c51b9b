//! The prediction of a plan: its server on top, beside a competitor that takes every cycle left.

use crate::baselines::{Credit, Fair};
use crate::engine::{simulate, simulate_with};
use crate::guest::bounded;
use crate::stats::Stats;
use crate::system::{Error, Execution, Guest, ServerSpec, Sporadic, System, Workload};
use crate::trace::Observer;
use giusto_model::{
    Arrivals, Certificate, Duration, Instant, JobRecord, Promise, Scheduler, Server, ServerKind, ServicePlan, Task,
};
use giusto_policy::Order;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Weights of service and competitor.
const EQUAL: [u32; 2] = [256, 256];

/// Response times of a service under its plan.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// Of all jobs.
    pub stats: Stats,
    /// Of each task, in their order, copies counted together.
    pub tasks: Vec<TaskTimes>,
    /// Share of the core that the competitor got.
    pub competitor: f64,
    /// More was asked for than is given: then the statistics are of a queue that grows for ever, and say how long was
    /// played and
    /// nothing else.
    pub overload: Option<Overload>,
}

/// The jobs of one task.
#[derive(Clone, Debug)]
pub struct TaskTimes {
    /// Response times.
    pub stats: Stats,
    /// Jobs that finished after their deadline, or had not at the horizon and it was over.
    pub late: u64,
    /// The latest end of a job after its deadline, in ns; below 0: so long before. Of those that finished; `None`: none did.
    pub latest_ns: Option<i64>,
}

impl TaskTimes {
    fn new() -> Self {
        TaskTimes { stats: Stats::new(), late: 0, latest_ns: None }
    }

    /// Adds the jobs of another run.
    pub fn merge(&mut self, other: &TaskTimes) {
        self.stats.merge(&other.stats);
        self.late += other.late;
        self.latest_ns = self.latest_ns.max(other.latest_ns);
    }
}

/// More processor time is asked for than given. Both are shares of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// Asked for, on average.
    pub asked: f64,
    /// Given, at most.
    pub given: f64,
}

impl std::fmt::Display for Overload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Overload { asked, given } = self;
        write!(
            f,
            "overloaded: its jobs ask for {:.1} % of a core and get {:.1} %, so the queue grows for ever",
            asked * 100.0,
            given * 100.0
        )
    }
}

/// What the jobs of `workload` ask for, on average.
fn asked(workload: &Workload) -> f64 {
    let mean = |task: &Task| match &workload.execution {
        Execution::Worst => task.wcet.ns() as f64,
        Execution::Uniform { percent } => task.wcet.ns() as f64 * (100.0 + f64::from(*percent)) / 200.0,
        Execution::Samples(times) => times.iter().map(|&ns| ns as f64).sum::<f64>() / times.len().max(1) as f64,
        Execution::Noisy { ppm, .. } => {
            let mean = ppm.iter().map(|&factor| f64::from(factor)).sum::<f64>() / ppm.len().max(1) as f64;
            task.wcet.ns() as f64 * mean / 1e6
        }
    };
    let of = |task: &Task| mean(task) * f64::from(task.copies) / task.period.ns().max(1) as f64;
    workload.tasks.iter().map(of).sum()
}

/// What a server gives at most beside a competitor that never rests.
fn given(under: Under, server: &Server) -> f64 {
    match under {
        Under::Server(ServerKind::Unlimited) => 1.0,
        Under::Server(_) => server.budget.ns() as f64 / server.period.ns().max(1) as f64,
        Under::Credit | Under::Fair => 0.5,
    }
}

/// What the service runs under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// A server of this kind with the plan's budget and period, above its competitor.
    Server(ServerKind),
    /// Xen's Credit scheduler, equal weights.
    Credit,
    /// A fair scheduler such as CFS, equal weights.
    Fair,
}

impl std::fmt::Display for Under {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Under::Server(kind) => kind.fmt(f),
            Under::Credit => f.pad("credit"),
            Under::Fair => f.pad("fair"),
        }
    }
}

impl std::str::FromStr for Under {
    type Err = String;

    fn from_str(text: &str) -> Result<Under, String> {
        match text {
            "credit" => return Ok(Under::Credit),
            "fair" => return Ok(Under::Fair),
            _ => {}
        }
        ServerKind::ALL.into_iter().find(|kind| kind.to_string() == text).map(Under::Server).ok_or_else(|| {
            let kinds: Vec<String> = ServerKind::ALL.iter().map(ServerKind::to_string).collect();
            format!("'{text}' is no scheduler to compare with; expected {}, credit or fair", kinds.join(", "))
        })
    }
}

/// Simulates `service` as planned, see [`predict_under`].
pub fn predict(
    service: &ServicePlan,
    execution: Execution,
    transport: &[u64],
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Predicted, Error> {
    predict_under(service, Under::Server(service.server.kind), execution, transport, horizon, seed, observer)
}

/// Simulates `service` with the plan's tasks under a scheduler of choice, beside a competitor that takes every cycle left. Its
/// jobs run in the order that its promise names, else first come, first served.
///
/// `transport` is the time of a request outside of the service (network stack, wake-ups), drawn for each job from measured
/// values; none: 0. Sporadic tasks come as densely as they may, as the load generator sends them. The observer sees the
/// service as server 0 and the competitor as server 1, jobs with their transport. Errors: as
/// [`simulate`], a transport time beyond 73 years, and [`Error::NoJob`] if none finished.
pub fn predict_under(
    service: &ServicePlan,
    under: Under,
    execution: Execution,
    transport: &[u64],
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Predicted, Error> {
    bounded(transport, 0, "transport", 0)?;
    let guest = order(&service.promise);
    let workload = Workload { tasks: service.tasks.clone(), guest, execution, sporadic: Sporadic::Densest };
    play(service.server, workload, under, (transport, Duration::ZERO), &[], horizon, seed, observer)
}

/// The order of a service's own jobs.
fn order(promise: &Promise) -> Guest {
    match promise.own_scheduler() {
        Some(Scheduler::Rm) => Guest::RateMonotonic,
        Some(Scheduler::Dm) => Guest::DeadlineMonotonic,
        Some(Scheduler::Edf) => Guest::Edf,
        None => Guest::Fifo,
    }
}

/// Simulates a `service` that is promised percentiles, under a scheduler of choice: requests at random, each as long as the
/// promise says (where it says only a bound: that), on what is counted on of its budget. What the plan adds for a late
/// supply is
/// added to each. Where it shares its core, the `others` of it take all they can get, under EDF; else a competitor does.
///
/// The observer sees the service as server 0. Errors: as [`predict_under`].
pub fn predict_random(
    service: &ServicePlan,
    others: &[&ServicePlan],
    under: Under,
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Predicted, Error> {
    let (Promise::Percentiles { arrivals, service: times, .. }, Certificate::Percentiles { budget, latency, .. }) =
        (&service.promise, &service.certificate)
    else {
        return Err(Error::NoJob { within: horizon });
    };
    let (sporadic, execution) = (Sporadic::Batches(arrivals.batch), Execution::Samples(times.samples().into()));
    let workload = Workload { tasks: vec![request(*arrivals)], guest: Guest::Fifo, execution, sporadic };
    let counted = Server { budget: *budget, ..service.server };
    play(counted, workload, under, (&[], *latency), others, horizon, seed, observer)
}

/// One request on average every 1/λ, to whole ns; how long it takes is drawn.
fn request(arrivals: Arrivals) -> Task {
    let gap = 1.0 / (arrivals.rate.per_ns() * f64::from(arrivals.batch));
    Task::sporadic("request", Duration::from_ns(1), Duration::from_ns((gap.round() as u64).max(1)))
}

/// Plays `server` beside `others`, or, without any, above a competitor. To each response an outside is added: one of
/// some times,
/// drawn, and a fixed one.
#[allow(clippy::too_many_arguments)] // all of them are what is played
fn play(
    server: Server,
    workload: Workload,
    under: Under,
    (transport, latency): (&[u64], Duration),
    others: &[&ServicePlan],
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Predicted, Error> {
    let spec = |server: Server, priority, workload| ServerSpec {
        kind: server.kind,
        budget: server.budget,
        period: server.period,
        first: Duration::ZERO,
        priority,
        vcpus: 1,
        workload,
    };
    let kind = if let Under::Server(kind) = under { kind } else { ServerKind::Unlimited };
    let overload = Overload { asked: asked(&workload), given: given(under, &server) };
    let overload = Some(overload).filter(|overload| overload.asked > overload.given * (1.0 + 1e-9)); // the rounding of sums
    let ends = Ends::of(&workload);
    let top = spec(Server { kind, ..server }, 0, Some(workload));
    let rest = Server { kind: ServerKind::Unlimited, ..server };
    let system = match (under, others) {
        (Under::Server(_), [_, ..]) => {
            let others = others.iter().map(|other| spec(other.server, 0, None));
            System::new(Order::Edf, std::iter::once(top).chain(others).collect())
        }
        _ => System::new(Order::FixedPriority, vec![top, spec(rest, 1, None)]),
    };
    let mut outside = Outside {
        transport,
        latency,
        rng: ChaCha8Rng::seed_from_u64(seed),
        stats: Stats::new(),
        ends,
        inner: observer,
    };
    let all = match under {
        Under::Server(_) => simulate(&system, horizon, seed, &mut outside)?,
        Under::Credit => {
            simulate_with(&mut Credit::new(1, &EQUAL, &[]).expect("constants"), &system, horizon, seed, &mut outside)?
        }
        Under::Fair => {
            simulate_with(&mut Fair::new(1, &EQUAL).expect("constants"), &system, horizon, seed, &mut outside)?
        }
    };
    let (mut stats, tasks) = (outside.stats, outside.ends.until(horizon));
    if stats.jobs() == 0 {
        return Err(Error::NoJob { within: horizon });
    }
    (stats.unfinished, stats.consumed) = (all[0].unfinished, all[0].consumed);
    let rest: u64 = all[1..].iter().map(|other| other.consumed.ns()).sum();
    Ok(Predicted { stats, tasks, competitor: rest as f64 / horizon.ns() as f64, overload })
}

/// Adds what happens outside of the service.
struct Outside<'a> {
    transport: &'a [u64],
    latency: Duration,
    rng: ChaCha8Rng,
    stats: Stats,
    ends: Ends,
    inner: &'a mut dyn Observer,
}

/// When jobs end and when they should.
struct Ends {
    tasks: Vec<TaskTimes>,
    /// Of each task copy its task, relative deadline, and the releases whose jobs have not ended.
    copies: Vec<(usize, u64, VecDeque<u64>)>,
}

impl Ends {
    fn of(workload: &Workload) -> Self {
        let copies = |(place, task): (usize, &Task)| {
            let deadline = task.deadline.ns();
            (0..task.copies).map(move |_| (place, deadline, VecDeque::new()))
        };
        let tasks = vec![TaskTimes::new(); workload.tasks.len()];
        Ends { tasks, copies: workload.tasks.iter().enumerate().flat_map(copies).collect() }
    }

    fn came(&mut self, copy: u32, at: u64) {
        self.copies[copy as usize].2.push_back(at);
    }

    /// The jobs of a copy end in the order in which they came.
    fn ended(&mut self, copy: u32, response: u64, finish: u64) {
        let (task, deadline, open) = &mut self.copies[copy as usize];
        let own = &mut self.tasks[*task];
        own.stats.add(response);
        if let Some(came) = open.pop_front() {
            let after = finish as i64 - came.saturating_add(*deadline) as i64; // both below 2^62
            own.late += u64::from(after > 0);
            own.latest_ns = own.latest_ns.max(Some(after));
        }
    }

    /// With what has not ended at the horizon.
    fn until(mut self, horizon: Duration) -> Vec<TaskTimes> {
        for (task, deadline, open) in &self.copies {
            let over = open.iter().filter(|came| came.saturating_add(*deadline) < horizon.ns());
            self.tasks[*task].late += over.count() as u64;
        }
        self.tasks
    }
}

impl Observer for Outside<'_> {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        let mut job = *job;
        job.finish = job.finish.and_then(|finish| finish.checked_add(self.latency));
        if !self.transport.is_empty() {
            let more = self.transport[self.rng.random_range(0..self.transport.len())];
            // Both below 2^62, see `bounded`.
            job.finish = job.finish.map(|finish| Instant::from_ns(finish.ns() + more));
        }
        if let (Some(ns), Some(finish)) = (job.response_ns(), job.finish) {
            self.stats.add(ns);
            if server == 0 {
                self.ends.ended(job.task, ns, finish.ns());
            }
        }
        self.inner.job(server, &job)
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        self.inner.slice(server, job, from, to)
    }
    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        if server == 0 {
            self.ends.came(task, at);
        }
        self.inner.release(server, task, at)
    }
    fn shows_budgets(&self) -> bool {
        self.inner.shows_budgets()
    }
    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        self.inner.budget(server, at, left)
    }
    fn idle(&mut self, core: u32, from: u64, to: u64) -> Result<(), Error> {
        self.inner.idle(core, from, to)
    }
}
