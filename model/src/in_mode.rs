//! The plan of a host in another mode than the one in which it begins.

use crate::{
    Admission, Bandwidth, Criticality, Duration, LeftoverPlan, LocalPlan, ModesPlan, Plan, Promise, Reason, Renewal,
    Server, ServicePlan,
};

impl Plan {
    /// This plan with each member of its host in the local mode of `locals`, in the order of the members; whether the site names
    /// that combination or not. All that follows from the servers is computed anew: what is left, who waits how long. What is
    /// not: predictions, which it has none of, and what leftovers are promised, although one that is stopped gets nothing.
    ///
    /// `None`: this is no plan of one host with modes, or these are no local modes of its members, one each, or they ask for
    /// more of a core than there is. Else the servers may still not fit together (`planner::admit_modes`). O(services · cores).
    pub fn in_mode(&self, locals: &[String]) -> Option<Plan> {
        let [modes] = self.modes.as_slice() else { return None };
        let [host] = self.hosts.as_slice() else { return None };
        if locals.len() != modes.members.len() {
            return None;
        }
        let chosen: Vec<&LocalPlan> =
            (0..).zip(locals).map(|(at, name)| modes.local(at, name)).collect::<Option<_>>()?;
        let mut services = self.services.clone();
        for (member, local) in modes.members.iter().zip(chosen) {
            let own = services.iter_mut().filter(|entry| entry.name == member.service);
            let given = own.zip(local.servers.iter().zip(&local.proofs)).map(|(entry, (server, proof))| {
                (entry.server, entry.tasks, entry.utilization) = (*server, proof.tasks.clone(), proof.utilization);
                (entry.required, entry.margin, entry.hold) = (proof.required, proof.margin, proof.hold);
                (entry.certificate, entry.prediction) = (proof.certificate.clone(), None);
                if let Promise::Supply(interfaces) = &mut entry.promise {
                    *interfaces = local.servers.iter().map(Server::interface).collect();
                }
                let why = "'giusto explain' says where the numbers of every mode come from";
                entry.reasons = vec![Reason { what: "mode".into(), value: local.name.clone(), why: why.into() }];
            });
            if given.count() != local.servers.len() {
                return None;
            }
        }
        let mut host = host.clone();
        for told in &mut host.admission {
            told.reserved = reserved(told, &services)?;
            let taken = [told.reserved, host.keep_free, told.cost];
            let left = taken.into_iter().try_fold(Bandwidth::ONE, Bandwidth::checked_sub)?;
            services.iter_mut().filter(|entry| entry.core == told.core).for_each(|entry| entry.left_for_others = left);
        }
        let open = host.open_cores();
        let wait = longest_wait(&open, &services, &host.admission)?.0;
        let whole = Bandwidth::ONE.checked_sub(host.keep_free)?;
        let left = |core: &u32| services.iter().find(|s| s.core == *core).map_or(whole, |entry| entry.left_for_others);
        let available = open.iter().map(left).try_fold(Bandwidth::ZERO, Bandwidth::add_down)?;
        let leftover = |one: &LeftoverPlan| LeftoverPlan { available, longest_wait: wait, ..one.clone() };
        let leftovers = self.leftovers.iter().map(leftover).collect();
        Some(Plan { hosts: vec![host], services, leftovers, ..self.clone() })
    }

    /// The modes of a plan that is for one host.
    pub fn only_modes(&self) -> Option<&ModesPlan> {
        match self.modes.as_slice() {
            [only] if self.only_host().is_some() => Some(only),
            _ => None,
        }
    }
}

/// Σ B/P of the servers of its core, boosts included; with criticality at least that of high ones at their worst.
fn reserved(told: &Admission, services: &[ServicePlan]) -> Option<Bandwidth> {
    let here = || services.iter().filter(|entry| entry.core == told.core);
    let mut usual = here().map(|entry| entry.server.bandwidth()).chain(told.boost.map(|boost| boost.bandwidth()));
    let mut worst = here().filter_map(|entry| Bandwidth::of(worst(entry)?, entry.server.period));
    let usual = usual.try_fold(Bandwidth::ZERO, Bandwidth::add_up)?;
    Some(usual.max(worst.try_fold(Bandwidth::ZERO, Bandwidth::add_up)?))
}

/// The pessimistic budget of one of high criticality.
fn worst(entry: &ServicePlan) -> Option<Duration> {
    match entry.criticality? {
        Criticality::High { worst, .. } => Some(worst),
        Criticality::Low => None,
    }
}

/// The longest that the reservations of one core can hold it, where each of `cores` has some, else 0; and whether it is several
/// servers that do. `admission` tells each such core. `None`: beyond 584 years.
pub fn longest_wait(cores: &[u32], services: &[ServicePlan], admission: &[Admission]) -> Option<(Duration, bool)> {
    let (mut wait, mut several) = (Duration::ZERO, false);
    for core in cores {
        let here: Vec<&ServicePlan> = services.iter().filter(|s| s.core == *core).collect();
        let Some(told) = admission.iter().find(|told| told.core == *core) else {
            return Some((Duration::ZERO, false));
        };
        let busy = longest_busy(&here, told)?;
        if busy > wait {
            (wait, several) = (busy, here.len() > 1 || told.boost.is_some());
        }
    }
    Some((wait, several))
}

/// The longest time for which the servers of one core together can keep all other threads off it. One has its own hold. Several:
/// in t after an instant at which none of them could run, a server takes at most B + t·B/P, or 2B + t·B/P where its budget can
/// lie ready before; so the time ends at Σ budgets / (1 − Σ B/P − what the backend takes). With criticality: Σ of all usual
/// budgets or of all worst ones, the larger, while the core stays in one of its modes. `None` beyond 584 years, or if nothing is
/// left.
fn longest_busy(servers: &[&ServicePlan], told: &Admission) -> Option<Duration> {
    if let ([one], None) = (servers, told.boost) {
        return Some(one.hold.enforced);
    }
    let rest = Bandwidth::ONE.checked_sub(told.reserved)?.checked_sub(told.upkeep.unwrap_or(told.cost))?;
    let budget = |plan: &&ServicePlan| match plan.server.kind.renewal() {
        Renewal::Steady | Renewal::Parts => u128::from(plan.server.budget.ns()),
        Renewal::Grid | Renewal::KeptOnGrid | Renewal::Unlimited => 2 * u128::from(plan.server.budget.ns()),
    };
    let worst: u128 = servers.iter().filter_map(|plan| worst(plan)).map(|budget| u128::from(budget.ns())).sum();
    let boost = told.boost.map_or(0, |boost| 2 * u128::from(boost.budget.ns()));
    let total = (servers.iter().map(budget).sum::<u128>() + boost).max(worst);
    let busy = total.checked_mul(u128::from(rest.denom()))?.checked_div(u128::from(rest.numer()))?;
    u64::try_from(busy + 1).ok().map(Duration::from_ns)
}
