//! `giusto analyze interface --given`: whether a resource is enough.

use crate::args::{Inside, InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::interface::{proof, slack};
use crate::table::{json, print, say, table};
use giusto_analysis::interface::sensitivity::{sensitivity, Limit};
use giusto_analysis::interface::{schedulable, Certificate, Resource, Shortfall};
use giusto_planner::share as percent;
use serde::Serialize;
use std::process::ExitCode;

/// What `--json` prints (`formats/interface.schema.json`).
#[derive(Serialize)]
struct Answer<'a> {
    /// It is enough: why.
    certificate: Option<&'a Certificate>,
    /// It is not: where it falls short.
    shortfall: Option<&'a Shortfall>,
    /// With --sensitivity, of what is enough.
    sensitivity: Option<&'a [Limit]>,
}

/// 0: it is enough, 1: it is not.
pub(crate) fn given(args: &InterfaceArgs, given: &Resource) -> Result<ExitCode, Failure> {
    let Some(Inside::One(scheduler)) = args.scheduler else {
        return Err(Failure::input("--given goes with a scheduler of one processor: --scheduler rm, dm or edf"));
    };
    let tasks = &crate::analyze::named(&args.tasks);
    let resource = match (args.supply, given) {
        (Supply::General, _) | (Supply::Edp, Resource::ExplicitDeadline { .. }) => given.clone(),
        (Supply::Aligned, Resource::Periodic { period, budget }) => {
            Resource::Aligned { period: *period, budget: *budget }
        }
        _ => {
            return Err(Failure::input(
                "--supply aligned goes with --given budget/period, edp with budget/period@deadline",
            ))
        }
    };
    let found = schedulable(tasks, scheduler, &resource, args.latency).map_err(Failure::input)?;
    let limits = match (&found, args.sensitivity) {
        (Ok(_), true) => sensitivity(tasks, scheduler, &resource, args.latency).map_err(Failure::input)?.ok(),
        _ => None,
    };
    if args.json {
        let (certificate, shortfall) = (found.as_ref().ok(), found.as_ref().err());
        json(&Answer { certificate, shortfall, sensitivity: limits.as_deref() })?;
        return Ok(ExitCode::from(u8::from(found.is_err())));
    }
    let certificate = found.map_err(|shortfall| crate::analyze::falls_short(tasks, &words(&resource), &shortfall))?;
    say!("{} is enough: a bandwidth of {}", words(&resource), percent(resource.bandwidth()));
    say!("{}", proof(&certificate, tasks));
    if let Some(limits) = limits {
        print(&table(&slack(tasks, &limits), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `2 ms every 5 ms`
fn words(resource: &Resource) -> String {
    match resource {
        Resource::Periodic { period, budget } => format!("{budget} every {period}"),
        Resource::Aligned { period, budget } => format!("{budget} every {period}, aligned,"),
        Resource::ExplicitDeadline { period, budget, deadline } => {
            format!("{budget} within {deadline} of every {period}")
        }
        Resource::Table { cycle, slots } => format!("the table of {} slots in {cycle}", slots.len()),
        Resource::Linear { bandwidth, delay } => format!("{} with a delay of {delay}", percent(*bandwidth)),
        Resource::Multi { period, budget, cores } => format!("{budget} every {period} on {cores} cores"),
    }
}
