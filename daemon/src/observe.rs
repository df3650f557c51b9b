//! What the kernel tells of services under SCHED_DEADLINE, and of the others: a [`Stage`] over a [`Scene`].

use crate::{CoreStatus, Error, Report, Running, Scene, ServiceState, ServiceStatus, Stage, Step};
use giusto_compute::sched;
use giusto_model::{Plan, ServicePlan};
use std::collections::BTreeMap;
use std::time::Instant;

/// Remembers what each service has used.
#[derive(Debug, Default)]
pub struct Observer {
    meters: BTreeMap<String, Meter>,
}

impl Observer {
    /// As a stage; `warnings` are what enforcement found wrong.
    pub fn stage<'o, 's, 'p>(
        &'o mut self,
        scene: &'s Scene<'p>,
        warnings: Vec<String>,
    ) -> impl Stage + use<'o, 's, 'p> {
        Observed { observer: self, scene, warnings }
    }
}

struct Observed<'o, 's, 'p> {
    observer: &'o mut Observer,
    scene: &'s Scene<'p>,
    warnings: Vec<String>,
}

impl Stage for Observed<'_, '_, '_> {
    fn report(&mut self, _: &Plan) -> Report {
        let meters = &mut self.observer.meters;
        let services = self
            .scene
            .all()
            .map(|(plan, running)| service(plan, running, meters.entry(running.name.clone()).or_default()));
        let services: Vec<ServiceStatus> = services.collect();
        let mut cores: Vec<CoreStatus> = self.scene.all().filter_map(|(plan, _)| plan).map(core).collect();
        cores.sort_by_key(|core| core.core);
        cores.dedup_by_key(|core| core.core);
        let notes = vec!["backend deadline: the kernel enforces; it does not tell what is left of a budget".into()];
        Report { notes, services, cores, warnings: self.warnings.clone() }
    }

    fn apply(&mut self, step: &Step, _: &Plan) -> Result<(), Error> {
        let name = step.service().to_string();
        Err(Error::Service {
            name,
            what: "cannot be changed while it runs, not yet; stop giusto and start it again".into(),
        })
    }
}

fn core(service: &ServicePlan) -> CoreStatus {
    CoreStatus { core: service.core, backend: Some(service.backend.to_string()), ..CoreStatus::default() }
}

fn service(plan: Option<&ServicePlan>, running: &Running, meter: &mut Meter) -> ServiceStatus {
    let threads: Vec<u32> = running.processes().into_iter().flat_map(sched::threads).collect();
    let used = threads.iter().map(|&thread| (thread, sched::cpu_time_ns(thread))).collect();
    meter.read(used, Instant::now());
    let state = match threads.is_empty() {
        true => ServiceState::Ended,
        false if threads.iter().any(|&thread| wants_to_run(thread)) => ServiceState::Running,
        false => ServiceState::Idle,
    };
    ServiceStatus {
        name: running.name.clone(),
        vcpu: plan.and_then(|plan| plan.vcpu),
        promise: plan.map_or("leftovers".into(), |plan| word(&plan.promise)),
        core: plan.map(|plan| plan.core),
        backend: plan.map(|plan| plan.backend.to_string()),
        kind: plan.map(|plan| plan.server.kind.to_string()),
        budget_ns: plan.map(|plan| plan.server.budget.ns()),
        period_ns: plan.map(|plan| plan.server.period.ns()),
        threads: threads.len() as u32,
        supplied_ns: meter.total_ns,
        supplied_recent: meter.recent,
        state,
        ..ServiceStatus::default()
    }
}

/// A promise as the site file calls it.
fn word(promise: &giusto_model::Promise) -> String {
    match serde_json::to_value(promise) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

fn wants_to_run(thread: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

/// Processor time of threads that come and go.
#[derive(Debug, Default)]
struct Meter {
    used: BTreeMap<u32, u64>,
    at: Option<Instant>,
    /// Since the first reading.
    total_ns: u64,
    /// Part of a core between the last two.
    recent: f64,
}

impl Meter {
    /// `used`: what each thread of the service has had in its life.
    fn read(&mut self, used: BTreeMap<u32, u64>, now: Instant) {
        if let Some(at) = self.at {
            let before = |thread: &u32| self.used.get(thread).copied().unwrap_or(0);
            // A number that was used again by another thread counts from 0.
            let more = |(thread, &now): (&u32, &u64)| now.checked_sub(before(thread)).unwrap_or(now);
            let more: u64 = used.iter().map(more).sum();
            self.total_ns += more;
            self.recent = more as f64 / (now - at).as_nanos().max(1) as f64;
        }
        (self.used, self.at) = (used, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_meter_counts_what_comes_and_forgets_nothing_that_has_gone() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        let mut read = |second: u64, used: &[(u32, u64)]| {
            meter.read(used.iter().copied().collect(), start + Duration::from_secs(second));
            (meter.total_ns, (meter.recent * 100.0).round() as u64)
        };
        assert_eq!(read(0, &[(7, 5_000_000_000)]), (0, 0), "what was before is not ours");
        assert_eq!(read(1, &[(7, 5_300_000_000), (8, 100_000_000)]), (400_000_000, 40));
        assert_eq!(read(2, &[(8, 600_000_000)]), (900_000_000, 50));
        assert_eq!(read(4, &[(8, 100_000_000)]), (1_000_000_000, 5), "thread 8 is another one now");
        assert_eq!(read(5, &[]), (1_000_000_000, 0));
    }

    #[test]
    fn a_service_that_runs_is_seen_and_one_that_ended_too() {
        let folder = tempfile::tempdir().unwrap();
        let spin = giusto_model::Origin::Start(["sh", "-c", "while :; do :; done"].map(String::from).to_vec());
        let mut running = Running::begin("spin", &spin, folder.path(), &mut |_| Ok(())).unwrap();
        let mut meter = Meter::default();
        service(None, &running, &mut meter);
        std::thread::sleep(Duration::from_millis(50));
        let seen = service(None, &running, &mut meter);
        assert!(seen.supplied_ns > 0 && seen.supplied_recent > 0.0 && seen.threads == 1, "{seen:?}");
        assert_eq!((seen.state, seen.promise.as_str(), seen.core), (ServiceState::Running, "leftovers", None));
        running.end();
        while service(None, &running, &mut meter).state != ServiceState::Ended {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(word(&giusto_model::Promise::AsIfAlone), "as-if-alone");
    }
}
