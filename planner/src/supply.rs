//! Services that are promised processor time, every deadline or percentiles: their servers, several on a core under EDF.

use crate::backend::{at_the_tick, choose, cost, most_of_a_core, Chosen, Wanted};
use crate::deadlines::{self, Need};
use crate::percentiles::{self, Company, Tail};
use crate::place::{OneHost, Unplaced};
use crate::size::{kept, reason};
use crate::sums::add_up;
use crate::words::{share, time};
use crate::{Cause, Miss, Missed, Refusal, Shortage};
use giusto_analysis::admission::{self, Grids, Order, Refused, Window};
use giusto_analysis::Error;
use giusto_model::{
    Backend, Bandwidth, Certificate, Duration, Hold, Interface, Promise, Server, ServerKind, Service, ServicePlan,
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
    /// Of a service that is promised every deadline: what the interface rests on.
    need: Option<Need>,
    /// Of one that is promised percentiles likewise.
    tail: Option<Tail>,
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
    /// It has room, but its manager keeps as many servers as it can.
    Servers,
    /// It has room, but in this window its servers and this one can ask for more than there is.
    Window(Window),
    /// It has room, but whether they go together cannot be computed.
    Unknown(Error),
}

/// Plans the services that are promised a supply, every deadline or percentiles on `cores` of their host, with their places
/// among its services.
///
/// A server for percentiles is cheaper alone on a core, where it has the highest priority; where there are too few cores for
/// that, all of them share.
pub(crate) fn supplies(on: &OneHost, cores: &[u32]) -> Result<Vec<(usize, ServicePlan)>, Unplaced> {
    let alone = place_all(on, cores, Company::Alone);
    let random = on.services.iter().any(|service| matches!(service.promise, Promise::Percentiles { .. }));
    let Err(why) = alone else { return alone };
    if !random {
        return Err(why);
    }
    place_all(on, cores, Company::Beside).map_err(|beside| match &beside {
        // Not for want of cores: it cannot be had beside others.
        Unplaced::DoesNotFit { cause: Cause::Percentiles(miss), .. }
            if !matches!(miss.how, Missed::Room { needs: Some(needs), whole, .. } if needs.bandwidth() <= whole) =>
        {
            why
        }
        _ => beside,
    })
}

/// Largest bandwidth first, each on the first core that admits it; virtual CPUs of one VM go to different cores where they
/// fit there. O(interfaces² + interfaces · cores).
fn place_all(on: &OneHost, cores: &[u32], company: Company) -> Result<Vec<(usize, ServicePlan)>, Unplaced> {
    let mut entries = entries(on, company)?;
    entries.sort_by_key(|entry| Reverse(entry.interface.bandwidth()));
    let mut cores: Vec<Core> = cores.iter().map(|&id| Core { id, on: Vec::new(), used: Bandwidth::ZERO }).collect();
    for index in 0..entries.len() {
        let admitted: Vec<Result<Bandwidth, Full>> =
            cores.iter().map(|core| admit(core, &entries, index, on)).collect();
        let sibling = |core: &Core| core.on.iter().any(|&other| entries[other].order == entries[index].order);
        let free = |at: &usize| admitted[*at].is_ok();
        let apart = (0..cores.len()).find(|at| free(at) && !sibling(&cores[*at]));
        let Some(at) = apart.or_else(|| (0..cores.len()).find(free)) else {
            return Err(refuse(&entries[index], &admitted, on));
        };
        if let Ok(used) = admitted[at] {
            cores[at].used = used;
        }
        cores[at].on.push(index);
    }
    let mut plans = Vec::new();
    for core in &cores {
        for &index in &core.on {
            plans.push((entries[index].order, entries[index].vcpu, place(core, &entries, index, on)?));
        }
    }
    plans.sort_by_key(|(order, vcpu, _)| (*order, *vcpu));
    Ok(plans.into_iter().map(|(order, _, plan)| (order, plan)).collect())
}

fn entries<'a>(on: &OneHost<'a>, company: Company) -> Result<Vec<Entry<'a>>, Unplaced> {
    let mut entries = Vec::new();
    for (order, &service) in on.services.iter().enumerate() {
        match &service.promise {
            Promise::Supply(interfaces) => {
                for (vcpu, &interface) in (0..).zip(interfaces) {
                    let vcpu = (service.origin.has_vcpus() || interfaces.len() > 1).then_some(vcpu);
                    let chosen = choose(service, Wanted::Supply(interface), on.facts).map_err(Unplaced::Other)?;
                    entries.push(Entry { order, service, vcpu, interface, chosen, need: None, tail: None });
                }
            }
            Promise::EveryDeadline { .. } => {
                for (vcpu, interface, chosen, need) in deadlines::entries(service, on.host, on.facts)? {
                    entries.push(Entry { order, service, vcpu, interface, chosen, need: Some(need), tail: None });
                }
            }
            Promise::Percentiles { .. } => {
                let (interface, chosen, tail) = percentiles::entry(service, on.host, on.facts, company, on.answers)?;
                let vcpu = service.origin.has_vcpus().then_some(0);
                entries.push(Entry { order, service, vcpu, interface, chosen, need: None, tail: Some(tail) });
            }
            Promise::AsIfAlone | Promise::Leftovers { .. } => {}
        }
    }
    Ok(entries)
}

/// What `core` has reserved with this entry on it, if it takes it.
///
/// Σ B/P is the exact test for EDF where each server is to the others a sporadic task. A deferrable one is not: it can take 2B
/// in a row, so that (4, 12) and (2, 5) fail at 11/15. Then no window may ask for more than its length of a whole core
/// ([`admission::admit`]). Real-time groups have fixed priorities, so one is alone on its core; where budgets end at the tick,
/// so is one that is promised deadlines, as the others may run over by a tick each. So is one whose percentiles were computed
/// for the highest priority.
fn admit(core: &Core, entries: &[Entry], index: usize, on: &OneHost) -> Result<Bandwidth, Full> {
    let entry = &entries[index];
    let backend = entry.chosen.backend;
    let (most, _) = most_of_a_core(on.host, on.facts, backend);
    let mut others = core.on.iter().map(|&other| &entries[other]);
    let lonely = |entry: &Entry| {
        let alone = entry.tail.as_ref().is_some_and(Tail::alone);
        alone || backend == Backend::RtGroup || (entry.need.is_some() && at_the_tick(backend))
    };
    if others.any(|other| other.chosen.backend != backend || lonely(other) || lonely(entry)) {
        return Err(Full::Room(Bandwidth::ZERO));
    }
    let used = add_up(core.used, entry.interface.bandwidth());
    // A whole core is never given: those without a reservation would wait for ever.
    let Some(used) = used.filter(|used| *used <= most && *used < Bandwidth::ONE) else {
        return Err(Full::Room(most.checked_sub(core.used).unwrap_or(Bandwidth::ZERO)));
    };
    if backend == Backend::Manager && core.on.len() == Backend::MANAGED {
        return Err(Full::Servers);
    }
    let servers: Vec<Server> = core.on.iter().chain([&index]).map(|&at| entries[at].server()).collect();
    // Without a deferrable server the sum is the whole test; here it may be rounded, there it has to be exact.
    if servers.len() == 1 || servers.iter().all(|server| server.kind != ServerKind::Deferrable) {
        return Ok(used);
    }
    match admission::admit(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE) {
        Ok(Ok(_)) => Ok(used),
        Ok(Err(Refused::Window(window))) => Err(Full::Window(window)),
        Ok(Err(_)) => Err(Full::Room(Bandwidth::ZERO)),
        Err(why) => Err(Full::Unknown(why)),
    }
}

fn refuse(entry: &Entry, admitted: &[Result<Bandwidth, Full>], on: &OneHost) -> Unplaced {
    let service = entry.service.name.clone();
    let windows = admitted.iter().filter_map(|core| match core {
        Err(Full::Window(window)) => Some(*window),
        _ => None,
    });
    if let Some(window) = windows.min_by_key(|window| window.demand.checked_sub(window.supply)) {
        let cause = Cause::Window { vcpu: entry.vcpu, demand: entry.interface, window, cores: admitted.len() };
        return Unplaced::DoesNotFit { service, cause };
    }
    if let Some(why) = admitted.iter().find_map(|core| match core {
        Err(Full::Unknown(why)) => Some(why.clone()),
        _ => None,
    }) {
        return Unplaced::Other(Refusal::Tasks { service, why });
    }
    if admitted.iter().any(|core| matches!(core, Err(Full::Servers))) {
        return Unplaced::DoesNotFit { service, cause: Cause::Servers { cores: admitted.len() } };
    }
    let room = admitted.iter().map(|core| match core {
        Err(Full::Room(left)) => *left,
        _ => Bandwidth::ZERO,
    });
    let (vcpu, room, cores) = (entry.vcpu, room.max().unwrap_or(Bandwidth::ZERO), admitted.len());
    let (whole, _) = most_of_a_core(on.host, on.facts, entry.chosen.backend);
    if let (Some(_), Promise::Percentiles { points, .. }) = (&entry.tail, &entry.service.promise) {
        let how = Missed::Room { needs: Some(entry.interface), room, whole, cores };
        let cause = Cause::Percentiles(Box::new(Miss { points: points.clone(), how }));
        return Unplaced::DoesNotFit { service, cause };
    }
    let Some(need) = &entry.need else {
        let cause = Cause::Supply { vcpu, demand: entry.interface, supply: room, whole, cores };
        return Unplaced::DoesNotFit { service, cause };
    };
    match need.lack(entry.interface.period, room) {
        Ok(lack) => {
            let needs = Some(entry.interface);
            let cause = Cause::Deadlines(Box::new(Shortage { vcpu, needs, room, whole, cores, lack }));
            Unplaced::DoesNotFit { service, cause }
        }
        Err(why) => Unplaced::Other(Refusal::Tasks { service, why }),
    }
}

fn place(core: &Core, entries: &[Entry], index: usize, on: &OneHost) -> Result<ServicePlan, Unplaced> {
    let Entry { service, vcpu, interface, chosen, need, tail, .. } = &entries[index];
    let (host, facts) = (on.host, on.facts);
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
    let supply = || {
        reason("supply", interface, format!("{bandwidth} of a core, as promised, whatever runs; no margin is added"))
    };
    let numbers = match (need, tail) {
        (Some(need), _) => need.reasons.clone(),
        (None, Some(tail)) => tail.reasons.clone(),
        (None, None) => vec![supply()],
    };
    let (required, margin, certificate) = match (need, tail) {
        (Some(need), _) => (need.required, need.margin, need.certificate.clone()),
        (None, Some(tail)) => (tail.required, tail.margin, tail.certificate.clone()),
        (None, None) => (interface.bandwidth(), Bandwidth::ZERO, Certificate::Supply),
    };
    let consequences = [
        reason("hold", time(hold.enforced), why_hold),
        reason(
            "left for others",
            share(left_for_others),
            format!("1 − {} reserved on this core − {}", share(core.used), kept(host, chosen.backend, facts)),
        ),
    ];
    Ok(ServicePlan {
        name: service.name.clone(),
        on: host.name.clone(),
        promise: service.promise.clone(),
        origin: service.origin.clone(),
        vcpu: *vcpu,
        tasks: need.as_ref().map_or(Vec::new(), |need| need.tasks.clone()),
        load: service.load.clone(),
        core: core.id,
        backend: chosen.backend,
        server: entries[index].server(),
        cap: service.cap,
        utilization: need.as_ref().map_or(Bandwidth::ZERO, |need| need.utilization),
        required,
        margin,
        hold,
        left_for_others,
        certificate,
        prediction: None,
        reasons: (std::iter::once(core_reason).chain(chosen.reasons.iter().cloned()))
            .chain(numbers)
            .chain(consequences)
            .collect(),
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
