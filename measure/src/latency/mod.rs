//! Latency of the machine: how late a periodic thread of the highest priority runs on each core, with and without load.
//!
//! What `cyclictest` does (Abe22, "Latency in Linux"), with two differences: an activation that passes while the thread
//! does not run counts too, with its own latency, so that one long hole is not one sample; and latency is split, by the
//! kernel's own books, into the time until the thread was ready and the time from then until it ran.

mod cyclic;
mod guest;
mod histogram;
mod machine;
mod stress;
mod verdict;

use crate::noise::steal;
use crate::{Error, Noise};
use cyclic::{Asked, Seen, PRIORITY};
use giusto_model::{Duration, Latency, LatencyRun, ManagerRun, Stress, LATENCY_VERSION};
use rustix::thread::{sched_getaffinity, CpuSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

pub use guest::GuestCommand;
pub use stress::StressLoad;

/// A run from which a hypervisor takes more than one part in so many says nothing.
const STEAL_LIMIT: u64 = 1000;
/// Shorter periods would measure little but the threads themselves.
const SHORTEST: Duration = Duration::from_us(10);
/// Longest run: activations are counted in 64 bits, instants in as many ns.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to measure.
#[derive(Clone, Debug)]
pub struct LatencyPlan {
    /// The cores, all at once; empty: all on which the caller may run.
    pub cores: Vec<u32>,
    /// Periods of the threads, one after the other.
    pub periods: Vec<Duration>,
    /// How long to measure at each of them, under each load.
    pub length: Duration,
    /// Whether to measure under stress, too, in turns.
    pub stress: bool,
    /// A command that makes a guest measure itself meanwhile and prints what it found.
    pub guest: Option<String>,
}

/// What is seldom needs the whole time, and longer periods may be missing: nothing may rest on it.
const INTERRUPTED: &str = "it was interrupted before all periods and loads were measured for as long as was asked";

/// Measures until all is done or `stop` is set; `on_run` hears before each run which one it is.
///
/// Takes `periods · loads · length`. Policy, memory locks and processes are afterwards as before.
///
/// # Errors
/// A plan that cannot be measured; cores that are not there; the privilege for a real-time priority or for locked memory is missing.
/// A guest that failed takes nothing from the host: what is wrong with it is the second part of the answer.
pub fn latency(
    plan: &LatencyPlan,
    stop: &AtomicBool,
    on_run: &mut dyn FnMut(Duration, Stress),
) -> Result<(Latency, Option<Error>), Error> {
    let cores = plan.cores()?;
    plan.check()?;
    cyclic::allowed(&cores)?;
    let guest = plan.guest.as_deref().map(GuestCommand::start).transpose()?;
    let mut runs = Vec::new();
    let loads = if plan.stress { &[Stress::Quiet, Stress::Stress][..] } else { &[Stress::Quiet] };
    for &period in &plan.periods {
        for &load in loads {
            if !stop.load(Ordering::Relaxed) {
                on_run(period, load);
                runs.extend(together(&cores, period, load, plan.length, stop)?);
            }
        }
    }
    if runs.iter().all(|run| run.activations == 0) {
        return Err(Error::Plan("nothing was measured; let it run for longer".into()));
    }
    let interrupted = stop.load(Ordering::Relaxed).then(|| INTERRUPTED.to_string());
    let (guest, failed) = match guest.map(|guest| guest.finish(stop)).transpose() {
        Ok(guest) => (guest, None),
        Err(why) => (None, Some(why)),
    };
    let machine = machine::look(cores[0]);
    let void = interrupted.or_else(|| void(&runs, plan.length));
    let found = Latency {
        giusto_latency: LATENCY_VERSION,
        priority: PRIORITY,
        length: plan.length,
        split: machine::split(&runs),
        verdict: verdict::judge(&runs, &machine, void.is_some()),
        runs,
        machine,
        void,
        guest: guest.map(Box::new),
        manager: Vec::new(),
    };
    Ok((found, failed))
}

impl LatencyPlan {
    /// All that are asked for, once each, ascending.
    fn cores(&self) -> Result<Vec<u32>, Error> {
        let may = sched_getaffinity(None)
            .map_err(|why| Error::System { what: "ask on which cores this may run".into(), why: why.into() })?;
        let allowed: Vec<u32> = (0..CpuSet::MAX_CPU).filter(|&core| may.is_set(core)).map(|core| core as u32).collect();
        let mut cores = if self.cores.is_empty() { allowed.clone() } else { self.cores.clone() };
        cores.sort_unstable();
        cores.dedup();
        match cores.iter().find(|core| !allowed.contains(core)) {
            None => Ok(cores),
            Some(core) => {
                Err(Error::Plan(format!("core {core} is offline or not allowed here; expected some of {allowed:?}")))
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.periods.is_empty() {
            return Err(Error::Plan("no period to measure at; expected at least one".into()));
        }
        let bounds = |what: &str, time: Duration, least: Duration, most: Duration| match time < least || time > most {
            true => Err(Error::Plan(format!("{what} of {time}; expected {least} to {most}"))),
            false => Ok(()),
        };
        for &period in &self.periods {
            bounds("a period", period, SHORTEST, self.length)?;
        }
        bounds("a run", self.length, SHORTEST, LONGEST)
    }
}

/// All cores at once.
fn together(
    cores: &[u32],
    period: Duration,
    load: Stress,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Vec<LatencyRun>, Error> {
    // Made before the memory is locked, and ended however this ends.
    let _stress = (load == Stress::Stress).then(|| StressLoad::start(cores)).transpose()?;
    let _locked = machine::Locked::all()?;
    let before = steal(cores).ok();
    let seen = thread::scope(|scope| {
        let each = |&core: &u32| {
            let asked = Asked { core, period, length };
            thread::Builder::new().name(format!("latency-{core}")).spawn_scoped(scope, move || cyclic::run(asked, stop))
        };
        let threads: Vec<io::Result<_>> = cores.iter().map(each).collect();
        let joined = threads.into_iter().map(|one| match one.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(seen)) => seen,
            Ok(Err(_)) => Err(Error::system("measure", io::Error::other("the thread died"))),
            Err(why) => Err(Error::system("start a thread", why)),
        });
        joined.collect::<Result<Vec<Seen>, Error>>()
    })?;
    let stolen = before.zip(steal(cores).ok()).map(|(before, after)| taken(&before, &after));
    let run = |(nth, (&core, seen)): (usize, (&u32, Seen))| LatencyRun {
        core,
        period,
        load,
        activations: seen.latency.count(),
        passed: seen.passed,
        latency: seen.latency.spread(),
        histogram: seen.latency.buckets(),
        until_ready: seen.until_ready.map(|all| all.spread()),
        until_run: seen.until_run.map(|all| all.spread()),
        steal: stolen.as_ref().map(|all| all[nth]),
    };
    Ok(cores.iter().zip(seen).enumerate().map(run).collect())
}

fn taken(before: &[Noise], after: &[Noise]) -> Vec<Duration> {
    let one = |(before, after): (&Noise, &Noise)| Duration::from_ns(after.steal_ns.saturating_sub(before.steal_ns));
    before.iter().zip(after).map(one).collect()
}

/// The first run from which too much was taken.
fn void(runs: &[LatencyRun], length: Duration) -> Option<String> {
    let limit = Duration::from_ns(length.ns() / STEAL_LIMIT);
    let stolen = |run: &LatencyRun| {
        run.steal.filter(|steal| *steal > limit).map(|steal| (run.core, run.period, run.load, steal))
    };
    let (core, period, load, steal) = runs.iter().filter_map(stolen).max_by_key(|(.., steal)| *steal)?;
    let count = runs.iter().filter(|run| stolen(run).is_some()).count();
    Some(format!(
        "a hypervisor took {steal} from core {core} (period {period}, {load}); the limit is {limit}, 1/{STEAL_LIMIT} of a run, \
         and {count} of {} runs are above it",
        runs.len()
    ))
}

/// Why nothing follows from runs of the manager: a hypervisor took too much from one.
pub fn void_under_manager(runs: &[ManagerRun]) -> Option<String> {
    let stolen = |run: &&ManagerRun| run.steal.is_some_and(|steal| steal.ns() > limit(run).ns());
    let worst = runs.iter().filter(stolen).max_by_key(|run| run.steal)?;
    Some(format!(
        "a hypervisor took {} from core {} while the manager was measured ({}); the limit is {}, 1/{STEAL_LIMIT} of a run",
        worst.steal.unwrap_or(Duration::ZERO),
        worst.core,
        worst.load,
        limit(worst)
    ))
}

fn limit(run: &ManagerRun) -> Duration {
    Duration::from_ns(run.period.ns().saturating_mul(run.periods) / STEAL_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::LatencySpread;

    fn golden() -> Latency {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/goldens/latency.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_golden_is_read_and_written_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/goldens/latency.json");
        let own: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(golden()).unwrap(), own);
    }

    #[test]
    fn a_run_is_void_if_and_only_if_more_than_a_thousandth_was_taken_from_its_core() {
        let length = Duration::from_secs(10);
        let with = |steal: &[Option<u64>]| {
            let runs = golden().runs.into_iter().zip(steal);
            runs.map(|(run, ms)| LatencyRun { steal: ms.map(Duration::from_ms), ..run }).collect::<Vec<_>>()
        };
        assert_eq!(void(&with(&[Some(10), None, Some(0), Some(9)]), length), None);
        let told = void(&with(&[Some(11), None, Some(500), Some(0)]), length).unwrap();
        assert!(told.contains("took 500 ms from core 1") && told.contains("2 of 4 runs"), "{told}");
    }

    #[test]
    fn every_activation_of_the_time_has_its_latency_and_its_parts_add_up() {
        let core = {
            let may = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).find(|core| may.is_set(*core)).unwrap() as u32
        };
        let (length, period) = (Duration::from_ms(200), Duration::from_us(700));
        let plan = LatencyPlan { cores: vec![core], periods: vec![period], length, stress: false, guest: None };
        let found = match latency(&plan, &AtomicBool::new(false), &mut |_, _| {}).map(|(found, _)| found) {
            Ok(found) => found,
            // Without the privilege the other half of the law remains: said in words.
            Err(error) => {
                assert!(
                    matches!(error, Error::NoPriority { .. } | Error::NoLock) && error.to_string().contains("setcap"),
                    "{error}"
                );
                return;
            }
        };
        let run = &found.runs[0];
        assert_eq!(run.activations, 200_000u64.div_ceil(700), "one a period, those that passed too");
        let LatencySpread { min, p50, p99, p99_9, p99_99, max } = run.latency;
        assert!([min, p50, p99, p99_9, p99_99, max].is_sorted());
        if let Some((ready, ran)) = run.until_ready.zip(run.until_run) {
            assert!(
                ready.max <= max && ran.max <= max && ready.max.checked_add(ran.max).unwrap() >= max || run.passed > 0
            );
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_what_could() {
        let (length, ms) = (Duration::from_ms(10), Duration::from_ms(1));
        let plan = LatencyPlan { cores: vec![0], periods: vec![ms], length, stress: false, guest: None };
        for (bad, words) in [
            (LatencyPlan { cores: vec![70_000], ..plan.clone() }, "core 70000"),
            (LatencyPlan { periods: vec![], ..plan.clone() }, "no period"),
            (LatencyPlan { periods: vec![Duration::from_us(9)], ..plan.clone() }, "expected 10 us to 10 ms"),
            (LatencyPlan { periods: vec![Duration::from_ms(11)], ..plan.clone() }, "expected 10 us to 10 ms"),
        ] {
            let told = latency(&bad, &AtomicBool::new(false), &mut |_, _| {}).unwrap_err();
            assert!(matches!(told, Error::Plan(_)) && told.to_string().contains(words), "{told}");
        }
    }
}
