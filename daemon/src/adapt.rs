//! When a service is to be planned anew, since it asks for more than was planned, or less again.

use crate::{Adaptation, DemandStatus, Refused, ServiceStatus};
use giusto_model::{Bandwidth, Plan, ServicePlan, Site};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// By what the execution times of a site are multiplied, by service.
pub type Factors = BTreeMap<String, f64>;

/// Plans a site with the factors that are wanted, and no less than those in force; returns what was planned with.
type Adapt = Box<dyn Fn(&Site, &Factors, &Factors) -> Result<(Plan, Factors), Refused> + Send + Sync>;
/// Plans a site with these factors.
type Attempt = Box<dyn Fn(&Site, &Factors) -> Result<Plan, Refused> + Send + Sync>;

/// Plans the site again with other execution times.
pub struct Again {
    /// To be put in force.
    pub adapt: Adapt,
    /// To be looked at: without predictions by simulation, which take long.
    pub attempt: Attempt,
}

/// Where the whole share is used up, demand is not known: it gets so much more at a time.
const STEP: f64 = 1.5;
/// Added to the demand that was observed.
const HEADROOM: f64 = 1.1;
/// What is less than this part of what was planned is given back, ...
const LESS: f64 = 0.8;
/// ... once it has been so for so long.
const STEADY: Duration = Duration::from_secs(15);
/// Between two changes of a service; twice as long after each that brought nothing.
const APART: Duration = Duration::from_secs(3);
const MOST_DOUBLINGS: u32 = 8;
/// A change by less than this part is none.
const NOTHING: f64 = 0.02;
/// How many changes are remembered.
const REMEMBERED: usize = 20;

/// Decides, one service at a time.
#[derive(Debug, Default)]
pub(crate) struct Adapter {
    services: BTreeMap<String, Adapted>,
    history: Vec<Adaptation>,
}

#[derive(Debug, Default)]
struct Adapted {
    /// When a change was last wished for, and how many in a row brought nothing.
    wished: Option<Instant>,
    vain: u32,
    /// Its share before it was raised.
    declared: Option<f64>,
    low_since: Option<Instant>,
}

/// A service whose execution times are to be multiplied once more, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) service: String,
    pub(crate) times: f64,
    pub(crate) why: String,
}

impl Adapter {
    /// What is to be changed now, if anything. It has brought nothing until [`Adapter::planned`] says so.
    pub(crate) fn wish(&mut self, plan: &Plan, services: &[ServiceStatus], now: Instant) -> Option<Wish> {
        for status in services {
            let planned = plan.services.iter().find(|one| one.name == status.name && one.vcpu == status.vcpu);
            let (Some(service), Some(demand)) = (planned, &status.demand) else { continue };
            let Some(up_to) = service.adapt else { continue };
            let one = self.services.entry(service.name.clone()).or_default();
            let Some((times, why)) = one.change(service, up_to, demand, now) else { continue };
            (one.wished, one.low_since, one.vain) = (Some(now), None, one.vain + 1);
            return Some(Wish { service: service.name.clone(), times, why });
        }
        None
    }

    /// A new plan is in force: by a wish, or as an operator asked for, which begins anew.
    pub(crate) fn planned(&mut self, before: &Plan, after: &Plan, wish: Option<&Wish>) {
        let Some(Wish { service, why, .. }) = wish else {
            self.services.clear();
            return;
        };
        let share = |plan: &Plan| plan.services.iter().find(|one| one.name == *service).map(share);
        let (Some(from), Some(to)) = (share(before), share(after)) else { return };
        if (to / from - 1.0).abs() < NOTHING {
            return;
        }
        let one = self.services.entry(service.clone()).or_default();
        one.vain = 0;
        let declared = *one.declared.get_or_insert(from);
        one.declared = Some(declared).filter(|declared| to > declared * (1.0 + NOTHING));
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        tracing::warn!(
            service,
            "{service}: planned anew with {:.1} % of a core instead of {:.1} %: {why}",
            to * 100.0,
            from * 100.0
        );
        self.history.push(Adaptation {
            at_ns: at.as_nanos() as u64,
            service: service.clone(),
            from,
            to,
            why: why.clone(),
        });
        let old = self.history.len().saturating_sub(REMEMBERED);
        self.history.drain(..old);
    }

    /// The last changes.
    pub(crate) fn history(&self) -> &[Adaptation] {
        &self.history
    }
}

impl Adapted {
    /// By what demand is to be multiplied, and why.
    fn change(
        &mut self,
        service: &ServicePlan,
        up_to: Bandwidth,
        demand: &DemandStatus,
        now: Instant,
    ) -> Option<(f64, String)> {
        let (share, percent) = (share(service), |share: f64| share * 100.0);
        let DemandStatus { planned, recent, drifted_since_ns, .. } = *demand;
        let low = self.declared.is_some() && recent > 0.0 && recent * HEADROOM < LESS * planned;
        let low_since = *self.low_since.get_or_insert(now);
        self.low_since = Some(low_since).filter(|_| low);
        let wait = APART * 2u32.pow(self.vain.min(MOST_DOUBLINGS));
        if self.wished.is_some_and(|wished| now - wished < wait) {
            return None;
        }
        // As much as it may have already, nearly: told, and that is all.
        if drifted_since_ns.is_some() && share < (1.0 - NOTHING) * up_to.as_f64() {
            let full = if recent >= 0.95 * share { STEP } else { 1.0 };
            let why = format!("it took {:.1} % of a core, {:.1} % were planned for", percent(recent), percent(planned));
            return Some(((recent / planned * HEADROOM).max(full), why));
        }
        (low && now - low_since >= STEADY).then(|| {
            let why =
                format!("it took {:.1} % of a core again, {:.1} % were planned for", percent(recent), percent(planned));
            (recent / planned * HEADROOM, why)
        })
    }
}

fn share(service: &ServicePlan) -> f64 {
    Bandwidth::of(service.server.budget, service.server.period).map_or(1.0, Bandwidth::as_f64)
}

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod tests;
