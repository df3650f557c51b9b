//! Plans for services that ask for more than was declared.

use crate::refusal::Refusal;
use giusto_model::{Bandwidth, Duration, Plan, Promise, Service, ServicePlan, ServiceTime, Site};
use std::collections::BTreeMap;

/// A factor this close to another one is as good.
const NEARLY: f64 = 1.02;

/// Plans `site` as `plan` does, with the execution times of some services multiplied by a factor above 1 each; where
/// that would take
/// more than `adapt` of the service allows, or does not fit, by less, but by no less than what is `in_force` for each:
/// a service
/// that asks for more takes nothing from another. Also returns the factors planned with.
///
/// # Errors
/// Those of `plan`, where no more than what is in force fits.
pub fn adapted(
    site: &Site,
    factors: &BTreeMap<String, f64>,
    in_force: &BTreeMap<String, f64>,
    plan: &dyn Fn(&Site) -> Result<Plan, Refusal>,
) -> Result<(Plan, BTreeMap<String, f64>), Refusal> {
    let mut factors = factors.clone();
    let floor = |name: &str| in_force.get(name).copied().unwrap_or(1.0);
    loop {
        let mut scaled = site.clone();
        for service in &mut scaled.services {
            if let Some(&factor) = factors.get(&service.name) {
                scale(service, factor);
            }
        }
        match plan(&scaled) {
            Ok(found) => match lowered(&found, &mut factors) {
                false => return Ok((found, factors)),
                true => continue,
            },
            Err(refusal @ Refusal::DoesNotFit(_)) => {
                let mut any = false;
                for (name, factor) in factors.iter_mut().filter(|(name, factor)| **factor > floor(name) * NEARLY) {
                    (*factor, any) = (floor(name) + (*factor - floor(name)) * 0.7, true);
                }
                if !any {
                    return Err(refusal);
                }
            }
            Err(refusal) => return Err(refusal),
        }
    }
}

/// Lowers the factors of services that have more than they may; whether there were any.
fn lowered(plan: &Plan, factors: &mut BTreeMap<String, f64>) -> bool {
    let mut any = false;
    for service in &plan.services {
        let (Some(factor), Some(up_to)) = (factors.get_mut(&service.name), service.adapt) else { continue };
        let has = share(service);
        // At a factor of 1 it is what the site declares, whatever it may be adapted to.
        if has > up_to.as_f64() && *factor > 1.0 {
            *factor = (*factor * (up_to.as_f64() / has).min(0.98)).max(1.0);
            any = true;
        }
    }
    any
}

fn share(service: &ServicePlan) -> f64 {
    Bandwidth::of(service.server.budget, service.server.period).map_or(1.0, Bandwidth::as_f64)
}

fn scale(service: &mut Service, factor: f64) {
    let times = |time: Duration| Duration::from_ns((time.ns() as f64 * factor).ceil() as u64);
    for task in &mut service.tasks {
        task.wcet = times(task.wcet).min(task.deadline);
    }
    if let Promise::Percentiles { service: needs, .. } = &mut service.promise {
        match needs {
            ServiceTime::Constant { time } => *time = times(*time),
            ServiceTime::Bounded { mean, wcet } => (*mean, *wcet) = (times(*mean), times(*wcet)),
            ServiceTime::Measured { times: all, .. } => all.iter_mut().for_each(|(time, _)| *time = times(*time)),
        }
    }
}
