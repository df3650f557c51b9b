//! Trials: is a service on its share as good as on a whole core? Three arms in short slices, taken in turns, on one
//! core, in one
//! cpuset, under one load (docs/decisions/0001, 0021). Slices are added until the verdict is clear or the time is over.

use crate::deployment::Deployment;
use crate::slices::{
    is_stolen, stolen, stolen_since, Arm, Cause, Made, Options, Talk, Trial, GENERATOR_PRIORITY, LATE_LIMIT,
    LOST_LIMIT, NO_PLAN_EVERY,
};
use crate::Error;
use giusto_measure::{Generator, LoadPlan};
use giusto_model::{About, Bandwidth, Duration, JobRecord, Lateness, Load, Plan, ServicePlan};
use std::time::Instant;

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

/// ... and its core stood still for at most this part of it, one in, as far as that can be told: to the millisecond. 2 ms of
/// 500 move the mean response by 5 us here.
const STOPPED_LIMIT: u64 = 250;
/// A slice holds at least so many periods of the server, and so many requests ...
const PERIODS: u64 = 10;
const REQUESTS: f64 = 300.0;
/// ... unless it would be longer than this.
const LONGEST: Duration = Duration::from_secs(5);
/// Requests before a slice that are not recorded: at least this long, and two periods of the server.
const WARM_UP: Duration = Duration::from_ms(100);
/// Runs the trial of every service that is promised as-if-alone or percentiles, one after another; percentiles are judged by
/// themselves, so that no slice on a whole core is needed.
pub fn trial(
    deployment: &mut Deployment,
    plan: &Plan,
    cores: &[u32],
    options: Options,
    talk: &mut Talk<ServicePlan, Slice>,
) -> Result<Vec<Trial<Slice>>, Error> {
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
    let alone = plan.services.iter().enumerate().filter(|(_, service)| service.promise.about() == About::Requests);
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

    fn run(&mut self, talk: &mut Talk<ServicePlan, Slice>) -> Result<Trial<Slice>, Error> {
        let (service, stop, Options { slice, at_most, seed: mut random }) = (self.service, talk.stop, self.options);
        let mut once = |arm, cycle| {
            let slice = self.once(arm, cycle, stop)?;
            Ok(Made { steal: slice.steal, lasted: slice.lasted, void: self.disturbed(&slice), slice })
        };
        let look = giusto_verify::MIN_CYCLES as u32;
        let mut all = |cycle| arms(service, cycle, &mut random);
        Trial::new(&service.name, slice).run(service, at_most, look, talk, &mut all, &mut once)
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
        let core = self.service.core;
        self.deployment.confine()?; // those that have come since
        let before = (Instant::now(), stolen(&cpus), self.deployment.used_by_others(core));
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
        let steal = stolen_since(&cpus, &before.1);
        let used = |(pid, now): (u32, u64)| now.saturating_sub(before.2.get(&pid).copied().unwrap_or(0));
        let others = self.deployment.used_by_others(core).into_iter().map(used).sum();
        let lasted = Duration::from_ns(before.0.elapsed().as_nanos() as u64);
        let others = Bandwidth::new(others, lasted.ns()).unwrap_or(Bandwidth::ZERO);
        let (late, lateness) = (Duration::from_ns(report.lateness_ns[1]), report.lateness());
        let waited = Duration::from_ns(report.waited_ns.unwrap_or(0));
        let windows = observed.windows();
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
        if is_stolen(slice.steal, self.options.slice, LOST_LIMIT) {
            return Some(Cause::Stolen(slice.steal));
        }
        let stopped = slice.stopped.unwrap_or_default();
        if stopped > Duration::from_ns(self.options.slice.ns() / STOPPED_LIMIT) {
            return Some(Cause::Stopped(stopped));
        }
        if slice.waited > Duration::from_ns(self.options.slice.ns() / LOST_LIMIT) {
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
