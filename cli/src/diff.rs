//! `giusto diff`: what enforcing a plan would change on this host.

use crate::args::DiffArgs;
use crate::contract;
use crate::failure::Failure;
use crate::table::{json, print, say, table};
use giusto_daemon::{difference, Layout, Step};
use giusto_model::{HostPlan, Plan, SiteBasis};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How the site file that a plan was made from stands now.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum SiteNow {
    /// Byte for byte.
    AsPlanned,
    Changed,
    /// It cannot be read here.
    Missing,
}

fn site_now(site: &SiteBasis) -> SiteNow {
    match fs::read(&site.file) {
        Ok(bytes) if giusto_planner::site_basis(Path::new(&site.file), &bytes) == *site => SiteNow::AsPlanned,
        Ok(_) => SiteNow::Changed,
        Err(_) => SiteNow::Missing,
    }
}

/// What `--json` prints (`formats/diff.schema.json`).
#[derive(Serialize)]
struct Diff {
    host: String,
    /// How the site file stands; `None`: the plan names none.
    site: Option<SiteNow>,
    /// Why the plan would be refused here; empty: it would not.
    refused: Vec<String>,
    /// The giusto that runs here, and its plan.
    running: Option<Running>,
    /// From what is in force to the plan, in this order.
    steps: Vec<Step>,
    /// Services that stay as they are.
    unchanged: Vec<String>,
}

#[derive(Serialize)]
struct Running {
    pid: u32,
    plan: PathBuf,
}

/// `giusto diff`: what enforcing a plan would change on this host. 1: it would be refused.
pub(crate) fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let plan = contract::part(&args.plan, args.this.host.as_deref())?;
    let facts = giusto_daemon::facts();
    let running = giusto_daemon::running_plan();
    let now = running.as_ref().map(|(_, file)| giusto_planner::read(file)).transpose()?;
    let nothing = Plan { services: Vec::new(), leftovers: Vec::new(), network: Vec::new(), ..bare(&plan) };
    let now = now.unwrap_or(nothing);
    let mut refused = giusto_planner::differences(&plan, &facts);
    if let (Some(here), Some(there)) =
        (plan.only_host(), now.only_host().filter(|there| there.name != plan.hosts[0].name))
    {
        refused.push(format!("the giusto that runs here is host {}, and the plan is for {}", there.name, here.name));
    }
    let host = plan.only_host().ok_or(giusto_daemon::Error::ManyHosts(plan.hosts.len()))?;
    let capacity = |backend| giusto_planner::capacity(host.keep_free, &facts, backend).0;
    let steps = difference(&Layout::of(&now), &Layout::of(&plan), &capacity);
    let touched = |name: &str| steps.iter().any(|step| step.service() == name);
    let services = plan.services.iter().map(|one| &one.name).chain(plan.leftovers.iter().map(|one| &one.name));
    let mut unchanged: Vec<String> = services.filter(|name| !touched(name)).cloned().collect();
    unchanged.dedup();
    let site = plan.basis.as_ref().map(|basis| site_now(&basis.site));
    let running = running.map(|(pid, plan)| Running { pid, plan });
    let diff = Diff { host: host.name.clone(), site, refused, running, steps, unchanged };
    let code = ExitCode::from(u8::from(!diff.refused.is_empty()));
    if args.json {
        json(&diff)?;
        return Ok(code);
    }
    show(&diff, &plan, &now, &args.plan)?;
    Ok(code)
}

/// The plan without what it does with cores: its host, with nothing on it.
fn bare(plan: &Plan) -> Plan {
    let hosts = plan.hosts.iter().map(|host| HostPlan { parked: Vec::new(), ..host.clone() }).collect();
    Plan { hosts, ..plan.clone() }
}

fn show(diff: &Diff, plan: &Plan, now: &Plan, path: &Path) -> Result<(), Failure> {
    match &diff.running {
        Some(Running { pid, .. }) => say!("host {}: from the plan in force, of process {pid}, to this one:", diff.host),
        None => say!("host {}: no giusto runs here; this plan would do:", diff.host),
    }
    if diff.steps.is_empty() {
        say!("  nothing: what is enforced is the same");
    } else {
        let names = diff.steps.iter().map(Step::service).filter(|name| !name.is_empty());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        let mut rows = vec![["service", "now", "planned"].map(String::from).to_vec()];
        rows.extend(names.iter().map(|name| vec![name.to_string(), held(now, name), held(plan, name)]));
        print(&table(&rows, usize::MAX))?;
        print(&diff.steps.iter().map(|step| format!("  {step}\n")).collect::<String>())?;
    }
    if !diff.unchanged.is_empty() {
        say!("as they are: {}", diff.unchanged.join(", "));
    }
    if let (Some(basis), Some(site)) = (&plan.basis, diff.site) {
        match site {
            SiteNow::AsPlanned => say!("site {}: as it was planned", basis.site.file),
            SiteNow::Changed => {
                say!("site {}: it has changed since; this plan is without those changes", basis.site.file)
            }
            SiteNow::Missing => say!("site {}: it cannot be read here", basis.site.file),
        }
    }
    print(&diff.refused.iter().map(|why| format!("would be refused: {why}\n")).collect::<String>())?;
    if diff.refused.is_empty() && !diff.steps.is_empty() {
        say!("enforce it: giusto {} {}", if diff.running.is_some() { "reload" } else { "run" }, path.display());
    }
    Ok(())
}

/// What a service has: `core 1, deadline, 14 ms every 40 ms`; a VM's virtual CPUs one after the other.
fn held(plan: &Plan, name: &str) -> String {
    let servers = plan.services.iter().filter(|service| service.name == name).map(|service| {
        format!("core {}, {}, {} every {}", service.core, service.backend, service.server.budget, service.server.period)
    });
    let leftovers = plan.leftovers.iter().filter(|leftover| leftover.name == name);
    let leftovers = leftovers.map(|leftover| {
        let mut cores = leftover.cores.clone();
        cores.sort_unstable();
        format!("leftovers of core{} {}", if cores.len() == 1 { "" } else { "s" }, giusto_planner::cores(&cores))
    });
    let all: Vec<String> = servers.chain(leftovers).collect();
    if all.is_empty() {
        "-".into()
    } else {
        all.join("; ")
    }
}
