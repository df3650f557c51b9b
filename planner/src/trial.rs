//! Changes of a site with which a refused service may fit. Every one is tried before it is told.

use crate::backend::{choose, Wanted};
use crate::facts::{known, Facts};
use crate::refusal::{NearestFit, Refusal, Witness};
use giusto_model::{
    Bandwidth, Duration, GuestScheduler, Host, Interface, LocalNeed, Plan, Promise, ServerKind, Service, ServiceTime,
    Site, SiteCriticality, Task,
};
use std::cell::OnceCell;

/// Margins and floors are told in tenths of a percentage point.
pub(crate) const TENTHS: u64 = 1000;
/// The kinds that are tried, those first that take from no other and lose no time they may have.
const KINDS: [ServerKind; 4] =
    [ServerKind::ConstantBandwidth, ServerKind::PeriodicConserving, ServerKind::PeriodicStrict, ServerKind::Deferrable];
/// So many services may be refused without the witness.
const HOPELESS: usize = 3;
/// Periods are made longer by this factor at most.
const LONGEST: u64 = 16;
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
    /// The services that are refused without the witness as well, once that was tried.
    pub(crate) hopeless: OnceCell<Option<Vec<String>>>,
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

    /// Another kind of server.
    pub(crate) fn another_kind(&self, witness: &Service) -> Option<NearestFit> {
        let others = KINDS.into_iter().filter(|kind| witness.server != Some(*kind));
        others.into_iter().find(|kind| self.with(|s, _| s.server = Some(*kind))).map(NearestFit::Kind)
    }

    /// The shortest longer period of the task with the largest utilization that fits, up to [`LONGEST`] times its own.
    pub(crate) fn longer_period(&self, witness: &Service) -> Option<NearestFit> {
        let (index, task) = self.tasks(witness).iter().enumerate().max_by_key(|(_, t)| t.utilization())?;
        let now = task.period;
        let to = |percent: u64| now.checked_mul(percent).map(|all| Duration::from_ns(all.ns().div_ceil(100)));
        let fits = |percent| {
            to(percent).is_some_and(|period| {
                self.with(|s, _| {
                    let own = self.local.map(|local| &mut s.modes[local].need);
                    let tasks = match own {
                        Some(LocalNeed::Tasks { tasks, .. }) => tasks,
                        _ => &mut s.tasks,
                    };
                    if let Some(task) = tasks.get_mut(index) {
                        task.deadline = if task.deadline == now { period } else { task.deadline };
                        task.period = period;
                    }
                })
            })
        };
        let (good, bad) = doubled(LONGEST, fits)?;
        let at_least = to(bisected(100 * good, 100 * bad, fits))?;
        Some(NearestFit::Period { task: task.name.clone(), at_least })
    }

    /// The most requests that fit, in steps of 5 % of those that come.
    pub(crate) fn fewer_requests(&self, witness: &Service) -> Option<NearestFit> {
        let Promise::Percentiles { arrivals, .. } = &witness.promise else { return None };
        let to = |percent| arrivals.rate.times(percent).and_then(|all| all.share(100));
        let fits = |percent| {
            to(percent).is_some_and(|rate| {
                self.with(|s, _| {
                    if let Promise::Percentiles { arrivals, .. } = &mut s.promise {
                        arrivals.rate = rate;
                    }
                })
            })
        };
        to(percent_of(fits)?).map(NearestFit::Requests)
    }

    /// The longest execution time of a request that fits, in steps of 5 % of what it has, if it is always the same or bounded.
    pub(crate) fn shorter_requests(&self, witness: &Service) -> Option<NearestFit> {
        let Promise::Percentiles { service: times, .. } = &witness.promise else { return None };
        let now = match *times {
            ServiceTime::Constant { time } => time,
            ServiceTime::Bounded { wcet, .. } => wcet,
            ServiceTime::Measured { .. } => return None,
        };
        let to = |percent: u32| Duration::from_ns((u128::from(now.ns()) * u128::from(percent) / 100) as u64);
        let fits = |percent| {
            let shorter = to(percent);
            !shorter.is_zero()
                && self.with(|s, _| {
                    if let Promise::Percentiles { service: times, .. } = &mut s.promise {
                        *times = match *times {
                            ServiceTime::Bounded { mean, .. } if mean < shorter => {
                                ServiceTime::Bounded { mean, wcet: shorter }
                            }
                            _ => ServiceTime::Constant { time: shorter },
                        };
                    }
                })
        };
        Some(NearestFit::Execution(to(percent_of(fits)?)))
    }

    /// Every deadline instead of the response times of a whole core: no more is asked of the same tasks.
    pub(crate) fn weaker_promise(&self, witness: &Service) -> Option<NearestFit> {
        let deadlines = Promise::EveryDeadline { scheduler: GuestScheduler::Any, vcpus: 1, placed: Vec::new() };
        // With 'load' or 'copies' it would take two changes.
        let weaker = witness.promise == Promise::AsIfAlone && witness.load.is_none() && witness.copies.is_none();
        (weaker && self.with(|s, _| s.promise = deadlines)).then_some(NearestFit::Promise("every-deadline"))
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

    /// Whether all fits after `change` of the witness, or with more cores; but for what is refused without the witness as well.
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
        let fits = |site: &Site| (self.attempt)(site, &facts, self.only).is_ok();
        if fits(&site) {
            return true;
        }
        let before = self.hopeless.get_or_init(|| self.hopeless(self.site, self.facts));
        let hopeless = match before {
            Some(hopeless) if more > 0 && !hopeless.is_empty() => self.hopeless(&site, &facts),
            other => other.clone(),
        };
        let hopeless = hopeless.filter(|hopeless| !hopeless.is_empty());
        hopeless.is_some_and(|hopeless| {
            site.services.retain(|service| !hopeless.contains(&service.name));
            fits(&site)
        })
    }

    /// The services that are refused without the witness; `None`: more than [`HOPELESS`], or something else is.
    fn hopeless(&self, site: &Site, facts: &Facts) -> Option<Vec<String>> {
        let mut site = site.clone();
        let mut found = vec![self.witness.service.clone()];
        loop {
            site.services.retain(|service| !found.contains(&service.name));
            match (self.attempt)(&site, facts, self.only) {
                Ok(_) => break,
                Err(refusal) => found.push(refusal.service()?.into()),
            }
            if found.len() > HOPELESS + 1 {
                return None;
            }
        }
        Some(found.split_off(1))
    }
}

/// The first power of two up to `most` that fits, with the one before it that does not.
fn doubled(most: u64, fits: impl Fn(u64) -> bool) -> Option<(u64, u64)> {
    let powers = std::iter::successors(Some(2), |factor| Some(factor * 2)).take_while(|factor| *factor <= most);
    powers.into_iter().find(|factor| fits(100 * factor)).map(|factor| (factor, factor / 2))
}

/// The largest multiple of 5 % below all that fits, by bisection.
fn percent_of(fits: impl Fn(u32) -> bool) -> Option<u32> {
    let fits = |twentieths: u64| fits(5 * twentieths as u32);
    fits(1).then(|| 5 * bisected(1, 20, fits) as u32)
}

/// The last whole number from `good`, which fits, towards `bad`, which does not, that fits, where all before it do.
fn bisected(mut good: u64, mut bad: u64, fits: impl Fn(u64) -> bool) -> u64 {
    while good.abs_diff(bad) > 1 {
        let middle = good.midpoint(bad);
        *if fits(middle) { &mut good } else { &mut bad } = middle;
    }
    good
}

/// The largest that fits, from `good` on and below `bad`, by bisection; every one told was tried.
fn largest(good: Duration, bad: Duration, fits: impl Fn(Duration) -> bool) -> Option<Duration> {
    if !fits(good) {
        return None;
    }
    Some(Duration::from_ns(bisected(good.ns(), bad.ns(), |ns| fits(Duration::from_ns(ns)))))
}

/// Rounded down.
pub(crate) fn in_tenths(share: Bandwidth) -> u64 {
    (u128::from(share.numer()) * u128::from(TENTHS) / u128::from(share.denom())) as u64
}
