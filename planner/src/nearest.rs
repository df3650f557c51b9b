//! The nearest changes of a site with which a refused service fits. Every one is tried before it is told.

use crate::backend::choose;
use crate::place::{attempt, Unplaced};
use crate::{Cause, Facts, NearestFit};
use giusto_model::{Bandwidth, Duration, Interface, Promise, ServerKind, Service, Site};

/// Margins and floors are told in tenths of a percentage point.
const TENTHS: u64 = 1000;
/// More cores than this are not suggested.
const MOST_CORES: usize = 64;

/// Changes with which `service` is no longer refused for `cause`.
pub(crate) fn nearest(site: &Site, facts: &Facts, service: &str, cause: &Cause) -> Vec<NearestFit> {
    let Some(witness) = site.services.iter().find(|s| s.name == service) else { return Vec::new() };
    let trial = Trial { site, facts, service, cause };
    match *cause {
        Cause::Core { required, supply, .. } => {
            let wcet = trial.shorter_task(witness);
            wcet.into_iter().chain(required.and_then(|(required, _)| trial.smaller_margin(required, supply))).collect()
        }
        Cause::Cores { demand, supply } => trial.more_cores(demand - supply).into_iter().collect(),
        Cause::Supply { vcpu, demand, .. } => {
            trial.smaller_supply(witness, vcpu, demand).into_iter().chain(trial.more_cores(1)).collect()
        }
        Cause::Window { vcpu, demand, .. } => {
            let smaller = trial.smaller_supply(witness, vcpu, demand);
            smaller.into_iter().chain(trial.another_kind()).chain(trial.more_cores(1)).collect()
        }
        Cause::Floors { demand, supply } => {
            let floor = trial.lower_floor(witness, demand, supply);
            floor.into_iter().chain(trial.more_cores(1)).collect()
        }
    }
}

struct Trial<'a> {
    site: &'a Site,
    facts: &'a Facts,
    service: &'a str,
    cause: &'a Cause,
}

impl Trial<'_> {
    /// The longest wcet of the task with the largest utilization that fits, by bisection: demand grows with it.
    fn shorter_task(&self, witness: &Service) -> Option<NearestFit> {
        let (index, task) = witness.tasks.iter().enumerate().max_by_key(|(_, t)| t.utilization())?;
        let fits = |wcet| self.with(|s, _| s.tasks[index].wcet = wcet);
        let at_most = largest(Duration::from_ns(1), task.wcet, fits)?;
        Some(NearestFit::Wcet { task: task.name.clone(), at_most })
    }

    /// The largest budget that fits in the same period, by bisection.
    fn smaller_supply(&self, witness: &Service, vcpu: Option<u32>, demand: Interface) -> Option<NearestFit> {
        let least = choose(witness, Some(demand), self.facts).ok()?.limits.budget;
        let at = vcpu.unwrap_or(0) as usize;
        let fits = |budget| {
            self.with(|s, _| {
                if let Promise::Supply(interfaces) = &mut s.promise {
                    interfaces[at].budget = budget;
                }
            })
        };
        let at_most = Interface { budget: largest(least, demand.budget, fits)?, ..demand };
        Some(NearestFit::Supply { vcpu, at_most })
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

    /// Whether the witness is no longer refused for its cause after `change` of it, or with more cores.
    fn with(&self, change: impl FnOnce(&mut Service, &mut usize)) -> bool {
        let (mut site, mut facts) = (self.site.clone(), self.facts.clone());
        let Some(service) = site.services.iter_mut().find(|s| s.name == self.service) else { return false };
        let mut more = 0;
        change(service, &mut more);
        let next = facts.cores.iter().chain(&site.host.cores).max().map_or(0, |c| c + 1);
        let added: Vec<u32> = (next..).take(more).collect();
        facts.cores.extend(&added);
        site.host.cores.extend(&added);
        match attempt(&site, &facts) {
            Ok(_) => true,
            Err(Unplaced::Other(_)) => false,
            Err(Unplaced::DoesNotFit { service, cause }) => {
                service != self.service || std::mem::discriminant(&cause) != std::mem::discriminant(self.cause)
            }
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
