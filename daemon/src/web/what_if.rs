//! What a plan would be if the requests of one service took longer, or less, in words.

use crate::{Host, ServiceStatus};
use giusto_model::{Certificate, Plan, PredictedPercentile};
use serde::Serialize;

/// The answer to `/what-if`.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// Services that it can be asked of.
    services: Vec<String>,
    /// Sentences.
    says: Vec<String>,
}

/// Of `service` with `times` the work for each of its requests or jobs; without it, of which services it can be asked.
pub(super) fn what_if(host: &dyn Host, service: Option<&str>, times: Option<f64>) -> Told {
    let status = host.status();
    let with_server = |one: &&ServiceStatus| one.budget_ns.is_some();
    let mut services: Vec<String> = status.services.iter().filter(with_server).map(|one| one.name.clone()).collect();
    services.dedup();
    let says = match (service, times) {
        (Some(service), Some(times)) if asked(&services, service, times) => match host.what_if(service, times) {
            Some(Ok(plan)) => differs(&plan, &status.services, service),
            Some(Err(refused)) => vec![format!("It does not fit. {refused}")],
            None => {
                services.clear();
                Vec::new()
            }
        },
        (Some(_), _) if !services.is_empty() => vec![format!(
            "Expected 'service', one of: {}; and 'load', how many times as long its requests take, from 0.01 to 100.",
            services.join(", ")
        )],
        _ => {
            if host.what_if("", 1.0).is_none() {
                services.clear();
            }
            Vec::new()
        }
    };
    Told { services, says }
}

/// Whether that can be asked.
fn asked(services: &[String], service: &str, times: f64) -> bool {
    services.iter().any(|one| one == service) && (0.01..=100.0).contains(&times)
}

/// What `plan` has for `service` beside what it has now, and which others would have another server or core.
fn differs(plan: &Plan, now: &[ServiceStatus], service: &str) -> Vec<String> {
    let mut says = Vec::new();
    let mut others = Vec::new();
    for one in &plan.services {
        let (budget, period) = (one.server.budget.ns(), one.server.period.ns());
        let part = |budget: u64, period: u64| 100.0 * budget as f64 / period.max(1) as f64;
        let before = now.iter().find(|old| old.name == one.name && old.vcpu == one.vcpu);
        let held = before.and_then(|old| Some((old.budget_ns?, old.period_ns?, old.core)));
        if one.name == service {
            let was = held.map_or(String::new(), |(budget, period, _)| format!("; now {:.1} %", part(budget, period)));
            let (budget_ms, period_ms) = (budget as f64 / 1e6, period as f64 / 1e6);
            let share = part(budget, period);
            says.push(format!(
                "{service} would have {budget_ms:.3} ms every {period_ms:.3} ms on core {} ({share:.1} %{was}).",
                one.core
            ));
            if let Certificate::Percentiles { predicted, .. } = &one.certificate {
                let point =
                    |point: &PredictedPercentile| format!("{} {:.3} ms", point.percentile, point.at.ns() as f64 / 1e6);
                says.push(format!("Predicted: {}.", predicted.iter().map(point).collect::<Vec<_>>().join(", ")));
            }
        } else if held.is_some_and(|held| held != (budget, period, Some(one.core))) {
            others.push(format!("{} ({:.1} % on core {})", one.name, part(budget, period), one.core));
        }
    }
    if !others.is_empty() {
        says.push(format!("Others would change: {}.", others.join(", ")));
    }
    says
}
