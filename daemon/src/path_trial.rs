//! Trials of paths: does a path keep its promise under the plan, and what becomes of it without one? In slices, one after the
//! other, of the same services beside the same competitors.

use crate::deployment::Deployment;
use crate::reported::StageTimes;
use crate::slices::{
    is_stolen, stolen, stolen_since, Arm, Cause, Made, Options, Talk, Trial, GENERATOR_PRIORITY, LATE_LIMIT,
    NO_PLAN_EVERY,
};
use crate::Error;
use giusto_measure::{wait_listening, Generator, PathEnds, PathReport, PathRun};
use giusto_model::{Duration, JobRecord, Path, PathLoad, PathObserve, Plan};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// How many of paths beside it came to their end meanwhile.
    pub beside: u64,
}

/// A slice holds so many messages, but is no longer than that.
const MESSAGES: f64 = 300.0;
const LONGEST: Duration = Duration::from_secs(10);
/// A slice counts if at most one part in so many of it was stolen: theft makes messages later, never earlier, and absolute times
/// are judged.
const STOLEN: u64 = 20;
const WARM_UP: Duration = Duration::from_secs(1);
/// What is still on its way from another slice is waited for so long.
const SETTLE: Duration = Duration::from_secs(20);
/// A web server that was just started may take so long to listen.
const LISTENING: Duration = Duration::from_secs(10);
/// Cycles before the first look at what came of it.
const LOOK: u32 = 2;

/// The paths of a site that can be tried, each with where its messages go. Errors: one whose addresses are not known.
pub fn path_loads(paths: &[Path]) -> Result<Vec<(&Path, &PathLoad)>, Error> {
    let load = |path: &Path| Error::Path {
        name: path.name.clone(),
        what: "a trial needs to know where its messages go and come from: add load: {send: 127.0.0.1:7101, \
               receive: 127.0.0.1:7100}, or load: {http: 127.0.0.1:8080/orders}"
            .into(),
    };
    paths.iter().map(|path| Ok((path, path.load.as_ref().ok_or_else(|| load(path))?))).collect()
}

/// Tries `path`, all stages of which are in `plan`, which `deployment` is of: slices under the plan, and some without, until
/// `judge` has enough of them or the time of `options` is over. Messages of the paths `beside` it, which share services with
/// it, are sent meanwhile.
///
/// # Errors
/// A service that ends, a connection that is refused or closed, a stage that cannot get its server, an interruption.
pub fn try_path(
    deployment: &mut Deployment,
    (plan, path, load): (&Plan, &Path, &PathLoad),
    beside: &[(&Path, &PathLoad)],
    cores: &[u32],
    options: Options,
    talk: &mut Talk<Path, PathSlice>,
) -> Result<Trial<PathSlice>, Error> {
    let paths = || std::iter::once(path).chain(beside.iter().map(|(other, _)| *other));
    let is_stage = |name: &String| paths().any(|path| path.services().any(|stage| stage == name));
    let mut cpus: Vec<u32> = plan.services.iter().filter(|one| is_stage(&one.name)).map(|one| one.core).collect();
    // A core that no stage uses, if there is one.
    let free = cores.iter().copied().find(|core| !cpus.contains(core));
    let generator = Generator { cpu: free, fifo_priority: Some(GENERATOR_PRIORITY) };
    cpus.extend(free);
    let slice = length(path, options.slice);
    let mut drive = |(path, load): (&Path, &PathLoad)| {
        if let PathLoad::Http { address, .. } = load {
            wait_listening(*address, LISTENING, &mut || deployment.check().is_ok())?;
        }
        let ends = PathEnds::new(load, options.seed)?;
        Ok::<_, Error>(Driven { path: path.clone(), ends })
    };
    let own = drive((path, load))?;
    let failed = |what| Error::Path { name: path.name.clone(), what };
    let times = match (&path.observe, own.ends.traces()) {
        (Some(PathObserve::Otlp(at)), Some(begin)) => Some(StageTimes::listen(*at, path, begin).map_err(failed)?),
        (Some(PathObserve::Otlp(_)), None) | (None, _) => None,
    };
    let beside = beside.iter().copied().map(&mut drive).collect::<Result<_, _>>()?;
    let mut bench = Bench { deployment, reserved: plan.services.len(), own, beside, generator, stop: talk.stop };
    let mut arms = |cycle| match cycle % NO_PLAN_EVERY {
        1 => vec![Arm::NoPlan, Arm::Giusto],
        _ => vec![Arm::Giusto],
    };
    let mut once = |arm, cycle: u32| {
        let (begin, before) = (Instant::now(), stolen(&cpus));
        let (report, beside) = bench.once(arm, slice, options.seed.wrapping_add(cycle.into()))?;
        let steal = stolen_since(&cpus, &before);
        let lasted = Duration::from_ns(begin.elapsed().as_nanos() as u64);
        let void = disturbed(&report, steal, slice);
        Ok(Made { slice: PathSlice { arm, cycle, report, beside }, steal, lasted, void })
    };
    let mut trial = Trial::new(&path.name, slice).run(path, options.at_most, LOOK, talk, &mut arms, &mut once)?;
    if let Some(times) = times {
        let mut reports: Vec<&mut PathReport> = trial.slices.iter_mut().map(|slice| &mut slice.report).collect();
        if let Some(missing) = times.tell(&mut reports, talk.stop) {
            (talk.say)(format!("{}: {missing}", path.name));
        }
    }
    Ok(trial)
}

/// A path whose messages are sent.
struct Driven {
    path: Path,
    ends: PathEnds,
}

struct Bench<'b, 'd> {
    deployment: &'b mut Deployment<'d>,
    /// Services that have a reservation by the plan: the stages, and what else was promised something, such as a broker.
    reserved: usize,
    own: Driven,
    beside: Vec<Driven>,
    generator: Generator,
    stop: &'b dyn Fn() -> bool,
}

impl Bench<'_, '_> {
    fn once(&mut self, arm: Arm, slice: Duration, seed: u64) -> Result<(PathReport, u64), Error> {
        self.deployment.confine()?; // those that have come since
        let reserved = match arm {
            Arm::NoPlan | Arm::Whole => 0,
            Arm::Giusto => self.reserved,
        };
        for index in 0..reserved {
            self.deployment.reserve(index)?;
        }
        let driven = self.drive(slice, seed);
        for index in 0..reserved {
            self.deployment.release(index)?;
        }
        if (self.stop)() {
            return Err(Error::Interrupted);
        }
        self.deployment.check()?; // a service that has ended is why its connection has
        driven
    }

    /// All paths at once, once none has messages on their way, until the one that is tried is through; how many of the others'
    /// came to their end.
    fn drive(&mut self, slice: Duration, seed: u64) -> Result<(PathReport, u64), Error> {
        let Bench { own, beside, generator, stop, .. } = self;
        // What a slice without the plan has left in the queues is no message of the next one.
        for one in std::iter::once(&mut *own).chain(beside.iter_mut()) {
            one.ends.settle(SETTLE, stop)?;
        }
        // More than the tried one takes.
        let longer = slice.checked_add(SETTLE).unwrap_or(slice);
        let run = PathRun { warm_up: WARM_UP, length: slice, seed, generator: generator.clone() };
        let through = AtomicBool::new(false);
        let go_on = || !through.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let drive = |(nth, other): (u64, &mut Driven)| {
                let run = PathRun { length: longer, seed: seed ^ (nth << 32), ..run.clone() };
                let report = other.ends.drive(&other.path, &run, &mut |_| go_on());
                through.store(true, Ordering::Relaxed);
                report.map_err(|why| Error::Path { name: other.path.name.clone(), what: why.to_string() })
            };
            let others: Vec<_> =
                (1..).zip(beside).map(|(nth, other)| scope.spawn(move || drive((nth, other)))).collect();
            let driven = own.ends.drive(&own.path, &run, &mut |_| !stop() && go_on());
            through.store(true, Ordering::Relaxed);
            let others: Vec<Result<PathReport, Error>> =
                others.into_iter().map(|other| other.join().unwrap_or_else(|why| resume_unwind(why))).collect();
            let driven = driven?;
            let ended = |report: PathReport| report.jobs.iter().filter(|job| job.finish.is_some()).count() as u64;
            Ok((driven, others.into_iter().map(|other| other.map(ended)).sum::<Result<u64, Error>>()?))
        })
    }
}

fn disturbed(report: &PathReport, steal: Duration, slice: Duration) -> Option<Cause> {
    if is_stolen(steal, slice, STOLEN) {
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
    least.max(Duration::from_ns((MESSAGES / path.source.per_ns()) as u64).min(LONGEST))
}
