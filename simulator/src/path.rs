//! A path of a plan: messages go from stage to stage, each on its share of its core.

use crate::engine::simulate_with;
use crate::guest::exponential;
use crate::partitioned::Partitioned;
use crate::stats::Stats;
use crate::system::{Error, Execution, Guest, Messages, ServerSpec, Sporadic, System, To, Workload};
use crate::trace::Observer;
use giusto_model::{Certificate, Duration, Instant, JobRecord, PathPlan, PathSource, Plan, Promise, ServicePlan, Task};
use giusto_policy::{Order, Params, Pool};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What messages of a path took.
#[derive(Clone, Debug)]
pub struct PlayedPath {
    /// From the first arrival to the last end, in the order of the arrivals. Not finished: it takes more than twice as long as is
    /// proven of the highest percentile.
    pub messages: Vec<JobRecord>,
    /// Of those that ended.
    pub whole: Stats,
    /// Of each stage, in order, from a message's arrival there to its end.
    pub stages: Vec<Stats>,
}

/// Plays `path` of `plan` with all cores of its stages; messages come until the horizon, and end after it. Every stage serves
/// first come, first served, on what is counted on of its budget; what may come late there is added to each message. All other
/// services of these cores take what they can get, and cores order their servers by the ends of their periods. The observer
/// sees the servers in the order of [`on_its_cores`].
///
/// The same seed gives the same run. Errors: as [`simulate`](crate::simulate); [`Error::NoJob`] if no message ended, or the path
/// is not of this plan.
pub fn play_path(
    plan: &Plan,
    path: &PathPlan,
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<PlayedPath, Error> {
    let none = Error::NoJob { within: horizon };
    let servers = on_its_cores(plan, path);
    let mut cores: Vec<(&str, u32)> = servers.iter().map(|one| (one.on.as_str(), one.core)).collect();
    cores.dedup();
    let stages: Option<Vec<Stage>> = path.through.iter().map(|stage| Stage::of(&stage.service, &servers)).collect();
    let stages = stages.ok_or(none.clone())?;
    let mut specs: Vec<ServerSpec> = servers.iter().map(|one| spec(one)).collect();
    for stage in &stages {
        specs[stage.server] = stage.spec(&servers);
    }
    let to = |stage: &Stage| To { server: stage.server, task: 0 };
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return Err(none) };
    let arrivals = arrivals(path.source, horizon, &mut ChaCha8Rng::seed_from_u64(seed));
    let link = |nth: usize| path.through[nth].link.unwrap_or(Duration::ZERO).ns();
    let hops = stages.windows(2).zip(1..).map(|(pair, nth)| {
        (to(&pair[0]), to(&pair[1]), Duration::from_ns(pair[0].late.ns().saturating_add(link(nth))))
    });
    let messages = Messages { arrivals: arrivals.iter().map(|at| (*at, to(first))).collect(), hops: hops.collect() };
    let mut apart = Partitioned::new(cores.iter().map(|_| Pool::with_cores(Order::Edf, 1)));
    for (one, spec) in servers.iter().zip(&specs) {
        let core = cores.iter().position(|core| *core == (one.on.as_str(), one.core)).unwrap_or(0);
        let params = Params { budget: spec.budget.ns(), period: spec.period.ns(), first: 0, priority: 0 };
        apart.add(core as u32, |pool| pool.add(spec.kind, params, 0))?;
    }
    let system = System { cores: cores.len() as u32, messages, ..System::new(Order::Edf, specs) };
    let ends = vec![None; arrivals.len()];
    let mut watched = Watched { last: (last.server, last.late), ends, horizon: horizon.ns(), inner: observer };
    let longest = path.points.iter().map(|point| point.at).chain(path.every.as_ref().map(|every| every.at)).max();
    let after = longest.and_then(|longest| longest.checked_mul(2)?.checked_add(horizon)).ok_or(Error::Horizon)?;
    let all = simulate_with(&mut apart, &system, after, seed, &mut watched)?;
    let ends = watched.ends;
    if ends.iter().all(Option::is_none) {
        return Err(none);
    }
    let message = |((job, at), finish): ((u64, &Instant), Option<Instant>)| JobRecord {
        task: 0,
        job,
        due: *at,
        release: *at,
        finish,
    };
    let messages: Vec<JobRecord> = (0..).zip(&arrivals).zip(ends).map(message).collect();
    let mut whole = Stats::new();
    messages.iter().filter_map(JobRecord::response_ns).for_each(|response| whole.add(response));
    Ok(PlayedPath { messages, whole, stages: stages.iter().map(|stage| all[stage.server].clone()).collect() })
}

/// All services of the cores that the stages of `path` are on, by core.
pub fn on_its_cores<'a>(plan: &'a Plan, path: &PathPlan) -> Vec<&'a ServicePlan> {
    let is_stage = |one: &ServicePlan| path.through.iter().any(|stage| stage.service == one.name);
    let cores: Vec<(&str, u32)> =
        plan.services.iter().filter(|one| is_stage(one)).map(|one| (one.on.as_str(), one.core)).collect();
    let mut servers: Vec<&ServicePlan> =
        plan.services.iter().filter(|one| cores.contains(&(one.on.as_str(), one.core))).collect();
    servers.sort_by_key(|one| (one.on.as_str(), one.core));
    servers
}

struct Stage {
    /// Which of the servers.
    server: usize,
    /// Added to each message.
    late: Duration,
    budget: Duration,
    execution: Execution,
}

impl Stage {
    fn of(service: &str, servers: &[&ServicePlan]) -> Option<Stage> {
        let server = servers.iter().position(|one| one.name == service)?;
        match (&servers[server].promise, &servers[server].certificate) {
            (Promise::Stage { service, .. }, Certificate::Stage { budget, latency }) => {
                let execution = Execution::Samples(service.samples().into());
                Some(Stage { server, late: *latency, budget: *budget, execution })
            }
            _ => None,
        }
    }

    fn spec(&self, servers: &[&ServicePlan]) -> ServerSpec {
        let planned = servers[self.server];
        let task = Task::sporadic(&planned.name, Duration::from_ns(1), planned.server.period);
        let (execution, sporadic) = (self.execution.clone(), Sporadic::Messages);
        let workload = Some(Workload { tasks: vec![task], guest: Guest::Fifo, execution, sporadic });
        ServerSpec { budget: self.budget, workload, ..spec(planned) }
    }
}

/// One that takes all it can get.
fn spec(planned: &ServicePlan) -> ServerSpec {
    ServerSpec {
        kind: planned.server.kind,
        budget: planned.server.budget,
        period: planned.server.period,
        first: Duration::ZERO,
        priority: 0,
        vcpus: 1,
        workload: None,
    }
}

/// When messages come, in order.
fn arrivals(source: PathSource, horizon: Duration, rng: &mut ChaCha8Rng) -> Vec<Instant> {
    // The stream of what jobs take is another one.
    rng.set_stream(u64::MAX);
    let mut all = Vec::new();
    match source {
        PathSource::Poisson(rate) => {
            let mean = (1.0 / rate.per_ns()).round().max(1.0) as u64;
            let mut at = exponential(mean, rng);
            while at < horizon.ns() {
                all.push(at);
                at = at.saturating_add(exponential(mean, rng).max(1));
            }
        }
        PathSource::Periodic { period, jitter, burst } => {
            // The grid of the servers and that of the source have no place in common.
            let mut due = rng.random_range(0..period.ns());
            while due < horizon.ns() {
                (0..burst).for_each(|_| all.push(due.saturating_add(rng.random_range(0..=jitter.ns()))));
                due = due.saturating_add(period.ns());
            }
            all.sort_unstable();
            all.truncate(all.partition_point(|at| *at < horizon.ns()));
        }
    }
    all.into_iter().map(Instant::from_ns).collect()
}

/// Keeps when messages end at the last stage, which serves them in the order in which they came to the first. Of what comes after
/// the horizon it tells ends only.
struct Watched<'a> {
    last: (usize, Duration),
    ends: Vec<Option<Instant>>,
    horizon: u64,
    inner: &'a mut dyn Observer,
}

impl Observer for Watched<'_> {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        let (last, late) = self.last;
        if server == last {
            if let Some(end) = self.ends.get_mut(job.job as usize) {
                *end = job.finish.and_then(|finish| finish.checked_add(late));
            }
        }
        self.inner.job(server, job)
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        match from < self.horizon {
            true => self.inner.slice(server, job, from, to.min(self.horizon)),
            false => Ok(()),
        }
    }
    fn release(&mut self, server: usize, task: u32, at: u64) -> Result<(), Error> {
        if at < self.horizon {
            self.inner.release(server, task, at)
        } else {
            Ok(())
        }
    }
    fn shows_budgets(&self) -> bool {
        self.inner.shows_budgets()
    }
    fn budget(&mut self, server: usize, at: u64, left: i64) -> Result<(), Error> {
        if at < self.horizon {
            self.inner.budget(server, at, left)
        } else {
            Ok(())
        }
    }
}
