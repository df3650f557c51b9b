//! Trials: is a service on its share as good as on a whole core? Three arms in turns, on one core, in one cpuset, under one
//! load (docs/decisions/0001).

use crate::scene::Scene;
use crate::Error;
use giusto_measure::{Generator, LoadPlan, Profile};
use giusto_model::{Duration, JobRecord, Load, Plan, ServicePlan};

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
    /// Rounds, each with one run of every arm.
    pub rounds: u32,
    /// Length of one run.
    pub length: Duration,
    /// Seed of keys and values.
    pub seed: u64,
    /// Requests of the profile.
    pub profile: u32,
}

/// A run counts only if less than this part of it was stolen: one in
const STEAL_LIMIT: u64 = 100;
/// ... and the generator was late by less than this in 99 % of the jobs.
const LATE_LIMIT: Duration = Duration::from_ms(1);
/// Tries for a run that counts.
const TRIES: u32 = 4;
/// Requests before a run that are not recorded.
const WARM_UP: Duration = Duration::from_ms(300);
/// The generator's real-time priority, on a core of its own.
const GENERATOR_PRIORITY: u8 = 50;

/// Runs the trial of every service that has a load, one after another. `stop` is asked between runs.
pub fn trial(
    scene: &mut Scene,
    plan: &Plan,
    cores: &[u32],
    options: Options,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Trial>, Error> {
    let mut trials = Vec::new();
    for (index, service) in plan.services.iter().enumerate() {
        let load = service.load.as_ref().ok_or_else(|| Error::Service {
            name: service.name.clone(),
            what: "a trial needs to know how to drive it: add load: {redis: ADDRESS, fields: N, value: N}".into(),
        })?;
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
        for round in 1..=self.options.rounds {
            let mut arms = [Arm::Whole, Arm::NoPlan, Arm::Giusto];
            arms.rotate_left(round as usize % 3); // no arm always follows the same other
            for arm in arms {
                for attempt in 1..=TRIES {
                    if stop() {
                        return Err(Error::Interrupted);
                    }
                    say(format!("{}: round {round} of {}, {}", self.service.name, self.options.rounds, arm.name()));
                    let run = self.once(arm, round)?;
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

    fn once(&mut self, arm: Arm, round: u32) -> Result<Run, Error> {
        let cpus = [self.service.core, self.generator.cpu.unwrap_or(0)];
        let plan = LoadPlan {
            load: self.load,
            tasks: &self.service.tasks,
            warm_up: WARM_UP,
            run: self.options.length,
            seed: self.options.seed.wrapping_add(u64::from(round)),
            generator: self.generator.clone(),
        };
        let stolen =
            || giusto_measure::steal(&cpus).map(|all| all.iter().map(|one| one.steal_ns).sum::<u64>()).unwrap_or(0);
        let before = stolen();
        let drive = || Ok(giusto_measure::drive(&plan, &mut |_| {})?);
        let report = match arm {
            Arm::Whole => self.on_whole_core(drive)?,
            Arm::NoPlan => drive()?,
            Arm::Giusto => {
                let reserved = self.scene.reserve(self.index)?;
                let report = drive();
                self.scene.leave(&[reserved.thread])?;
                report?
            }
        };
        self.scene.check()?;
        if report.errors > 0 {
            let what = format!(
                "answered {} requests with an error: {}",
                report.errors,
                report.first_error.unwrap_or_default()
            );
            return Err(Error::Service { name: self.service.name.clone(), what });
        }
        let steal = Duration::from_ns(stolen().saturating_sub(before));
        Ok(Run { arm, round, jobs: report.jobs, steal, late: Duration::from_ns(report.lateness_ns[1]) })
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
        (run.late > LATE_LIMIT).then(|| format!("the load generator was {} late (99th percentile)", run.late))
    }
}
