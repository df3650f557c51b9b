//! Changes of a site with which a refused service may fit. Every one is tried before it is told.

use crate::backend::{choose, Wanted};
use crate::facts::{known, Facts};
use crate::refusal::{Cause, NearestFit, Refusal, Witness};
use giusto_model::{
    Bandwidth, Duration, Host, Interface, LocalNeed, Plan, Promise, ServerKind, Service, Site, SiteCriticality, Task,
};

/// Margins and floors are told in tenths of a percentage point.
pub(crate) const TENTHS: u64 = 1000;
/// More cores than this are not suggested.
const MOST_CORES: usize = 64;

/// Plans a site on all hosts or the one given, or refuses it.
pub(crate) type Attempt<'a> = &'a dyn Fn(&Site, &Facts, Option<usize>) -> Result<Plan, Refusal>;

/// A refused service, and how changes are tried.
pub(crate) struct Trial<'a> {
    pub(crate) site: &'a Site,
    pub(crate) facts: &'a Facts,
    pub(crate) only: Option<usize>,
    pub(crate) witness: &'a Witness,
    /// The witness's.
    pub(crate) host: usize,
    /// The local mode of the witness that is refused, by its place.
    pub(crate) local: Option<usize>,
    pub(crate) attempt: Attempt<'a>,
}

impl Trial<'_> {
    /// The host of the witness, and what is known of it.
    pub(crate) fn on(&self) -> Option<(&Host, Facts)> {
        let here = self.facts.place(self.site).ok()?;
        Some((&self.site.hosts[self.host], known(self.site, self.facts, here, self.host).0))
    }

    /// The tasks of the witness, in the mode in which they do not fit.
    pub(crate) fn tasks<'s>(&self, witness: &'s Service) -> &'s [Task] {
        match self.local.map(|local| &witness.modes[local].need) {
            Some(LocalNeed::Tasks { tasks, .. }) => tasks,
            Some(LocalNeed::Supply(_)) => &[],
            None => &witness.tasks,
        }
    }

    /// The longest wcet of the task with the largest utilization that fits, by bisection: demand grows with it.
    pub(crate) fn shorter_task(&self, witness: &Service) -> Option<NearestFit> {
        let (index, _) = self.tasks(witness).iter().enumerate().max_by_key(|(_, t)| t.utilization())?;
        self.longest_wcet(witness, index)
    }

    pub(crate) fn longest_wcet(&self, witness: &Service, index: usize) -> Option<NearestFit> {
        let task = &self.tasks(witness)[index];
        let fits = |wcet| {
            self.with(|s, _| match self.local {
                None => {
                    // Where no other was written the worst is the usual one.
                    if let Some(SiteCriticality::High { worst }) = &mut s.criticality {
                        worst[index] = if worst[index] == s.tasks[index].wcet { wcet } else { worst[index] };
                    }
                    s.tasks[index].wcet = wcet;
                }
                Some(local) => {
                    if let LocalNeed::Tasks { tasks, .. } = &mut s.modes[local].need {
                        tasks[index].wcet = wcet;
                    }
                }
            })
        };
        let at_most = largest(Duration::from_ns(1), task.wcet, fits)?;
        Some(NearestFit::Wcet { task: task.name.clone(), at_most })
    }

    /// Less of a service with criticality: the longest worst-wcet of one task or the largest worst budget, and the same
    /// of the usual ones; or more cores.
    pub(crate) fn calmer(&self, witness: &Service, vcpu: Option<u32>) -> Vec<NearestFit> {
        let usual = match &witness.promise {
            Promise::Supply(all) => {
                let demand = all.get(vcpu.unwrap_or(0) as usize);
                demand.and_then(|&demand| self.smaller_budget(witness, vcpu, demand))
            }
            _ => self.shorter_task(witness),
        };
        self.smaller_worst(witness, vcpu).into_iter().chain(usual).chain(self.more_cores(1)).collect()
    }

    /// By bisection.
    fn smaller_worst(&self, witness: &Service, vcpu: Option<u32>) -> Option<NearestFit> {
        let Some(SiteCriticality::High { worst }) = &witness.criticality else { return None };
        let at = match &witness.promise {
            Promise::Supply(_) => vcpu.unwrap_or(0) as usize,
            _ => {
                let most = |&task: &usize| Bandwidth::of(worst[task], witness.tasks[task].period);
                (0..worst.len()).max_by_key(most)?
            }
        };
        let usual = match &witness.promise {
            Promise::Supply(all) => all.get(at)?.budget,
            _ => witness.tasks.get(at)?.wcet,
        };
        let fits = |least| {
            self.with(|s, _| {
                if let Some(SiteCriticality::High { worst }) = &mut s.criticality {
                    worst[at] = least;
                }
            })
        };
        let at_most = largest(usual, *worst.get(at)?, fits)?;
        Some(match &witness.promise {
            Promise::Supply(_) => NearestFit::Worst { vcpu, at_most },
            _ => NearestFit::WorstWcet { task: witness.tasks[at].name.clone(), at_most },
        })
    }

    /// The largest budget that fits in the same period, or more cores.
    pub(crate) fn smaller_supply(&self, witness: &Service, vcpu: Option<u32>, demand: Interface) -> Vec<NearestFit> {
        self.smaller_budget(witness, vcpu, demand).into_iter().chain(self.more_cores(1)).collect()
    }

    /// By bisection.
    pub(crate) fn smaller_budget(&self, witness: &Service, vcpu: Option<u32>, demand: Interface) -> Option<NearestFit> {
        let (_, facts) = self.on()?;
        let least = choose(witness, Wanted::Supply(demand), &facts).ok()?.limits.budget;
        let at = vcpu.unwrap_or(0) as usize;
        let fits = |budget| {
            self.with(|s, _| {
                let own = self.local.map(|local| &mut s.modes[local].need);
                match (own, &mut s.promise) {
                    (Some(LocalNeed::Supply(interfaces)), _) | (None, Promise::Supply(interfaces)) => {
                        // Where no other was written the worst is the usual one.
                        if let Some(SiteCriticality::High { worst }) = &mut s.criticality {
                            worst[at] = if worst[at] == interfaces[at].budget { budget } else { worst[at] };
                        }
                        interfaces[at].budget = budget;
                    }
                    _ => {}
                }
            })
        };
        let at_most = Interface { budget: largest(least, demand.budget, fits)?, ..demand };
        Some(NearestFit::Supply { vcpu, at_most })
    }

    /// A kind that does not take two budgets in a row.
    pub(crate) fn another_kind(&self) -> Option<NearestFit> {
        let kinds = [ServerKind::ConstantBandwidth, ServerKind::PeriodicConserving];
        kinds.into_iter().find(|kind| self.with(|s, _| s.server = Some(*kind))).map(NearestFit::Kind)
    }

    /// The least number of cores more, from `first` on.
    pub(crate) fn more_cores(&self, first: usize) -> Option<NearestFit> {
        (first..=MOST_CORES).find(|more| self.with(|_, cores| *cores = *more)).map(NearestFit::MoreCores)
    }

    /// The first other host where it fits together with all others, and the rest of the plan with it.
    pub(crate) fn another_host(&self) -> Option<NearestFit> {
        let others = (0..self.site.hosts.len()).filter(|&host| host != self.host || !self.witness.elsewhere.is_empty());
        others.map(|host| (host, &self.site.hosts[host].name)).find_map(|(host, name)| {
            let mut site = self.site.clone();
            site.services.iter_mut().find(|s| s.name == self.witness.service)?.on = Some(name.clone());
            let fits = |only| (self.attempt)(&site, self.facts, only).is_ok();
            (fits(Some(host)) && self.with(|s, _| s.on = Some(name.clone()))).then(|| NearestFit::On(name.clone()))
        })
    }

    /// Whether the witness is no longer refused (on a site with one host: for its cause) after `change` of it, or with more
    /// cores.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Service, &mut usize)) -> bool {
        let (mut site, mut facts) = (self.site.clone(), self.facts.clone());
        let Some(service) = site.services.iter_mut().find(|s| s.name == self.witness.service) else { return false };
        let mut more = 0;
        change(service, &mut more);
        let host = &mut site.hosts[self.host];
        let next = facts.cores.iter().chain(&host.cores).max().map_or(0, |c| c + 1);
        let added: Vec<u32> = (next..).take(more).collect();
        facts.cores.extend(&added);
        host.cores.extend(&added);
        match (self.attempt)(&site, &facts, self.only) {
            Ok(_) => true,
            Err(Refusal::DoesNotFit(next)) => {
                let kind = |cause: &Cause| std::mem::discriminant(cause.itself());
                let same = kind(&next.cause) == kind(&self.witness.cause);
                next.service != self.witness.service || (site.hosts.len() == 1 && !same)
            }
            Err(_) => false,
        }
    }
}

/// The largest that fits, from `good` on and below `bad`, by bisection; every one told was tried.
fn largest(good: Duration, bad: Duration, fits: impl Fn(Duration) -> bool) -> Option<Duration> {
    if !fits(good) {
        return None;
    }
    let (mut good, mut bad) = (good.ns(), bad.ns());
    while bad.saturating_sub(good) > 1 {
        let middle = good + (bad - good) / 2;
        if fits(Duration::from_ns(middle)) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(Duration::from_ns(good))
}

/// Rounded down.
pub(crate) fn in_tenths(share: Bandwidth) -> u64 {
    (u128::from(share.numer()) * u128::from(TENTHS) / u128::from(share.denom())) as u64
}
