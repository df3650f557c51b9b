//! `giusto plan` and `giusto explain`.

use crate::args::{ExplainArgs, PlanArgs};
use crate::failure::Failure;
use crate::table;
use giusto_model::{Bandwidth, LeftoverPlan, Plan, ServicePlan};
use giusto_planner::Facts;
use std::path::Path;
use std::process::ExitCode;

/// Plans the site in `path` for this machine, or for the site's own cores where they are not this machine's.
pub(crate) fn of(path: &Path) -> Result<(giusto_model::Site, Plan), Failure> {
    let site = giusto_site::read(path)?;
    let plan = giusto_planner::plan(&site, &facts(&site))?;
    Ok((site, plan))
}

/// Planning looks ahead, so a site may name cores that this machine lacks: `run` is what refuses those.
fn facts(site: &giusto_model::Site) -> Facts {
    let mut facts = giusto_daemon::facts();
    facts.cores.extend(&site.host.cores);
    facts.cores.sort_unstable();
    facts.cores.dedup();
    facts
}

/// `giusto plan`
pub(crate) fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let (_, plan) = of(&args.site.site)?;
    if let Some(out) = &args.out {
        crate::failure::create(out)?;
        giusto_planner::write(&plan, out)?;
    }
    if args.site.json {
        return table::json(&plan);
    }
    print!("{}", describe(&plan));
    Ok(ExitCode::SUCCESS)
}

/// `giusto explain`
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let plan = match &args.site {
        Some(site) => of(site)?.1,
        None if !args.plan.exists() => {
            let shown = args.plan.display();
            return Err(Failure::input(format!(
                "there is no {shown}; make it with 'giusto plan SITE --out {shown}', or name a site with --site"
            )));
        }
        None => giusto_planner::read(&args.plan)?,
    };
    print!("{}", giusto_planner::explain(&plan, &args.name)?);
    Ok(ExitCode::SUCCESS)
}

/// A line a service.
pub(crate) fn describe(plan: &Plan) -> String {
    plan.services.iter().map(service).chain(plan.leftovers.iter().map(leftover)).map(|line| line + "\n").collect()
}

/// `cache on core 1: 14 ms every 40 ms (30 % + 5 points of margin)`
pub(crate) fn service(plan: &ServicePlan) -> String {
    let (server, margin) = (plan.server, plan.margin.percent());
    let margin = margin.trim_end_matches(" %");
    format!(
        "{} on core {}: {} every {} ({} + {margin} points of margin)",
        plan.name,
        plan.core,
        server.budget,
        server.period,
        plan.required.percent()
    )
}

fn leftover(plan: &LeftoverPlan) -> String {
    let cores: Vec<String> = plan.cores.iter().map(u32::to_string).collect();
    let floor = if plan.at_least == Bandwidth::ZERO {
        String::new()
    } else {
        format!(", at least {} promised", plan.at_least.percent())
    };
    format!("{} on core {}: what is left, {} of a core{floor}", plan.name, cores.join(", "), plan.available.percent())
}
