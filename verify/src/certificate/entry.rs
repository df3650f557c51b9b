//! One entry of a plan: its numbers among each other, and its certificate.

use super::demand::{self, Counted};
use super::exact::{of, share, utilization};
use super::{alone, criticality, percentiles, Broken, CheckedService};
use giusto_model::{Backend, Certificate, Duration, Promise, ServerKind, ServicePlan};

pub(super) fn check(entry: &ServicePlan) -> Result<CheckedService, Broken> {
    let (server, tasks) = (entry.server, &entry.tasks);
    if server.budget.is_zero() || server.budget > server.period {
        return Err(Broken::new("a budget within its period", server.period, server.budget));
    }
    for task in tasks {
        task.validate().map_err(|why| Broken::new(format!("task '{}'", task.name), "one that makes sense", why))?;
    }
    let known = match entry.backend {
        Backend::Manager => server.kind != ServerKind::Unlimited,
        Backend::Deadline | Backend::RtGroup => server.kind == ServerKind::ConstantBandwidth,
        Backend::Quota => false,
    };
    if !known {
        return Err(Broken::new("a server that its backend can be", entry.backend, server.kind));
    }
    let used = utilization(tasks);
    if used != share(entry.utilization) {
        return Err(Broken::new("utilization of its tasks", used, entry.utilization));
    }
    let bandwidth = of(server.budget, server.period).unwrap_or_else(|| share(entry.required));
    let asked = share(entry.required) + share(entry.margin);
    if bandwidth < asked {
        return Err(Broken::new("bandwidth: what is required and the margin", asked, bandwidth));
    }
    let counted = counted(entry)?;
    if of(counted, server.period) != Some(share(entry.required)) {
        return Err(Broken::new(
            "what is required of its bandwidth",
            format!("{counted} every {}", server.period),
            entry.required,
        ));
    }
    let (promise, compared, latency) = match (&entry.promise, &entry.certificate) {
        (Promise::EveryDeadline { scheduler, .. }, Certificate::EveryDeadline { budget, latency, points, until }) => {
            supplies_at_any_time(server.kind)?;
            let supply = Counted::new(server, *budget, *latency);
            ("every-deadline", demand::check(tasks, *scheduler, &supply, points, *until)?, *latency)
        }
        (Promise::AsIfAlone, Certificate::AsIfAlone { from, demand }) => {
            if ![ServerKind::ConstantBandwidth, ServerKind::Deferrable].contains(&server.kind) {
                return Err(Broken::new(
                    "a server for which Theorem 1 holds",
                    "constant_bandwidth or deferrable",
                    server.kind,
                ));
            }
            ("as-if-alone", alone::check(tasks, server, *from, *demand)?, Duration::ZERO)
        }
        (
            Promise::Percentiles { points, arrivals, service },
            Certificate::Percentiles { budget, latency, wait, predicted, .. },
        ) => {
            let counted = percentiles::Counted { server, budget: *budget, latency: *latency, wait: *wait };
            let played = percentiles::check(points, *arrivals, service, &counted, predicted)?;
            ("percentiles", played, *latency)
        }
        (Promise::Supply(interfaces), Certificate::Supply) => {
            let own = interfaces.get(entry.vcpu.unwrap_or(0) as usize);
            let given = |i: &&giusto_model::Interface| i.period == server.period && i.budget <= server.budget;
            if own.filter(given).is_none() {
                let own = own.map_or("none".into(), ToString::to_string);
                return Err(Broken::new(
                    "the supply that was promised",
                    own,
                    format!("{} every {}", server.budget, server.period),
                ));
            }
            ("supply", 1, Duration::ZERO)
        }
        _ => return Err(Broken::new("a certificate of its promise", "of the same name", "of another")),
    };
    let loss = match entry.promise {
        Promise::EveryDeadline { .. } | Promise::Percentiles { .. } => {
            Duration::from_ns(server.budget.ns() - counted.ns())
        }
        _ => Duration::ZERO,
    };
    let compared = compared + criticality::check(entry)?;
    let (service, vcpu, core) = (entry.name.clone(), entry.vcpu, entry.core);
    Ok(CheckedService { service, vcpu, core, promise, compared, loss, latency })
}

/// What of the budget the promise rests on; the margin of deadlines is all the rest.
fn counted(entry: &ServicePlan) -> Result<Duration, Broken> {
    let server = entry.server;
    match entry.certificate {
        Certificate::EveryDeadline { budget, .. } | Certificate::Percentiles { budget, .. } => {
            let jobs = !entry.tasks.is_empty() || matches!(entry.promise, Promise::Percentiles { .. });
            let lost = server.budget.checked_sub(budget).filter(|_| !budget.is_zero() && jobs);
            let lost = lost.ok_or_else(|| Broken::new("a part of the budget to count on", budget, server.budget))?;
            match of(lost, server.period) == Some(share(entry.margin)) {
                true => Ok(budget),
                false => Err(Broken::new(
                    "loss that its margin allows for",
                    entry.margin,
                    format!("{lost} every {}", server.period),
                )),
            }
        }
        Certificate::AsIfAlone { demand, .. } => Ok(demand),
        Certificate::Supply => Ok(server.budget),
    }
}

/// Whether work that comes at any time is sure of what the periodic resource supplies.
fn supplies_at_any_time(kind: ServerKind) -> Result<(), Broken> {
    match kind {
        ServerKind::PeriodicStrict
        | ServerKind::PeriodicConserving
        | ServerKind::PeriodicReclaiming
        | ServerKind::Deferrable
        | ServerKind::ConstantBandwidth => Ok(()),
        ServerKind::Polling | ServerKind::Sporadic | ServerKind::Unlimited => {
            Err(Broken::new("a server that supplies at any time", "periodic, deferrable or constant_bandwidth", kind))
        }
    }
}
