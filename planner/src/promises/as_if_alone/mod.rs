//! As if alone: the latency of a whole core, on a share of one. Each such service has a core to itself.

mod refusal;

pub use refusal::{TooLarge, TooMany};

use crate::backend::{choose, cost, most_of_a_core, Chosen, Limits, Wanted};
use crate::facts::Facts;
use crate::host::kept;
use crate::promises::method::{Asks, Method};
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::trial::{in_tenths, Trial, TENTHS};
use crate::words::{reason, share as percent, time};
use giusto_analysis::{share, Error};
use giusto_model::{
    Backend, Bandwidth, Certificate, Duration, Hold, Host, HostLatency, Periods, Reason, Release, Server, Service,
    ServicePlan, Task,
};

/// The method of this promise.
pub(crate) struct AsIfAlone;

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

/// Period, budget, hold and leftover of `service` on any core of `host`.
pub(crate) fn size(service: &Service, host: &Host, facts: &Facts) -> Result<Sized, Refusal> {
    let tasks = |why| Refusal::tasks(&service.name, why);
    let margin = service.margin;
    let Chosen { backend, kind, limits, mut reasons } = choose(service, Wanted::WholeCore, facts)?;
    let (supply, limit) = most_of_a_core(host, facts, backend);
    let utilization = share::utilization(&service.tasks).map_err(tasks)?;
    let misfit = |required| {
        let cause = Cause::Core(TooLarge { utilization, required, margin, supply });
        Refusal::does_not_fit(&service.name, cause)
    };
    if utilization > Bandwidth::ONE {
        return Err(misfit(None));
    }
    let (period, period_reason) =
        period(&service.tasks, &longer(&service.tasks, limits.clone(), backend)).map_err(tasks)?;
    if !period.ns().is_multiple_of(backend.abilities().grain.ns()) {
        return Err(Refusal::Asked {
            service: service.name.clone(),
            why: format!("its server would have a period of {}, and {backend} keeps whole microseconds", time(period)),
            instead: "expected periods of its tasks in whole microseconds".into(),
        });
    }
    let least = share::budget(&service.tasks, period).map_err(tasks)?;
    let range = || tasks(Error::Range);
    let required = Bandwidth::of(least, period).ok_or_else(range)?;
    let misfit = || misfit(Some((required, period)));
    let wanted = share::with_margin(least, period, margin).ok_or_else(misfit)?;
    let grain = backend.abilities().grain;
    let budget = multiple(wanted.max(limits.budget), grain).ok_or_else(misfit)?;
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
    let budget_why = if wanted >= limits.budget {
        "required + margin · period, rounded up".to_string()
    } else {
        format!("{}; required + margin · period is {}", limits.least, time(wanted))
    };
    reasons.extend(service.copies.as_ref().map(|copies| {
        let which = match &copies.threads {
            None => "a virtual CPU each".to_string(),
            Some(name) => format!("its threads named {name}, in turn; all its other threads are with the first"),
        };
        let why = format!(
            "this share for each, on a core of its own: the same tasks and the same theorem for each [LiH21, § 3.4.3]; \
             {which}"
        );
        reason("copies", copies.count, why)
    }));
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

/// The least multiple of `grain` that is no shorter.
fn multiple(time: Duration, grain: Duration) -> Option<Duration> {
    time.ns().checked_next_multiple_of(grain.ns()).map(Duration::from_ns)
}

/// How many servers it has, each on a core of its own.
pub(crate) fn copies(service: &Service) -> u32 {
    service.copies.as_ref().map_or(1, |copies| copies.count)
}

/// Which theorem asks for B(period).
fn why_required(tasks: &[Task], period: Duration) -> String {
    if share::hyperperiod(tasks).is_ok_and(|h| period.ns().is_multiple_of(h.ns())) {
        return "Theorem 2: at a multiple of the hyperperiod the utilization is enough, whatever the offsets".into();
    }
    let all_kept = tasks.iter().all(|task| task.release == Release::KeptOffset);
    let offsets = match share::releases(tasks) {
        Ok(Release::KeptOffset) => "every task keeps its offset, so offsets were used",
        _ if all_kept => "a hyperperiod has too many jobs to count on the offsets, so all count as sporadic",
        _ => "not every task keeps an offset, so all count as sporadic",
    };
    format!(
        "Theorem 1: the most that a whole core gives these tasks in any {}, max S(t + P) − S(t) (eq. 3.5); {offsets}",
        time(period)
    )
}

/// Jobs that come more seldom than servers should be replenished hold the core as long as one of them takes, whatever the period
/// is: then it may be that of the shortest task, if nothing but this bounds it.
fn longer(tasks: &[Task], limits: Limits, backend: Backend) -> Limits {
    let shortest = tasks.iter().map(|task| task.period).min().unwrap_or(limits.longest);
    match backend.abilities().periods {
        Periods::From { .. } if shortest > limits.longest => Limits {
            longest: shortest,
            bounds: "up to that of its shortest task, as no job comes sooner".into(),
            ..limits
        },
        _ => limits,
    }
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

/// The largest margin that the core still has room for.
fn smaller_margin(trial: &Trial, required: Bandwidth, most: Bandwidth) -> Option<NearestFit> {
    let tenths = in_tenths(most.checked_sub(required)?);
    let margin = (tenths.saturating_sub(1).max(1)..=tenths).rev().filter_map(|n| Bandwidth::new(n, TENTHS));
    margin.into_iter().find(|m| trial.with(|s, _| s.margin = *m)).map(NearestFit::Margin)
}

impl Method for AsIfAlone {
    fn asks(&self, service: &Service) -> Asks {
        Asks::Cores(copies(service))
    }

    fn breaks_under_shares(&self) -> u8 {
        3
    }

    fn nearest(&self, trial: &Trial, witness: &Service, cause: &Cause) -> Vec<NearestFit> {
        match cause {
            Cause::Core(large) => {
                let margin = large.required.and_then(|(required, _)| smaller_margin(trial, required, large.supply));
                trial.shorter_task(witness).into_iter().chain(margin).collect()
            }
            Cause::Cores(many) => trial.more_cores(many.demand - many.supply).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn smaller(&self, trial: &Trial, witness: &Service) -> Vec<NearestFit> {
        trial.shorter_task(witness).into_iter().chain(trial.more_cores(1)).collect()
    }

    fn alone(&self, _planned: &ServicePlan) -> bool {
        true
    }

    fn asked(&self, planned: &ServicePlan) -> String {
        let margin = percent(planned.margin);
        format!("{} + {} points of margin", percent(planned.required), margin.trim_end_matches(" %"))
    }

    fn promised(&self, _planned: &ServicePlan) -> String {
        "the latency of a whole core on a share of one".into()
    }

    fn late(&self, _late: &HostLatency, _allowed: &str) -> String {
        "added to what is predicted; the budget needs no more, as a whole core of this host is as late".into()
    }

    fn proof(&self, planned: &ServicePlan) -> Vec<[String; 3]> {
        let Certificate::AsIfAlone { from, demand } = &planned.certificate else { return Vec::new() };
        let (budget, period) = (planned.server.budget, planned.server.period);
        let place = match from {
            None => "in every one, as it is a multiple of the hyperperiod".to_string(),
            Some(from) => format!("the most of all windows, for example from {} on", time(*from)),
        };
        let why = format!("of work on a whole core in {}, {place}; the budget is {}", time(period), time(budget));
        vec![["decides".into(), time(*demand), why]]
    }
}
