//! Trials: is a service on its share as good as on a whole core? Three arms in short slices, taken in turns, on one
//! core, in one
//! cpuset, under one load (docs/decisions/0001, 0021). Slices are added until the verdict is clear or the time is over.

use crate::deployment::Deployment;
use crate::Error;
use giusto_measure::{Generator, LoadPlan};
use giusto_model::{Bandwidth, Duration, JobRecord, Lateness, Load, Plan, Promise, ServicePlan};
use std::time::Instant;

/// How a service gets its processor time in one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Nothing else wants the core.
    Whole,
    /// The kernel's default beside the competitors.
    NoPlan,
    /// The plan's reservation beside the competitors.
    Giusto,
}

impl Arm {
    /// For file names and progress.
    pub fn name(self) -> &'static str {
        match self {
            Arm::Whole => "whole",
            Arm::NoPlan => "no-plan",
            Arm::Giusto => "giusto",
        }
    }
}

/// One slice of one arm.
#[derive(Debug)]
pub struct Slice {
    /// Which arm.
    pub arm: Arm,
    /// Which cycle, from 1.
    pub cycle: u32,
    /// Its jobs.
    pub jobs: Vec<JobRecord>,
    /// Time that the hypervisor took from the service's core and from the generator's, whichever lost more.
    pub steal: Duration,
    /// How late the generator sent, 99th percentile.
    pub late: Duration,
    /// How evenly it sent.
    pub lateness: Lateness,
    /// How long the generator, ready to send, waited for its processor.
    pub waited: Duration,
    /// Time that the service's core lost although it had work; `None`: that cannot be told.
    pub stopped: Option<Duration>,
    /// Part of the core that the others had in the meantime.
    pub others: Bandwidth,
    /// How long it took, with what is not recorded.
    pub lasted: Duration,
    /// The greatest mean processor time of a request in windows of several lengths, as an
    /// [`Observation`](giusto_model::Observation) has it; empty where there
    /// always was a request under way.
    pub windows: Vec<[u64; 2]>,
}

/// A slice that was removed, as it measured the machine and not the service.
#[derive(Clone, Debug)]
pub struct Removed {
    /// Which arm.
    pub arm: Arm,
    /// Which cycle, from 1.
    pub cycle: u32,
    /// Why.
    pub cause: Cause,
}

/// What the machine did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The hypervisor took this much of one core.
    Stolen(Duration),
    /// The service's core stood still for so long, which the hypervisor's clock does not show.
    Stopped(Duration),
    /// The load generator waited this long for its processor.
    Waited(Duration),
    /// The load generator was this late (99th percentile).
    Late(Duration),
    /// The load generator stalled.
    Stalled(Lateness),
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Stolen(time) => write!(f, "{time} stolen by the hypervisor"),
            Cause::Stopped(time) => write!(f, "its core stood still for {time}"),
            Cause::Waited(time) => write!(f, "the load generator waited {time} for its processor"),
            Cause::Late(time) => write!(f, "the load generator was {time} late (99th percentile)"),
            Cause::Stalled(lateness) => write!(f, "the load generator stalled: {lateness}"),
        }
    }
}

/// All slices of one service.
#[derive(Debug)]
pub struct Trial {
    /// The service.
    pub service: String,
    /// Slices that count, in the order in which they were made.
    pub slices: Vec<Slice>,
    /// Slices that were removed.
    pub removed: Vec<Removed>,
    /// Part of the measured time that the hypervisor took from one of the two cores, removed slices included.
    pub stolen: Bandwidth,
    /// Length of a slice.
    pub slice: Duration,
}

/// How long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Least length of a slice; longer where the server's period or the rate of requests asks for it.
    pub slice: Duration,
    /// Most time for one service.
    pub at_most: Duration,
    /// Seed of keys and values.
    pub seed: u64,
}

/// A slice counts only if at most this part of it was stolen or waited for, one in. What is stolen the kernel counts in
/// ticks: one
/// tick a core may be of long ago.
pub(crate) const LOST_LIMIT: u64 = 100;
/// ... and its core stood still for at most this part of it, one in, as far as that can be told: to the millisecond. 2 ms of
/// 500 move the mean response by 5 us here.
const STOPPED_LIMIT: u64 = 250;
/// ... and the generator was late by at most this in 99 % of the jobs, which also tells one that is always late.
pub(crate) const LATE_LIMIT: Duration = Duration::from_ms(1);
/// Tries for a slice that counts.
pub(crate) const TRIES: u32 = 4;
/// A slice holds at least so many periods of the server, and so many requests ...
const PERIODS: u64 = 10;
const REQUESTS: f64 = 300.0;
/// ... unless it would be longer than this.
const LONGEST: Duration = Duration::from_secs(5);
/// Requests before a slice that are not recorded: at least this long, and two periods of the server.
const WARM_UP: Duration = Duration::from_ms(100);
/// Without a plan is measured in one cycle of so many: that is for show, and takes long, as requests pile up.
pub(crate) const NO_PLAN_EVERY: u32 = 4;
/// The generator's real-time priority, on a core of its own.
pub(crate) const GENERATOR_PRIORITY: u8 = 50;

/// What the caller says of the slices so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The verdict is clear.
    Enough,
    /// It is not, and why.
    More(String),
}

/// What a trial of an `S` asks and tells its caller.
pub struct Talk<'a, S, T> {
    /// Whether it was told to stop; asked ten times a second.
    pub stop: &'a dyn Fn() -> bool,
    /// Progress.
    pub say: &'a mut dyn FnMut(String),
    /// Whether the slices so far are enough; asked a few times in all, so that looking again and again does not make chance a
    /// verdict.
    pub judge: &'a mut dyn FnMut(&S, &T) -> Next,
}

/// Runs the trial of every service that is promised as-if-alone or percentiles, one after another; percentiles are judged by
/// themselves, so that no slice on a whole core is needed.
pub fn trial(
    deployment: &mut Deployment,
    plan: &Plan,
    cores: &[u32],
    options: Options,
    talk: &mut Talk<ServicePlan, Trial>,
) -> Result<Vec<Trial>, Error> {
    let mut trials = Vec::new();
    for (index, service, load) in loads(plan)? {
        let mut bench = Bench::new(deployment, index, service, load, cores, options)?;
        trials.push(bench.run(talk)?);
    }
    Ok(trials)
}

/// The services whose response times are promised, with their place in the plan and the load that a trial drives them with.
/// Errors: nothing to try, a service without a load.
pub fn loads(plan: &Plan) -> Result<Vec<(usize, &ServicePlan, &Load)>, Error> {
    let tried = |promise: &Promise| matches!(promise, Promise::AsIfAlone | Promise::Percentiles { .. });
    let alone = plan.services.iter().enumerate().filter(|(_, service)| tried(&service.promise));
    if alone.clone().next().is_none() {
        return Err(Error::NothingToTry);
    }
    let load = |service: &'_ ServicePlan| Error::Service {
        name: service.name.clone(),
        what: "a trial needs to know how to drive it: add load: {redis: ADDRESS, fields: N, value: N}".into(),
    };
    alone.map(|(index, service)| Ok((index, service, service.load.as_ref().ok_or_else(|| load(service))?))).collect()
}

/// A core that the service does not use.
fn generator_core(cores: &[u32], service: u32) -> Result<u32, Error> {
    cores.iter().copied().find(|&core| core != service).ok_or_else(|| Error::Lacks {
        what: "a second core, for the load generator".into(),
        how: "give the machine two cores, or measure with 'giusto measure response' from elsewhere".into(),
    })
}

/// One service under test.
pub(crate) struct Bench<'s, 'a> {
    pub(crate) deployment: &'s mut Deployment<'a>,
    pub(crate) index: usize,
    pub(crate) service: &'s ServicePlan,
    pub(crate) load: &'s Load,
    pub(crate) generator: Generator,
    options: Options,
    /// Held for its effect.
    #[allow(dead_code)]
    awake: Option<giusto_measure::Awake>,
}

impl<'s, 'a> Bench<'s, 'a> {
    pub(crate) fn new(
        deployment: &'s mut Deployment<'a>,
        index: usize,
        service: &'s ServicePlan,
        load: &'s Load,
        cores: &[u32],
        options: Options,
    ) -> Result<Self, Error> {
        if let Some(adopted) = deployment.competitors(service.core).find(|running| !running.started()) {
            let what = "a trial stops the competitors for its whole-core runs, and this one was not started by giusto; try without it";
            return Err(Error::Service { name: adopted.name.clone(), what: what.into() });
        }
        let cpu = generator_core(cores, service.core)?;
        let generator = Generator { cpu: Some(cpu), fifo_priority: Some(GENERATOR_PRIORITY) };
        let options = Options { slice: slice_length(service, options.slice), ..options };
        Ok(Bench { deployment, index, service, load, generator, options, awake: giusto_measure::stay_awake().ok() })
    }

    fn run(&mut self, talk: &mut Talk<ServicePlan, Trial>) -> Result<Trial, Error> {
        let begin = Instant::now();
        let mut trial = Trial {
            service: self.service.name.clone(),
            slices: Vec::new(),
            removed: Vec::new(),
            stolen: Bandwidth::ZERO,
            slice: self.options.slice,
        };
        let (mut random, mut lost, mut measured) = (self.options.seed, 0, 0);
        let at_most = self.options.at_most.ns();
        let over = || begin.elapsed().as_nanos() >= u128::from(at_most);
        let mut look = giusto_verify::MIN_CYCLES as u32;
        for cycle in 1.. {
            for arm in arms(self.service, cycle, &mut random) {
                for _ in 0..TRIES {
                    let slice = self.once(arm, cycle, talk.stop)?;
                    (lost, measured) = (lost + slice.steal.ns(), measured + slice.lasted.ns());
                    let Some(cause) = self.disturbed(&slice) else {
                        trial.slices.push(slice);
                        break;
                    };
                    trial.removed.push(Removed { arm, cycle, cause });
                    if over() {
                        break;
                    }
                }
            }
            trial.stolen = Bandwidth::new(lost, measured.max(1)).unwrap_or(Bandwidth::ZERO);
            if over() {
                break;
            }
            if cycle < look {
                continue;
            }
            look = look + look.div_ceil(2);
            match (talk.judge)(self.service, &trial) {
                Next::Enough => break,
                Next::More(why) => (talk.say)(format!("{}: {cycle} cycles of slices: {why}; goes on", trial.service)),
            }
        }
        Ok(trial)
    }

    fn once(&mut self, arm: Arm, cycle: u32, stop: &dyn Fn() -> bool) -> Result<Slice, Error> {
        let cpus = [self.service.core, self.generator.cpu.unwrap_or(0)];
        let warm_up = WARM_UP.max(self.service.server.period.checked_mul(2).unwrap_or(WARM_UP)).min(LONGEST);
        let plan = LoadPlan {
            load: self.load,
            tasks: &self.service.tasks,
            arrivals: self.service.promise.arrivals(),
            trace: &[],
            warm_up,
            run: self.options.slice,
            seed: self.options.seed.wrapping_add(u64::from(cycle)),
            generator: self.generator.clone(),
        };
        let stolen = || -> Vec<u64> {
            giusto_measure::steal(&cpus).map(|all| all.iter().map(|one| one.steal_ns).collect()).unwrap_or_default()
        };
        let core = self.service.core;
        self.deployment.confine()?; // those that have come since
        let before = (Instant::now(), stolen(), self.deployment.used_by_others(core));
        let pids = self.deployment.processes(self.index);
        let drive = || {
            let holes = giusto_measure::Holes::watch(core).ok();
            let (report, observed) = giusto_measure::drive_observed(&plan, &pids, &mut |_| !stop())?;
            Ok((report, observed, holes.and_then(|holes| holes.lost())))
        };
        let (report, observed, stopped) = match arm {
            Arm::Whole => self.on_whole_core(drive)?,
            Arm::NoPlan => drive()?,
            Arm::Giusto => {
                self.deployment.reserve(self.index)?;
                let driven = drive();
                self.deployment.release(self.index)?;
                driven?
            }
        };
        if stop() {
            return Err(Error::Interrupted);
        }
        self.deployment.check()?;
        if report.errors > 0 {
            let what = format!(
                "answered {} requests with an error: {}",
                report.errors,
                report.first_error.unwrap_or_default()
            );
            return Err(Error::Service { name: self.service.name.clone(), what });
        }
        let steal = stolen().iter().zip(&before.1).map(|(now, then)| now.saturating_sub(*then)).max().unwrap_or(0);
        let used = |(pid, now): (u32, u64)| now.saturating_sub(before.2.get(&pid).copied().unwrap_or(0));
        let others = self.deployment.used_by_others(core).into_iter().map(used).sum();
        let lasted = Duration::from_ns(before.0.elapsed().as_nanos() as u64);
        let others = Bandwidth::new(others, lasted.ns()).unwrap_or(Bandwidth::ZERO);
        let (late, lateness) = (Duration::from_ns(report.lateness_ns[1]), report.lateness());
        let waited = Duration::from_ns(report.waited_ns.unwrap_or(0));
        let (steal, windows) = (Duration::from_ns(steal), observed.windows());
        Ok(Slice { arm, cycle, jobs: report.jobs, steal, late, lateness, waited, stopped, others, lasted, windows })
    }

    /// Runs `work` while the service is alone on its core: competitors stopped, the core kept awake.
    pub(crate) fn on_whole_core<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let core = self.service.core;
        let spinner = self.deployment.keep_awake(core)?;
        self.deployment.competitors(core).for_each(crate::Running::stop);
        let threads = self.deployment.unlimited(self.index)?;
        let done = work();
        let left = self.deployment.leave(&threads);
        drop(spinner); // before the competitors return: at SCHED_IDLE it would wait long for its turn
        self.deployment.competitors(core).for_each(crate::Running::go_on);
        left.and(done)
    }

    fn disturbed(&self, slice: &Slice) -> Option<Cause> {
        let limit = Duration::from_ns(self.options.slice.ns() / LOST_LIMIT);
        if slice.steal > limit.max(giusto_measure::steal_clock()) {
            return Some(Cause::Stolen(slice.steal));
        }
        let stopped = slice.stopped.unwrap_or_default();
        if stopped > Duration::from_ns(self.options.slice.ns() / STOPPED_LIMIT) {
            return Some(Cause::Stopped(stopped));
        }
        if slice.waited > limit {
            return Some(Cause::Waited(slice.waited));
        }
        if slice.late > LATE_LIMIT {
            return Some(Cause::Late(slice.late));
        }
        slice.lateness.is_stall().then_some(Cause::Stalled(slice.lateness))
    }
}

/// The arms of a cycle in random order, so that none always follows the same other.
fn arms(service: &ServicePlan, cycle: u32, random: &mut u64) -> Vec<Arm> {
    let mut arms = match service.promise.arrivals() {
        None => vec![Arm::Whole, Arm::Giusto, Arm::Whole],
        Some(_) => vec![Arm::Giusto],
    };
    if cycle % NO_PLAN_EVERY == 1 {
        arms.push(Arm::NoPlan);
    }
    shuffle(&mut arms, random);
    arms
}

/// At least `least`; enough periods of the server and requests, but at most [`LONGEST`].
fn slice_length(service: &ServicePlan, least: Duration) -> Duration {
    let periods = service.server.period.checked_mul(PERIODS).unwrap_or(LONGEST);
    let of_task = |task: &giusto_model::Task| f64::from(task.copies) / task.period.ns().max(1) as f64;
    let rate = match service.promise.arrivals() {
        Some(arrivals) => arrivals.rate.per_ns(),
        None => service.tasks.iter().map(of_task).sum(),
    };
    let requests = if rate > 0.0 { (REQUESTS / rate).min(LONGEST.ns() as f64) as u64 } else { 0 };
    least.max(periods.max(Duration::from_ns(requests)).min(LONGEST))
}

/// Fisher and Yates, by a linear congruential generator.
fn shuffle(arms: &mut [Arm], random: &mut u64) {
    for last in (1..arms.len()).rev() {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        arms.swap(last, (*random >> 33) as usize % (last + 1));
    }
}
