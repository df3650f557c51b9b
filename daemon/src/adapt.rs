//! When a service is to be planned anew, since it asks for more than was planned, or less again.

use crate::{Adaptation, DemandStatus, ServiceStatus};
use giusto_model::{Bandwidth, Plan, ServicePlan};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// By what the execution times in the site file are multiplied, by service; those who plan and those who watch share it.
pub type Factors = Arc<Mutex<BTreeMap<String, f64>>>;

/// Where the whole share is used up, demand is not known: it gets so much more at a time.
const STEP: f64 = 1.5;
/// Added to what was seen.
const HEADROOM: f64 = 1.1;
/// What is less than this part of what was planned is given back.
const LESS: f64 = 0.8;
/// Between two changes of a service; and before something is given back.
const APART: Duration = Duration::from_secs(3);
const STEADY: Duration = Duration::from_secs(15);
/// How many changes are remembered.
const REMEMBERED: usize = 20;

/// Decides, one service at a time.
#[derive(Debug, Default)]
pub(crate) struct Adapter {
    factors: Factors,
    changed: BTreeMap<String, Instant>,
    under_way: Option<UnderWay>,
    history: Vec<Adaptation>,
}

#[derive(Debug)]
struct UnderWay {
    service: String,
    from: f64,
    why: String,
}

/// A factor to be planned with, and the one in force, should that fail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    pub(crate) service: String,
    pub(crate) factor: f64,
    pub(crate) before: f64,
}

impl Adapter {
    pub(crate) fn new(factors: Factors) -> Adapter {
        Adapter { factors, ..Adapter::default() }
    }

    /// What is to be changed now, if anything.
    pub(crate) fn wish(&mut self, plan: &Plan, services: &[ServiceStatus], now: Instant) -> Option<Wish> {
        for status in services {
            let planned = plan.services.iter().find(|one| one.name == status.name && one.vcpu == status.vcpu);
            let (Some(service), Some(demand)) = (planned, &status.demand) else { continue };
            let Some(up_to) = service.adapt else { continue };
            let idle = self.changed.get(&service.name).map(|at| now - *at);
            let before = self.factor(&service.name);
            let Some((times, why)) = change(service, up_to, demand, before, idle) else { continue };
            let factor = (before * times).max(1.0);
            self.changed.insert(service.name.clone(), now);
            self.under_way = Some(UnderWay { service: service.name.clone(), from: share(service), why });
            return Some(Wish { service: service.name.clone(), factor, before });
        }
        None
    }

    /// Plans with `factor` from now on.
    pub(crate) fn set(factors: &Factors, service: &str, factor: f64) {
        let mut factors = factors.lock().unwrap_or_else(PoisonError::into_inner);
        match factor > 1.0 {
            true => factors.insert(service.into(), factor),
            false => factors.remove(service),
        };
    }

    pub(crate) fn factors(&self) -> Factors {
        self.factors.clone()
    }

    fn factor(&self, service: &str) -> f64 {
        let factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
        factors.get(service).copied().unwrap_or(1.0)
    }

    /// A new plan is in force.
    pub(crate) fn planned(&mut self, plan: &Plan) {
        let Some(UnderWay { service, from, why }) = self.under_way.take() else { return };
        let Some(to) = plan.services.iter().find(|one| one.name == service).map(share) else { return };
        if from == to {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        tracing::warn!(
            service,
            "{service}: planned anew with {:.1} % of a core instead of {:.1} %: {why}",
            to * 100.0,
            from * 100.0
        );
        self.history.push(Adaptation { at_ns: at.as_nanos() as u64, service, from, to, why });
        let old = self.history.len().saturating_sub(REMEMBERED);
        self.history.drain(..old);
    }

    /// The last changes.
    pub(crate) fn history(&self) -> &[Adaptation] {
        &self.history
    }
}

/// By what demand is to be multiplied, and why.
fn change(
    service: &ServicePlan,
    up_to: Bandwidth,
    demand: &DemandStatus,
    factor: f64,
    idle: Option<Duration>,
) -> Option<(f64, String)> {
    let (share, percent) = (share(service), |share: f64| share * 100.0);
    let DemandStatus { planned, recent, drifted_since_ns, .. } = *demand;
    if drifted_since_ns.is_some() && idle.is_none_or(|idle| idle >= APART) {
        // As much as it may have already, nearly: told, and that is all.
        if share >= 0.97 * up_to.as_f64() {
            return None;
        }
        let full = if recent >= 0.95 * share { STEP } else { 1.0 };
        let why = format!("it took {:.1} % of a core, {:.1} % were planned for", percent(recent), percent(planned));
        return Some(((recent / planned * HEADROOM).max(full), why));
    }
    if factor > 1.0 && recent > 0.0 && recent * HEADROOM < LESS * planned && idle.is_none_or(|idle| idle >= STEADY) {
        let why =
            format!("it took {:.1} % of a core again, {:.1} % were planned for", percent(recent), percent(planned));
        return Some((recent / planned * HEADROOM, why));
    }
    None
}

fn share(service: &ServicePlan) -> f64 {
    Bandwidth::of(service.server.budget, service.server.period).map_or(1.0, Bandwidth::as_f64)
}
