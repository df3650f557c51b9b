//! Trials of paths: does a path keep its promise under the plan, and what becomes of it without one? In slices, one after the
//! other, of the same services beside the same competitors.

use crate::deployment::Deployment;
use crate::trial::{
    Arm, Cause, Next, Options, Removed, Talk, GENERATOR_PRIORITY, LATE_LIMIT, LOST_LIMIT, NO_PLAN_EVERY, TRIES,
};
use crate::Error;
use giusto_measure::{Generator, LoadPlan, PathEnds, PathReport};
use giusto_model::{Bandwidth, Duration, JobRecord, Load, Path, PathLoad, PathSource, Plan};
use std::time::Instant;

/// One slice.
#[derive(Debug)]
pub struct PathSlice {
    /// Under the plan, or without one.
    pub arm: Arm,
    /// Which cycle, from 1.
    pub cycle: u32,
    /// Its messages.
    pub report: PathReport,
}

/// All slices of a path.
#[derive(Debug)]
pub struct PathTrial {
    /// Its name.
    pub path: String,
    /// Those that count, in the order in which they were made.
    pub slices: Vec<PathSlice>,
    /// Those that were removed.
    pub removed: Vec<Removed>,
    /// Part of the measured time that the hypervisor took from one of the cores of its stages or from the generator's, removed
    /// slices included.
    pub stolen: Bandwidth,
    /// Length of a slice.
    pub slice: Duration,
}

/// A slice holds so many messages, but is no longer than that.
const MESSAGES: f64 = 300.0;
const LONGEST: Duration = Duration::from_secs(10);
const WARM_UP: Duration = Duration::from_secs(1);
/// What is still on its way from another slice is waited for so long.
const SETTLE: Duration = Duration::from_secs(20);
/// Cycles before the first look at what came of it.
const LOOK: u32 = 2;

/// The paths of a site that can be tried, each with where its messages go. Errors: one whose addresses are not known.
pub fn path_loads(paths: &[Path]) -> Result<Vec<(&Path, PathLoad)>, Error> {
    let load = |path: &Path| Error::Service {
        name: path.name.clone(),
        what: "a trial needs to know where its messages go and come from: add load: {send: 127.0.0.1:7101, \
               receive: 127.0.0.1:7100} to the path"
            .into(),
    };
    paths.iter().map(|path| Ok((path, path.load.ok_or_else(|| load(path))?))).collect()
}

/// Tries `path`, all stages of which are in `plan`, which `deployment` is of: slices under the plan, and some without, until
/// `judge` has enough of them or the time of `options` is over.
///
/// # Errors
/// A service that ends, a connection that is refused or closed, a stage that cannot get its server, an interruption.
pub fn try_path(
    deployment: &mut Deployment,
    (plan, path, load): (&Plan, &Path, PathLoad),
    cores: &[u32],
    options: Options,
    talk: &mut Talk<Path, PathTrial>,
) -> Result<PathTrial, Error> {
    let is_stage = |name: &String| path.through.contains(name);
    let stages: Vec<usize> = (0..plan.services.len()).filter(|index| is_stage(&plan.services[*index].name)).collect();
    let mut cpus: Vec<u32> = stages.iter().map(|index| plan.services[*index].core).collect();
    // A core that no stage uses, if there is one.
    let free = cores.iter().copied().find(|core| !cpus.contains(core));
    let generator = Generator { cpu: free, fifo_priority: Some(GENERATOR_PRIORITY) };
    cpus.extend(free);
    let slice = length(path, options.slice);
    let mut trial =
        PathTrial { path: path.name.clone(), slices: Vec::new(), removed: Vec::new(), stolen: Bandwidth::ZERO, slice };
    let (begin, mut lost, mut measured, mut look) = (Instant::now(), 0, 0, LOOK);
    let over = || begin.elapsed().as_nanos() >= u128::from(options.at_most.ns());
    let mut ends = PathEnds::new(load.send, load.receive)?;
    let mut bench = Bench { deployment, stages: &stages, ends: &mut ends, generator, load, stop: talk.stop };
    for cycle in 1.. {
        let arms: &[Arm] = if cycle % NO_PLAN_EVERY == 1 { &[Arm::NoPlan, Arm::Giusto] } else { &[Arm::Giusto] };
        for &arm in arms {
            for _ in 0..TRIES {
                let before = (Instant::now(), stolen(&cpus));
                let report = bench.once(arm, path, slice, options.seed.wrapping_add(cycle.into()))?;
                let steal = stolen(&cpus).iter().zip(&before.1).map(|(now, then)| now.saturating_sub(*then)).max();
                let steal = Duration::from_ns(steal.unwrap_or(0));
                (lost, measured) = (lost + steal.ns(), measured + before.0.elapsed().as_nanos() as u64);
                let Some(cause) = disturbed(&report, steal, slice) else {
                    trial.slices.push(PathSlice { arm, cycle, report });
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
        look += look.div_ceil(2);
        match (talk.judge)(path, &trial) {
            Next::Enough => break,
            Next::More(why) => (talk.say)(format!("{}: {cycle} cycles of slices: {why}; goes on", trial.path)),
        }
    }
    Ok(trial)
}

struct Bench<'b, 'd> {
    deployment: &'b mut Deployment<'d>,
    /// Their places in the plan.
    stages: &'b [usize],
    ends: &'b mut PathEnds,
    generator: Generator,
    load: PathLoad,
    stop: &'b dyn Fn() -> bool,
}

impl Bench<'_, '_> {
    fn once(&mut self, arm: Arm, path: &Path, slice: Duration, seed: u64) -> Result<PathReport, Error> {
        let (tasks, arrivals) = giusto_measure::path_arrivals(path);
        let load = Load::Echo { address: self.load.send, value: 1 };
        let (warm_up, generator) = (WARM_UP, self.generator.clone());
        let plan = LoadPlan { load: &load, tasks: &tasks, arrivals, trace: &[], warm_up, run: slice, seed, generator };
        self.deployment.confine()?; // those that have come since
        let reserved = match arm {
            Arm::NoPlan | Arm::Whole => 0,
            Arm::Giusto => self.stages.len(),
        };
        for &index in &self.stages[..reserved] {
            self.deployment.reserve(index)?;
        }
        // What a slice without the plan has left in the queues is no message of the next one.
        let driven = self.ends.settle(SETTLE).and_then(|()| self.ends.drive(&plan, &mut |_| !(self.stop)()));
        for &index in &self.stages[..reserved] {
            self.deployment.release(index)?;
        }
        if (self.stop)() {
            return Err(Error::Interrupted);
        }
        self.deployment.check()?; // a service that has ended is why its connection has
        Ok(driven?)
    }
}

fn stolen(cpus: &[u32]) -> Vec<u64> {
    giusto_measure::steal(cpus).map(|all| all.iter().map(|one| one.steal_ns).collect()).unwrap_or_default()
}

fn disturbed(report: &PathReport, steal: Duration, slice: Duration) -> Option<Cause> {
    if steal > Duration::from_ns(slice.ns() / LOST_LIMIT).max(giusto_measure::steal_clock()) {
        return Some(Cause::Stolen(steal));
    }
    let late = |job: &JobRecord| job.release.since(job.due).unwrap_or_default();
    let mut late: Vec<Duration> = report.jobs.iter().map(late).collect();
    late.sort_unstable();
    if let Some(late) = late.get(late.len() * 99 / 100).filter(|late| **late > LATE_LIMIT) {
        return Some(Cause::Late(*late));
    }
    let lateness = report.lateness();
    lateness.is_stall().then_some(Cause::Stalled(lateness))
}

/// At least `least`, with enough messages.
fn length(path: &Path, least: Duration) -> Duration {
    let rate = match path.source {
        PathSource::Poisson(rate) => rate.per_ns(),
        PathSource::Periodic { period, burst, .. } => f64::from(burst) / period.ns().max(1) as f64,
    };
    least.max(Duration::from_ns((MESSAGES / rate) as u64).min(LONGEST))
}
