//! How a service would fare with another budget, in words: simulated beside what its core has now, in some 10 ms.

use crate::Host;
use giusto_model::{About, Bandwidth, Certificate, Duration, JobRecord, Plan, Promise, ServicePlan};
use giusto_simulator::{predict, predict_random, Execution, Predicted, Under, Unobserved};
use giusto_verify::{kept, Sample};
use serde::Serialize;

/// What is simulated: so many jobs, in a time between these.
const JOBS: u64 = 20_000;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(600);
/// The same numbers for the same question.
const SEED: u64 = 1;

/// The answer to `/budget`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Told {
    /// What it can be asked of: services whose jobs are described.
    services: Vec<Asked>,
    /// Sentences.
    says: Vec<String>,
}

/// A service as it is now.
#[derive(Debug, Serialize)]
struct Asked {
    name: String,
    budget_ns: u64,
    period_ns: u64,
}

/// Of `service` with a budget of so many `ms` in each of its periods; without it, of which services it can be asked.
pub(super) fn budget(host: &dyn Host, service: Option<&str>, ms: Option<f64>) -> Told {
    let Some(plan) = host.plan() else { return Told::default() };
    let described: Vec<&ServicePlan> = plan.services.iter().filter(|one| jobs_last(one).is_some()).collect();
    let asked = |one: &&ServicePlan| Asked {
        name: one.name.clone(),
        budget_ns: one.server.budget.ns(),
        period_ns: one.server.period.ns(),
    };
    let mut services: Vec<Asked> = described.iter().map(asked).collect();
    services.dedup_by(|one, other| one.name == other.name);
    let wanted = service.and_then(|name| described.iter().find(|one| one.name == name));
    let says = match (wanted, ms) {
        (Some(one), Some(ms)) if ms > 0.0 && ms * 1e6 <= one.server.period.ns() as f64 => {
            says(&plan, one, Duration::from_ns((ms * 1e6) as u64))
        }
        (Some(one), Some(_)) => vec![format!("A budget is above 0, and at most the period: {}.", one.server.period)],
        _ => Vec::new(),
    };
    Told { services, says }
}

/// How long [`JOBS`] of its jobs take to come, within bounds; `None` where no job is described.
fn jobs_last(service: &ServicePlan) -> Option<Duration> {
    let jobs = JOBS as f64;
    let ns = match service.promise.arrivals() {
        Some(arrivals) => jobs / (arrivals.rate.per_ns() * f64::from(arrivals.batch)),
        None => {
            let shortest = service.tasks.iter().map(|task| task.period.ns()).min()?;
            jobs * shortest as f64
        }
    };
    Some(Duration::from_ns(ns as u64).clamp(SHORTEST, LONGEST))
}

fn says(plan: &Plan, service: &ServicePlan, budget: Duration) -> Vec<String> {
    let others: Vec<&ServicePlan> = plan
        .services
        .iter()
        .filter(|other| other.on == service.on && other.core == service.core && other.name != service.name)
        .collect();
    let with = with_budget(service, budget);
    let mut says = vec![format!(
        "With {budget} every {}, {} of a core (now {}):",
        with.server.period,
        with.server.bandwidth().percent(),
        service.server.bandwidth().percent()
    )];
    let all = others.iter().try_fold(with.server.bandwidth(), |sum, other| sum.checked_add(other.server.bandwidth()));
    if all.is_none_or(|all| all > Bandwidth::ONE) {
        says.push("with the servers of the others this is more than its core has.".into());
        return says;
    }
    let length = jobs_last(service).unwrap_or(SHORTEST);
    match fares(&with, &others, length) {
        Ok(words) => says.push(format!("{words}. Simulated for {length}.")),
        Err(why) => says.push(format!("it cannot be simulated: {why}.")),
    }
    says
}

/// What is counted on is less than the budget by what is lost of it, as before.
fn with_budget(service: &ServicePlan, budget: Duration) -> ServicePlan {
    let mut with = service.clone();
    with.server.budget = budget;
    if let Certificate::Percentiles { budget: counted, .. } = &mut with.certificate {
        let lost = service.server.budget.checked_sub(*counted).unwrap_or(Duration::ZERO);
        *counted = budget.checked_sub(lost).unwrap_or(Duration::ZERO).max(Duration::from_ns(1));
    }
    with
}

fn fares(service: &ServicePlan, others: &[&ServicePlan], length: Duration) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| why.to_string();
    if let Promise::Percentiles { points, .. } = &service.promise {
        let mut responses = Vec::new();
        let mut job = |server: usize, job: &JobRecord| {
            if server == 0 {
                responses.push(job.response_ns());
            }
        };
        let under = Under::Server(service.server.kind);
        let played = predict_random(service, others, under, length, SEED, &mut job).map_err(|why| failed(&why))?;
        if let Some(overload) = played.overload {
            return Ok(overload.to_string());
        }
        let sample = Sample::from_responses(responses).map_err(|why| failed(&why))?;
        return Ok(kept(points, &[sample]).map_err(|why| failed(&why))?.why);
    }
    let played = predict(service, Execution::Worst, &[], length, SEED, &mut Unobserved).map_err(|why| failed(&why))?;
    Ok(tasks(service, &played))
}

/// How jobs of tasks fare, each as long as it may be.
fn tasks(service: &ServicePlan, played: &Predicted) -> String {
    if let Some(overload) = played.overload {
        return overload.to_string();
    }
    let (jobs, late) = (played.stats.jobs(), played.tasks.iter().map(|task| task.late).sum::<u64>());
    let whose = match service.promise.about() == About::Deadlines {
        true => format!("{late} of {jobs} jobs would be late"),
        false => format!("{jobs} jobs"),
    };
    let prediction = played.stats.prediction();
    format!("{whose}; p50 {:.3}, p99 {:.3}, the longest {:.3}", prediction.p50, prediction.p99, prediction.max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use std::sync::Arc;

    fn host(services: &str) -> Golden {
        let site = format!("giusto: 1\nhosts:\n  here: {{cores: 0}}\nservices:\n{services}");
        let site = giusto_site::parse("site.yaml", &site).unwrap();
        let plan = giusto_planner::plan(&site, &giusto_planner::Facts::typical(vec![0])).unwrap();
        Golden { plan: Some(Arc::new(plan)) }
    }

    #[test]
    fn less_budget_makes_jobs_late_and_as_much_as_planned_does_not() {
        let engine = "{start: [sleep, '9'], promise: every-deadline, tasks: [{wcet: 1ms, period: 10ms}]}";
        let host = host(&format!("  engine: {engine}\n"));
        let all = budget(&host, None, None);
        let [Asked { name, budget_ns, .. }] = &all.services[..] else { panic!("{all:?}") };
        assert_eq!((name.as_str(), &all.says[..]), ("engine", &[][..]));
        let now = budget(&host, Some("engine"), Some(*budget_ns as f64 / 1e6)).says.join(" ");
        assert!(now.contains(" 0 of ") && now.contains("jobs would be late"), "{now}");
        let half = budget(&host, Some("engine"), Some(*budget_ns as f64 / 3e6)).says.join(" ");
        assert!(half.contains("overloaded"), "{half}");
        let none = budget(&host, Some("engine"), Some(1e9)).says.join(" ");
        assert!(none.contains("at most the period"), "{none}");
    }

    #[test]
    fn percentiles_are_judged_as_verify_does() {
        let search = "{start: [sleep, '9'], arrivals: {poisson: 200/s}, execution: {mean: 0.5ms, wcet: 2ms},\n    \
                      promise: {p90: 30ms, p99: 60ms}}";
        let host = host(&format!("  search: {search}\n"));
        let Asked { budget_ns, period_ns, .. } = budget(&host, None, None).services.remove(0);
        let at = |ns: u64| budget(&host, Some("search"), Some(ns as f64 / 1e6)).says.join(" ");
        assert!(
            at(period_ns).contains("p99 was") && at(period_ns).contains("and 60.0 ms was promised"),
            "{}",
            at(period_ns)
        );
        assert!(at(budget_ns / 2).contains("overloaded"), "{}", at(budget_ns / 2));
        assert_eq!(at(budget_ns), at(budget_ns), "the same numbers for the same question");
    }
}
