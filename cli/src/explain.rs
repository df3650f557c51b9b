//! `giusto explain`.

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::plan::{facts, measured, of_read, read, Asked, Read};
use crate::table;
use giusto_model::{Backend, Plan, ServicePlan};
use giusto_planner::{share, Facts, Placements, Refusal, UNNAMED};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Beyond so many services planning again for each backend is felt.
const SERVICES: usize = 100;

/// `giusto explain`
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let plan_file = match (&args.plan, giusto_daemon::running_plan()) {
        (Some(named), _) => named.clone(),
        (None, Some((pid, running))) if args.site.is_none() => {
            crate::tell::tell(format_args!("the plan in force, of process {pid}; another one with --plan FILE"));
            running
        }
        (None, _) => PathBuf::from("out/plan.json"),
    };
    let (host, profiles) = (args.host.as_deref(), Some(args.profiles.folder.as_path()));
    let asked = Asked { backend: args.backend, host, profiles, ..Asked::default() };
    let mut beside = String::new();
    let plan = match &args.site {
        Some(site) => {
            let read = read(site)?;
            let plan = of_read(&read, site, &asked)?;
            if !args.json {
                beside = under_others(&plan, &read, &asked, &args.name);
            }
            plan
        }
        None if !plan_file.exists() => {
            let shown = plan_file.display();
            return Err(Failure::input(format!(
                "there is no {shown}; make it with 'giusto plan SITE --out {shown}', or name a site with --site"
            )));
        }
        None => giusto_planner::read(&plan_file).map_err(Failure::from).and_then(|plan| told(plan, args))?,
    };
    let text = giusto_planner::explain(&plan, &args.name)?;
    if args.json {
        let reserved: Vec<&ServicePlan> = plan.services.iter().filter(|service| service.name == args.name).collect();
        let vif = plan.network.iter().flat_map(|network| &network.vifs).find(|vif| vif.name == args.name);
        let leftover = plan.leftovers.iter().any(|service| service.name == args.name);
        let topic = plan.topics.iter().find(|topic| topic.name == args.name);
        let path = plan.paths.iter().find(|path| path.name == args.name);
        return match reserved[..] {
            [] if topic.is_some() && !leftover => table::json(&topic),
            [] if path.is_some() && !leftover => table::json(&path),
            [] if args.name == "coordination" && plan.coordination.is_some() && !leftover => {
                table::json(&plan.coordination)
            }
            [] if vif.is_some() && !leftover => table::json(&vif),
            [] if args.name == "network" && !leftover => table::json(&plan.network),
            [] if args.name == "modes" && !leftover => table::json(&plan.modes),
            [] => table::json(&plan.leftovers.iter().find(|service| service.name == args.name)),
            [service] => table::json(service),
            _ => table::json(&reserved), // a VM: an entry a virtual CPU
        };
    }
    // A service or a topic of that name is what was explained.
    let is_path = text.starts_with(&format!("path {}:", args.name));
    table::print(&(text + &beside))?;
    let saving = if is_path { giusto_planner::would_save(&plan, &args.name).map_err(Failure::running)? } else { None };
    if let Some(saving) = saving {
        table::say!("{}", crate::paths::saving(&saving));
    }
    Ok(ExitCode::SUCCESS)
}

/// A plan of very many services is written without their reasons: those of the one that is asked for, by planning its site again.
fn told(mut plan: Plan, args: &ExplainArgs) -> Result<Plan, Failure> {
    let reasons = plan.services.iter().map(|one| (&one.name, &one.reasons));
    let reasons = reasons.chain(plan.leftovers.iter().map(|one| (&one.name, &one.reasons)));
    let is_told = reasons.into_iter().all(|(name, reasons)| *name != args.name || !reasons.is_empty());
    let Some(basis) = plan.basis.as_ref().filter(|_| !is_told) else { return Ok(plan) };
    let file = Path::new(&basis.site.file);
    let elsewhere = |why: &dyn std::fmt::Display| {
        let how = format!("'giusto explain {} --site SITE' plans and tells them", args.name);
        Failure::input(format!("the plan is without the reasons of its many services, and {why}; {how}"))
    };
    let text = giusto_site::text(file).map_err(|why| elsewhere(&why))?;
    if giusto_planner::site_basis(file, text.as_bytes()) != basis.site {
        return Err(elsewhere(&format!("{} is not what it was made from any more", file.display())));
    }
    crate::tell::tell(format_args!(
        "{} is planned again, as the plan is without the reasons of its many services",
        file.display()
    ));
    let read = giusto_site::parse(&basis.site.file, &text)?;
    let facts = Facts { placed: Placements::of(&plan), ..facts(&read, &Asked::default())? };
    let site = measured(&read, &args.profiles.folder, &facts)?;
    let again = giusto_planner::plan(&site, &facts).map_err(|refusal| Failure::of_site(refusal, file))?;
    match giusto_planner::with_reasons(&mut plan, &again, &args.name) {
        true => Ok(plan),
        false => Err(elsewhere(&"what is planned of it here and now is not the same")),
    }
}

/// What the promise of a service costs under the backends that the plan did not choose, a row each: its reservation, or why there
/// is none. Empty for what has no reservation, and for large sites.
fn under_others(plan: &Plan, read: &Read, asked: &Asked, name: &str) -> String {
    let own = plan.services.iter().find(|one| one.name == name).map(|one| one.backend);
    // Domains of Xen have no other.
    let own = own.filter(|own| *own != Backend::Rtds);
    let Some(own) = own.filter(|_| plan.services.len() <= SERVICES && asked.backend.is_none()) else {
        return String::new();
    };
    let others = Backend::ALL.into_iter().filter(|backend| *backend != own);
    others.map(|backend| row(backend, read, &Asked { backend: Some(backend), ..*asked }, name)).collect()
}

fn row(backend: Backend, read: &Read, asked: &Asked, name: &str) -> String {
    let planned = facts(&read.site, asked)
        .map_err(|why| why.to_string())
        .and_then(|facts| giusto_answers::plan::of(read, asked, facts, &mut |_| ()).map_err(|why| told_why(why, name)));
    let found = planned.map(|plan| plan.services.into_iter().find(|one| one.name == name).map(|one| one.server));
    let (value, why) = match found {
        Ok(Some(it)) => (format!("{} ({})", it.budget, share(it.bandwidth())), format!("every {}", it.period)),
        Ok(None) => ("-".into(), "it has no reservation under it".into()),
        Err(why) => ("-".into(), why),
    };
    format!("  {:<16} {value:<29} {why}\n", format!("under {backend}"))
}

/// Why a service has no reservation under a backend; not that another one may be taken, which the other rows tell.
fn told_why(why: giusto_answers::Error, name: &str) -> String {
    let refusal = match why {
        giusto_answers::Error::Refused(refusal) => *refusal,
        other => return other.to_string(),
    };
    let text = match refusal {
        Refusal::Asked { why, .. } => why,
        Refusal::Machine { lacks, remedy } if remedy == UNNAMED => lacks,
        other => other.to_string(),
    };
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix(&format!("service '{name}': ")).unwrap_or(first).to_string()
}
