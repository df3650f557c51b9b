//! The nearest changes of a site with which a refused service fits. Every one is tried before it is told.

use crate::backend::{choose, Wanted};
use crate::hosts::{attempt, known};
use crate::percentiles::{shortest_latency, Answers};
use crate::{Cause, Facts, Miss, Missed, NearestFit, Refusal, Shortage, Witness};
use giusto_model::{
    Bandwidth, Duration, Interface, LocalNeed, Promise, ServerKind, Service, Site, SiteCriticality, Task, Within,
};

/// Margins and floors are told in tenths of a percentage point.
const TENTHS: u64 = 1000;
/// More cores than this are not suggested.
const MOST_CORES: usize = 64;

/// Changes with which the service of `witness` is no longer refused, when all hosts are planned or the `only` one.
pub(crate) fn nearest(
    site: &Site,
    facts: &Facts,
    only: Option<usize>,
    witness: &Witness,
    answers: &Answers,
) -> Vec<NearestFit> {
    let Some(service) = site.services.iter().find(|s| s.name == witness.service) else { return Vec::new() };
    let host =
        witness.host.as_ref().and_then(|name| site.hosts.iter().position(|host| host.name == *name)).unwrap_or(0);
    let named = |local: &String| service.modes.iter().position(|mode| mode.name == *local);
    let local = match &witness.cause {
        Cause::Mode { local: Some(local), .. } => named(local),
        _ => None,
    };
    let trial = Trial { site, facts, only, witness, host, answers, local };
    let here = match (&witness.displaced, witness.cause.itself()) {
        (None, Cause::Core { required, supply, .. }) => {
            let margin = required.and_then(|(required, _)| trial.smaller_margin(required, *supply));
            trial.shorter_task(service).into_iter().chain(margin).collect()
        }
        (None, Cause::Cores { demand, supply }) => trial.more_cores(demand - supply).into_iter().collect(),
        (None, Cause::Supply { vcpu, demand, .. }) => trial.smaller_supply(service, *vcpu, *demand),
        (None, Cause::Window { vcpu, demand, .. }) => {
            let smaller = match &service.promise {
                Promise::Supply(_) => trial.smaller_budget(service, *vcpu, *demand),
                _ => trial.shorter_task(service),
            };
            smaller.into_iter().chain(trial.another_kind()).chain(trial.more_cores(1)).collect()
        }
        (None, Cause::Floors { demand, supply }) => {
            trial.lower_floor(service, *demand, *supply).into_iter().chain(trial.more_cores(1)).collect()
        }
        (None, Cause::Deadlines(_)) if matches!(witness.cause, Cause::AtWorst(_)) => trial.calmer(service, None),
        (None, Cause::Deadlines(shortage)) => {
            let wcet = trial.shorter_jobs(service, shortage);
            let whole = shortage.needs.is_some_and(|needs| needs.bandwidth() <= shortage.whole);
            wcet.into_iter().chain(whole.then(|| trial.more_cores(1)).flatten()).collect()
        }
        (None, Cause::Percentiles(miss)) => trial.longer_latency(service, miss),
        (None, Cause::Servers { .. }) => trial.more_cores(1).into_iter().collect(),
        (None, Cause::Discord(discord)) => trial.calmer(service, discord.vcpu),
        (None, Cause::Apart { .. }) => trial.more_cores(1).into_iter().collect(),
        (None, Cause::Mode { .. } | Cause::AtWorst(_)) => Vec::new(), // is another cause itself
        (Some(_), _) => match &service.promise {
            Promise::AsIfAlone | Promise::EveryDeadline { .. } => {
                trial.shorter_task(service).into_iter().chain(trial.more_cores(1)).collect()
            }
            Promise::Supply(interfaces) => {
                let largest = (0..).zip(interfaces).max_by_key(|(_, interface)| interface.bandwidth());
                let vcpu = |vcpu| (interfaces.len() > 1).then_some(vcpu);
                largest.map_or(Vec::new(), |(at, &demand)| trial.smaller_supply(service, vcpu(at), demand))
            }
            Promise::Percentiles { .. } => trial.more_cores(1).into_iter().collect(),
            Promise::Leftovers { .. } => Vec::new(), // they come last and displace nobody
        },
    };
    here.into_iter().chain(trial.another_host()).collect()
}

struct Trial<'a> {
    site: &'a Site,
    facts: &'a Facts,
    only: Option<usize>,
    witness: &'a Witness,
    /// The witness's.
    host: usize,
    answers: &'a Answers,
    /// The local mode of the witness that is refused, by its place.
    local: Option<usize>,
}

impl Trial<'_> {
    /// The tasks of the witness, in the mode in which they do not fit.
    fn tasks<'s>(&self, witness: &'s Service) -> &'s [Task] {
        match self.local.map(|local| &witness.modes[local].need) {
            Some(LocalNeed::Tasks { tasks, .. }) => tasks,
            Some(LocalNeed::Supply(_)) => &[],
            None => &witness.tasks,
        }
    }

    /// The longest wcet of the task with the largest utilization that fits, by bisection: demand grows with it.
    fn shorter_task(&self, witness: &Service) -> Option<NearestFit> {
        let (index, _) = self.tasks(witness).iter().enumerate().max_by_key(|(_, t)| t.utilization())?;
        self.longest_wcet(witness, index)
    }

    /// The same for the task that is late, or, where that is not to blame, for the one with the largest utilization.
    fn shorter_jobs(&self, witness: &Service, shortage: &Shortage) -> Option<NearestFit> {
        let late = self.tasks(witness).iter().position(|task| task.name == shortage.lack.task);
        late.and_then(|late| self.longest_wcet(witness, late)).or_else(|| self.shorter_task(witness))
    }

    fn longest_wcet(&self, witness: &Service, index: usize) -> Option<NearestFit> {
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

    /// Less of a service with criticality: the longest worst-wcet of one task or the largest worst budget, and the same of the usual
    /// ones; or more cores.
    fn calmer(&self, witness: &Service, vcpu: Option<u32>) -> Vec<NearestFit> {
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
    fn smaller_supply(&self, witness: &Service, vcpu: Option<u32>, demand: Interface) -> Vec<NearestFit> {
        self.smaller_budget(witness, vcpu, demand).into_iter().chain(self.more_cores(1)).collect()
    }

    /// By bisection.
    fn smaller_budget(&self, witness: &Service, vcpu: Option<u32>, demand: Interface) -> Option<NearestFit> {
        let facts = known(self.site, self.facts, self.facts.place(self.site).ok()?, self.host).0;
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

    /// The shortest latency of a percentile that one core can keep, or more cores where that is enough.
    fn longer_latency(&self, witness: &Service, miss: &Miss) -> Vec<NearestFit> {
        let Ok(here) = self.facts.place(self.site) else { return Vec::new() };
        let facts = known(self.site, self.facts, here, self.host).0;
        let host = &self.site.hosts[self.host];
        let whole = match miss.how {
            Missed::Overload { .. } => return Vec::new(),
            Missed::WholeCore { .. } => false,
            Missed::Room { needs, whole, .. } => needs.is_some_and(|needs| needs.bandwidth() <= whole),
        };
        let points = miss.points.iter().filter_map(|point| {
            let within = shortest_latency(witness, host, &facts, *point).filter(|within| *within > point.within)?;
            Some(Within { within, ..*point })
        });
        let longer = points.filter(|longer| {
            self.with(|s, _| {
                if let Promise::Percentiles { points, .. } = &mut s.promise {
                    points.iter_mut().filter(|p| p.percentile == longer.percentile).for_each(|p| *p = *longer);
                }
            })
        });
        longer.map(NearestFit::Within).chain(whole.then(|| self.more_cores(1)).flatten()).collect()
    }

    /// A kind that does not take two budgets in a row.
    fn another_kind(&self) -> Option<NearestFit> {
        let kinds = [ServerKind::ConstantBandwidth, ServerKind::PeriodicConserving];
        kinds.into_iter().find(|kind| self.with(|s, _| s.server = Some(*kind))).map(NearestFit::Kind)
    }

    /// The largest margin that the core still has room for.
    fn smaller_margin(&self, required: Bandwidth, most: Bandwidth) -> Option<NearestFit> {
        let tenths = in_tenths(most.checked_sub(required)?);
        let margin = (tenths.saturating_sub(1).max(1)..=tenths).rev().filter_map(|n| Bandwidth::new(n, TENTHS));
        margin.into_iter().find(|m| self.with(|s, _| s.margin = *m)).map(NearestFit::Margin)
    }

    /// The floor of the witness less what is missing.
    fn lower_floor(&self, witness: &Service, demand: Bandwidth, supply: Bandwidth) -> Option<NearestFit> {
        let Promise::Leftovers { at_least, at_most } = witness.promise else { return None };
        let room = in_tenths(at_least.checked_sub(demand.checked_sub(supply)?)?);
        let at_least = Bandwidth::new(room, TENTHS)?;
        self.with(|s, _| s.promise = Promise::Leftovers { at_least, at_most }).then_some(NearestFit::AtLeast(at_least))
    }

    /// The least number of cores more, from `first` on.
    fn more_cores(&self, first: usize) -> Option<NearestFit> {
        (first..=MOST_CORES).find(|more| self.with(|_, cores| *cores = *more)).map(NearestFit::MoreCores)
    }

    /// The first other host where it fits together with all others, and the rest of the plan with it.
    fn another_host(&self) -> Option<NearestFit> {
        let others = (0..self.site.hosts.len()).filter(|&host| host != self.host || !self.witness.elsewhere.is_empty());
        others.map(|host| (host, &self.site.hosts[host].name)).find_map(|(host, name)| {
            let mut site = self.site.clone();
            site.services.iter_mut().find(|s| s.name == self.witness.service)?.on = Some(name.clone());
            let fits = |only| attempt(&site, self.facts, only, self.answers).is_ok();
            (fits(Some(host)) && self.with(|s, _| s.on = Some(name.clone()))).then(|| NearestFit::On(name.clone()))
        })
    }

    /// Whether the witness is no longer refused (on a site with one host: for its cause) after `change` of it, or with more
    /// cores.
    fn with(&self, change: impl FnOnce(&mut Service, &mut usize)) -> bool {
        let (mut site, mut facts) = (self.site.clone(), self.facts.clone());
        let Some(service) = site.services.iter_mut().find(|s| s.name == self.witness.service) else { return false };
        let mut more = 0;
        change(service, &mut more);
        let host = &mut site.hosts[self.host];
        let next = facts.cores.iter().chain(&host.cores).max().map_or(0, |c| c + 1);
        let added: Vec<u32> = (next..).take(more).collect();
        facts.cores.extend(&added);
        host.cores.extend(&added);
        match attempt(&site, &facts, self.only, self.answers) {
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
fn in_tenths(share: Bandwidth) -> u64 {
    (u128::from(share.numer()) * u128::from(TENTHS) / u128::from(share.denom())) as u64
}
