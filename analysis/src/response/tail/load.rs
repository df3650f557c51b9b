//! What a stage serves and what comes to it.

use crate::response::question::Server;
use crate::Error;
use giusto_model::Duration;

/// Requests of one kind: so many in a ns, as a Poisson process, and how long one takes, with its probability.
#[derive(Clone, Copy, Debug)]
pub struct Class<'a> {
    /// λ in 1/ns.
    pub rate: f64,
    /// Service times and their probabilities (Σ = 1).
    pub service: &'a [(Duration, f64)],
}

/// A share of a core, on a grid that does not move: B in every P. Budget = period is the whole core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// [`Server::Deferrable`] or [`Server::Periodic`].
    pub server: Server,
    /// B
    pub budget: Duration,
    /// P
    pub period: Duration,
}

/// Rates and times are rounded up by this part.
pub(super) const UP: f64 = 1.0 + 1e-9;
/// What comes, in ns, rounded up.
pub(super) struct Load {
    pub(super) server: Server,
    pub(super) budget: f64,
    pub(super) period: f64,
    /// W
    pub(super) speed: f64,
    /// λ of all, and their service times.
    pub(super) rate: f64,
    pub(super) service: Vec<(f64, f64)>,
    /// Mean service time of all.
    pub(super) mean: f64,
    pub(super) own: Vec<(f64, f64)>,
}

/// A load nearer to the bandwidth than this is refused: all responses would be nearly without end.
const NEAREST: f64 = 1e-4;

impl Load {
    pub(super) fn new(share: Share, classes: &[Class], own: &[(Duration, f64)]) -> Result<Load, Error> {
        let rate: f64 = classes.iter().map(|class| class.rate).sum::<f64>();
        let mut service: Vec<(f64, f64)> = Vec::new();
        for class in classes {
            let part = class.rate / rate;
            service.extend(class.service.iter().map(|(time, p)| (time.ns() as f64, p * part)));
        }
        let service = merged(service);
        let mean = service.iter().map(|(ns, p)| ns * p).sum::<f64>();
        let (budget, period) = (share.budget.ns() as f64, share.period.ns() as f64);
        let (rate, speed) = (rate * UP, budget / period);
        if rate * mean >= speed * (1.0 - NEAREST) {
            let percent = |share: f64| format!("{:.2} %", 100.0 * share);
            return Err(Error::Unstable { utilization: percent(rate * mean), bandwidth: percent(speed) });
        }
        let own = merged(own.iter().map(|(time, p)| (time.ns() as f64, *p)).collect());
        Ok(Load { server: share.server, budget, period, speed, rate, service, mean, own })
    }

    /// ρ = λE[C]/W.
    pub(super) fn part(&self) -> f64 {
        self.rate * self.mean / self.speed
    }

    /// 2(P − B): how much later than a core of its speed the server may be.
    pub(super) fn delay(&self) -> f64 {
        2.0 * (self.period - self.budget)
    }
}

/// Equal times once.
fn merged(mut service: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    service.retain(|(_, p)| *p > 0.0);
    service.sort_by(|a, b| a.0.total_cmp(&b.0));
    service.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    service
}

pub(super) fn check(share: Share, classes: &[Class], own: &[(Duration, f64)]) -> Result<(), Error> {
    let Share { server, budget, period } = share;
    if period.is_zero() {
        return Err(Error::Period);
    }
    if budget.is_zero() || budget > period || server == Server::ConstantBandwidth {
        return Err(Error::Budget { budget, period });
    }
    let all = |class: &Class| class.rate > 0.0 && is_law(class.service);
    if !is_law(own) || classes.is_empty() || !classes.iter().all(all) {
        return Err(Error::Distribution { what: "service times" });
    }
    Ok(())
}

/// Whether these are times above 0 with their probabilities.
pub(super) fn is_law(times: &[(Duration, f64)]) -> bool {
    let each = times.iter().all(|(time, p)| !time.is_zero() && p.is_finite() && *p >= 0.0);
    each && (times.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-6
}
