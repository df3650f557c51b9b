//! `giusto analyze interface --given`: whether a resource is enough.

use crate::args::{Inside, InterfaceArgs, Supply};
use crate::failure::Failure;
use crate::interface::{proof, slack};
use crate::table::{json, print, say, table};
use giusto_analysis::interface::Resource;
use giusto_answers::interface::{words, Given};
use giusto_planner::share as percent;
use std::process::ExitCode;

/// 0: it is enough, 1: it is not.
pub(crate) fn given(args: &InterfaceArgs, given: &Resource) -> Result<ExitCode, Failure> {
    let Some(Inside::One(scheduler)) = args.scheduler else {
        return Err(Failure::input("--given goes with a scheduler of one processor: --scheduler rm, dm or edf"));
    };
    let tasks = &giusto_answers::named(&args.tasks);
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
    let question =
        Given { tasks: tasks.clone(), scheduler, resource, latency: args.latency, sensitivity: args.sensitivity };
    let found = question.answer()?;
    if args.json {
        json(&found)?;
        return Ok(ExitCode::from(u8::from(found.shortfall.is_some())));
    }
    if let Some(shortfall) = &found.shortfall {
        return Err(question.refused(shortfall).into());
    }
    let resource = &question.resource;
    say!("{} is enough: a bandwidth of {}", words(resource), percent(resource.bandwidth()));
    if let Some(certificate) = &found.certificate {
        say!("{}", proof(certificate, tasks));
    }
    if let Some(limits) = &found.sensitivity {
        print(&table(&slack(tasks, limits), 2))?;
    }
    Ok(ExitCode::SUCCESS)
}
