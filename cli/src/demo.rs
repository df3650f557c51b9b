//! `giusto demo`: an example site planned and simulated on a whole core, without a plan, and under the plan.

use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::plan;
use crate::report::{line, origin, write};
use crate::table::{print, say};
use giusto_model::{Duration, JobRecord, ServicePlan};
use giusto_planner::Facts;
use giusto_simulator::{in_parallel, predict_under, Execution, Under};
use giusto_verify::{Arm, Arms, Comparison, Findings, ReportMeta, Round, Row, Sample};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SITE: &str = include_str!("../../sites/demo.yaml");
/// Virtual time of each run.
const HORIZON: Duration = Duration::from_secs(1);
/// Rounds of two runs on a whole core, one without a plan and one under it: what a verdict needs, and one more.
const ROUNDS: u64 = 6;
const ARMS: u64 = 4;

/// Plans, plays, compares, and writes the page.
pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let site = giusto_site::parse("demo.yaml", SITE)?;
    let cores = site.hosts.iter().flat_map(|host| host.cores.clone()).collect();
    let planned = giusto_planner::plan(&site, &Facts::typical(cores))?;
    let service = planned.services.first().ok_or_else(|| Failure::running("the demo's site has no service to play"))?;
    let arms = arms(service, args.seed)?;
    let comparison = giusto_verify::compare(&arms, args.seed).map_err(Failure::running)?;
    say!("simulated, nothing is started or changed: {}\n", plan::service(service));
    print(&giusto_verify::table(&comparison, ""))?;
    say!("\n{}", meaning(&comparison, service));
    let page = giusto_verify::report_html(&meta(service, args.seed), Findings::AsIfAlone(&comparison, &arms));
    let file = written(&args.out, &page)?;
    say!("the page: {}", file.display());
    say!("next: 'giusto doctor' says whether this machine can enforce it; 'make run' measures it with a real Redis");
    Ok(ExitCode::SUCCESS)
}

/// All runs, on all processors.
fn arms(service: &ServicePlan, seed: u64) -> Result<Arms, Failure> {
    let mut runs = in_parallel((ROUNDS * ARMS) as usize, |nth| run(service, nth as u64, seed))?.into_iter();
    let mut round =
        || Round { whole_a: runs.next(), whole_b: runs.next(), unprotected: runs.next(), giusto: runs.next() };
    Ok(Arms { rounds: (0..ROUNDS).map(|_| round()).collect(), ..Arms::default() })
}

/// The response times of run `nth`: two on a whole core, one beside others under a fair scheduler, one under the plan.
fn run(service: &ServicePlan, nth: u64, seed: u64) -> Result<Sample, Failure> {
    let planned = Under::Server(service.server.kind);
    let mut service = service.clone();
    let under = match nth % ARMS {
        0 | 1 => {
            service.server.budget = service.server.period; // all of the core
            planned
        }
        2 => Under::Fair,
        _ => planned,
    };
    let mut jobs: Vec<JobRecord> = Vec::new();
    let mut keep = |server: usize, job: &JobRecord| {
        if server == 0 {
            jobs.push(*job);
        }
    };
    predict_under(&service, under, execution(), &[], HORIZON, seed.wrapping_add(nth), &mut keep)?;
    Sample::from_jobs(&jobs).map_err(Failure::running)
}

/// Execution times from 30 us to the declared 50 us, as those of real requests differ.
fn execution() -> Execution {
    Execution::Samples((0..=100).map(|part| 30_000 + 200 * part).collect())
}

/// One sentence about the table.
fn meaning(comparison: &Comparison, service: &ServicePlan) -> String {
    let row = |arm: Arm| comparison.rows.iter().find(|row| row.arm == arm);
    let p99 = |row: &Row| row.percentiles.get(1).and_then(|one| one.value);
    let of = |arm: Arm| row(arm).and_then(p99).map_or(f64::NAN, |ns| ns as f64);
    let [whole, unprotected, giusto] = [Arm::Whole, Arm::Unprotected, Arm::Giusto].map(of);
    let server = &service.server;
    let share = server.budget.ns() as f64 / server.period.ns() as f64 * 100.0;
    format!(
        "Beside a program that takes every cycle it can get, {} answers on {share:.0} % of a core as on a whole one \
         (p99 {} against {}); without a plan its p99 is {:.0} times as long ({}).",
        service.name,
        time(giusto),
        time(whole),
        unprotected / whole,
        time(unprotected)
    )
}

fn time(ns: f64) -> String {
    format!("{:.3}", Duration::from_ns(ns.round() as u64))
}

fn meta(service: &ServicePlan, seed: u64) -> ReportMeta {
    let mut lines = vec![
        line("simulated", "every number on this page; nothing was started, enforced or measured"),
        line("plan", plan::service(service)),
        line("runs", format!("{ROUNDS} rounds of {ARMS} runs of {HORIZON} of virtual time, seeds from {seed}")),
        line("execution times", "30 to 50 us, evenly spread"),
        line("shared, no plan", "a fair scheduler, equal weights"),
        line("the site", "sites/demo.yaml, part of the program"),
    ];
    lines.extend(origin());
    let outcome = "in a simulation: 'giusto run SITE --trial' measures it on a machine".into();
    ReportMeta { title: "giusto demo: as if alone?".into(), outcome, lines, schedule: Vec::new() }
}

/// Writes the page where it was asked for, or else into the folder for temporary files.
fn written(wanted: &Path, page: &str) -> Result<PathBuf, Failure> {
    let Err(failure) = write(wanted, page) else { return Ok(wanted.to_path_buf()) };
    let name = format!("giusto-demo-{}.html", std::process::id());
    let other = std::env::temp_dir().join(name);
    write(&other, page).map_err(|_| failure)?;
    Ok(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_site_is_planned_and_its_plan_beats_no_plan() {
        let site = giusto_site::parse("demo.yaml", SITE).unwrap();
        let plan = giusto_planner::plan(&site, &Facts::typical(vec![1])).unwrap();
        let arms = arms(&plan.services[0], 1).unwrap();
        let comparison = giusto_verify::compare(&arms, 1).unwrap();
        assert_eq!(comparison.verdict, giusto_verify::Verdict::Kept, "{}", comparison.why);
        assert!(comparison.ratio_unprotected.unwrap() > 10.0);
        assert!(meaning(&comparison, &plan.services[0]).contains("without a plan its p99 is "));
    }
}
