//! A stage of paths: what they count on, which was chosen for all of a path's stages together (`paths`).

use crate::backend::{choose, deviation, Wanted};
use crate::host::OneHost;
use crate::needs::{Company, Need, Vcpu};
use crate::promises::method::{Asks, Method};
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::trial::Trial;
use crate::words::{reason, share, time};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, Certificate, HostLatency, Interface, Promise, Service, ServicePlan};

/// The method of this promise.
pub(crate) struct Stage;

fn server(service: &Service, on: &OneHost) -> Result<Vcpu, Refusal> {
    let fault = |why| Refusal::tasks(&service.name, why);
    let Promise::Stage { service: times, counted: Some(counted) } = &service.promise else {
        return Err(fault(Error::NoTasks)); // its paths are planned before it is placed
    };
    let chosen = choose(service, Wanted::Percentiles, on.facts)?;
    let deviation = deviation(chosen.backend, on.facts);
    let budget = counted.budget.checked_add(deviation.loss).map(|budget| budget.max(chosen.limits.budget));
    let budget = budget.filter(|budget| *budget <= counted.period).ok_or_else(|| fault(Error::Range))?;
    let part_of = |time| Bandwidth::of(time, counted.period).unwrap_or(Bandwidth::ZERO);
    let rest = budget.checked_sub(counted.budget).ok_or_else(|| fault(Error::Range))?;
    let (required, margin) = (part_of(counted.budget), part_of(rest));
    let interface = Interface { budget, period: counted.period };
    let reasons = vec![
        reason("messages", times, "of its paths; 'giusto explain PATH' tells how they come and what was promised"),
        reason("period", time(counted.period), "chosen for all stages of its paths together"),
        reason("required", format!("{} ({})", time(counted.budget), share(required)), "likewise"),
        reason("loss", time(deviation.loss), format!("of each budget, not counted on: {}", deviation.why)),
        reason(
            "latency",
            time(deviation.latency),
            "in the time that its paths have here: timers, wake-ups and the kernel's own work",
        ),
        reason("budget", format!("{} ({})", time(budget), share(interface.bandwidth())), "required + loss"),
    ];
    let certificate = Certificate::Stage { budget: counted.budget, latency: deviation.latency };
    let (tasks, utilization) = (Vec::new(), Bandwidth::ZERO);
    let need = Need { interface, tasks, utilization, required, margin, certificate, reasons };
    let vcpu = service.origin.has_vcpus().then_some(0);
    Ok(Vcpu { vcpu, chosen, locals: vec![need], worst: None, critical: false, alone: false })
}

impl Method for Stage {
    fn asks(&self, service: &Service) -> Asks {
        match &service.promise {
            Promise::Stage { counted: Some(counted), .. } => Asks::Share(counted.bandwidth()),
            _ => Asks::Share(Bandwidth::ONE),
        }
    }

    fn breaks_under_shares(&self) -> u8 {
        2
    }

    fn needs(&self, on: &OneHost, service: &Service, _company: Company) -> Result<Vec<Vcpu>, Refusal> {
        Ok(vec![server(service, on)?])
    }

    /// Its path says what would fit.
    fn nearest(&self, _trial: &Trial, _witness: &Service, _cause: &Cause) -> Vec<NearestFit> {
        Vec::new()
    }

    fn smaller(&self, trial: &Trial, _witness: &Service) -> Vec<NearestFit> {
        trial.more_cores(1).into_iter().collect()
    }

    fn asked(&self, planned: &ServicePlan) -> String {
        format!("{} for its paths + {} loss", share(planned.required), share(planned.margin))
    }

    fn promised(&self, planned: &ServicePlan) -> String {
        let (budget, period) = (time(planned.server.budget), time(planned.server.period));
        format!("what its paths need, with {budget} in every {period}")
    }

    fn late(&self, late: &HostLatency, allowed: &str) -> String {
        format!("{allowed} are in the time that its paths have here, {} in any case", time(late.allowance))
    }
}
