//! The server of one service: period, budget and what they mean for its core.

use crate::backend::{choose, cost, most_of_a_core, Chosen, Limits, Wanted};
use crate::words::{share as percent, time};
use crate::{Cause, Facts, Refusal};
use giusto_analysis::{share, Error};
use giusto_model::{Backend, Bandwidth, Certificate, Duration, Hold, Host, Reason, Release, Server, Service, Task};

/// A service with its server, not yet on a core.
#[derive(Clone)]
pub(crate) struct Sized {
    pub(crate) backend: Backend,
    pub(crate) server: Server,
    pub(crate) utilization: Bandwidth,
    pub(crate) required: Bandwidth,
    pub(crate) hold: Hold,
    pub(crate) left_for_others: Bandwidth,
    pub(crate) certificate: Certificate,
    pub(crate) reasons: Vec<Reason>,
}

/// Why a service has no server.
#[derive(Clone)]
pub(crate) enum Misfit {
    DoesNotFit(Cause),
    Other(Refusal),
}

/// A number's name, value and origin.
pub(crate) fn reason(what: &str, value: impl ToString, why: impl Into<String>) -> Reason {
    Reason { what: what.into(), value: value.to_string(), why: why.into() }
}

/// Period, budget, hold and leftover of `service` on any core of `host`.
pub(crate) fn size(service: &Service, host: &Host, facts: &Facts) -> Result<Sized, Misfit> {
    let tasks = |why| Misfit::Other(Refusal::Tasks { service: service.name.clone(), why });
    let margin = service.margin;
    let Chosen { backend, kind, limits, mut reasons } =
        choose(service, Wanted::WholeCore, facts).map_err(Misfit::Other)?;
    let (supply, limit) = most_of_a_core(host, facts, backend);
    let utilization = share::utilization(&service.tasks).map_err(tasks)?;
    let misfit = |required| Misfit::DoesNotFit(Cause::Core { utilization, required, margin, supply });
    if utilization > Bandwidth::ONE {
        return Err(misfit(None));
    }
    let (period, period_reason) = period(&service.tasks, &limits).map_err(tasks)?;
    let least = share::budget(&service.tasks, period).map_err(tasks)?;
    let range = || tasks(Error::Range);
    let required = Bandwidth::of(least, period).ok_or_else(range)?;
    let misfit = || misfit(Some((required, period)));
    let wanted = share::with_margin(least, period, margin).ok_or_else(misfit)?;
    let budget = wanted.max(limits.budget);
    let server = Server { kind, budget, period };
    if server.bandwidth() > supply {
        return Err(misfit());
    }
    // None: a core that is never idle, or held for ever, has no share to plan.
    let conforming = share::longest_busy_period(&service.tasks).map_err(tasks)?.ok_or_else(misfit)?;
    let enforced = share::enforced_hold(budget, period).ok_or_else(misfit)?;
    let left_for_others = Bandwidth::ONE
        .checked_sub(server.bandwidth())
        .and_then(|left| left.checked_sub(host.keep_free)?.checked_sub(cost(backend, facts)))
        .ok_or_else(misfit)?;
    let budget_why = if budget == wanted {
        "required + margin · period, rounded up".to_string()
    } else {
        format!("{}; required + margin · period is {}", limits.least, time(wanted))
    };
    reasons.extend([
        period_reason,
        reason("utilization", percent(utilization), "U = Σ C/T of its tasks, copies counted"),
        reason("required", format!("{} ({})", time(least), percent(required)), why_required(&service.tasks, period)),
        reason(
            "margin",
            percent(margin),
            "percentage points of a core for the work of the kernel [LiH21, § 3.3], from the site",
        ),
        reason(
            "budget",
            format!("{} ({})", time(budget), percent(server.bandwidth())),
            format!("{budget_why}; at most {} ({limit})", percent(supply)),
        ),
        reason("hold", time(conforming), "longest busy period of a whole core while the tasks keep to their word"),
        reason(
            "enforced hold",
            time(enforced),
            "2 · budget: the end of one period and the start of the next, whatever it does",
        ),
        reason(
            "left for others",
            percent(left_for_others),
            format!("1 − budget/period − {}", kept(host, backend, facts)),
        ),
    ]);
    let hold = Hold { conforming, enforced };
    let from = share::deciding_window(&service.tasks, period).map_err(tasks)?;
    let certificate = Certificate::AsIfAlone { from, demand: least };
    Ok(Sized { backend, server, utilization, required, hold, left_for_others, certificate, reasons })
}

/// What no service gets of a core: `5 % kept free − 2 % for the manager`.
pub(crate) fn kept(host: &Host, backend: Backend, facts: &Facts) -> String {
    let free = format!("{} kept free", percent(host.keep_free));
    match cost(backend, facts) {
        cost if cost == Bandwidth::ZERO => free,
        cost => format!("{free} − {} for the manager", percent(cost)),
    }
}

/// Which theorem asks for B(period).
fn why_required(tasks: &[Task], period: Duration) -> String {
    if share::hyperperiod(tasks).is_ok_and(|h| period.ns().is_multiple_of(h.ns())) {
        return "Theorem 2: at a multiple of the hyperperiod the utilization is enough, whatever the offsets".into();
    }
    let offsets = match share::releases(tasks) {
        Release::KeptOffset => "every task keeps its offset, so offsets were used",
        Release::Sporadic => "not every task keeps an offset, so all count as sporadic",
    };
    format!(
        "Theorem 1: the most that a whole core gives these tasks in any {}, max S(t + P) − S(t) (eq. 3.5); {offsets}",
        time(period)
    )
}

/// The server period, with its reason.
fn period(tasks: &[Task], limits: &Limits) -> Result<(Duration, Reason), Error> {
    let hyperperiod = share::hyperperiod(tasks)?;
    let Limits { chosen: shortest, longest, ref bounds, .. } = *limits;
    let times = shortest.ns().div_ceil(hyperperiod.ns());
    if let Some(period) = hyperperiod.checked_mul(times).filter(|p| *p <= longest) {
        let why = format!(
            "Theorem 2: the least multiple of the hyperperiod {} within {} to {} ({bounds})",
            time(hyperperiod),
            time(shortest),
            time(longest)
        );
        return Ok((period, reason("period", time(period), why)));
    }
    let least = share::least_bandwidth(tasks, shortest, longest)?;
    let why = format!(
        "no multiple of the hyperperiod {} is within {} to {} ({bounds}); of those, this period needs the least \
         bandwidth, W(P) = {}",
        time(hyperperiod),
        time(shortest),
        time(longest),
        percent(least.bandwidth)
    );
    Ok((least.period, reason("period", time(least.period), why)))
}
