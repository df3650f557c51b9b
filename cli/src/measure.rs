//! `giusto measure`.

use crate::args::{ExecutionArgs, Measure, MeasureArgs, ResponseArgs, PROFILES};
use crate::failure::{apart, create, Failure};
use crate::generator::generator;
use crate::spread::{quantiles, spread};
use crate::table::{json, say};
use crate::tell::tell;
use giusto_daemon::Subject;
use giusto_measure::{Generator, LoadPlan, Profile};
use giusto_model::{About, Bandwidth, Duration, JobWriter, Load, Measured, Observation, Promise, Service, Site, Task};
use giusto_site::read_arrivals;
use giusto_verify::Verdict;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// How long to drive a service by default.
const LENGTH: Duration = Duration::from_secs(5);

/// Dispatches.
pub(crate) fn measure(verb: &Measure) -> Result<ExitCode, Failure> {
    match verb {
        Measure::Execution(args) => execution(args),
        Measure::Response(args) => response(args),
        Measure::Path(args) => crate::measure_path::path(args),
        Measure::Supply(args) => crate::supply::supply(args),
        Measure::Latency(args) => crate::latency::latency(args),
        Measure::Packets(args) => crate::packets::packets(args),
        Measure::Import(args) => crate::import::import(args),
    }
}

fn execution(
    ExecutionArgs { measure: args, profiles, requests, samples }: &ExecutionArgs,
) -> Result<ExitCode, Failure> {
    apart(&[("--samples", samples.as_deref())], &[&args.site.site])?;
    let (service, load) = service(args, Ok)?;
    let pid = giusto_measure::listener(load.address())?;
    let profile = giusto_measure::profile(&load, pid, *requests, args.seed, &Generator::default())?;
    if let Some(out) = samples {
        profile
            .write(create(out)?)
            .map_err(|error| Failure::running(format!("cannot write {}: {error}", out.display())))?;
    }
    let observed = observe(args, &service, &load, pid)?;
    let file = observed.as_ref().map(|one| crate::plan::save_profile(&profiles.folder, one)).transpose()?;
    let (execution, transport) = (quantiles(&profile.execution), quantiles(&profile.transport));
    let within = intervals(&profile.execution);
    if args.site.json {
        return json(
            &json!({"requests": profile.execution.len(), "execution_ns": execution, "execution_within_ns": within,
                "transport_ns": transport, "profile": file, "observed": observed}),
        );
    }
    say!("{}: {} requests, one at a time", service.name, profile.execution.len());
    crate::table::print(&spread(&[("execution", &execution), ("round trip beyond it", &transport)]))?;
    let shown = |nth: usize| {
        let end = |at: Option<u64>| at.map_or("?".into(), |ns| format!("{:.1}", ns as f64 / 1000.0));
        format!("{} {} to {} us", ["p50", "p99", "p99.9"][nth], end(within[nth][0]), end(within[nth][1]))
    };
    say!("execution, 95 % sure: {}, {}, {} (?: too few requests to tell)", shown(0), shown(1), shown(2));
    if let (Some(observed), Some(file)) = (&observed, &file) {
        say!("{}: {}", service.name, giusto_daemon::cost(observed));
        say!("profile: {}", file.display());
    }
    let declared = service.measured == Measured::Declared && service.promise.about() != About::Supply;
    if declared {
        say!("{}", conformance(&service.promise, &service.tasks, &profile));
    }
    Ok(ExitCode::SUCCESS)
}

/// Under its own load; `None` where the site does not say how often requests come.
fn observe(args: &MeasureArgs, service: &Service, load: &Load, pid: u32) -> Result<Option<Observation>, Failure> {
    let fits = if let Measured::Wanted { fits } = &service.measured { fits.as_slice() } else { &[] };
    let subject = Subject {
        name: &service.name,
        origin: giusto_planner::origin(&service.origin),
        tasks: &service.tasks,
        arrivals: service.promise.arrivals().or(load.arrivals()),
        fits,
        load,
        pids: vec![pid],
        core: None,
        generator: generator(),
        seed: args.seed,
    };
    if subject.tasks.is_empty() && subject.arrivals.is_none() {
        return Ok(None);
    }
    tell(format_args!("{}: measuring under its own load for some 10 s", service.name));
    Ok(Some(subject.observe(&|| false)?))
}

fn response(ResponseArgs { measure: args, out, length, trace }: &ResponseArgs) -> Result<ExitCode, Failure> {
    let read: Vec<&Path> = std::iter::once(args.site.site.as_path()).chain(trace.as_deref()).collect();
    apart(&[("--out", out.as_deref())], &read)?;
    let (service, load) =
        service(args, |site| crate::plan::measured_here(&site, Path::new(PROFILES), &Default::default()))?;
    let trace = trace.as_deref().map(instants).transpose()?.unwrap_or_default();
    let whole = trace.first().zip(trace.last()).map(|(first, last)| Duration::from_ns(last - first + 1));
    let length = length.or(whole).unwrap_or(LENGTH);
    let plan = LoadPlan {
        load: &load,
        tasks: &service.tasks,
        arrivals: service.promise.arrivals().or(load.arrivals()),
        trace: &trace,
        warm_up: Duration::from_ms(300),
        run: length,
        seed: args.seed,
        generator: generator(),
    };
    let report = giusto_measure::drive(&plan, &mut |_| true)?;
    if let Some(out) = out {
        let broken = |error| Failure::running(format!("cannot write {}: {error}", out.display()));
        let mut writer = JobWriter::new(create(out)?).map_err(broken)?;
        report.jobs.iter().try_for_each(|job| writer.write(job)).map_err(broken)?;
        writer.finish().map_err(broken)?;
    }
    let responses: Vec<u64> = report.jobs.iter().filter_map(|job| job.response_ns()).collect();
    let late: Vec<u64> = report.jobs.iter().filter_map(|job| job.release.since(job.due)).map(|d| d.ns()).collect();
    let (responses, late) = (quantiles(&responses), quantiles(&late));
    let lateness = report.lateness();
    let end = if lateness.is_stall() {
        tell(format_args!(
            "cannot tell: the load generator itself stalled: {lateness}; measure again on a quieter machine"
        ));
        ExitCode::from(Verdict::CannotTell.exit_code())
    } else {
        ExitCode::SUCCESS
    };
    if args.site.json {
        json(&json!({"jobs": report.jobs.len(), "lost": report.lost, "errors": report.errors,
            "response_ns": responses, "late_ns": late, "late_excess_ns": lateness.excess}))?;
        return Ok(end);
    }
    say!("{}: {} jobs in {}, {} lost, {} errors", service.name, report.jobs.len(), length, report.lost, report.errors);
    crate::table::print(&spread(&[("response", &responses), ("sent late by", &late)]))?;
    Ok(end)
}

/// The instants of a file, in ascending order.
fn instants(file: &Path) -> Result<Vec<u64>, Failure> {
    let named = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| named(&error))?;
    let arrivals = read_arrivals(&text).map_err(|error| named(&error))?;
    let mut all: Vec<u64> = arrivals.iter().map(|at| at.ns()).collect();
    all.sort_unstable();
    Ok(all)
}

/// The service that was asked for, and its load.
fn service(
    args: &MeasureArgs,
    resolve: impl FnOnce(Site) -> Result<Site, Failure>,
) -> Result<(Service, Load), Failure> {
    let site = resolve(giusto_site::read(&args.site.site)?)?;
    let names: Vec<&str> = site.services.iter().map(|s| s.name.as_str()).collect();
    let unknown = || Failure::input(format!("the site has no service '{}'; it has {}", args.service, names.join(", ")));
    let service = site.services.iter().find(|s| s.name == args.service).ok_or_else(unknown)?;
    let undriven = || {
        Failure::input(format!(
            "the site does not say how to drive '{}': add load: {{redis: ADDRESS, fields: N, value: N}}, \
             {{memcached: ADDRESS, value: N}}",
            service.name
        ))
    };
    Ok((service.clone(), service.load.clone().ok_or_else(undriven)?))
}

/// Of median, 99 % and 99.9 % the 95 % confidence intervals, from order statistics: so many of n independent values lie below a
/// quantile as a binomial distribution says, taken to be normal and a rank wider. An end is `None` where no value is far enough
/// out. O(n log n).
fn intervals(values: &[u64]) -> [[Option<u64>; 2]; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let n = sorted.len() as f64;
    [0.5, 0.99, 0.999].map(|p| {
        let (mean, spread) = (n * p, 1.96 * (n * p * (1.0 - p)).sqrt());
        let at = |rank: f64| (rank >= 1.0).then(|| sorted.get(rank as usize - 1).copied()).flatten();
        [at((mean - spread).floor()), at((mean + spread).ceil() + 1.0)]
    })
}

/// Theory speaks of tasks that keep to their worst case; says how many requests do not.
pub(crate) fn conformance(promise: &Promise, tasks: &[Task], profile: &Profile) -> String {
    let declared = match promise {
        Promise::Percentiles { service, .. } => service.longest().ns(),
        _ => tasks.iter().map(|task| task.wcet.ns()).max().unwrap_or(0),
    };
    let above = profile.execution.iter().filter(|&&ns| ns > declared).count();
    let median = Duration::from_ns(quantiles(&profile.execution)[0]);
    let percent =
        Bandwidth::new(above as u64, profile.execution.len().max(1) as u64).unwrap_or(Bandwidth::ZERO).percent();
    format!(
        "a request takes {median} of processor time (median); {percent} take more than the {} declared",
        Duration::from_ns(declared)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many samples of a known distribution: the interval has the quantile in at least 95 of 100 of them.
    #[test]
    fn intervals_have_the_quantile_as_often_as_they_say() {
        let (rounds, n) = (1000u64, 3000u64);
        let mut found = [0; 3];
        let mut state = 9u64;
        for _ in 0..rounds {
            // Uniform on 0 to 10^6 (a linear congruential generator's upper bits, Knuth).
            let mut draw = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % 1_000_000
            };
            let values: Vec<u64> = (0..n).map(|_| draw()).collect();
            for (nth, quantile) in [500_000, 990_000, 999_000].into_iter().enumerate() {
                let [low, high] = intervals(&values)[nth];
                found[nth] +=
                    u64::from(low.is_none_or(|low| low <= quantile) && high.is_none_or(|high| quantile <= high));
            }
        }
        assert!(found.iter().all(|found| *found >= 945), "{found:?} of {rounds}");
        assert_eq!(intervals(&[7; 20])[1][1], None, "20 values say nothing above their 99th percentile");
        assert_eq!(intervals(&[]), [[None; 2]; 3]);
    }
}
