//! The reservations of a host planned again under what programs without Giusto can do: a core to itself, else a part of one.

use super::places::{apart, spread, Places};
use super::scale::Scale;
use super::share::{Entry, Floor, Rest, Share, Way};
use super::weigh::{Groups, Keeper};
use crate::facts::{BackendFact, Facts};
use crate::placements::Placements;
use crate::plan::plan;
use crate::refusal::Refusal;
use giusto_model::{
    Backend, Bandwidth, Cap, Host, HostPlan, Interface, LeftoverPlan, Paths, Plan, Promise, Server, Service,
    ServicePlan, Site, Unused,
};

/// What remains of a host's plan.
pub(super) struct Alone<'a> {
    pub(super) host: &'a HostPlan,
    /// In the order of the plan.
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) rest: Vec<Rest<'a>>,
    /// Cores with one reservation.
    pub(super) whole: Vec<u32>,
    /// Cores with several.
    pub(super) shared: Vec<u32>,
    /// So many cores more, and each reservation had one to itself.
    pub(super) missing: usize,
    /// All with a weight.
    pub(super) groups: Groups,
}

impl<'a> Alone<'a> {
    /// Of the host at `index` of the plan's, for a target that makes `started` of what the site starts. Cores are the same for
    /// all targets. O(entries²), and a plan a core with several reservations and a refusal a service there.
    pub(super) fn of(site: &Site, facts: &Facts, plan: &'a Plan, index: usize, started: Keeper) -> Alone<'a> {
        let host = &plan.hosts[index];
        let planned: Vec<&ServicePlan> = plan.services.iter().filter(|one| one.on == host.name).collect();
        let packets: Vec<u32> =
            plan.network.iter().filter(|one| one.on == host.name).flat_map(|one| one.cores.clone()).collect();
        let open: Vec<u32> = host.open_cores().into_iter().filter(|core| !packets.contains(core)).collect();
        let cores = apart(&planned, spread(&planned, &open), host.keep_free);
        let on = |core: u32| cores.iter().filter(|one| **one == core).count();
        let mut used = cores.clone();
        used.sort_unstable();
        used.dedup();
        let (whole, shared): (Vec<u32>, Vec<u32>) = used.iter().partition(|core| on(**core) == 1);
        let free: Vec<u32> = open.iter().copied().filter(|core| !used.contains(core)).collect();
        let again = Again { site, facts, host };
        let rooms: Vec<(u32, Result<Bandwidth, String>)> =
            shared.iter().map(|&core| (core, again.floors(&[core], &mine(&planned, &cores, core), &[]))).collect();
        let leftovers: Vec<&LeftoverPlan> = plan.leftovers.iter().filter(|one| one.on == host.name).collect();
        let places = Places { planned: &planned, cores: &cores, free: &free, whole: &whole, shared: &shared };
        let mut rest: Vec<Rest> = leftovers.iter().map(|planned| places.of(planned)).collect();
        let on_shared = match shared.is_empty() {
            true => Err("each core has a service to itself, which may take all of it".into()),
            false => {
                let beside: Vec<&ServicePlan> = shared.iter().flat_map(|&core| mine(&planned, &cores, core)).collect();
                again.floors(&shared, &beside, &leftovers)
            }
        };
        let on_free = if free.is_empty() { on_shared } else { again.floors(&free, &[], &leftovers) };
        let mut scale = Scale { groups: Groups::default(), rooms, shared, started };
        scale.weigh(&planned, &cores, &mut rest);
        let floor = |one: &Rest| on_free.clone().and_then(|available| scale.floor(one, available, &free));
        let floors: Vec<Result<Floor, String>> = rest.iter().map(floor).collect();
        rest.iter_mut().zip(floors).for_each(|(one, floor)| one.floor = floor);
        let entry = |(one, core): (&&'a ServicePlan, &u32)| {
            let way = match scale.rooms.iter().any(|(shared, _)| shared == core) {
                false => Way::Whole,
                true => Way::Share(Share {
                    weight: scale.groups.find(&one.name).map_or(1, |group| group.weight),
                    refused: again.under_quota(one),
                    floor: scale.share(one, *core, &mine(&planned, &cores, *core)),
                }),
            };
            Entry { planned: one, core: *core, way }
        };
        let entries: Vec<Entry> = planned.iter().zip(&cores).map(entry).collect();
        let missing = entries.len().saturating_sub(open.len());
        let Scale { groups, shared, .. } = scale;
        Alone { host, entries, rest, whole, shared, missing, groups }
    }
}

fn mine<'a>(planned: &[&'a ServicePlan], cores: &[u32], core: u32) -> Vec<&'a ServicePlan> {
    planned.iter().zip(cores).filter(|(_, its)| **its == core).map(|(one, _)| *one).collect()
}

/// What is planned again.
struct Again<'a> {
    site: &'a Site,
    facts: &'a Facts,
    host: &'a HostPlan,
}

impl Again<'_> {
    /// What all share where reservations become leftovers with their bandwidths for floors, on these cores; or why they do not
    /// fit.
    fn floors(&self, cores: &[u32], beside: &[&ServicePlan], rest: &[&LeftoverPlan]) -> Result<Bandwidth, String> {
        let mut services = Vec::new();
        for planned in beside {
            let share = planned.server.bandwidth();
            let at_most = (planned.cap == Cap::Hard).then_some(share);
            let promise = Promise::Leftovers { at_least: share, at_most };
            let part = planned.vcpu.map_or(String::new(), |vcpu| format!("-{vcpu}"));
            let again = self.named(&planned.name).map(|one| plain(one, promise));
            services.extend(again.map(|one| Service { name: format!("{}{part}", one.name), ..one }));
        }
        services.extend(rest.iter().filter_map(|left| {
            let LeftoverPlan { at_least, at_most, .. } = **left;
            self.named(&left.name).map(|one| plain(one, Promise::Leftovers { at_least, at_most }))
        }));
        if services.is_empty() {
            return Ok(Bandwidth::ZERO);
        }
        let plan = self.plan(cores, services, None).map_err(|refusal| refusal.to_string())?;
        Ok(plan.leftovers.first().map_or(Bandwidth::ZERO, |left| left.available))
    }

    /// What the planner says of its promise where quotas are all there is.
    fn under_quota(&self, planned: &ServicePlan) -> String {
        let Some(service) = self.named(&planned.name) else { return String::new() };
        let promise = match &service.promise {
            Promise::Stage { .. } => {
                let Server { budget, period, .. } = planned.server;
                Promise::Supply(vec![Interface { budget, period }])
            }
            other => other.clone(),
        };
        let service =
            Service { on: None, network: Vec::new(), modes: Vec::new(), agent: None, promise, ..service.clone() };
        match self.plan(&self.host.cores, vec![service], Some(Backend::Quota)) {
            Ok(_) => String::new(),
            Err(Refusal::Asked { why, .. }) => why,
            Err(other) => other.to_string(),
        }
    }

    fn named(&self, name: &str) -> Option<&Service> {
        self.site.services.iter().find(|service| service.name == name)
    }

    /// The plan of a host that has these services alone, where every mechanism is.
    fn plan(&self, cores: &[u32], services: Vec<Service>, insist: Option<Backend>) -> Result<Plan, Refusal> {
        let host = Host {
            name: self.host.name.clone(),
            cores: cores.to_vec(),
            keep_free: self.host.keep_free,
            network: None,
            unused: Unused::Leave,
            xen: None,
        };
        let there = |backend| BackendFact { backend, available: true, why_not: String::new() };
        let facts = Facts {
            host: None,
            cores: cores.to_vec(),
            backends: Backend::ALL.map(there).to_vec(),
            held: Vec::new(),
            latency: None,
            insist,
            placed: Placements::default(),
            ..self.facts.clone()
        };
        let paths = Paths::default();
        let site = Site { hosts: vec![host], services, topics: Vec::new(), coordination: None, paths, modes: None };
        plan(&site, &facts)
    }
}

/// The same service with another promise and nothing that goes with its own.
fn plain(service: &Service, promise: Promise) -> Service {
    Service {
        process: service.process.clone(),
        margin: service.margin,
        ..Service::plain(service.name.clone(), service.origin.clone(), promise)
    }
}
