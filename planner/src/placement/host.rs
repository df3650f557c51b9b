//! Which service gets which core of its host.

use super::cores::supplies;
use super::park;
use crate::backend::{cost, most_of_a_core, upkeep};
use crate::critical;
use crate::facts::Facts;
use crate::host::{OneHost, Placed, Supplied};
use crate::modes;
use crate::modes::boost::boost;
use crate::promises::as_if_alone::{copies, Sized, TooMany};
use crate::promises::leftovers::leftovers;
use crate::refusal::{Cause, Refusal};
use crate::words::{cores, reason};
use crate::xen;
use giusto_model::{Admission, Bandwidth, ChangePolicy, Host, Promise, Service, ServicePlan};
use std::cmp::Reverse;

/// A service's server on a core of its own.
pub(crate) type Size<'s, 'a> = &'s mut dyn FnMut(&'a Service) -> Result<Sized, Refusal>;

/// Places all services of one host; `size` gives the servers of those that are promised as-if-alone.
///
/// A service that is promised as-if-alone has a core to itself: EDF among reservations does not give the highest priority
/// that Theorem 1 asks for to a long period beside a short one. The largest of them is placed first, on the first core. On
/// the cores that remain, supplies share: the largest first, each on the first core that admits it. A core is under one
/// backend. O(services · cores) without the analysis.
pub(crate) fn one_host<'a>(on: &OneHost<'a>, size: Size<'_, 'a>) -> Result<Placed, Refusal> {
    let host = on.host;
    online(host, on.facts)?;
    let mut sized = Vec::new();
    for (order, &service) in on.services.iter().enumerate().filter(|(_, s)| s.promise == Promise::AsIfAlone) {
        let found = size(service)?;
        sized.push((order, service, found));
    }
    // Stable: equal ones stay in the order of the site.
    sized.sort_by_key(|(_, _, s)| Reverse(s.server.bandwidth()));
    let each = |(order, service, found): &(usize, &'a Service, Sized)| {
        let several = service.origin.has_vcpus() || service.copies.is_some();
        let one = (*order, *service, found.clone());
        (0..copies(service)).map(|copy| (one.clone(), several.then_some(copy))).collect::<Vec<_>>()
    };
    let (services, sized) = (sized.len(), sized.iter().flat_map(each).collect::<Vec<_>>());
    let count = sized.len();
    let supply = xen::own_cores(host).len();
    if let Some(((_, service, _), _)) = sized.get(supply) {
        let cause = Cause::Cores(TooMany { services, demand: count, supply });
        return Err(Refusal::does_not_fit(&service.name, cause));
    }
    let names: Vec<(&str, Option<u32>)> =
        sized.iter().map(|((_, service, _), copy)| (service.name.as_str(), *copy)).collect();
    let own = own_cores(on, &names);
    let shared: Vec<u32> = host.cores.iter().copied().filter(|core| !own.contains(core)).collect();
    let mut placed: Vec<(usize, ServicePlan)> = (sized.into_iter().zip(own).enumerate())
        .map(|(rank, (((order, service, found), copy), core))| {
            (order, place((service, copy), on, found, core, rank, count))
        })
        .collect();
    let (supplied, policy) = supplies(on, &shared)?;
    let supplied: Vec<(String, Supplied)> = supplied.into_iter().map(|one| (one.plan.name.clone(), one)).collect();
    placed.extend(supplied.iter().map(|(_, one)| (one.order, one.plan.clone())));
    placed.sort_by_key(|(order, _)| *order);
    let services: Vec<ServicePlan> = placed.into_iter().map(|(_, plan)| plan).collect();
    let admission = admission(on, &services, &supplied, policy);
    park::fewest(on, &services, &mut |open| {
        let leftovers = leftovers(on, open, &services, &admission)?;
        let parked = host.cores.iter().copied().filter(|core| !open.contains(core)).collect();
        let (services, admission) = (services.clone(), admission.clone());
        let mut placed = Placed { services, leftovers, admission, parked, modes: None };
        placed.modes = modes::of_host(on, &supplied, policy, &placed)?;
        Ok(placed)
    })
}

/// A core for each of the services that have one to themselves, of no more than there are cores: the one that it has now,
/// else the first on which no other service of the host is now, else the first.
fn own_cores(on: &OneHost, names: &[(&str, Option<u32>)]) -> Vec<u32> {
    let now = |name: &str| on.facts.placed.cores(&on.host.name, name);
    let own_now = |name: &str, copy| on.facts.placed.core(&on.host.name, name, copy).map(|(core, _)| core);
    let mut free = xen::own_cores(on.host);
    let mut take = |wanted: &dyn Fn(u32) -> bool| {
        let at = free.iter().position(|&core| wanted(core))?;
        Some(free.remove(at))
    };
    let own: Vec<Option<u32>> =
        names.iter().map(|&(name, copy)| take(&|core| own_now(name, copy) == Some(core))).collect();
    let others = on.services.iter().filter(|service| !names.iter().any(|(name, _)| *name == service.name));
    let busy: Vec<u32> = others.flat_map(|service| now(&service.name)).collect();
    let first = |own: Option<u32>| own.or_else(|| take(&|core| !busy.contains(&core))).or_else(|| take(&|_| true));
    own.into_iter().filter_map(first).collect()
}

/// For each core with reservations what proves that they fit together.
fn admission(
    on: &OneHost,
    services: &[ServicePlan],
    supplied: &[(String, Supplied)],
    policy: Option<ChangePolicy>,
) -> Vec<Admission> {
    let (host, facts) = (on.host, on.facts);
    let core = |&core: &u32| {
        let one = services.iter().find(|service| service.core == core)?;
        let (cost, (most, _)) = (cost(one.backend, facts), most_of_a_core(host, facts, one.backend));
        let taken = [one.left_for_others, host.keep_free, cost];
        let reserved = taken.into_iter().try_fold(Bandwidth::ONE, Bandwidth::checked_sub)?;
        let here = services.iter().filter(|service| service.core == core);
        let x = critical::x(here.clone(), most);
        let boost = boost(on, policy, here.map(|service| (service.name.as_str(), service.vcpu)));
        let shortest = |plan: &ServicePlan| {
            let own = supplied.iter().filter(|(name, one)| *name == plan.name && one.plan.vcpu == plan.vcpu);
            let of_modes = own.flat_map(|(_, one)| &one.locals).map(|(server, _)| server.period);
            of_modes.chain([plan.server.period]).min().unwrap_or(plan.server.period)
        };
        let each = services.iter().filter(|service| service.core == core);
        let each = each.map(|plan| upkeep(plan.backend, shortest(plan), facts));
        let all = each.fold(Bandwidth::ZERO, |all, own| all.add_up(own).unwrap_or(Bandwidth::ONE));
        let upkeep = Some(all).filter(|all| *all > cost);
        Some(Admission { core, backend: one.backend, cost, upkeep, reserved, most, boost, x })
    };
    host.cores.iter().filter_map(core).collect()
}

fn place(
    (service, copy): (&Service, Option<u32>),
    on: &OneHost,
    found: Sized,
    core: u32,
    rank: usize,
    count: usize,
) -> ServicePlan {
    let host = on.host;
    let why = match on.facts.placed.core(&host.name, &service.name, copy).is_some_and(|(now, _)| now == core) {
        true => "one as-if-alone service a core: the one that it has now".into(),
        false => format!(
            "one as-if-alone service a core, largest reservation first: number {} of {count}, first free core",
            rank + 1
        ),
    };
    let core_reason = reason("core", core, why);
    let Sized { backend, server, utilization, required, hold, left_for_others, certificate, reasons } = found;
    ServicePlan {
        name: service.name.clone(),
        on: host.name.clone(),
        promise: service.promise.clone(),
        origin: service.origin.clone(),
        process: service.process.clone(),
        vcpu: copy,
        copies: service.copies.clone(),
        tasks: service.tasks.clone(),
        load: service.load.clone(),
        core,
        backend,
        server,
        cap: service.cap,
        utilization,
        required,
        margin: service.margin,
        hold,
        left_for_others,
        certificate,
        adapt: service.adapt,
        observe: service.observe.clone(),
        criticality: None,
        pessimistic: None,
        prediction: None,
        reasons: std::iter::once(core_reason).chain(reasons).collect(),
    }
}

/// The site may only name cores that the machine has.
fn online(host: &Host, facts: &Facts) -> Result<(), Refusal> {
    let missing: Vec<u32> = host.cores.iter().copied().filter(|c| !facts.cores.contains(c)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::Machine {
        lacks: format!(
            "host '{}' names {} {}, and the machine's online cores are {}",
            host.name,
            if missing.len() == 1 { "core" } else { "cores" },
            cores(&missing),
            cores(&facts.cores)
        ),
        remedy: "change `cores:` of the host, or bring them online in /sys/devices/system/cpu".into(),
    })
}
