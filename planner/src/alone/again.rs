//! The reservations of a host planned again under what programs without Giusto can do: a core to itself, else a part of one.

use crate::facts::{BackendFact, Facts};
use crate::placements::Placements;
use crate::plan::plan;
use crate::refusal::Refusal;
use giusto_model::{
    Backend, Bandwidth, Cap, Duration, Host, HostPlan, Interface, LeftoverPlan, Paths, Plan, Promise, Server, Service,
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
}

/// A reservation.
pub(super) struct Entry<'a> {
    pub(super) planned: &'a ServicePlan,
    pub(super) core: u32,
    pub(super) way: Way,
}

/// How it gets its time.
pub(super) enum Way {
    /// Its core has no other reservation.
    Whole,
    /// By quota and weight.
    Share(Share),
}

/// A part of a core.
pub(super) struct Share {
    /// Of [`Share::WEIGHTS`].
    pub(super) weight: u64,
    /// What the planner says to its promise under quotas.
    pub(super) refused: String,
    /// Planned as a leftover with its bandwidth for a floor: what all of its core share; or why that does not fit.
    pub(super) floor: Result<Bandwidth, String>,
}

impl Share {
    /// The weight of a whole core: the largest that cgroups take.
    pub(super) const WEIGHTS: u64 = 10_000;
}

/// A service that gets what is left.
pub(super) struct Rest<'a> {
    pub(super) planned: &'a LeftoverPlan,
    /// Where it may run.
    pub(super) cores: Vec<u32>,
    /// These are cores on which reservations are by quota and weight: there are no others.
    pub(super) shares: bool,
    /// What all leftovers share; or why its floor is not held.
    pub(super) floor: Result<Bandwidth, String>,
}

/// A quota of the fair scheduler, in its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// In us.
    pub(super) quota: u64,
    /// In us.
    pub(super) period: u64,
}

impl Quota {
    /// The kernel takes no smaller quota or period, in us.
    const LEAST: u64 = 1000;
    /// Nor a longer period.
    const LONGEST: u64 = 1_000_000;

    /// A server's budget and period, or a multiple or part of both where the kernel does not take them: no less of a core,
    /// and no more than us make of it.
    pub(super) fn of(server: Server) -> Quota {
        Quota::part(server.budget.ns(), server.period.ns())
    }

    /// Such a share of a core, every 100 ms as is usual.
    pub(super) fn share(share: Bandwidth) -> Quota {
        let period = Duration::from_ms(100).ns();
        Quota::part(share.times_ceil(Duration::from_ns(period)).map_or(period, Duration::ns), period)
    }

    /// `budget` of every `period`, both in ns.
    fn part(budget: u64, period: u64) -> Quota {
        let (budget, period) = (u128::from(budget.max(1)), u128::from(period.max(1)));
        let (least, longest) = (u128::from(Quota::LEAST) * 1000, u128::from(Quota::LONGEST) * 1000);
        let times = least.div_ceil(budget);
        let wanted = (period * times).min(longest);
        // Whole us; a period that is cut keeps the share.
        let us = (wanted / 1000).max(u128::from(Quota::LEAST));
        let quota = (budget * us).div_ceil(period).max(u128::from(Quota::LEAST));
        Quota { quota: quota as u64, period: us as u64 } // at most a second, or a core
    }
}

impl<'a> Alone<'a> {
    /// Of the host at `index` of the plan's. O(entries²), and a plan a core with several reservations and a refusal a service
    /// there.
    pub(super) fn of(site: &Site, facts: &Facts, plan: &'a Plan, index: usize) -> Alone<'a> {
        let host = &plan.hosts[index];
        let planned: Vec<&ServicePlan> = plan.services.iter().filter(|one| one.on == host.name).collect();
        let packets: Vec<u32> =
            plan.network.iter().filter(|one| one.on == host.name).flat_map(|one| one.cores.clone()).collect();
        let open: Vec<u32> = host.open_cores().into_iter().filter(|core| !packets.contains(core)).collect();
        let cores = spread(&planned, &open);
        let on = |core: u32| cores.iter().filter(|one| **one == core).count();
        let mut used = cores.clone();
        used.sort_unstable();
        used.dedup();
        let (whole, shared): (Vec<u32>, Vec<u32>) = used.iter().partition(|core| on(**core) == 1);
        let again = Again { site, facts, host };
        let floors: Vec<(u32, Result<Bandwidth, String>)> =
            shared.iter().map(|&core| (core, again.floors(&[core], &mine(&planned, &cores, core), &[]))).collect();
        let entry = |(planned, core): (&&'a ServicePlan, &u32)| {
            let way = match floors.iter().find(|(shared, _)| shared == core) {
                None => Way::Whole,
                Some((_, floor)) => Way::Share(Share {
                    weight: weight(planned.server.bandwidth()),
                    refused: again.under_quota(planned),
                    floor: floor.clone(),
                }),
            };
            Entry { planned, core: *core, way }
        };
        let entries: Vec<Entry> = planned.iter().zip(&cores).map(entry).collect();
        let free: Vec<u32> = open.iter().copied().filter(|core| !used.contains(core)).collect();
        let leftovers: Vec<&LeftoverPlan> = plan.leftovers.iter().filter(|one| one.on == host.name).collect();
        let floor = match (free.is_empty(), shared.is_empty()) {
            (false, _) => again.floors(&free, &[], &leftovers),
            (true, false) => {
                let beside: Vec<&ServicePlan> = shared.iter().flat_map(|&core| mine(&planned, &cores, core)).collect();
                again.floors(&shared, &beside, &leftovers)
            }
            (true, true) => Err("each core has a service to itself, which may take all of it".into()),
        };
        let shares = free.is_empty() && !shared.is_empty();
        let mut its_cores: Vec<u32> = match shares {
            true => shared.clone(),
            false => free.iter().chain(&whole).copied().collect(),
        };
        its_cores.sort_unstable();
        let rest = leftovers
            .into_iter()
            .map(|planned| Rest { planned, cores: its_cores.clone(), shares, floor: floor.clone() })
            .collect();
        let missing = entries.len().saturating_sub(open.len());
        Alone { host, entries, rest, whole, shared, missing }
    }
}

/// The share of [`Share::WEIGHTS`] that a bandwidth is.
pub(super) fn weight(of: Bandwidth) -> u64 {
    let whole = u128::from(of.numer()) * u128::from(Share::WEIGHTS);
    whole.div_ceil(u128::from(of.denom().max(1))).clamp(1, u128::from(Share::WEIGHTS)) as u64
}

fn mine<'a>(planned: &[&'a ServicePlan], cores: &[u32], core: u32) -> Vec<&'a ServicePlan> {
    planned.iter().zip(cores).filter(|(_, its)| **its == core).map(|(one, _)| *one).collect()
}

/// The core of each reservation: that of the plan, but cores without one take those of cores with several, as long as there
/// are some: first those whose promise a share keeps least, of these the largest.
fn spread(planned: &[&ServicePlan], open: &[u32]) -> Vec<u32> {
    let mut cores: Vec<u32> = planned.iter().map(|one| one.core).collect();
    for free in open {
        if cores.contains(free) {
            continue;
        }
        let crowded = |at: &usize| cores.iter().filter(|core| **core == cores[*at]).count() > 1;
        let rank = |at: &usize| {
            let strict = match planned[*at].promise {
                Promise::EveryDeadline { .. } => 4,
                Promise::AsIfAlone => 3,
                Promise::Stage { .. } => 2,
                Promise::Percentiles { .. } => 1,
                Promise::Supply(_) | Promise::Leftovers { .. } => 0,
            };
            (strict, planned[*at].server.bandwidth(), std::cmp::Reverse(*at))
        };
        let Some(moves) = (0..cores.len()).filter(crowded).max_by_key(rank) else { break };
        cores[moves] = *free;
    }
    cores
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

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::ServerKind;

    #[test]
    fn a_quota_is_no_less_than_the_server_and_one_that_the_kernel_takes() {
        let us = Duration::from_us;
        let quota = |budget, period| Quota::of(Server { kind: ServerKind::Deferrable, budget, period });
        assert_eq!(quota(us(3000), us(10_000)), Quota { quota: 3000, period: 10_000 });
        assert_eq!(quota(us(300), us(1000)), Quota { quota: 1200, period: 4000 }, "below a millisecond: a multiple");
        assert_eq!(
            quota(us(1_000_000), us(4_000_000)),
            Quota { quota: 250_000, period: 1_000_000 },
            "at most a second"
        );
        assert_eq!(quota(Duration::from_ns(1), us(4_000_000)), Quota { quota: 1000, period: 1_000_000 });
        for (budget, period) in [(1, 1), (1500, 3001), (999_999, 1_000_001), (1 << 40, 1 << 41), (7, 1 << 62)] {
            let server = Server {
                kind: ServerKind::Deferrable,
                budget: Duration::from_ns(budget),
                period: Duration::from_ns(period),
            };
            let Quota { quota, period } = Quota::of(server);
            assert!(quota >= 1000 && (1000..=1_000_000).contains(&period), "{quota} {period}");
            assert!(Bandwidth::new(quota, period).unwrap() >= server.bandwidth());
        }
        assert_eq!(Quota::share(Bandwidth::new(2, 5).unwrap()), Quota { quota: 40_000, period: 100_000 });
        assert_eq!(
            (weight(Bandwidth::new(1, 3).unwrap()), weight(Bandwidth::ZERO), weight(Bandwidth::ONE)),
            (3334, 1, 10_000)
        );
    }
}
