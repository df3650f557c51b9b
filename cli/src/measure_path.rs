//! `giusto measure path`.

use crate::args::MeasurePathArgs;
use crate::failure::{apart, create, Failure};
use crate::spread::{quantiles, spread};
use crate::table::{json, print, say};
use crate::tell::tell;
use giusto_measure::{LoadPlan, PathReport};
use giusto_model::{Arrivals, Duration, JobWriter, Load, Path, PathSource, Task};
use giusto_verify::{Sample, Verdict};
use serde_json::json;
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
    let load = Load::Echo { address: args.send, value: 1 };
    let (tasks, arrivals) = source(path);
    let plan = LoadPlan {
        load: &load,
        tasks: &tasks,
        arrivals,
        trace: &[],
        warm_up: WARM_UP,
        run: args.length,
        seed: args.seed,
        generator: crate::generator::generator(),
    };
    let report = giusto_measure::drive_path(&plan, args.receive, &mut |_| true)?;
    if let Some(out) = &args.out {
        let broken = |error| Failure::running(format!("cannot write {}: {error}", out.display()));
        let mut writer = JobWriter::new(create(out)?).map_err(broken)?;
        report.jobs.iter().try_for_each(|job| writer.write(job)).map_err(broken)?;
        writer.finish().map_err(broken)?;
    }
    told(args, path, &report)
}

/// How messages come, as tasks or at random.
fn source(path: &Path) -> (Vec<Task>, Option<Arrivals>) {
    match path.source {
        PathSource::Poisson(rate) => (Vec::new(), Some(Arrivals { rate, batch: 1 })),
        // Each of a burst is a client of its own; they are sent when they are due.
        PathSource::Periodic { period, burst, .. } => {
            let task = Task { copies: burst, ..Task::sporadic(&path.name, Duration::from_ns(1), period) };
            (vec![task], None)
        }
    }
}

fn told(args: &MeasurePathArgs, path: &Path, report: &PathReport) -> Result<ExitCode, Failure> {
    let responses: Vec<u64> = report.jobs.iter().filter_map(|job| job.response_ns()).collect();
    let lateness = report.lateness();
    let judged = match path.points.is_empty() || report.jobs.is_empty() {
        true => None,
        false => {
            let sample = Sample::from_jobs(&report.jobs).map_err(Failure::input)?;
            Some(giusto_verify::kept(&path.points, &[sample]).map_err(Failure::input)?)
        }
    };
    let late = path.every.map(|every| {
        let late = report.jobs.iter().filter(|job| job.response_ns().is_none_or(|response| response > every.ns()));
        late.count()
    });
    let verdict = match (&judged, late) {
        _ if lateness.is_stall() => Verdict::CannotTell,
        (Some(kept), _) => kept.verdict,
        (None, Some(late)) if late > 0 => Verdict::Missed,
        _ => Verdict::Kept,
    };
    if lateness.is_stall() {
        tell(format_args!(
            "cannot tell: the load generator itself stalled: {lateness}; measure again on a quieter machine"
        ));
    }
    let end = ExitCode::from(verdict.exit_code());
    if args.site.json {
        let stages: serde_json::Map<String, serde_json::Value> =
            report.stages.iter().map(|(name, times)| (name.clone(), json!(quantiles(times)))).collect();
        json(&json!({"path": path.name, "messages": report.jobs.len(), "lost": report.lost,
            "response_ns": quantiles(&responses), "stages_ns": stages, "late": late, "kept": judged}))?;
        return Ok(end);
    }
    say!("{}: {} messages in {}, {} lost", path.name, report.jobs.len(), args.length, report.lost);
    let whole = quantiles(&responses);
    let stages: Vec<(&str, [u64; 4])> =
        path.through.iter().filter_map(|name| Some((name.as_str(), quantiles(report.stages.get(name)?)))).collect();
    let mut rows: Vec<(&str, &[u64; 4])> = vec![("all of it", &whole)];
    rows.extend(stages.iter().map(|(name, values)| (*name, values)));
    print(&spread(&rows))?;
    if let Some(kept) = &judged {
        print(&giusto_verify::table_kept(kept, ("proven", &[]), "measured"))?;
        say!("{}", kept.why);
    }
    if let (Some(late), Some(every)) = (late, path.every) {
        say!("{late} of {} took longer than the {every} that none may", report.jobs.len());
    }
    Ok(end)
}
