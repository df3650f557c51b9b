//! From one plan to the next while it is in force: which steps, in which order.
//!
//! Pure. The law: at no moment do the servers of a core together take more of it than admission allows, a service that moves
//! counted on both its cores while it does. So bandwidth is given back before it is taken: remove, release, decrease, move,
//! increase, add. Services that stay keep their processes; one whose origin, user,
//! limits, environment or directory changed is removed and added.

use giusto_model::{
    Backend, Bandwidth, Cap, Copies, Criticality, Duration, NetworkPlan, Origin, Plan, Process, Server, ServicePlan,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One thing to do, to all of a service or to one of its servers: a virtual machine may have one for each `vcpu`. All but
/// [`Step::Remove`] and [`Step::Add`] leave the processes alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
#[allow(missing_docs)] // `service` is its name, the others are what the variant says
pub enum Step {
    /// End a service that giusto started, let an adopted one go.
    Remove { service: String },
    /// Take a server away: to make room for others on the way, or because its backend changes or it gets leftovers now.
    Release { service: String, vcpu: Option<u32> },
    /// Another server of the same bandwidth or less, or another cap on it, in place.
    Decrease { service: String, vcpu: Option<u32>, server: Server },
    /// To another core, with the server it gets there.
    Move { service: String, vcpu: Option<u32>, from: u32, core: u32, server: Server },
    /// A server that is not there now, for processes that run.
    Reserve { service: String, vcpu: Option<u32>, core: u32, server: Server },
    /// A server of more bandwidth, in place.
    Increase { service: String, vcpu: Option<u32>, server: Server },
    /// Other cores, or another cap, for a service that gets leftovers.
    Spread { service: String, cores: Vec<u32> },
    /// Start or adopt it and put it in its place.
    Add { service: String },
    /// Other interfaces, classes, buckets, cores or priorities for packets; `interfaces`: all that are looked after then.
    Packets { interfaces: Vec<String> },
    /// Bring cores online that were parked.
    Online { cores: Vec<u32> },
    /// Take cores offline that nothing is on any more.
    Park { cores: Vec<u32> },
}

/// What was done to get from one plan to the next; empty where they do not differ in what is enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// In this order.
    pub steps: Vec<Step>,
}

/// Who holds what: as much of a plan as enforcement changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(BTreeMap<Key, Held>, Vec<NetworkPlan>, BTreeSet<u32>);

/// A service, and which of its vCPUs.
type Key = (String, Option<u32>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    origin: Origin,
    /// As it is from the start of its processes.
    process: Process,
    copies: Option<Copies>,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Reserved {
        core: u32,
        backend: Backend,
        server: Server,
        criticality: Option<Criticality>,
        cap: Cap,
    },
    Spread {
        cores: Vec<u32>,
        at_most: Option<Bandwidth>,
    },
    /// Between a release and what follows.
    Nowhere,
}

impl Layout {
    /// What `plan` gives to whom.
    pub fn of(plan: &Plan) -> Layout {
        let services = plan.services.iter().map(|service| {
            let &ServicePlan { core, backend, server, criticality, cap, .. } = service;
            let place = Place::Reserved { core, backend, server, criticality, cap };
            (
                (service.name.clone(), service.vcpu),
                Held {
                    origin: service.origin.clone(),
                    process: service.process.at_start(),
                    copies: service.copies.clone(),
                    place,
                },
            )
        });
        let leftovers = plan.leftovers.iter().map(|leftover| {
            let place = Place::Spread { cores: leftover.cores.clone(), at_most: leftover.at_most };
            (
                (leftover.name.clone(), None),
                Held { origin: leftover.origin.clone(), process: leftover.process.at_start(), copies: None, place },
            )
        });
        let parked = plan.hosts.iter().flat_map(|host| host.parked.iter().copied());
        Layout(services.chain(leftovers).collect(), plan.network.iter().map(enforced).collect(), parked.collect())
    }

    /// Does `step` on the way to `target`.
    pub(crate) fn apply(&mut self, step: &Step, target: &Layout) {
        match step {
            Step::Packets { .. } => return self.1.clone_from(&target.1),
            Step::Online { cores } => return self.2.retain(|core| !cores.contains(core)),
            Step::Park { cores } => return self.2.extend(cores),
            _ => {}
        }
        let key = step.key();
        match (step, target.0.get(&key)) {
            (Step::Remove { service }, _) => self.0.retain(|(name, _), _| name != service),
            (Step::Add { service }, _) => {
                let there = target.0.iter().filter(|((name, _), _)| name == service);
                self.0.extend(there.map(|(key, held)| (key.clone(), held.clone())));
            }
            (Step::Release { .. }, Some(goal)) => {
                self.0.insert(key, Held { place: Place::Nowhere, ..goal.clone() });
            }
            (_, Some(goal)) => _ = self.0.insert(key, goal.clone()),
            (_, None) => _ = self.0.remove(&key),
        }
    }

    /// Where a service comes from, how it is run and which workers it has, if it is there.
    fn origin(&self, service: &str) -> Option<(&Origin, &Process, &Option<Copies>)> {
        let held = self.0.iter().find(|((name, _), _)| name == service).map(|(_, held)| held)?;
        Some((&held.origin, &held.process, &held.copies))
    }

    /// Each service once.
    fn services(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        names
    }

    /// What the servers on `core` take of it.
    fn load(&self, core: u32) -> Part {
        self.0.values().filter(|held| held.core() == Some(core)).map(Held::part).fold(Part(0), Part::plus)
    }
}

impl Held {
    fn core(&self) -> Option<u32> {
        match self.place {
            Place::Reserved { core, .. } => Some(core),
            _ => None,
        }
    }

    fn part(&self) -> Part {
        match self.place {
            Place::Reserved { server, .. } => Part::of(server.budget, server.period),
            _ => Part(0),
        }
    }
}

/// What of a plan for packets is enforced: not where its numbers come from.
fn enforced(plan: &NetworkPlan) -> NetworkPlan {
    let mut plan = plan.clone();
    plan.reasons.clear();
    for vif in &mut plan.vifs {
        vif.bound = None;
        vif.reasons.clear();
    }
    plan
}

fn interfaces(plans: &[NetworkPlan]) -> Vec<String> {
    let of = |plan: &NetworkPlan| -> Vec<String> {
        let uplinks = plan.uplinks.iter().map(|uplink| uplink.uplink.name.clone());
        uplinks.chain(plan.vifs.iter().map(|vif| vif.name.clone())).collect()
    };
    plans.iter().flat_map(of).collect()
}

/// A share of a core in units of 10^-15, rounded down as the kernel does (at 2^-20): sums of exact fractions outgrow 64 bits,
/// and servers that fill a core exactly have to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part(u128);

impl Part {
    const ONE: u128 = 1_000_000_000_000_000;

    fn of(budget: Duration, period: Duration) -> Part {
        Part(u128::from(budget.ns()) * Self::ONE / u128::from(period.ns().max(1)))
    }

    fn plus(self, other: Part) -> Part {
        Part(self.0 + other.0)
    }

    /// As much as fits under `capacity`.
    fn fits(self, capacity: Bandwidth) -> bool {
        self.0 * u128::from(capacity.denom()) <= u128::from(capacity.numer()) * Self::ONE
    }
}

/// The steps from `old` to `new`, both admitted, where admission allows `capacity` of a core under each backend. O(n²).
///
/// Where services change places and no order of moves has room, the smallest in the way is released and reserved again
/// after: it runs without a guarantee in between.
pub fn difference(old: &Layout, new: &Layout, capacity: &dyn Fn(Backend) -> Bandwidth) -> Vec<Step> {
    let mut way = Way { now: old.clone(), new, steps: Vec::new() };
    let online: Vec<u32> = old.2.difference(&new.2).copied().collect();
    if !online.is_empty() {
        // First: servers may go there.
        way.take(Step::Online { cores: online });
    }
    let go = |service: &String| new.origin(service) != old.origin(service);
    old.services().into_iter().filter(go).for_each(|service| way.take(Step::Remove { service }));
    let running = way.now.services();
    let stay: Vec<Key> = way.now.0.keys().cloned().collect();
    for (service, vcpu) in stay.iter().cloned() {
        let key = (service.clone(), vcpu);
        match (&old.0[&key].place, new.0.get(&key).map(|goal| &goal.place)) {
            (
                Place::Reserved { core, backend, server, criticality, cap },
                Some(Place::Reserved { core: to, backend: by, server: next, criticality: level, cap: then }),
            ) => {
                let alike = match (criticality, level) {
                    (Some(one), Some(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
                    (one, other) => one.is_none() && other.is_none(),
                };
                let same = (server, criticality, cap) == (next, level, then);
                if backend != by || server.kind != next.kind || !alike {
                    way.take(Step::Release { service, vcpu });
                } else if core == to && !same && next.bandwidth() <= server.bandwidth() {
                    way.take(Step::Decrease { service, vcpu, server: *next });
                }
            }
            (Place::Reserved { .. }, _) => way.take(Step::Release { service, vcpu }),
            _ => {}
        }
    }
    way.movers(capacity);
    for (key, goal) in new.0.iter().filter(|((service, _), _)| running.contains(service)) {
        let (service, vcpu) = key.clone();
        match (way.now.0.get(key).map(|held| &held.place), &goal.place) {
            (Some(now), then) if now == then => {}
            (Some(Place::Reserved { .. }), &Place::Reserved { server, .. }) => {
                way.take(Step::Increase { service, vcpu, server });
            }
            (_, &Place::Reserved { core, server, .. }) => way.take(Step::Reserve { service, vcpu, core, server }),
            (_, Place::Spread { cores, .. }) => way.take(Step::Spread { service, cores: cores.clone() }),
            (_, Place::Nowhere) => {}
        }
    }
    new.services()
        .into_iter()
        .filter(|name| !running.contains(name))
        .for_each(|service| way.take(Step::Add { service }));
    // Last: interfaces come with their services.
    if old.1 != new.1 {
        way.take(Step::Packets { interfaces: interfaces(&new.1) });
    }
    let park: Vec<u32> = new.2.difference(&old.2).copied().collect();
    if !park.is_empty() {
        // No service is there any more.
        way.take(Step::Park { cores: park });
    }
    way.steps
}

/// On the way to `new`.
struct Way<'a> {
    now: Layout,
    new: &'a Layout,
    steps: Vec<Step>,
}

impl Way<'_> {
    fn take(&mut self, step: Step) {
        self.now.apply(&step, self.new);
        self.steps.push(step);
    }

    /// Moves each service that changes its core, as soon as there is room for it.
    fn movers(&mut self, capacity: &dyn Fn(Backend) -> Bandwidth) {
        loop {
            let moves: Vec<(&Key, Backend, Step)> =
                self.now.0.iter().filter_map(|(key, held)| self.moving(key, held)).collect();
            let has_room = |(_, backend, step): &&(&Key, Backend, Step)| match step {
                Step::Move { core, server, .. } => {
                    self.now.load(*core).plus(Part::of(server.budget, server.period)).fits(capacity(*backend))
                }
                _ => false,
            };
            if let Some((_, _, step)) = moves.iter().find(has_room) {
                let step = step.clone();
                self.take(step);
                continue;
            }
            // No service can move: the smallest on a core that another is to move to gives way.
            let wanted = |key: &Key| {
                let from = self.now.0[key].core();
                moves.iter().any(|(_, _, step)| matches!(step, Step::Move { core, .. } if Some(*core) == from))
            };
            let keys = moves.iter().map(|(key, _, _)| *key);
            let smallest = keys.min_by_key(|key| (!wanted(key), self.now.0[*key].part())).cloned();
            let Some((service, vcpu)) = smallest else { return };
            self.take(Step::Release { service, vcpu });
        }
    }

    fn moving<'k>(&self, key: &'k Key, held: &Held) -> Option<(&'k Key, Backend, Step)> {
        let from = held.core()?;
        match self.new.0.get(key)?.place {
            Place::Reserved { core, server, backend, .. } if core != from => {
                let (service, vcpu) = key.clone();
                Some((key, backend, Step::Move { service, vcpu, from, core, server }))
            }
            _ => None,
        }
    }
}

impl Step {
    /// Whom it is about, and which of its servers.
    fn key(&self) -> Key {
        let vcpu = match self {
            Step::Release { vcpu, .. }
            | Step::Decrease { vcpu, .. }
            | Step::Move { vcpu, .. }
            | Step::Reserve { vcpu, .. }
            | Step::Increase { vcpu, .. } => *vcpu,
            Step::Remove { .. } | Step::Spread { .. } | Step::Add { .. } => None,
            Step::Packets { .. } | Step::Online { .. } | Step::Park { .. } => None,
        };
        (self.service().to_string(), vcpu)
    }

    /// The service that it is about; packets and parked cores belong to no single one.
    pub fn service(&self) -> &str {
        match self {
            Step::Remove { service }
            | Step::Release { service, .. }
            | Step::Decrease { service, .. }
            | Step::Move { service, .. }
            | Step::Reserve { service, .. }
            | Step::Increase { service, .. }
            | Step::Spread { service, .. }
            | Step::Add { service } => service,
            Step::Packets { .. } | Step::Online { .. } | Step::Park { .. } => "",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whom = match self.key() {
            (service, Some(vcpu)) => format!("{service}/{vcpu}"),
            (service, None) => service,
        };
        let server = |server: &Server| format!("{} every {}", server.budget, server.period);
        match self {
            Step::Remove { .. } => write!(f, "remove {whom}"),
            Step::Release { .. } => write!(f, "release the server of {whom}"),
            Step::Decrease { server: to, .. } => write!(f, "decrease {whom} to {}", server(to)),
            Step::Move { from, core, server: to, .. } => {
                write!(f, "move {whom} from core {from} to core {core}, with {}", server(to))
            }
            Step::Reserve { core, server: to, .. } => write!(f, "reserve {} for {whom} on core {core}", server(to)),
            Step::Increase { server: to, .. } => write!(f, "increase {whom} to {}", server(to)),
            Step::Spread { cores, .. } => write!(f, "spread {whom} over cores {cores:?}"),
            Step::Add { .. } => write!(f, "add {whom}"),
            Step::Packets { interfaces } if interfaces.is_empty() => write!(f, "leave packets to the kernel"),
            Step::Online { cores } => write!(f, "bring cores {cores:?} online"),
            Step::Park { cores } => write!(f, "park cores {cores:?}"),
            Step::Packets { interfaces } => write!(f, "give packets of {} their threads", interfaces.join(", ")),
        }
    }
}

#[cfg(test)]
#[path = "plan_diff_tests.rs"]
mod tests;
