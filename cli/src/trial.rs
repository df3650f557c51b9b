//! `giusto run --trial`: measures what the requests cost here, plans with it, and measures whether the promise is kept.

use crate::args::RunArgs;
use crate::begin::{asked, introduce, lacks, tell_restored, Around};
use crate::failure::{create, Failure};
use crate::judged::{self, Found};
use crate::path_trial::{self, Files};
use crate::plan::{self, Read};
use crate::tell::tell;
use giusto_daemon::{Calibration, Deployment, Journal, Next, Options, Restored, Slice, Talk, Trial};
use giusto_model::{Duration, Measured, Observation, Plan, Promise, ServicePlan};
use giusto_verify::{Demand, DemandVerdict, Verdict};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Runs the trial of a site; `journal` is what [`Journal::open`] gave before the machine was looked at.
pub(crate) fn trial(
    args: &RunArgs,
    read: &Read,
    journal: Result<(Journal, Restored), giusto_daemon::Error>,
    around: &Around,
) -> Result<ExitCode, Failure> {
    let (start, site) = (Instant::now(), &read.site);
    let mut say = |text: String| tell(format_args!("[{:>4.0} s] {text}", start.elapsed().as_secs_f64()));
    let stop = || around.signals.stopped();
    // What is to be measured is guessed until it is.
    let guessed = site.with_placeholders();
    let first = plan::here(&guessed, &read.from, &asked(args))?;
    let tried = giusto_daemon::loads(&first);
    let only_paths = matches!(tried, Err(giusto_daemon::Error::NothingToTry)) && !site.paths.all.is_empty();
    if only_paths {
        giusto_daemon::path_loads(&site.paths.all).map_err(Failure::input)?;
    } else {
        tried.map_err(Failure::input)?;
    }
    let missing = giusto_daemon::missing(&first, around.machine);
    if !missing.is_empty() {
        if site.services.iter().any(|service| service.measured != Measured::Declared) {
            return Err(lacks(args, None, &missing)?); // placeholders foretell nothing
        }
        let mut first = first;
        plan::predict_all(&mut first, args.seed)?;
        return Err(lacks(args, Some(&first), &missing)?);
    }
    let (mut journal, earlier) = journal?;
    tell_restored(&earlier)?;
    let folder = Folder::new(&args.out)?;
    let options = Options { slice: args.slice, at_most: args.at_most, seed: args.seed };
    if only_paths {
        let files = Files { folder: &folder.path, plan: &args.out.join("plan.json"), logs: &args.out.join("logs") };
        let code = path_trial::trial(args, site, &first, &files, &mut journal, around, &mut say)?;
        folder.link()?;
        return Ok(code);
    }

    // 1. What do the requests cost here, under their own load on a whole core?
    let logs = args.out.join("logs");
    let mut deployment = Deployment::set(&first, around.machine, &mut journal, &logs, around.watchdog.beats())?;
    deployment.check()?;
    let is_measured = site.services.iter().any(|service| service.measured != Measured::Declared);
    let mut measurements = 0;
    let (mut calibrations, (mut plan, mut anew)) = loop {
        let cores = &around.machine.cores;
        let found = giusto_daemon::calibrate(&mut deployment, &first, site, cores, options, &stop, &mut say)?;
        save_profiles(&args.out, &found)?;
        measurements += 1;
        // 2. The plan, from what was declared or measured; anew, where more is asked for than was declared.
        match planned(args, read, first.clone(), &found) {
            // One hole in the machine is enough for a time that no plan fits.
            Err(refused) if is_measured && measurements < MEASUREMENTS => {
                say(format!("{refused}; the machine may have been disturbed meanwhile: once more"));
            }
            done => break (found, done?),
        }
    };
    plan::predict_all(&mut plan, args.seed)?;
    let plan_file = args.out.join("plan.json");
    create(&plan_file)?;
    giusto_planner::write(&plan, &plan_file)?;
    giusto_planner::write(&plan, &folder.path.join("plan.json"))?;
    if !args.site.json {
        introduce(&plan, &plan_file)?;
    }
    for found in &anew.told {
        say(found.clone());
    }
    if anew.changed {
        deployment.finish()?;
        deployment = Deployment::set(&plan, around.machine, &mut journal, &logs, around.watchdog.beats())?;
        deployment.check()?;
    }

    // 3. Slices, until the verdict is clear; once more with another plan, where requests cost more in them than was
    // planned for.
    // The time counts from the start, and half of it is for slices in any case.
    let left = || Duration::from_ns(args.at_most.ns().saturating_sub(start.elapsed().as_nanos() as u64));
    let half = Duration::from_ns(args.at_most.ns() / 2);
    let mut options = Options { at_most: left().max(half), ..options };
    let mut replans = 0;
    let trials = loop {
        let mut dearer = None;
        let mut judge = |service: &ServicePlan, trial: &Trial<Slice>| {
            if replans < REPLANS && left() > half {
                dearer = dearer.take().or_else(|| costs_more(service, trial, &calibrations));
            }
            match &dearer {
                Some(_) => Next::Enough,
                // What cannot be judged now cannot be at the end either, and is told there.
                None => next(service, trial, args.seed).unwrap_or_else(|failure| Next::More(failure.to_string())),
            }
        };
        let mut talk = Talk { stop: &stop, say: &mut say, judge: &mut judge };
        let trials = giusto_daemon::trial(&mut deployment, &plan, &around.machine.cores, options, &mut talk)?;
        let Some(Dearer { service, windows, told }) = dearer else { break trials };
        replans += 1;
        say(told);
        for one in calibrations.iter_mut().filter(|one| one.service == service) {
            one.observation.widen(&windows);
        }
        options.at_most = left().max(half);
        match replanned(args, read, &calibrations, &service) {
            Ok(new) => plan = new,
            Err(failure) => {
                say(format!("{service}: no plan for that fits, so this one stays: {failure}"));
                replans = REPLANS;
                continue;
            }
        }
        plan::predict_all(&mut plan, args.seed)?;
        giusto_planner::write(&plan, &plan_file)?;
        giusto_planner::write(&plan, &folder.path.join("plan.json"))?;
        plan.services.iter().for_each(|one| say(format!("{}: planned anew: {}", one.name, plan::service(one))));
        deployment.finish()?;
        deployment = Deployment::set(&plan, around.machine, &mut journal, &logs, around.watchdog.beats())?;
        deployment.check()?;
    };
    for trial in &trials {
        let service = plan.services.iter().find(|one| one.name == trial.name);
        if let Some(dearer) = service.and_then(|service| costs_more(service, trial, &calibrations)) {
            say(dearer.told);
        }
    }
    save_profiles(&args.out, &calibrations)?;
    let overloaded = anew.demands.iter().any(|(_, demand)| demand.verdict == DemandVerdict::Overloaded);
    if replans > 0 {
        anew.demands = demands_of(&plan, &calibrations, &anew.demands);
    }
    let restored = deployment.finish();
    let found = Found { args, folder: &folder.path, plan: &plan, calibrations: &calibrations, demands: &anew.demands };
    let judged = judged::judge(&found, &trials); // what was measured is not lost where undoing failed
    let linked = folder.link();
    restored?;
    linked?;
    let code = match judged? {
        // The promise was kept, but not by the share that was declared enough.
        Verdict::Kept if overloaded => 1,
        verdict => verdict.exit_code(),
    };
    Ok(ExitCode::from(code))
}

/// How often a plan is replaced by another one within a trial, in the first half of its time: the other plan needs the rest.
const REPLANS: u32 = 2;
/// ... and what no plan fits is measured so often.
const MEASUREMENTS: u32 = 3;

/// A service whose requests cost more on a whole core during the trial than its budget has room for.
struct Dearer {
    service: String,
    windows: Vec<[u64; 2]>,
    told: String,
}

/// Whether the whole-core slices so far ask for more in a period than the budget: the plan rests on a faster machine
/// then, and what is
/// measured under it says nothing of the promise.
fn costs_more(service: &ServicePlan, trial: &Trial<Slice>, calibrations: &[Calibration]) -> Option<Dearer> {
    let calibrated = &calibrations.iter().find(|one| one.service == service.name)?.observation;
    let mut seen = calibrated.clone();
    let whole = trial.slices.iter().filter(|slice| slice.arm == giusto_daemon::Arm::Whole);
    whole.for_each(|slice| seen.widen(&slice.windows));
    let (period, budget) = (service.server.period, service.server.budget);
    if service.tasks.is_empty() || seen.greatest(period) <= budget {
        return None;
    }
    let us = |one: &Observation| one.greatest_mean(period).ns() as f64 / 1e3;
    let told = format!(
        "{}: a request takes up to {:.1} us over {period:.3} in these slices, {:.1} us when it was calibrated: the machine has slowed down",
        service.name,
        us(&seen),
        us(calibrated)
    );
    Some(Dearer { service: service.name.clone(), windows: seen.windows, told })
}

/// The plan from what was measured by now; of what was declared that of `service` is replaced.
fn replanned(args: &RunArgs, read: &Read, calibrations: &[Calibration], service: &str) -> Result<Plan, Failure> {
    let observations: Vec<Observation> = calibrations.iter().map(|one| one.observation.clone()).collect();
    let (here, facts) = (plan::this_machine(), plan::facts(&read.site, &asked(args))?);
    let resolved = giusto_planner::with_measured(&read.site, &observations, &[service.to_string()], &here, &facts)?;
    plan::here(&resolved.site, &read.from, &asked(args))
}

/// What calibration says of the plan.
struct Anew {
    /// By service, against the plan that was declared.
    demands: Vec<(String, Demand)>,
    /// Sentences.
    told: Vec<String>,
    /// Whether the plan is another one than the first.
    changed: bool,
}

/// The plan to be tried: from what was declared, or measured; anew, where more is asked for than the declared share gives.
fn planned(args: &RunArgs, read: &Read, first: Plan, calibrations: &[Calibration]) -> Result<(Plan, Anew), Failure> {
    let site = &read.site;
    let observations: Vec<Observation> = calibrations.iter().map(|one| one.observation.clone()).collect();
    let wanted = |name: &str| {
        let service = site.services.iter().find(|service| service.name == name);
        service.is_some_and(|service| matches!(service.measured, Measured::Wanted { .. }))
    };
    let mut anew = Anew { demands: Vec::new(), told: Vec::new(), changed: false };
    let mut overloaded = Vec::new();
    for service in first.services.iter().filter(|service| !wanted(&service.name)) {
        let Some(observation) = observations.iter().find(|one| one.service == service.name) else { continue };
        let demand = demand(service, observation, true);
        if demand.verdict == DemandVerdict::Overloaded {
            overloaded.push(service.name.clone());
        }
        anew.told.push(format!("{}: {}", service.name, demand.words()));
        anew.demands.push((service.name.clone(), demand));
    }
    let to_measure = site.services.iter().any(|service| wanted(&service.name));
    if overloaded.is_empty() && !to_measure {
        return Ok((first, anew));
    }
    let here = plan::this_machine();
    let facts = plan::facts(site, &asked(args))?;
    let resolved = giusto_planner::with_measured(site, &observations, &overloaded, &here, &facts)?;
    let plan = plan::here(&resolved.site, &read.from, &asked(args))
        .map_err(|failure| failure.about(anew.told.first().map_or("from what was measured", String::as_str)))?;
    anew.changed = true;
    for service in &plan.services {
        let Some(observation) = observations.iter().find(|one| one.service == service.name) else { continue };
        if wanted(&service.name) {
            anew.demands.push((service.name.clone(), demand(service, observation, false)));
        } else if overloaded.contains(&service.name) {
            anew.told.push(format!("{}: planned anew: {}", service.name, plan::service(service)));
        }
    }
    Ok((plan, anew))
}

/// The same `demands`, beside the shares of another plan.
fn demands_of(plan: &Plan, calibrations: &[Calibration], demands: &[(String, Demand)]) -> Vec<(String, Demand)> {
    let one = |(name, old): &(String, Demand)| {
        let service = plan.services.iter().find(|service| service.name == *name)?;
        let observation = &calibrations.iter().find(|one| one.service == *name)?.observation;
        Some((name.clone(), demand(service, observation, old.declared.is_some())))
    };
    demands.iter().filter_map(one).collect()
}

/// What a service asks for, beside the share that it has in its plan.
fn demand(service: &ServicePlan, observation: &Observation, declared: bool) -> Demand {
    let said = match &service.promise {
        Promise::Percentiles { service, .. } => {
            let times = service.samples();
            Duration::from_ns(times.iter().sum::<u64>() / times.len().max(1) as u64)
        }
        _ => service.tasks.iter().map(|task| task.wcet).max().unwrap_or_default(),
    };
    let server = &service.server;
    Demand::of(
        server,
        service.margin,
        observation.mean,
        declared.then_some(said),
        observation.utilization(),
        observation.greatest(server.period),
    )
}

/// Whether more slices are needed.
fn next(service: &ServicePlan, trial: &Trial<Slice>, seed: u64) -> Result<Next, Failure> {
    let (verdict, why) = match &service.promise {
        Promise::Percentiles { points, .. } => match judged::kept(points, trial, giusto_daemon::Arm::Giusto)? {
            Some((kept, _)) => (kept.verdict, kept.why),
            None => (Verdict::CannotTell, "no slice counts yet".into()),
        },
        _ => {
            let (comparison, _) = judged::compared(trial, None, seed)?;
            if comparison.verdict == Verdict::Kept && comparison.bluntness().is_none_or(|blunt| blunt > SHARP) {
                return Ok(Next::More(format!("kept so far, more slices sharpen the limit: {}", comparison.why)));
            }
            (comparison.verdict, comparison.why)
        }
    };
    let cycles = trial.slices.iter().map(|slice| slice.cycle).max().unwrap_or(0);
    Ok(match verdict {
        Verdict::Kept => Next::Enough,
        // What one disturbance did shall not condemn: it takes a quarter of a minute at least.
        Verdict::Missed if cycles >= MISSED_CYCLES => Next::Enough,
        Verdict::Missed => Next::More(format!("looks missed: {why}")),
        Verdict::CannotTell => Next::More(why),
    })
}

/// A trial whose limit is a larger part of the median response time goes on although the promise is kept, while there is time.
const SHARP: f64 = 0.25;

/// Fewest cycles after which a promise is found missed.
const MISSED_CYCLES: u32 = 12;

/// `out/profiles/cache.json`, for `giusto plan`.
fn save_profiles(out: &Path, calibrations: &[Calibration]) -> Result<(), Failure> {
    calibrations.iter().try_for_each(|one| plan::save_profile(&out.join("profiles"), &one.observation).map(drop))
}

/// Where the files of one trial go: `out/trials/2026-11-23T20-54-08Z`; the latest is linked.
struct Folder {
    path: PathBuf,
    link: PathBuf,
}

impl Folder {
    fn new(out: &Path) -> Result<Folder, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let trials = out.join("trials");
        let name = stamp(now);
        let numbered = (2..).map(|number| format!("{name}.{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let path = names.find_map(|name| Some(trials.join(name)).filter(|path| !path.exists()));
        let path = path.unwrap_or_else(|| trials.join(name));
        let cannot = |error| Failure::running(format!("cannot make the folder {}: {error}", path.display()));
        std::fs::create_dir_all(&path).map_err(cannot)?;
        Ok(Folder { link: trials.join("latest"), path })
    }

    /// Links this one as the latest.
    fn link(&self) -> Result<(), Failure> {
        let cannot = |error| Failure::running(format!("cannot link {}: {error}", self.link.display()));
        match std::fs::remove_file(&self.link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        std::os::unix::fs::symlink(self.path.file_name().unwrap_or_default(), &self.link).map_err(cannot)
    }
}

/// `2026-11-23T20-54-08Z` of so many seconds since 1970 (days from civil, Howard Hinnant's inverse).
fn stamp(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}-{:02}-{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_is_named_after_the_second_in_which_it_was_made() {
        // date -u -d @N
        for (seconds, name) in [
            (0, "1970-01-01T00-00-00Z"),
            (951_782_399, "2000-02-28T23-59-59Z"),
            (951_782_400, "2000-02-29T00-00-00Z"),
            (1_795_467_248, "2026-11-23T20-54-08Z"),
            (4_107_542_399, "2100-02-28T23-59-59Z"),
            (4_107_542_400, "2100-03-01T00-00-00Z"),
        ] {
            assert_eq!(super::stamp(seconds), name);
        }
    }
}
