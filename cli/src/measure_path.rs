//! `giusto measure path`.

use crate::args::MeasurePathArgs;
use crate::failure::{apart, create, Failure};
use crate::spread::{quantiles, spread};
use crate::table::{json, print, say};
use crate::tell::tell;
use giusto_daemon::{StageTimes, Status};
use giusto_measure::{PathEnds, PathReport, PathRun};
use giusto_model::{Duration, JobRecord, JobWriter, Path, PathLoad, PathObserve};
use giusto_verify::{Kept, Sample, Verdict};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

const WARM_UP: Duration = Duration::from_secs(1);

/// Sends what the path's source would, and tells how long it took to come back, and at which stages: 0 promised and kept, or
/// nothing can be judged; 5 missed; 6 cannot tell.
pub(crate) fn path(args: &MeasurePathArgs) -> Result<ExitCode, Failure> {
    apart(&[("--out", args.out.as_deref())], &[&args.site.site])?;
    let site = giusto_site::read(&args.site.site)?;
    let names: Vec<&str> = site.paths.all.iter().map(|path| path.name.as_str()).collect();
    let known = match names.is_empty() {
        true => "no paths at all; formats/site.md tells how one is written".to_string(),
        false => names.join(", "),
    };
    let unknown = || Failure::input(format!("the site has no path '{}'; it has {known}", args.path));
    let path = site.paths.all.iter().find(|path| path.name == args.path).ok_or_else(unknown)?;
    let mut ends = PathEnds::new(&load(args, path)?, args.seed)?;
    let times = stage_times(path, &ends);
    let generator = crate::generator::generator();
    let run = PathRun { warm_up: WARM_UP, length: args.length, seed: args.seed, generator };
    let mut report = ends.drive(path, &run, &mut |_| true)?;
    if let Some(missing) = times.and_then(|times| times.tell(&mut [&mut report], &|| false)) {
        tell(format_args!("{}: {missing}", path.name));
    }
    if let Some(out) = &args.out {
        let broken = |error| Failure::running(format!("cannot write {}: {error}", out.display()));
        let mut writer = JobWriter::new(create(out)?).map_err(broken)?;
        report.jobs.iter().try_for_each(|job| writer.write(job)).map_err(broken)?;
        writer.finish().map_err(broken)?;
    }
    told(args, path, &report)
}

/// Where messages go and come from: what the command line says, else the site.
fn load(args: &MeasurePathArgs, path: &Path) -> Result<PathLoad, Failure> {
    let lines = match &path.load {
        Some(load @ PathLoad::Http { .. }) if args.send.is_none() && args.receive.is_none() => return Ok(load.clone()),
        Some(PathLoad::Lines { send, receive }) => (Some(*send), Some(*receive)),
        Some(PathLoad::Http { .. }) | None => (None, None),
    };
    match (args.send.or(lines.0), args.receive.or(lines.1)) {
        (Some(send), Some(receive)) => Ok(PathLoad::Lines { send, receive }),
        (Some(_) | None, _) => Err(Failure::input(format!(
            "where messages of '{}' go and come from is not known: add load: {{send: 127.0.0.1:7101, \
             receive: 127.0.0.1:7100}} or load: {{http: 127.0.0.1:8080/orders}} to the path, or say --send and --receive",
            path.name
        ))),
    }
}

/// Listens for the spans of services that get requests, where the site says that they send some; tells why it does not.
fn stage_times(path: &Path, ends: &PathEnds) -> Option<StageTimes> {
    let (Some(PathObserve::Otlp(at)), Some(begin)) = (path.observe, ends.traces()) else { return None };
    match StageTimes::listen(at, path, begin) {
        Ok(times) => Some(times),
        Err(why) => {
            let is_told =
                |status: Status| status.paths.iter().any(|one| one.name == path.name && one.responses.is_some());
            match crate::running::look().is_ok_and(is_told) {
                true => tell(format_args!(
                    "the time at each stage is told by 'giusto status', as spans go to the running giusto"
                )),
                false => tell(format_args!("the time at each stage is not told: {why}; end what listens there")),
            }
            None
        }
    }
}

/// What became of the promise of a path.
pub(crate) struct Judged {
    /// Its percentiles; `None`: none were promised, or nothing came.
    pub(crate) kept: Option<Kept>,
    /// Messages that took longer than every one may; `None`: that was not promised.
    pub(crate) late: Option<usize>,
    pub(crate) verdict: Verdict,
}

/// Judges `path` by what was measured in each run.
pub(crate) fn judge(path: &Path, runs: &[&[JobRecord]]) -> Result<Judged, Failure> {
    let samples = runs.iter().map(|jobs| Sample::from_jobs(jobs)).collect::<Result<Vec<_>, _>>();
    let kept = match path.points.is_empty() || runs.iter().all(|jobs| jobs.is_empty()) {
        true => None,
        false => Some(giusto_verify::kept(&path.points, &samples.map_err(Failure::input)?).map_err(Failure::input)?),
    };
    let late = path.every.map(|every| {
        let is_late = |job: &&JobRecord| job.response_ns().is_none_or(|response| response > every.ns());
        runs.iter().flat_map(|jobs| jobs.iter()).filter(is_late).count()
    });
    let verdict = match (&kept, late) {
        (Some(kept), _) => kept.verdict,
        (None, Some(late)) if late > 0 => Verdict::Missed,
        _ => Verdict::Kept,
    };
    Ok(Judged { kept, late, verdict })
}

fn told(args: &MeasurePathArgs, path: &Path, report: &PathReport) -> Result<ExitCode, Failure> {
    let responses: Vec<u64> = report.jobs.iter().filter_map(|job| job.response_ns()).collect();
    let lateness = report.lateness();
    let Judged { kept, late, verdict } = judge(path, &[&report.jobs])?;
    let verdict = if lateness.is_stall() { Verdict::CannotTell } else { verdict };
    if lateness.is_stall() {
        tell(format_args!(
            "cannot tell: the load generator itself stalled: {lateness}; measure again on a quieter machine"
        ));
    }
    let end = ExitCode::from(verdict.exit_code());
    if args.site.json {
        let stages: serde_json::Map<String, serde_json::Value> =
            report.stages.iter().map(|(name, times)| (name.clone(), json!(quantiles(times)))).collect();
        json(
            &json!({"path": path.name, "messages": report.jobs.len(), "lost": report.lost, "failures": report.failures,
            "response_ns": quantiles(&responses), "stages_ns": stages, "late": late, "kept": kept}),
        )?;
        return Ok(end);
    }
    say!("{}: {} messages in {}, {} lost", path.name, report.jobs.len(), args.length, report.lost);
    failures(&[report]).iter().try_for_each(|line| print(line))?;
    print(&spent(path, &[report]))?;
    if let Some(kept) = &kept {
        print(&giusto_verify::table_kept(kept, &[], "measured"))?;
        say!("{}", kept.why);
    }
    if let (Some(late), Some(every)) = (late, path.every) {
        say!("{late} of {} took longer than the {every} that none may", report.jobs.len());
    }
    Ok(end)
}

/// Why messages were lost, a line each.
pub(crate) fn failures(reports: &[&PathReport]) -> Vec<String> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (why, count) in reports.iter().flat_map(|report| &report.failures) {
        *all.entry(why).or_default() += count;
    }
    all.iter().map(|(why, count)| format!("{count} of them: {why}\n")).collect()
}

/// A table of the time that messages took, all of it and at each stage that tells.
pub(crate) fn spent(path: &Path, reports: &[&PathReport]) -> String {
    let whole: Vec<u64> =
        reports.iter().flat_map(|report| report.jobs.iter().filter_map(JobRecord::response_ns)).collect();
    let at = |name: &str| -> Vec<u64> {
        reports.iter().filter_map(|report| report.stages.get(name)).flatten().copied().collect()
    };
    let mut rows = vec![("all of it", quantiles(&whole))];
    rows.extend(path.services().map(|name| (name, quantiles(&at(name)))));
    let told: Vec<(&str, &[u64; 4])> = rows.iter().filter(|(_, all)| all[3] > 0).map(|(n, all)| (*n, all)).collect();
    spread(&told)
}
