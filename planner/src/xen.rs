//! The plan in Xen's words: what its control domain does for the domains of a host.

use crate::host::OneHost;
use giusto_model::{
    About, Adopt, Backend, Cap, Certificate, Duration, Host, Interface, LeftoverPlan, Origin, Plan, RestsOn, Server,
    ServerKind, ServicePlan, Xen,
};
use serde::Serialize;
use std::fmt::Write;

/// Makes what `servers.txt` says so, whatever the plan is.
const APPLY: &str = include_str!("xen/apply.sh");
/// What each virtual CPU of leftovers is given; all else is extra time, which goes round in such pieces. With the 10 us that RTDS
/// accepts Xen would have to choose 100,000 times a second.
const LEAST: Interface = Interface { budget: Duration::from_us(50), period: Duration::from_ms(50) };
/// Virtual CPUs of leftovers that a plan has room for, each service.
const VCPUS: u64 = 4;

/// What the control domain of one host reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct XenFiles {
    /// The host.
    pub host: String,
    /// `apply.sh`, a program for any shell: has RTDS serve the domains, or takes it back.
    pub apply: String,
    /// `servers.txt`: a line for each virtual CPU with its core, period and budget in us, and whether it has extra time.
    pub servers: String,
    /// Lines for `NAME.cfg` of each domain but the control domain, by its name.
    pub domains: Vec<(String, String)>,
}

/// The files of all hosts that run Xen, in the order of the site. O(services · hosts).
///
/// Cores and budgets are as the plan has them: budgets and periods of the backend `rtds` are whole microseconds.
pub fn xen(plan: &Plan) -> Vec<XenFiles> {
    plan.hosts.iter().filter_map(|host| files(plan, &host.name)).collect()
}

/// `None`: the host runs no Xen.
fn files(plan: &Plan, host: &str) -> Option<XenFiles> {
    let own: Vec<&ServicePlan> =
        plan.services.iter().filter(|one| one.on == host && one.backend == Backend::Rtds).collect();
    if own.is_empty() {
        return None;
    }
    let mut servers = format!(
        "# The domains of {host}, by 'giusto export xen'; 'giusto explain NAME' says why. Read by apply.sh.\n\
         # DOMAIN VCPU CORE PERIOD BUDGET EXTRA; us; EXTRA 1: it goes on in time that is left over. VCPU all: up to so many.\n"
    );
    let mut domains: Vec<(String, String)> = Vec::new();
    for one in &own {
        let (Some(domain), vcpu) = (domain(&one.origin), one.vcpu.unwrap_or(0)) else { continue };
        let (period, budget) = (us(one.server.period), us(one.server.budget));
        let _ = writeln!(servers, "{domain} {vcpu} {} {period} {budget} {}", one.core, u8::from(one.cap == Cap::Soft));
        if vcpu == 0 && domain != Xen::DOM0 {
            let cores: Vec<String> =
                own.iter().filter(|other| other.name == one.name).map(|other| format!("\"{}\"", other.core)).collect();
            domains.push((domain.into(), config(&one.name, Some(cores.len()), &cores)));
        }
    }
    for one in plan.leftovers.iter().filter(|one| one.on == host) {
        let Some(domain) = domain(&one.origin) else { continue };
        let (budget, period) = (us(LEAST.budget), us(LEAST.period));
        let _ = writeln!(servers, "{domain} all {} {period} {budget} 1 {VCPUS}", list(one));
        domains.push((domain.into(), config(&one.name, None, &[format!("\"{}\"", list(one))])));
    }
    Some(XenFiles { host: host.into(), apply: APPLY.into(), servers, domains })
}

/// What all virtual CPUs of leftovers of a host may take of a core before others, as one server; `None`: there is none.
pub(crate) fn rest(on: &OneHost) -> Option<Server> {
    on.host.xen.as_ref()?;
    let services = on.services.iter().filter(|one| one.promise.about() == About::Rest).count() as u64;
    let budget = LEAST.budget.checked_mul(services * VCPUS)?;
    (services > 0).then_some(Server {
        kind: ServerKind::Deferrable,
        budget: budget.min(LEAST.period),
        period: LEAST.period,
    })
}

/// Those of the `open` cores of a host on which leftovers may be: not where a service has to have the highest priority of its
/// core, since theirs is before its own whenever their deadline is. Elsewhere than under Xen they come last anyhow.
pub(crate) fn for_leftovers(host: &Host, open: &[u32], services: &[ServicePlan]) -> Vec<u32> {
    let first = |one: &ServicePlan| match one.certificate {
        Certificate::AsIfAlone { .. } => true,
        Certificate::EveryDeadline { rests_on, .. } => matches!(rests_on, RestsOn::WholeCore { .. }),
        Certificate::Percentiles { wait, .. } => wait.is_zero(),
        Certificate::Stage { .. } | Certificate::Supply => false,
    };
    let taken = |core: &u32| host.xen.is_some() && services.iter().any(|one| one.core == *core && first(one));
    open.iter().copied().filter(|core| !taken(core)).collect()
}

/// Whether a service is the control domain of a host.
pub(crate) fn is_dom0(host: &Host, service: &str) -> bool {
    host.xen.is_some() && Xen::service(&host.name) == service
}

/// The cores that services of a host can have to themselves: those that its control domain has not.
pub(crate) fn own_cores(host: &Host) -> Vec<u32> {
    let dom0 = host.xen.as_ref().map_or(&[][..], |xen| &xen.dom0);
    host.cores.iter().copied().filter(|core| !dom0.contains(core)).collect()
}

fn domain(origin: &Origin) -> Option<&str> {
    match origin {
        Origin::Adopt(Adopt::Xen(name)) => Some(name),
        Origin::Start(_) | Origin::Adopt(_) => None,
    }
}

fn us(time: Duration) -> u64 {
    time.ns() / Duration::from_us(1).ns()
}

fn list(one: &LeftoverPlan) -> String {
    let mut cores = one.cores.clone();
    cores.sort_unstable();
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// xl.cfg(5) has no words for budgets and for extra time of virtual CPUs.
fn config(service: &str, vcpus: Option<usize>, cores: &[String]) -> String {
    let vcpus = vcpus.map_or(String::new(), |vcpus| format!("vcpus = {vcpus}\n"));
    let cores = match (cores, vcpus.is_empty()) {
        ([all], true) => all.clone(),
        _ => format!("[{}]", cores.join(", ")),
    };
    format!(
        "# Of service '{service}', by 'giusto export xen': xl.cfg(5) has words for cores only. When the domain runs, apply.sh\n\
         # gives it its budget; until then it has Xen's default, 4 of every 10 ms, and is not in the plan.\n\
         {vcpus}cpus = {cores}\n"
    )
}
