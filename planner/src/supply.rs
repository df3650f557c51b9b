//! Services that are promised processor time, every deadline or percentiles: their servers, several on a core under
//! EDF.

mod admit;
mod entry;

use crate::backend::{choose, Chosen, Wanted};
use crate::critical;
use crate::deadlines::{self, Need, Times};
use crate::percentiles::{self, Company, Tail};
use crate::place::{OneHost, Unplaced};
use crate::{Cause, Facts, Missed, Refusal};
use admit::{admit, refuse, Full};
use entry::place;
use giusto_analysis::criticality::Vm;
use giusto_analysis::Error;
use giusto_model::{
    Backend, Bandwidth, ChangePolicy, Duration, Interface, LocalNeed, LocalProof, MemberMode, ModeChanges, Promise,
    Server, Service, ServiceMode, ServicePlan, SiteCriticality, SiteMode, SiteModes,
};
use std::cmp::Reverse;
use std::fmt;

/// One interface of a service, not yet on a core.
pub(crate) struct Entry<'a> {
    order: usize,
    service: &'a Service,
    vcpu: Option<u32>,
    chosen: Chosen,
    /// Of its service's local modes, in their order; one if it always does the same.
    locals: Vec<Local>,
    /// For each mode of the site, which of these; one if the site has none.
    in_modes: Vec<usize>,
    /// Of a service that is promised percentiles: what the interface rests on.
    tail: Option<Tail>,
    /// `None`: its promise holds in any case, and so does that of all others of its core.
    critical: Option<Critical>,
}

/// The criticality of an entry.
enum Critical {
    Low,
    /// With its pessimistic budget.
    High(Box<Local>),
}

/// An interface, and, of a service that is promised every deadline, what it rests on.
struct Local {
    interface: Interface,
    need: Option<Need>,
}

/// An interface with its core, its place among the host's services, and its servers in all local modes of a service
/// that has some.
pub(crate) struct Supplied {
    pub(crate) order: usize,
    pub(crate) plan: ServicePlan,
    pub(crate) locals: Vec<(Server, LocalProof)>,
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
    /// In a mode of the site, by its place.
    fn local(&self, mode: usize) -> &Local {
        &self.locals[self.in_modes[mode]]
    }
    fn server(&self, mode: usize) -> Server {
        self.of(self.local(mode).interface)
    }
    fn of(&self, interface: Interface) -> Server {
        Server { kind: self.chosen.kind, budget: interface.budget, period: interface.period }
    }
    /// What EDF-VD has to know of it, if it has criticality: then it always does the same.
    pub(crate) fn vm(&self) -> Option<Vm> {
        let worst = match self.critical.as_ref()? {
            Critical::Low => None,
            Critical::High(worst) => Some(worst.interface.budget),
        };
        Some(critical::vm(self.local(0).interface, worst))
    }
    /// In the mode in which it is most, or at its worst.
    fn largest(&self) -> Bandwidth {
        if let Some(Critical::High(worst)) = &self.critical {
            return worst.interface.bandwidth();
        }
        let each = (0..self.in_modes.len()).map(|mode| self.local(mode).interface.bandwidth());
        each.max().unwrap_or(Bandwidth::ZERO)
    }
}

/// A core and the entries on it, by their place in the list; what is used of it in each mode, boosts included.
struct Core {
    id: u32,
    on: Vec<usize>,
    used: Vec<Bandwidth>,
}

/// Plans the services that are promised a supply, every deadline or percentiles on `cores` of their host, with their
/// places among its services.
///
/// A server for percentiles is cheaper alone on a core, where it has the highest priority; where there are too few
/// cores for that, all of them share.
pub(crate) fn supplies(on: &OneHost, cores: &[u32]) -> Result<(Vec<Supplied>, Option<ChangePolicy>), Unplaced> {
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

/// Largest bandwidth first, each on the first core that admits it in all modes; virtual CPUs of one VM go to different
/// cores where they fit there, unless they have criticality: then as few cores as possible are in use (Asy20,
/// section 3.6). Also how modes are changed, if there are some. O(modes · (interfaces² + interfaces · cores)).
fn place_all(on: &OneHost, cores: &[u32], company: Company) -> Result<(Vec<Supplied>, Option<ChangePolicy>), Unplaced> {
    let mut entries = entries(on, company)?;
    let policy = policy(on, &entries).map_err(Unplaced::Other)?;
    entries.sort_by_key(|entry| Reverse(entry.largest()));
    let modes = on.modes.map_or(1, |modes| modes.modes.len());
    let empty = |&id: &u32| Core { id, on: Vec::new(), used: vec![Bandwidth::ZERO; modes] };
    let mut cores: Vec<Core> = cores.iter().map(empty).collect();
    for index in 0..entries.len() {
        let admitted: Vec<Result<Vec<Bandwidth>, (usize, Full)>> =
            cores.iter().map(|core| admit(core, &entries, index, on, policy)).collect();
        let sibling = |core: &Core| core.on.iter().any(|&other| entries[other].order == entries[index].order);
        let free = |at: &usize| admitted[*at].is_ok();
        let anywhere = entries[index].critical.is_some();
        let apart = (0..cores.len()).find(|at| free(at) && (anywhere || !sibling(&cores[*at])));
        let Some(at) = apart.or_else(|| (0..cores.len()).find(free)) else {
            return Err(refuse(&entries[index], &admitted, on));
        };
        if let Ok(used) = &admitted[at] {
            cores[at].used.clone_from(used);
        }
        cores[at].on.push(index);
    }
    let mut plans = Vec::new();
    for core in &cores {
        for &index in &core.on {
            let Entry { order, vcpu, .. } = entries[index];
            let (plan, locals) = place(core, &entries, index, on)?;
            plans.push((order, vcpu, Supplied { order, plan, locals }));
        }
    }
    plans.sort_by_key(|(order, vcpu, _)| (*order, *vcpu));
    Ok((plans.into_iter().map(|(.., plan)| plan).collect(), policy))
}

/// How modes are changed, if there are some: as the site says, else with boosts, where all agents are on servers that
/// can be boosted.
fn policy(on: &OneHost, entries: &[Entry]) -> Result<Option<ChangePolicy>, Refusal> {
    let Some(modes) = on.modes else { return Ok(None) };
    let agents = entries.iter().filter(|entry| entry.service.agent.is_some());
    let unable = agents.clone().find(|entry| entry.chosen.backend != Backend::Manager);
    match (modes.changes.policy, unable) {
        (Some(ChangePolicy::Boost), Some(entry)) => Err(Refusal::Asked {
            service: entry.service.name.clone(),
            why: format!("the policy is boost, and backend {} cannot boost its agent", entry.chosen.backend),
            instead: "expected another policy, such as greedy, or leave it out".into(),
        }),
        (Some(policy), _) => Ok(Some(policy)),
        (None, Some(_)) => Ok(Some(ChangePolicy::Greedy)),
        (None, None) => Ok(Some(ChangePolicy::Boost)),
    }
}

fn entries<'a>(on: &OneHost<'a>, company: Company) -> Result<Vec<Entry<'a>>, Unplaced> {
    let mut entries = Vec::new();
    let times = on.modes.map_or(Times { spacing: Duration::ZERO, timeout: Duration::ZERO, at_once: 1 }, |modes| {
        let ModeChanges { spacing, timeout, .. } = modes.changes;
        Times { spacing, timeout, at_once: modes.at_once() }
    });
    for (order, &service) in on.services.iter().enumerate() {
        let in_modes = in_modes(service, on.modes);
        let entry = |vcpu, chosen, locals, tail| Entry {
            order,
            service,
            vcpu,
            chosen,
            locals,
            in_modes: in_modes.clone(),
            tail,
            critical: None,
        };
        match &service.promise {
            Promise::Supply(interfaces) => {
                for vcpu in 0..interfaces.len() {
                    let name = (service.origin.has_vcpus() || interfaces.len() > 1).then_some(vcpu as u32);
                    let (chosen, all) = supplied(service, vcpu, on.facts, times)?;
                    let local = |interface| Local { interface, need: None };
                    let critical = service.criticality.as_ref().map(|one| match one {
                        SiteCriticality::Low => Critical::Low,
                        SiteCriticality::High { worst } => {
                            let budget = worst.get(vcpu).copied().unwrap_or(interfaces[vcpu].budget);
                            Critical::High(Box::new(local(Interface { budget, ..interfaces[vcpu] })))
                        }
                    });
                    let locals = all.into_iter().map(local).collect();
                    entries.push(Entry { critical, ..entry(name, chosen, locals, None) });
                }
            }
            Promise::EveryDeadline { .. } => {
                for found in deadlines::entries(service, on.host, on.facts, times)? {
                    let local = |(interface, need)| Local { interface, need: Some(need) };
                    let locals = found.locals.into_iter().map(local).collect();
                    let high = found.worst.map(|worst| Critical::High(Box::new(local(worst))));
                    let critical = high.or_else(|| service.criticality.as_ref().map(|_| Critical::Low));
                    entries.push(Entry { critical, ..entry(found.vcpu, found.chosen, locals, None) });
                }
            }
            Promise::Percentiles { .. } => {
                let (interface, chosen, tail) = percentiles::entry(service, on.host, on.facts, company, on.answers)?;
                let vcpu = service.origin.has_vcpus().then_some(0);
                entries.push(entry(vcpu, chosen, vec![Local { interface, need: None }], Some(tail)));
            }
            Promise::AsIfAlone | Promise::Leftovers { .. } => {}
        }
    }
    Ok(entries)
}

/// The interfaces of one virtual CPU that is promised supplies: one, or those of its local modes and, the last, while
/// stopped.
fn supplied(service: &Service, vcpu: usize, facts: &Facts, times: Times) -> Result<(Chosen, Vec<Interface>), Unplaced> {
    let own = |mode: &ServiceMode| match &mode.need {
        LocalNeed::Supply(all) => all.get(vcpu).copied(),
        LocalNeed::Tasks { .. } => None,
    };
    let mut all: Vec<Interface> = service.modes.iter().filter_map(own).collect();
    if let (true, Promise::Supply(interfaces)) = (all.is_empty(), &service.promise) {
        all = vec![interfaces[vcpu]];
    }
    // What the smallest can be, all can be.
    let least = all.iter().copied().min_by_key(|interface| interface.budget);
    let range = || Unplaced::Other(Refusal::Tasks { service: service.name.clone(), why: Error::Range });
    let least = least.ok_or_else(range)?;
    let chosen = choose(service, Wanted::Supply(least), facts).map_err(Unplaced::Other)?;
    if service.agent.is_some() {
        let budget = deadlines::stopped(service, vcpu, least.period, &chosen, facts, times)?;
        all.push(Interface { budget, period: least.period });
    }
    Ok((chosen, all))
}

/// For each mode of the site, which of its local modes a service is in, the last one being stopped.
fn in_modes(service: &Service, modes: Option<&SiteModes>) -> Vec<usize> {
    let Some(modes) = modes else { return vec![0] };
    let place = |mode: &SiteMode| {
        let own = mode.locals.iter().find(|local| local.service == service.name);
        let named = |own: &MemberMode| service.modes.iter().position(|mode| mode.name == own.local);
        own.map_or(0, |own| named(own).unwrap_or(service.modes.len()))
    };
    modes.modes.iter().map(place).collect()
}
