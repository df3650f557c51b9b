//! Services that are promised processor time: their servers, several on a core under EDF.

use crate::backend::{choose, cost, most_of_a_core, Chosen};
use crate::place::Unplaced;
use crate::size::{kept, reason};
use crate::words::{share, time};
use crate::{Cause, Facts, Refusal};
use giusto_analysis::admission::{self, Grids, Order, Refused, Window};
use giusto_model::{
    Backend, Bandwidth, Duration, Hold, Interface, Promise, Server, ServerKind, Service, ServicePlan, Site,
};
use std::cmp::Reverse;
use std::fmt;

/// One interface of a service, not yet on a core.
struct Entry<'a> {
    order: usize,
    service: &'a Service,
    vcpu: Option<u32>,
    interface: Interface,
    chosen: Chosen,
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vcpu {
            Some(vcpu) => write!(f, "{} (virtual CPU {vcpu})", self.service.name),
            None => f.write_str(&self.service.name),
        }
    }
}

impl Entry<'_> {
    fn server(&self) -> Server {
        Server { kind: self.chosen.kind, budget: self.interface.budget, period: self.interface.period }
    }
}

/// A core and the entries on it, by their place in the list.
struct Core {
    id: u32,
    on: Vec<usize>,
    used: Bandwidth,
}

/// Why a core does not take an entry.
enum Full {
    /// What it has left for it.
    Room(Bandwidth),
    /// It has room, but in this window its servers and this one can ask for more than there is.
    Window(Window),
}

/// Plans the services that are promised a supply on `cores`, with their places in the site.
///
/// Largest bandwidth first, each on the first core that admits it; virtual CPUs of one VM go to different cores where they
/// fit there. O(interfaces² + interfaces · cores).
pub(crate) fn supplies(site: &Site, facts: &Facts, cores: &[u32]) -> Result<Vec<(usize, ServicePlan)>, Unplaced> {
    let mut entries = entries(site, facts).map_err(Unplaced::Other)?;
    entries.sort_by_key(|entry| Reverse(entry.interface.bandwidth()));
    let mut cores: Vec<Core> = cores.iter().map(|&id| Core { id, on: Vec::new(), used: Bandwidth::ZERO }).collect();
    for index in 0..entries.len() {
        let admitted = cores.iter().map(|core| admit(core, &entries, index, site, facts));
        let admitted: Vec<Result<Bandwidth, Full>> = admitted.collect::<Result<_, _>>().map_err(|why| {
            let service = entries[index].service.name.clone();
            Unplaced::Other(Refusal::Tasks { service, why })
        })?;
        let sibling = |core: &Core| core.on.iter().any(|&other| entries[other].order == entries[index].order);
        let free = |at: &usize| admitted[*at].is_ok();
        let apart = (0..cores.len()).find(|at| free(at) && !sibling(&cores[*at]));
        let Some(at) = apart.or_else(|| (0..cores.len()).find(free)) else {
            return Err(refuse(&entries[index], &admitted, site, facts));
        };
        if let Ok(used) = admitted[at] {
            cores[at].used = used;
        }
        cores[at].on.push(index);
    }
    let mut plans = Vec::new();
    for core in &cores {
        for &index in &core.on {
            plans.push((entries[index].order, entries[index].vcpu, place(core, &entries, index, site, facts)?));
        }
    }
    plans.sort_by_key(|(order, vcpu, _)| (*order, *vcpu));
    Ok(plans.into_iter().map(|(order, _, plan)| (order, plan)).collect())
}

fn entries<'a>(site: &'a Site, facts: &Facts) -> Result<Vec<Entry<'a>>, Refusal> {
    let mut entries = Vec::new();
    for (order, service) in site.services.iter().enumerate() {
        let Promise::Supply(interfaces) = &service.promise else { continue };
        for (vcpu, &interface) in (0..).zip(interfaces) {
            let vcpu = (service.origin.has_vcpus() || interfaces.len() > 1).then_some(vcpu);
            let chosen = choose(service, Some(interface), facts)?;
            entries.push(Entry { order, service, vcpu, interface, chosen });
        }
    }
    Ok(entries)
}

/// What `core` has reserved with this entry on it, if it takes it.
///
/// The sum of bandwidths is kept below what a core can give, and no window may ask for more than its length of a whole core
/// ([`admission::admit`]); without a deferrable server the sum says that too. Real-time groups have fixed priorities, so one is
/// alone on its core. Errors: as `admit`.
fn admit(
    core: &Core,
    entries: &[Entry],
    index: usize,
    site: &Site,
    facts: &Facts,
) -> Result<Result<Bandwidth, Full>, giusto_analysis::Error> {
    let entry = &entries[index];
    let backend = entry.chosen.backend;
    let (most, _) = most_of_a_core(&site.host, facts, backend);
    let mut others = core.on.iter().map(|&other| &entries[other]);
    if others.any(|other| other.chosen.backend != backend || backend == Backend::RtGroup) {
        return Ok(Err(Full::Room(Bandwidth::ZERO)));
    }
    let used = core.used.checked_add(entry.interface.bandwidth());
    // A whole core is never given: those without a reservation would wait for ever.
    let Some(used) = used.filter(|used| *used <= most && *used < Bandwidth::ONE) else {
        return Ok(Err(Full::Room(most.checked_sub(core.used).unwrap_or(Bandwidth::ZERO))));
    };
    let servers: Vec<Server> = core.on.iter().chain([&index]).map(|&at| entries[at].server()).collect();
    let found = admission::admit(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE)?;
    Ok(found.map(|_| used).map_err(|refused| match refused {
        Refused::Window(window) => Full::Window(window),
        _ => Full::Room(Bandwidth::ZERO),
    }))
}

fn refuse(entry: &Entry, admitted: &[Result<Bandwidth, Full>], site: &Site, facts: &Facts) -> Unplaced {
    let service = entry.service.name.clone();
    let windows = admitted.iter().filter_map(|core| match core {
        Err(Full::Window(window)) => Some(*window),
        _ => None,
    });
    if let Some(window) = windows.min_by_key(|window| window.demand.checked_sub(window.supply)) {
        let cause = Cause::Window { vcpu: entry.vcpu, demand: entry.interface, window, cores: admitted.len() };
        return Unplaced::DoesNotFit { service, cause };
    }
    let room = admitted.iter().map(|core| match core {
        Err(Full::Room(left)) => *left,
        _ => Bandwidth::ZERO,
    });
    let cause = Cause::Supply {
        vcpu: entry.vcpu,
        demand: entry.interface,
        supply: room.max().unwrap_or(Bandwidth::ZERO),
        whole: most_of_a_core(&site.host, facts, entry.chosen.backend).0,
        cores: admitted.len(),
    };
    Unplaced::DoesNotFit { service, cause }
}

fn place(core: &Core, entries: &[Entry], index: usize, site: &Site, facts: &Facts) -> Result<ServicePlan, Unplaced> {
    let Entry { service, vcpu, interface, chosen, .. } = &entries[index];
    let host = &site.host;
    let range = || {
        let why = giusto_analysis::Error::Range;
        Unplaced::Other(Refusal::Tasks { service: service.name.clone(), why })
    };
    let left_for_others = [core.used, host.keep_free, cost(chosen.backend, facts)]
        .into_iter()
        .try_fold(Bandwidth::ONE, Bandwidth::checked_sub)
        .ok_or_else(range)?;
    let (hold, why_hold) = hold(chosen.kind, *interface, core.on.len() == 1).ok_or_else(range)?;
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let bandwidth = share(interface.bandwidth());
    let others: Vec<String> =
        core.on.iter().filter(|&&other| other != index).map(|&other| entries[other].to_string()).collect();
    let others = if others.is_empty() { "alone on it".into() } else { format!("beside {}", others.join(", ")) };
    let together = format!("{others}: {} of at most {} ({limit})", share(core.used), share(most));
    let core_reason = reason(
        "core",
        core.id,
        format!("largest supply first, on the first core with room that no as-if-alone service has; {together}"),
    );
    let numbers = [
        reason("supply", interface, format!("{bandwidth} of a core, as promised, whatever runs; no margin is added")),
        reason("hold", time(hold.enforced), why_hold),
        reason(
            "left for others",
            share(left_for_others),
            format!("1 − {} reserved on this core − {}", share(core.used), kept(host, chosen.backend, facts)),
        ),
    ];
    Ok(ServicePlan {
        name: service.name.clone(),
        promise: service.promise.clone(),
        origin: service.origin.clone(),
        vcpu: *vcpu,
        tasks: Vec::new(),
        load: None,
        core: core.id,
        backend: chosen.backend,
        server: entries[index].server(),
        cap: service.cap,
        utilization: Bandwidth::ZERO,
        required: interface.bandwidth(),
        margin: Bandwidth::ZERO,
        hold,
        left_for_others,
        prediction: None,
        reasons: std::iter::once(core_reason).chain(chosen.reasons.iter().cloned()).chain(numbers).collect(),
    })
}

/// How long the server runs without a break, and why. `None` beyond 584 years.
fn hold(kind: ServerKind, interface: Interface, alone: bool) -> Option<(Hold, &'static str)> {
    let budget = interface.budget;
    let (enforced, why) = match kind {
        ServerKind::Deferrable => {
            (budget.checked_mul(2)?, "2 · budget: the end of one period and the start of the next")
        }
        _ if alone => {
            (budget, "its budget: alone on its core it runs as soon as it is ready, and then waits for its next period")
        }
        _ => (
            budget.checked_mul(2)?,
            "2 · budget: the others of its core can delay it to the end of one period, and the next follows",
        ),
    };
    Some((Hold { conforming: enforced, enforced }, why))
}

/// How long all `servers` of one core together can keep everybody else off it; `rest` is what they leave of it, above 0. One
/// has its own hold. Several: in t after an instant at which none of them could run, a server takes at most B + t·B/P, or
/// 2B + t·B/P where its budget can lie ready before; so the time ends at Σ budgets / rest. `None` beyond 584 years.
pub(crate) fn longest_busy(servers: &[&ServicePlan], rest: Bandwidth) -> Option<Duration> {
    if let [one] = servers {
        return Some(one.hold.enforced);
    }
    let total: u128 = servers
        .iter()
        .map(|plan| match plan.server.kind {
            ServerKind::ConstantBandwidth | ServerKind::Sporadic => u128::from(plan.server.budget.ns()),
            _ => 2 * u128::from(plan.server.budget.ns()),
        })
        .sum();
    let busy = total.checked_mul(u128::from(rest.denom()))?.checked_div(u128::from(rest.numer()))?;
    u64::try_from(busy + 1).ok().map(Duration::from_ns)
}
