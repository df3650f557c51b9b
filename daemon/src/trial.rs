//! Trials: is a service on its share as good as on a whole core? Three arms in turns, on one core, in one cpuset, under one
//! load (docs/decisions/0001).

use crate::scene::Scene;
use crate::Error;
use giusto_measure::{Generator, LoadPlan, Profile};
use giusto_model::{Bandwidth, Duration, JobRecord, Lateness, Load, Plan, Promise, ServicePlan};

/// How a service gets its processor time in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Nobody else wants the core.
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

/// One run of one arm.
#[derive(Debug)]
pub struct Run {
    /// Which arm.
    pub arm: Arm,
    /// Which round, from 1.
    pub round: u32,
    /// Its jobs.
    pub jobs: Vec<JobRecord>,
    /// Time that the hypervisor took from the two cores involved.
    pub steal: Duration,
    /// How late the generator sent, 99th percentile.
    pub late: Duration,
    /// How evenly it sent.
    pub lateness: Lateness,
    /// How long the generator, ready to send, waited for its processor.
    pub waited: Duration,
    /// Part of the core that the others had in the meantime.
    pub others: Bandwidth,
}

/// All runs of one service.
#[derive(Debug)]
pub struct Trial {
    /// The service.
    pub service: String,
    /// Single requests on the whole core, taken before the rounds.
    pub profile: Profile,
    /// Runs that count, in the order in which they were made.
    pub runs: Vec<Run>,
    /// Runs that were thrown away because too much was stolen, or the generator was late, and why.
    pub voided: Vec<String>,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rounds, each with one run of every arm, of the whole core two.
    pub rounds: u32,
    /// Length of one run.
    pub length: Duration,
    /// Seed of keys and values.
    pub seed: u64,
    /// Requests of the profile.
    pub profile: u32,
}

/// A run counts only if at most this part of it was stolen or waited for, one in; the kernel counts what is stolen in 10 ms.
const STEAL_LIMIT: u64 = 1000;
/// ... and the generator was late by at most this in 99 % of the jobs, which also tells one that is always late.
const LATE_LIMIT: Duration = Duration::from_ms(1);
/// Tries for a run that counts.
const TRIES: u32 = 4;
/// Requests before a run that are not recorded.
const WARM_UP: Duration = Duration::from_ms(300);
/// The generator's real-time priority, on a core of its own.
const GENERATOR_PRIORITY: u8 = 50;

/// Runs the trial of every service that is promised as-if-alone or percentiles, one after another; percentiles are judged by
/// themselves, so that no run on a whole core is needed. `stop` is asked ten times a second.
pub fn trial(
    scene: &mut Scene,
    plan: &Plan,
    cores: &[u32],
    options: Options,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Trial>, Error> {
    let mut trials = Vec::new();
    for (index, service, load) in loads(plan)? {
        if let Some(adopted) = scene.competitors(service.core).find(|running| !running.started()) {
            let what = "a trial stops the competitors for its whole-core runs, and this one was not started by giusto; try without it";
            return Err(Error::Service { name: adopted.name.clone(), what: what.into() });
        }
        let cpu = generator_core(cores, service.core)?;
        let generator = Generator { cpu: Some(cpu), fifo_priority: Some(GENERATOR_PRIORITY) };
        let mut one =
            Bench { scene, index, service, load, generator, options, awake: giusto_measure::stay_awake().ok() };
        trials.push(one.run(stop, say)?);
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
struct Bench<'s, 'a> {
    scene: &'s mut Scene<'a>,
    index: usize,
    service: &'s ServicePlan,
    load: &'s Load,
    generator: Generator,
    options: Options,
    /// Held for its effect.
    #[allow(dead_code)]
    awake: Option<giusto_measure::Awake>,
}

impl Bench<'_, '_> {
    fn run(&mut self, stop: &dyn Fn() -> bool, say: &mut dyn FnMut(String)) -> Result<Trial, Error> {
        say(format!("{}: profiling {} single requests on a whole core", self.service.name, self.options.profile));
        let profile = self.profile()?;
        let mut trial = Trial { service: self.service.name.clone(), profile, runs: Vec::new(), voided: Vec::new() };
        let mut random = self.options.seed;
        for round in 1..=self.options.rounds {
            let mut arms = match self.service.promise.arrivals() {
                None => vec![Arm::Whole, Arm::NoPlan, Arm::Giusto, Arm::Whole],
                Some(_) => vec![Arm::NoPlan, Arm::Giusto],
            };
            shuffle(&mut arms, &mut random); // no arm always follows the same other
            for arm in arms {
                for attempt in 1..=TRIES {
                    say(format!("{}: round {round} of {}, {}", self.service.name, self.options.rounds, arm.name()));
                    let run = self.once(arm, round, stop)?;
                    let Some(why) = self.void(&run) else {
                        trial.runs.push(run);
                        break;
                    };
                    trial.voided.push(format!("round {round}, {}, attempt {attempt}: {why}", arm.name()));
                }
            }
        }
        Ok(trial)
    }

    fn profile(&mut self) -> Result<Profile, Error> {
        let pid = self.scene.processes(self.index).first().copied().unwrap_or(0);
        let (load, options, generator) = (self.load, self.options, self.generator.clone());
        self.on_whole_core(|| Ok(giusto_measure::profile(load, pid, options.profile, options.seed, &generator)?))
    }

    fn once(&mut self, arm: Arm, round: u32, stop: &dyn Fn() -> bool) -> Result<Run, Error> {
        let cpus = [self.service.core, self.generator.cpu.unwrap_or(0)];
        let plan = LoadPlan {
            load: self.load,
            tasks: &self.service.tasks,
            arrivals: self.service.promise.arrivals(),
            trace: &[],
            warm_up: WARM_UP,
            run: self.options.length,
            seed: self.options.seed.wrapping_add(u64::from(round)),
            generator: self.generator.clone(),
        };
        let stolen =
            || giusto_measure::steal(&cpus).map(|all| all.iter().map(|one| one.steal_ns).sum::<u64>()).unwrap_or(0);
        let core = self.service.core;
        let before = (std::time::Instant::now(), stolen(), self.scene.used_by_others(core));
        let drive = || Ok(giusto_measure::drive(&plan, &mut |_| !stop())?);
        let report = match arm {
            Arm::Whole => self.on_whole_core(drive)?,
            Arm::NoPlan => drive()?,
            Arm::Giusto => {
                self.scene.reserve(self.index)?;
                let report = drive();
                self.scene.release(self.index)?;
                report?
            }
        };
        if stop() {
            return Err(Error::Interrupted);
        }
        self.scene.check()?;
        if report.errors > 0 {
            let what = format!(
                "answered {} requests with an error: {}",
                report.errors,
                report.first_error.unwrap_or_default()
            );
            return Err(Error::Service { name: self.service.name.clone(), what });
        }
        let steal = Duration::from_ns(stolen().saturating_sub(before.1));
        let others = self.scene.used_by_others(core).checked_sub(before.2).unwrap_or_default();
        let others = Bandwidth::new(others.ns(), before.0.elapsed().as_nanos() as u64).unwrap_or(Bandwidth::ZERO);
        let (late, lateness) = (Duration::from_ns(report.lateness_ns[1]), report.lateness());
        let waited = Duration::from_ns(report.waited_ns.unwrap_or(0));
        Ok(Run { arm, round, jobs: report.jobs, steal, late, lateness, waited, others })
    }

    /// Runs `work` while the service is alone on its core: competitors stopped, the core kept awake.
    fn on_whole_core<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let core = self.service.core;
        let spinner = self.scene.keep_awake(core)?;
        self.scene.competitors(core).for_each(crate::Running::stop);
        let threads = self.scene.unlimited(self.index)?;
        let done = work();
        let left = self.scene.leave(&threads);
        drop(spinner); // before the competitors return: at SCHED_IDLE it would wait long for its turn
        self.scene.competitors(core).for_each(crate::Running::go_on);
        left.and(done)
    }

    fn void(&self, run: &Run) -> Option<String> {
        if run.steal.ns() > self.options.length.ns() / STEAL_LIMIT {
            return Some(format!("{} stolen by the hypervisor", run.steal));
        }
        if run.waited.ns() > self.options.length.ns() / STEAL_LIMIT {
            return Some(format!("the load generator waited {} for its processor", run.waited));
        }
        if run.late > LATE_LIMIT {
            return Some(format!("the load generator was {} late (99th percentile)", run.late));
        }
        run.lateness.is_stall().then(|| format!("the load generator stalled: {}", run.lateness))
    }
}

/// Fisher and Yates, by a linear congruential generator.
fn shuffle(arms: &mut [Arm], random: &mut u64) {
    for last in (1..arms.len()).rev() {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        arms.swap(last, (*random >> 33) as usize % (last + 1));
    }
}
