//! A path of a plan: messages go from stage to stage, each on its share of its core, and through the topics between.

use crate::engine::simulate_with;
use crate::guest::exponential;
use crate::partitioned::Partitioned;
use crate::route::{PathStop, Route, Stage};
use crate::shared::shared;
use crate::stats::Stats;
use crate::system::{Error, Execution, Guest, Messages, ServerSpec, Sporadic, System, Workload};
use crate::trace::Observer;
use giusto_model::{
    together, Certificate, Duration, Instant, JobRecord, PathPlan, PathSource, Plan, Promise, ServicePlan, Task,
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
/// services of these cores take what they can get, and cores order their servers by the ends of their periods. Paths that share
/// services with it have their messages, too. Others take tokens of a topic at random, and its broker takes times with the
/// percentiles that were measured. The observer sees the servers in the order of [`on_its_cores`]; messages of the path are of
/// task 0.
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
    play_path_that_fails(plan, path, horizon, (seed, &[]), observer)
}

/// As [`play_path`], where stages stand still for a while. Errors: as there.
pub fn play_path_that_fails(
    plan: &Plan,
    path: &PathPlan,
    horizon: Duration,
    (seed, stops): (u64, &[PathStop]),
    observer: &mut dyn Observer,
) -> Result<PlayedPath, Error> {
    let none = Error::NoJob { within: horizon };
    let servers = on_its_cores(plan, path);
    let mut cores: Vec<(&str, u32)> = servers.iter().map(|one| (one.on.as_str(), one.core)).collect();
    cores.dedup();
    let paths = with_it(plan, path);
    let mut services: Vec<&str> = Vec::new();
    for service in paths.iter().flat_map(|path| path.services()) {
        if !services.contains(&service) {
            services.push(service);
        }
    }
    let stages: Option<Vec<Stage>> = services.iter().map(|service| Stage::of(service, &servers)).collect();
    let stages = stages.ok_or(none.clone())?;
    let mut specs: Vec<ServerSpec> = servers.iter().map(|one| spec(one)).collect();
    let route = match &paths[..] {
        [path] => Route::new(&path.through, &stages, specs.len()),
        paths => shared(paths, &services, &stages, specs.len()),
    };
    let route = route.ok_or(none.clone())?;
    for (stage, tasks) in stages.iter().zip(&route.tasks) {
        specs[stage.server] = stage.spec(&servers, *tasks);
    }
    let arrivals = arrivals(path.source, horizon, (seed, 0));
    let Route { firsts, others, hops, between, last, .. } = &route;
    let own = arrivals.iter().flat_map(|at| firsts.iter().map(|first| (*at, *first)));
    let beside = (1..).zip(&paths[1..]).zip(others).flat_map(|((nth, path), firsts)| {
        let arrivals = self::arrivals(path.source, horizon, (seed, nth));
        arrivals.into_iter().flat_map(|at| firsts.iter().map(move |first| (at, *first)))
    });
    let stops = route.stopped(stops);
    let (hops, between) = (hops.clone(), between.clone());
    let messages = Messages { arrivals: own.chain(beside).collect(), hops, between, stops };
    let mut apart = Partitioned::new(cores.iter().map(|_| Pool::with_cores(Order::Edf, 1)));
    for (one, spec) in servers.iter().zip(&specs) {
        let core = cores.iter().position(|core| *core == (one.on.as_str(), one.core)).unwrap_or(0);
        let params = Params { budget: spec.budget.ns(), period: spec.period.ns(), first: 0, priority: 0 };
        apart.add(core as u32, |pool| pool.add(spec.kind, params, 0))?;
    }
    let system = System { cores: cores.len() as u32, messages, ..System::new(Order::Edf, specs) };
    let ends = Ends::of(&stages, *last, arrivals.len());
    let passed = path.through.iter().map(|_| Stats::new()).collect();
    // Those of the path come first.
    let mut own = stages.iter().map(|stage| stage.server);
    let served: Vec<Option<usize>> =
        path.through.iter().map(|stage| stage.service().and_then(|_| own.next())).collect();
    let (places, served, horizon) = (&route.places[..], &served[..], horizon.ns());
    let mut watched = Watched { ends, horizon, places, served, passed, inner: observer };
    let longest = path.points.iter().map(|point| point.at).chain(path.every.as_ref().map(|every| every.at)).max();
    let longest = longest.and_then(|longest| longest.checked_add(path.later()));
    let horizon = Duration::from_ns(horizon);
    let end = longest.and_then(|longest| longest.checked_mul(2)?.checked_add(horizon)).ok_or(Error::Horizon)?;
    simulate_with(&mut apart, &system, end, seed, &mut watched)?;
    let (ends, stages) = (watched.ends.at, watched.passed);
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
    Ok(PlayedPath { messages, whole, stages })
}

/// The path, and those that share services with it, directly or by others.
fn with_it<'a>(plan: &'a Plan, path: &'a PathPlan) -> Vec<&'a PathPlan> {
    let together = together(plan.paths.iter().map(PathPlan::services));
    let own = plan.paths.iter().position(|one| one.name == path.name);
    let others = plan
        .paths
        .iter()
        .zip(&together)
        .filter(|(one, first)| one.name != path.name && own.is_some_and(|own| together[own] == **first));
    std::iter::once(path).chain(others.map(|(other, _)| other)).collect()
}

/// All services of the cores that the stages of `path` are on, and of paths that share services with it, by core.
pub fn on_its_cores<'a>(plan: &'a Plan, path: &PathPlan) -> Vec<&'a ServicePlan> {
    let paths = with_it(plan, path);
    let is_stage = |one: &ServicePlan| paths.iter().any(|path| path.services().any(|stage| stage == one.name));
    let cores: Vec<(&str, u32)> =
        plan.services.iter().filter(|one| is_stage(one)).map(|one| (one.on.as_str(), one.core)).collect();
    let mut servers: Vec<&ServicePlan> =
        plan.services.iter().filter(|one| cores.contains(&(one.on.as_str(), one.core))).collect();
    servers.sort_by_key(|one| (one.on.as_str(), one.core));
    servers
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

    /// Messages are of task 0, those that others sent to a topic of [`OTHERS`](crate::OTHERS), and of other paths of their own.
    fn spec(&self, servers: &[&ServicePlan], tasks: u32) -> ServerSpec {
        let planned = servers[self.server];
        let task = |name: &str| Task::sporadic(name, Duration::from_ns(1), planned.server.period);
        let mut all = vec![task(&planned.name)];
        all.extend((1..tasks).map(|_| task("others")));
        let tasks = all;
        let (execution, sporadic) = (self.execution.clone(), Sporadic::Messages);
        let workload = Some(Workload { tasks, guest: Guest::Fifo, execution, sporadic });
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

/// When messages of the `nth` path come, in order.
fn arrivals(source: PathSource, horizon: Duration, (seed, nth): (u64, u64)) -> Vec<Instant> {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    // The stream of what jobs take is another one.
    rng.set_stream(u64::MAX - nth);
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

/// Keeps when messages of the path end at the last station, which serves them in the order in which they came to the first, and
/// what all messages took at each stage. Of what comes after the horizon it tells ends only.
struct Watched<'a> {
    ends: Ends,
    horizon: u64,
    places: &'a [Vec<usize>],
    /// Of each stage its server, if it is a service.
    served: &'a [Option<usize>],
    passed: Vec<Stats>,
    inner: &'a mut dyn Observer,
}

/// When messages end at the last station.
pub(crate) struct Ends {
    last: usize,
    /// Added to each message there.
    late: u64,
    pub(crate) at: Vec<Option<Instant>>,
    ended: usize,
}

impl Ends {
    /// Of so many messages.
    pub(crate) fn of(stages: &[Stage], last: usize, messages: usize) -> Ends {
        let late = stages.iter().find(|stage| stage.server == last).map_or(0, |stage| stage.late.ns());
        Ends { last, late, at: vec![None; messages], ended: 0 }
    }

    /// Of a job of the path.
    pub(crate) fn job(&mut self, server: usize, finish: Instant) {
        if server == self.last {
            self.next(finish.ns());
        }
    }

    pub(crate) fn next(&mut self, at: u64) {
        if let Some(end) = self.at.get_mut(self.ended) {
            *end = Some(Instant::from_ns(at.saturating_add(self.late)));
        }
        self.ended += 1;
    }
}

impl Observer for Watched<'_> {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if let (Some(finish), Some(response), 0) = (job.finish, job.response_ns(), job.task) {
            if let Some(nth) = self.served.iter().position(|one| *one == Some(server)) {
                self.passed[nth].add(response);
            }
            self.ends.job(server, finish);
        }
        self.inner.job(server, job)
    }
    fn passed(&mut self, between: usize, task: u32, waypoint: usize, took: u64) {
        if task == 0 {
            self.passed[self.places[between][waypoint]].add(took);
        }
    }
    fn left(&mut self, _: usize, task: u32, at: u64) {
        if task == 0 {
            self.ends.next(at);
        }
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
