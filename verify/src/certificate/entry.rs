//! One entry of a plan: its numbers among each other, and its certificate.

use super::broken::Broken;
use super::exact::{fraction, of, share, utilization, whole};
use super::promise::{self, Proven};
use giusto_model::{Certificate, Duration, LocalProof, Promise, Server, ServicePlan};
use serde::Serialize;

/// But for what follows from its criticality.
pub(super) fn check(entry: &ServicePlan) -> Result<CheckedService, Broken> {
    let (server, tasks) = (entry.server, &entry.tasks);
    if server.budget.is_zero() || server.budget > server.period {
        return Err(Broken::new("a budget within its period", server.period, server.budget));
    }
    for task in tasks {
        task.validate().map_err(|why| Broken::new(format!("task '{}'", task.name), "one that makes sense", why))?;
    }
    if !entry.backend.abilities().kinds.contains(&server.kind) {
        return Err(Broken::new("a server that its backend can be", entry.backend, server.kind));
    }
    let used = utilization(tasks);
    // Beyond 64 bits it is rounded up, by a billionth for each task.
    let rounded = used.clone() + fraction(tasks.len() as u128, 1_000_000_000).unwrap_or_else(|| whole(0));
    if share(entry.utilization) < used || share(entry.utilization) > rounded {
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
    let claims = promise::claims(&entry.promise);
    let Proven { compared, loss, latency, within } = (claims.check)(entry, counted)?;
    let (service, vcpu, core) = (entry.name.clone(), entry.vcpu, entry.core);
    Ok(CheckedService { service, vcpu, core, promise: claims.name, compared, loss, latency, within })
}

/// What of the budget the promise rests on; the margin of deadlines is all the rest.
fn counted(entry: &ServicePlan) -> Result<Duration, Broken> {
    let server = entry.server;
    match entry.certificate {
        Certificate::EveryDeadline { budget, .. }
        | Certificate::Percentiles { budget, .. }
        | Certificate::Stage { budget, .. } => {
            let jobs =
                !entry.tasks.is_empty() || matches!(entry.promise, Promise::Percentiles { .. } | Promise::Stage { .. });
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

/// One entry of a plan that keeps its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedService {
    /// Its service.
    pub service: String,
    /// Its virtual CPU.
    pub vcpu: Option<u32>,
    /// Its core.
    pub core: u32,
    /// What holds.
    pub promise: &'static str,
    /// Comparisons of demand and supply that were made.
    pub compared: usize,
    /// What the server may lack of each budget.
    #[serde(rename = "loss_ns")]
    pub loss: Duration,
    /// How late its supply may come, once in any window.
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// How closely its percentiles were established: a prediction that is too short by more is rejected.
    #[serde(rename = "within_ns", skip_serializing_if = "Option::is_none")]
    pub within: Option<Duration>,
}

/// An entry as it is in a local mode, or with its worst budget.
pub(super) fn with(base: &ServicePlan, server: Server, proof: &LocalProof) -> ServicePlan {
    let promise = match &base.promise {
        Promise::Supply(all) => Promise::Supply(vec![server.interface(); all.len()]),
        promise => promise.clone(),
    };
    ServicePlan {
        server,
        promise,
        tasks: proof.tasks.clone(),
        utilization: proof.utilization,
        required: proof.required,
        margin: proof.margin,
        hold: proof.hold,
        certificate: proof.certificate.clone(),
        ..base.clone()
    }
}
