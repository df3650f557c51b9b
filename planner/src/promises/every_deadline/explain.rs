//! Where the numbers of a server that keeps all deadlines come from.

use super::cheapest::QUANTUM;
use crate::backend::{Deviation, Limits};
use crate::needs::Need;
use crate::words::{reason, share, time};
use giusto_model::{
    Bandwidth, Certificate, Duration, GuestScheduler, Point, Promise, Reason, RestsOn, Service, ServicePlan, Task,
};

/// Where the numbers of one virtual CPU come from, in one of its modes.
pub(super) fn reasons(
    service: &Service,
    need: &Need,
    scheduler: GuestScheduler,
    deviation: &Deviation,
    (shortest, longest, bounds): (Duration, Duration, &str),
    cheapest: &str,
    (most, limit): (Bandwidth, &str),
) -> Vec<Reason> {
    let Need { interface: server, tasks, .. } = need;
    let only = tasks.len() == 1 && tasks[0].copies == 1;
    let mut reasons: Vec<Reason> = runs_here(service, need).into_iter().collect();
    let counted = match need.certificate {
        Certificate::EveryDeadline { budget, .. } => budget,
        _ => server.budget,
    };
    reasons.extend([
        reason("scheduler", scheduler, why_scheduler(scheduler, only, service.origin.has_vcpus())),
        reason("utilization", share(need.utilization), "U = Σ C/T of its tasks, copies counted"),
        reason(
            "period",
            time(server.period),
            format!("of all from {} to {} ({bounds}), in steps of {QUANTUM}, {cheapest}", time(shortest), time(longest)),
        ),
        reason("required", format!("{} ({})", time(counted), share(need.required)), format!(
            "the least, in steps of {QUANTUM}, that supplies in every window what may be asked for in it \
                 ([Lee11, Lemma 1]; Abe22)"
        )),
        reason("loss", time(deviation.loss), format!("of each budget, not counted on: {}", deviation.why)),
        reason(
            "latency",
            time(deviation.latency),
            "at the start of every window, not counted on: timers, wake-ups and the kernel's own work; the worst of 7,200 \
             periods lacked 530 us",
        ),
        reason(
            "budget",
            format!("{} ({})", time(server.budget), share(server.bandwidth())),
            format!("required + loss; at most {} ({limit})", share(most)),
        ),
    ]);
    reasons
}

/// Which tasks a virtual CPU has; `None`: the service has all of its tasks together.
fn runs_here(service: &Service, need: &Need) -> Option<Reason> {
    let from_site = matches!(&service.promise, Promise::EveryDeadline { placed, .. } if !placed.is_empty());
    let name =
        |task: &Task| if task.copies > 1 { format!("{} of {}", task.copies, task.name) } else { task.name.clone() };
    let names: Vec<String> = need.tasks.iter().map(name).collect();
    let how = if from_site { "from the site" } else { "largest first, each on the virtual CPU with least so far" };
    let reason = reason("runs here", names.join(", "), format!("{how}; pin them to this virtual CPU"));
    service.origin.has_vcpus().then_some(reason)
}

/// Where the numbers of a server come from that rests on something else than the periodic resource.
pub(super) fn alternative(
    service: &Service,
    need: &Need,
    scheduler: GuestScheduler,
    deviation: &Deviation,
    limits: &Limits,
    (most, limit): (Bandwidth, &str),
) -> Vec<Reason> {
    let Need { interface: server, tasks, .. } = need;
    let Certificate::EveryDeadline { budget: counted, rests_on, .. } = need.certificate else { return Vec::new() };
    let only = tasks.len() == 1 && tasks[0].copies == 1;
    let bounds = format!("from {} to {} ({})", time(limits.shortest), time(limits.longest), limits.bounds);
    let (order, rests, period, required, latency, sum) = match rests_on {
        RestsOn::WholeCore { .. } => (
            why_scheduler(scheduler, only, service.origin.has_vcpus()),
            "the highest priority of its core and a budget that never runs out [LiH21, Theorem 1]",
            format!(
                "the cheapest of some multiples of the hyperperiod or of its tasks' periods {bounds}; it only limits what it \
             takes \
                 if it does not do what was declared"
            ),
            "the most work of any period on a whole core, with what is lost of it",
            "of every window, not counted on, and put off into the next period: timers, wake-ups and the kernel's own work",
            "required + loss + latency",
        ),
        RestsOn::AlignedReleases => (
            why_scheduler(scheduler, only, service.origin.has_vcpus()),
            "a period that begins when work comes, and releases that are whole periods apart [Lee11, eq. 1]",
            format!("the cheapest that divides the time between any two releases, {bounds}"),
            "the least that supplies in every window that begins with a period what may be asked for in it",
            "at the start of every window, not counted on: until a wake-up is seen and its work runs",
            "required + loss",
        ),
        RestsOn::PeriodicResource | RestsOn::WakeUp => (
            "all is done by the end of the period, in any order".into(),
            "a period that begins when work comes: constant_bandwidth",
            format!("the longest {bounds} that ends before the shortest deadline, less the latency"),
            "all that its tasks may ask for in a period and the latency",
            "until a wake-up is seen and its work runs: timers, wake-ups and the kernel's own work",
            "required + loss",
        ),
    };
    let lost = if matches!(rests_on, RestsOn::WholeCore { .. }) { "of each period" } else { "of each budget" };
    let mut reasons: Vec<Reason> = runs_here(service, need).into_iter().collect();
    reasons.extend([
        reason("scheduler", scheduler, order),
        reason("utilization", share(need.utilization), "U = Σ C/T of its tasks, copies counted"),
        reason("period", time(server.period), period),
        reason("required", format!("{} ({})", time(counted), share(need.required)), required),
        reason("loss", time(deviation.loss), format!("{lost}, not counted on: {}", deviation.why)),
        reason("latency", time(deviation.latency), latency),
        reason(
            "budget",
            format!("{} ({})", time(server.budget), share(server.bandwidth())),
            format!("{sum}; at most {} ({limit})", share(most)),
        ),
        reason("rests on", rests_on, format!("{rests}; the cheapest of the following")),
    ]);
    reasons
}

fn why_scheduler(scheduler: GuestScheduler, only: bool, vm: bool) -> String {
    match scheduler {
        _ if only => "it has one job at a time, so that any order is the same".into(),
        GuestScheduler::Any => {
            "nothing is known of the order of its jobs, so each is reckoned to wait for all others".into()
        }
        GuestScheduler::Own(_) if vm => "from the site, preemptive; its kernel has to keep this order".into(),
        GuestScheduler::Own(_) => {
            "from the site, preemptive; it has to keep this order by itself, as its threads have one priority together"
                .into()
        }
    }
}

/// Where the supply is nearest to what may be asked for.
pub(super) fn decides(service: &ServicePlan) -> Option<[String; 3]> {
    let Certificate::EveryDeadline { points, .. } = &service.certificate else { return None };
    let spare = |point: &&Point| point.supply.ns().saturating_sub(point.demand.ns());
    let Point { task, at, demand, supply } = points.iter().min_by_key(spare)?;
    let who = match task.and_then(|task| service.tasks.get(task)) {
        Some(task) => format!("'{}' and what goes before it are", task.name),
        None => "all that may be asked for in it is".into(),
    };
    let why = format!(
        "window in which {who} done with least to spare: up to {} asked for, at least {} supplied; {} compared",
        time(*demand),
        time(*supply),
        points.len()
    );
    Some(["decides".into(), time(*at), why])
}
