//! What the requests of a service cost here: measured on a whole core under their own load, before anything is planned
//! or judged.

use crate::deployment::Deployment;
use crate::slices::Options;
use crate::trial::{loads, Bench};
use crate::Error;
use giusto_measure::{Generator, Holes, LoadPlan, Observed};
use giusto_model::{Arrivals, Bandwidth, Duration, Load, Measured, Observation, Plan, Site, Task, OBSERVATION_VERSION};
use std::collections::BTreeMap;
use std::time::{self, SystemTime, UNIX_EPOCH};

/// Single requests, one at a time: what a request takes beyond its processor time, and a first estimate of that.
const SINGLE: u32 = 200;
/// Requests are observed in so many stretches, each at least so long and with about so many requests, but not longer
/// than that; and
/// for a stretch or two before that, to find how densely they may come.
const STRETCHES: usize = 5;
const STRETCH: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
const REQUESTS: f64 = 20.0;
/// Most stretches that are made in place of others from which the hypervisor took time.
const SPARE: usize = 5;
/// The windows in which demand is told.
const TOLD: Duration = Duration::from_ms(40);
/// A stretch may lose so much to the hypervisor: a twentieth of such a window.
const LOST: u64 = TOLD.ns() / 20;
/// Requests before a stretch that are not observed.
const WARM_UP: Duration = Duration::from_ms(200);
/// A load may miss its share of the core by one part in so many before it is corrected, at most so often.
const OFF: f64 = 0.05;
const CORRECTIONS: u32 = 3;
/// So often a load is fitted again that was fitted to a slow or a fast moment, and not after this time.
const REFITS: u32 = 3;
const PATIENCE: time::Duration = time::Duration::from_secs(25);
/// Execution times that stand for a distribution.
const SAMPLES: u64 = 2000;

/// What was measured of one service.
#[derive(Debug)]
pub struct Calibration {
    /// The service.
    pub service: String,
    /// What its requests cost.
    pub observation: Observation,
}

impl Calibration {
    /// Processor times of requests in ns, evenly from their distribution.
    pub fn execution(&self) -> Vec<u64> {
        spread(&self.observation.execution)
    }

    /// What single requests took beyond it, in ns.
    pub fn transport(&self) -> Vec<u64> {
        spread(&self.observation.transport)
    }
}

/// Measures every service of `plan` whose response times are promised; how densely its requests come is what `site`
/// says. Takes some
/// ten seconds each.
///
/// # Errors
/// As [`crate::trial()`]; told to stop; a service whose cost cannot be measured.
pub fn calibrate(
    deployment: &mut Deployment,
    plan: &Plan,
    site: &Site,
    cores: &[u32],
    options: Options,
    stop: &dyn Fn() -> bool,
    say: &mut dyn FnMut(String),
) -> Result<Vec<Calibration>, Error> {
    let mut all = Vec::new();
    for (index, service, load) in loads(plan)? {
        say(format!("{}: measuring what its requests cost on a whole core", service.name));
        let wanted = site.services.iter().find(|one| one.name == service.name).map(|one| &one.measured);
        let fits = if let Some(Measured::Wanted { fits }) = wanted { fits.as_slice() } else { &[] };
        let mut bench = Bench::new(deployment, index, service, load, cores, options)?;
        let subject = Subject {
            name: &service.name,
            origin: giusto_planner::origin(&service.origin),
            tasks: &service.tasks,
            arrivals: service.promise.arrivals(),
            fits,
            load,
            pids: bench.deployment.processes(index),
            core: Some(service.core),
            generator: bench.generator.clone(),
            seed: options.seed,
        };
        let observed = bench.on_whole_core(|| subject.observe(stop));
        if stop() {
            return Err(Error::Interrupted);
        }
        let observation = observed?;
        say(format!("{}: {}", service.name, cost(&observation)));
        all.push(Calibration { service: service.name.clone(), observation });
    }
    Ok(all)
}

/// `a request takes 63.1 us of processor time, 70.2 us over the worst 40 ms; 6 every 1.26 ms make 30.0 % of a core`.
pub fn cost(observation: &Observation) -> String {
    let us = |time: Duration| format!("{:.1} us", time.ns() as f64 / 1e3);
    let window = TOLD;
    let rate = match (observation.arrivals, observation.tasks.as_slice()) {
        (Some(arrivals), _) => arrivals.to_string(),
        (None, [task]) => format!("{} every {}", task.copies, task.period),
        (None, tasks) => format!("{} tasks", tasks.len()),
    };
    format!(
        "a request takes {} of processor time, {} over the worst {window}; {rate} make {:.1} % of a core",
        us(observation.mean),
        us(observation.greatest_mean(window)),
        observation.utilization() * 100.0
    )
}

/// A service that runs, to be observed under its own load.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Its name in the site file.
    pub name: &'a str,
    /// Its command, or what was adopted, in words.
    pub origin: String,
    /// How often requests come, where that is by tasks; what they cost does not count.
    pub tasks: &'a [Task],
    /// The same where that is at random.
    pub arrivals: Option<Arrivals>,
    /// For each task, or for the arrivals, the share of a core that its period or rate is to make.
    pub fits: &'a [Option<Bandwidth>],
    /// What drives it.
    pub load: &'a Load,
    /// Its processes; one at least.
    pub pids: Vec<u32>,
    /// The core that it has for itself, kept busy.
    pub core: Option<u32>,
    /// What sends the requests.
    pub generator: Generator,
    /// Seed of keys and values.
    pub seed: u64,
}

impl Subject<'_> {
    /// Single requests first, then for some seconds all of them as densely as was asked for, until `stop` says so.
    ///
    /// # Errors
    /// [`Error::Measure`]: it does not answer, or its processor time cannot be read.
    pub fn observe(&self, stop: &dyn Fn() -> bool) -> Result<Observation, Error> {
        let begin = time::Instant::now();
        let pid = self.pids.first().copied().unwrap_or(0);
        let single = giusto_measure::profile(self.load, pid, SINGLE, self.seed, &self.generator)?;
        let mut nth = self.seed;
        let mut drive = |tasks: &[Task], arrivals: Option<Arrivals>| -> Result<Observed, Error> {
            nth = nth.wrapping_add(1); // other keys, and other instants at random
            let (seed, generator, run) = (nth, self.generator.clone(), stretch(tasks, arrivals));
            let plan =
                LoadPlan { load: self.load, tasks, arrivals, trace: &[], warm_up: WARM_UP, run, seed, generator };
            Ok(giusto_measure::observe(&plan, &self.pids, &mut |_| !stop())?)
        };
        let is_fitted = self.fits.iter().any(Option::is_some);
        let mut mean = median(&single.execution);
        for _ in 0..CORRECTIONS * u32::from(is_fitted) {
            let (tasks, arrivals) = self.fitted(mean);
            let found = drive(&tasks, arrivals)?.mean().unwrap_or(mean);
            let off = off(found, mean);
            mean = found;
            if off < OFF || stop() {
                break;
            }
        }
        let measure = |mean| {
            let (tasks, arrivals) = if is_fitted { self.fitted(mean) } else { (self.tasks.to_vec(), self.arrivals) };
            let stretches = undisturbed(|| self.watched(|| drive(&tasks, arrivals)), stop)?;
            let count = stretches.len() as u64;
            let observed = stretches.into_iter().reduce(Observed::and).ok_or(Error::Interrupted)?;
            let found = observed.mean().unwrap_or_default();
            Ok((if is_fitted { found } else { mean }, (tasks, arrivals, count, observed)))
        };
        let again = |round| round < REFITS && begin.elapsed() < PATIENCE;
        let found = settled(mean, measure, again, stop)?;
        let unsteady = |(first, then)| Error::Unsteady { service: self.name.into(), first, then };
        let (mut tasks, arrivals, count, observed) = found.map_err(unsteady)?;
        let mean = observed.mean().unwrap_or_default();
        let length = stretch(&tasks, arrivals).checked_mul(count).unwrap_or(STRETCH);
        tasks.iter_mut().for_each(|task| task.wcet = mean.min(task.period));
        Ok(Observation {
            giusto_profile: OBSERVATION_VERSION,
            service: self.name.into(),
            host: giusto_measure::this_host(),
            origin: self.origin.clone(),
            taken: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            load: self.load.clone(),
            tasks,
            arrivals,
            length,
            requests: observed.requests(),
            mean,
            execution: observed.execution(),
            transport: histogram(&single.transport),
            windows: observed.recurring_windows(),
        })
    }

    /// What `stretch` measures, and what the hypervisor took meanwhile, in ns: of any core, where that is more than its clock can
    /// tell, and of this one, which shows when it stands still.
    fn watched<T>(&self, stretch: impl FnOnce() -> Result<T, Error>) -> Result<(u64, T), Error> {
        let holes = self.core.and_then(|core| Holes::watch(core).ok());
        let before = stolen();
        let observed = stretch()?;
        let stolen = stolen().saturating_sub(before);
        let stolen = if stolen > giusto_measure::steal_clock().ns() { stolen } else { 0 };
        let stopped = holes.and_then(|holes| holes.lost()).unwrap_or_default();
        Ok((stolen.max(stopped.ns()), observed))
    }

    /// Tasks and arrivals as dense as makes the shares that were asked for.
    fn fitted(&self, mean: Duration) -> (Vec<Task>, Option<Arrivals>) {
        let mut tasks = self.tasks.to_vec();
        for (task, fit) in tasks.iter_mut().zip(self.fits) {
            if let Some(share) = fit {
                task.period = giusto_planner::fitting_period(mean, task.copies, share.as_f64());
                (task.deadline, task.wcet) = (task.period, mean.min(task.period));
            }
        }
        let arrivals = self.arrivals.map(|arrivals| match self.fits {
            [Some(share)] => giusto_planner::fitting_arrivals(mean, arrivals.batch, share.as_f64()).unwrap_or(arrivals),
            _ => arrivals,
        });
        (tasks, arrivals)
    }
}

/// What `measure` finds under a load that was fitted to the cost of a request that it finds; it is given the first one.
/// `again`: whether it may be tried once more after so many times. Where no load fits, the last cost that one was fitted to,
/// and the one found then.
fn settled<T>(
    mut mean: Duration,
    mut measure: impl FnMut(Duration) -> Result<(Duration, T), Error>,
    again: impl Fn(u32) -> bool,
    stop: &dyn Fn() -> bool,
) -> Result<Result<T, (Duration, Duration)>, Error> {
    let mut round = 0;
    loop {
        let (found, what) = measure(mean)?;
        let again = again(round);
        let most = if again { giusto_planner::FIT_OFF / 2.0 } else { giusto_planner::FIT_OFF };
        if off(found, mean) <= most || stop() {
            return Ok(Ok(what));
        }
        if !again {
            return Ok(Err((mean, found)));
        }
        (round, mean) = (round + 1, found);
    }
}

/// By which part of `wanted` it was missed.
fn off(found: Duration, wanted: Duration) -> f64 {
    (found.ns() as f64 / wanted.ns().max(1) as f64 - 1.0).abs()
}

/// How long a stretch is.
fn stretch(tasks: &[Task], arrivals: Option<Arrivals>) -> Duration {
    let of_task = |task: &Task| f64::from(task.copies) / task.period.ns().max(1) as f64;
    let rate = arrivals.map_or_else(|| tasks.iter().map(of_task).sum(), |arrivals| arrivals.rate.per_ns());
    Duration::from_ns((REQUESTS / rate.max(1e-12)) as u64).clamp(STRETCH, LONGEST)
}

/// Several stretches, those left out in which the hypervisor took time: it may be on the service's account. Where there is
/// nothing else, those from which it took least. `stretch` returns what it took, in ns.
fn undisturbed<T>(
    mut stretch: impl FnMut() -> Result<(u64, T), Error>,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<T>, Error> {
    let mut all: Vec<(u64, T)> = Vec::new();
    while all.iter().filter(|(lost, _)| *lost <= LOST).count() < STRETCHES && all.len() < STRETCHES + SPARE {
        all.push(stretch()?);
        if stop() {
            break;
        }
    }
    all.sort_by_key(|(lost, _)| *lost);
    all.truncate(STRETCHES);
    Ok(all.into_iter().map(|(_, one)| one).collect())
}

/// Taken by the hypervisor from all cores together, in ns; 0 where that cannot be told.
fn stolen() -> u64 {
    giusto_measure::stolen().unwrap_or(0)
}

fn median(times: &[u64]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    Duration::from_ns(sorted.get(sorted.len() / 2).copied().unwrap_or(1))
}

fn histogram(times: &[u64]) -> Vec<[u64; 2]> {
    let mut counts = BTreeMap::new();
    times.iter().for_each(|&ns| *counts.entry(ns).or_insert(0) += 1);
    counts.into_iter().map(|(ns, count)| [ns, count]).collect()
}

/// At most [`SAMPLES`] values, evenly from a histogram.
fn spread(histogram: &[[u64; 2]]) -> Vec<u64> {
    let total: u64 = histogram.iter().map(|[_, count]| count).sum();
    let wanted = total.min(SAMPLES);
    let (mut values, mut below) = (Vec::new(), 0);
    for [ns, count] in histogram {
        below += count;
        while values.len() as u64 * total < below * wanted {
            values.push(*ns);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_from_which_time_was_taken_are_made_again_and_the_best_are_kept() {
        let kept = |lost: &[u64]| {
            let mut nth = 0..;
            let stretch = || {
                let nth = nth.next().unwrap();
                Ok((lost.get(nth).copied().unwrap_or(0), nth))
            };
            undisturbed(stretch, &|| false).unwrap()
        };
        assert_eq!(kept(&[]), [0, 1, 2, 3, 4]);
        assert_eq!(kept(&[0, 15_000_000, 0, LOST]), [0, 2, 4, 5, 3]);
        let much = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0].map(|tenth| (tenth + 1) * 10_000_000);
        assert_eq!(kept(&much), [9, 8, 7, 6, 5], "no more than ten, and from five of them it took less");
    }

    /// Seen: a load fitted to a moment in which a request took half as much again made 19 % of a core in the place of 30 %.
    #[test]
    fn a_load_that_was_fitted_to_a_slow_moment_is_fitted_again() {
        let us = Duration::from_us;
        let costs = |costs: &[u64]| {
            let mut fitted = Vec::new();
            let measure = |mean: Duration| {
                fitted.push(mean.ns() / 1000);
                Ok((us(costs[(fitted.len() - 1).min(costs.len() - 1)]), fitted.len()))
            };
            let found = settled(us(70), measure, |round| round < 3, &|| false).unwrap();
            (found, fitted)
        };
        assert_eq!(costs(&[70]), (Ok(1), vec![70]));
        assert_eq!(costs(&[44]), (Ok(2), vec![70, 44]));
        assert_eq!(costs(&[100, 44]), (Ok(3), vec![70, 100, 44]));
        assert_eq!(costs(&[100, 44, 100, 44]), (Err((us(100), us(44))), vec![70, 100, 44, 100]));
        // The last one may be off by as much as a plan accepts.
        assert_eq!(costs(&[100, 44, 100, 71]), (Ok(4), vec![70, 100, 44, 100]));
    }

    #[test]
    fn a_few_values_stand_for_many_in_their_proportions() {
        assert_eq!(spread(&[[5, 2], [7, 1]]), [5, 5, 7]);
        let many = spread(&[[10, 30_000], [20, 9_000], [99, 1_000]]);
        let of = |ns| many.iter().filter(|value| **value == ns).count();
        assert_eq!((many.len(), of(10), of(20), of(99)), (2000, 1500, 450, 50));
        assert!(spread(&[]).is_empty());
        assert_eq!(spread(&histogram(&[3, 1, 3])), [1, 3, 3]);
    }
}
