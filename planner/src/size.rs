//! The server of one service: period, budget and what they mean for its core.

use crate::words::{share as percent, time};
use crate::{Cause, Facts, Refusal};
use giusto_analysis::{share, Error};
use giusto_model::{Bandwidth, Duration, Hold, Host, Reason, Release, Server, ServerKind, Service, Task};

/// SCHED_DEADLINE is enforced at the tick: below 10 of them the supply is no longer what was reserved.
const TICKS: u64 = 10;
/// The kernel accepts no shorter runtime (DL_SCALE).
const LEAST_BUDGET: Duration = Duration::from_ns(1024);

/// A service with its server, not yet on a core.
pub(crate) struct Sized {
    pub(crate) server: Server,
    pub(crate) utilization: Bandwidth,
    pub(crate) required: Bandwidth,
    pub(crate) hold: Hold,
    pub(crate) left_for_others: Bandwidth,
    pub(crate) reasons: Vec<Reason>,
}

/// Why a service has no server.
pub(crate) enum Misfit {
    DoesNotFit(Cause),
    Other(Refusal),
}

/// A number's name, value and origin.
pub(crate) fn reason(what: &str, value: impl ToString, why: impl Into<String>) -> Reason {
    Reason { what: what.into(), value: value.to_string(), why: why.into() }
}

/// Most that a reservation may take of one core, and why.
pub(crate) fn most_of_a_core(host: &Host, facts: &Facts) -> (Bandwidth, &'static str) {
    let rest = Bandwidth::ONE.checked_sub(host.keep_free).unwrap_or(Bandwidth::ZERO);
    if facts.deadline_bandwidth_cap < rest {
        (facts.deadline_bandwidth_cap, "what the kernel admits of a core")
    } else {
        (rest, "1 − keep-free")
    }
}

/// Period, budget, hold and leftover of `service` on any core of `host`.
pub(crate) fn size(service: &Service, host: &Host, facts: &Facts) -> Result<Sized, Misfit> {
    let tasks = |why| Misfit::Other(Refusal::Tasks { service: service.name.clone(), why });
    let margin = service.margin;
    let (supply, limit) = most_of_a_core(host, facts);
    let utilization = share::utilization(&service.tasks).map_err(tasks)?;
    let misfit = |required| Misfit::DoesNotFit(Cause::Core { utilization, required, margin, supply });
    if utilization > Bandwidth::ONE {
        return Err(misfit(None));
    }
    let (shortest, longest) = periods(facts)?;
    let (period, period_reason) = period(&service.tasks, shortest, longest, facts).map_err(tasks)?;
    let least = share::budget(&service.tasks, period).map_err(tasks)?;
    let range = || tasks(Error::Range);
    let required = Bandwidth::of(least, period).ok_or_else(range)?;
    let misfit = || misfit(Some((required, period)));
    let wanted = share::with_margin(least, period, margin).ok_or_else(misfit)?;
    let budget = wanted.max(LEAST_BUDGET);
    let server = Server { kind: ServerKind::ConstantBandwidth, budget, period };
    if server.bandwidth() > supply {
        return Err(misfit());
    }
    // None: a core that is never idle, or held for ever, has no share to plan.
    let conforming = share::longest_busy_period(&service.tasks).map_err(tasks)?.ok_or_else(misfit)?;
    let enforced = share::enforced_hold(budget, period).ok_or_else(misfit)?;
    let left_for_others = Bandwidth::ONE
        .checked_sub(server.bandwidth())
        .and_then(|left| left.checked_sub(host.keep_free))
        .ok_or_else(misfit)?;
    let budget_why = if budget == wanted {
        "required + margin · period, rounded up".to_string()
    } else {
        format!("the least runtime that the kernel accepts; required + margin · period is {}", time(wanted))
    };
    let reasons = vec![
        period_reason,
        reason("utilization", percent(utilization), "U = Σ C/T of its tasks, copies counted"),
        reason("required", format!("{} ({})", time(least), percent(required)), why_required(&service.tasks, period)),
        reason(
            "margin",
            percent(margin),
            "percentage points of a core for the work of the kernel (paper 000, § 3.3), from the site",
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
            format!("1 − budget/period − {} kept free", percent(host.keep_free)),
        ),
    ];
    let hold = Hold { conforming, enforced };
    Ok(Sized { server, utilization, required, hold, left_for_others, reasons })
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

/// Shortest and longest server period that the machine can do well.
fn periods(facts: &Facts) -> Result<(Duration, Duration), Misfit> {
    let longest = facts.deadline_period_max;
    let shortest = facts
        .tick
        .checked_mul(TICKS)
        .unwrap_or(Duration::from_ns(u64::MAX))
        .max(facts.deadline_period_min)
        .max(Duration::from_ns(1));
    if shortest <= longest {
        return Ok((shortest, longest));
    }
    Err(Misfit::Other(Refusal::Machine {
        lacks: format!(
            "SCHED_DEADLINE allows periods up to {longest}, and this kernel (tick {}) enforces only those from {shortest} on",
            facts.tick
        ),
        remedy: "raise /proc/sys/kernel/sched_deadline_period_max_us".into(),
    }))
}

/// The server period, with its reason.
fn period(tasks: &[Task], shortest: Duration, longest: Duration, facts: &Facts) -> Result<(Duration, Reason), Error> {
    let hyperperiod = share::hyperperiod(tasks)?;
    let bounds = format!("{TICKS} ticks of {} and the kernel's least and most", facts.tick);
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
