//! A path of a plan: messages go from stage to stage, each on its share of its core, and through the topics between.

use crate::engine::simulate_with;
use crate::guest::exponential;
use crate::partitioned::Partitioned;
use crate::passage::{Passage, Waypoint};
use crate::stats::Stats;
use crate::system::{Error, Execution, Guest, Hop, Messages, ServerSpec, Sporadic, System, To, Workload};
use crate::trace::Observer;
use giusto_model::{
    Certificate, Duration, Instant, JobRecord, PathPlan, PathSource, PathStage, Plan, Promise, ServicePlan, Task,
};
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
/// services of these cores take what they can get, and cores order their servers by the ends of their periods. Others take
/// tokens of a topic at random, and its broker takes times with the percentiles that were measured. The observer
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
    let services = path.through.iter().filter_map(PathStage::service);
    let stages: Option<Vec<Stage>> = services.map(|service| Stage::of(service, &servers)).collect();
    let stages = stages.ok_or(none.clone())?;
    let gaps = gaps(path);
    let mut specs: Vec<ServerSpec> = servers.iter().map(|one| spec(one)).collect();
    for stage in &stages {
        specs[stage.server] = stage.spec(&servers);
    }
    let to = |stage: &Stage| To { server: stage.server, task: 0 };
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return Err(none) };
    let arrivals = arrivals(path.source, horizon, &mut ChaCha8Rng::seed_from_u64(seed));
    let hops = stages.windows(2).zip(&gaps[1..]).map(|(pair, gap)| {
        let takes = Duration::from_ns(pair[0].late.ns().saturating_add(gap.links));
        Hop { from: to(&pair[0]), to: to(&pair[1]), takes, by: gap.by.clone() }
    });
    let passage = |nth: usize| Passage::new(&gaps[nth].by, seed, BEFORE_AND_AFTER - nth as u64);
    let (mut before, after) = (passage(0), passage(stages.len()));
    let mut passed: Vec<Stats> = path.through.iter().map(|_| Stats::new()).collect();
    let mut enter = |at: &Instant| {
        let at = before.pass(at.ns(), &mut |nth, took| passed[gaps[0].stages[nth]].add(took));
        (Instant::from_ns(at.saturating_add(gaps[0].links)), to(first))
    };
    let messages = Messages { arrivals: arrivals.iter().map(&mut enter).collect(), hops: hops.collect() };
    let mut apart = Partitioned::new(cores.iter().map(|_| Pool::with_cores(Order::Edf, 1)));
    for (one, spec) in servers.iter().zip(&specs) {
        let core = cores.iter().position(|core| *core == (one.on.as_str(), one.core)).unwrap_or(0);
        let params = Params { budget: spec.budget.ns(), period: spec.period.ns(), first: 0, priority: 0 };
        apart.add(core as u32, |pool| pool.add(spec.kind, params, 0))?;
    }
    let system = System { cores: cores.len() as u32, messages, ..System::new(Order::Edf, specs) };
    let ends = vec![None; arrivals.len()];
    let last = (last.server, last.late.ns().saturating_add(gaps[stages.len()].links));
    let mut watched = Watched { last, ends, horizon: horizon.ns(), gaps: &gaps, after, passed, inner: observer };
    let longest = path.points.iter().map(|point| point.at).chain(path.every.as_ref().map(|every| every.at)).max();
    let end = longest.and_then(|longest| longest.checked_mul(2)?.checked_add(horizon)).ok_or(Error::Horizon)?;
    let all = simulate_with(&mut apart, &system, end, seed, &mut watched)?;
    let (ends, passed) = (watched.ends, watched.passed);
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
    let mut served = stages.iter().map(|stage| &all[stage.server]);
    let stage = |(stage, passed): (&PathStage, Stats)| match stage.service().and_then(|_| served.next()) {
        Some(served) => served.clone(),
        None => passed,
    };
    let stages = path.through.iter().zip(passed).map(stage).collect();
    Ok(PlayedPath { messages, whole, stages })
}

/// Streams of random numbers of what is before the first service and after the last.
const BEFORE_AND_AFTER: u64 = u64::MAX / 2;

/// What is before a service, or after the last: links, and stages that are none.
#[derive(Default)]
struct Gap {
    links: u64,
    by: Vec<Waypoint>,
    /// Which stages of the path these are.
    stages: Vec<usize>,
}

fn gaps(path: &PathPlan) -> Vec<Gap> {
    let mut gaps = vec![Gap::default()];
    for (nth, stage) in path.through.iter().enumerate() {
        let Some(gap) = gaps.last_mut() else { continue };
        gap.links = gap.links.saturating_add(stage.link().unwrap_or(Duration::ZERO).ns());
        let waypoint = match stage {
            PathStage::Service(_) => {
                gaps.push(Gap::default());
                continue;
            }
            PathStage::Tokens(stage) => Waypoint::Tokens(stage.bucket, stage.others),
            PathStage::Broker(stage) => Waypoint::Drawn(stage.times()),
        };
        gap.by.push(waypoint);
        gap.stages.push(nth);
    }
    gaps
}

/// All services of the cores that the stages of `path` are on, by core.
pub fn on_its_cores<'a>(plan: &'a Plan, path: &PathPlan) -> Vec<&'a ServicePlan> {
    let is_stage = |one: &ServicePlan| path.through.iter().any(|stage| stage.service() == Some(&one.name));
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

/// Keeps when messages end after the last service, which serves them in the order in which they came to the first, and what they
/// took at stages that are no services. Of what comes after the horizon it tells ends only.
struct Watched<'a> {
    /// The last service, and what is added to each message after it,
    last: (usize, u64),
    /// before these.
    after: Passage,
    ends: Vec<Option<Instant>>,
    horizon: u64,
    gaps: &'a [Gap],
    passed: Vec<Stats>,
    inner: &'a mut dyn Observer,
}

impl Observer for Watched<'_> {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        let (last, more) = self.last;
        if let Some(finish) = job.finish.filter(|_| server == last) {
            let stages = self.gaps.last().map_or(&[][..], |gap| &gap.stages);
            let passed = &mut self.passed;
            let end = self.after.pass(finish.ns().saturating_add(more), &mut |nth, took| passed[stages[nth]].add(took));
            if let Some(own) = self.ends.get_mut(job.job as usize) {
                *own = Some(Instant::from_ns(end));
            }
        }
        self.inner.job(server, job)
    }
    fn passed(&mut self, hop: usize, waypoint: usize, took: u64) {
        // Hop n is before service n + 1.
        self.passed[self.gaps[hop + 1].stages[waypoint]].add(took);
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
