//! What the kernel and the managers tell of services: a [`Stage`] over a [`Deployment`].

use crate::drift::{words, Drifts};
use crate::modes::Wishes;
use crate::paths::Paths;
use crate::responses::Responses;
use crate::supplies::Supplies;
use crate::{
    CoreCriticality, CoreStatus, Deployment, Error, Late, ObservedBy, Refused, Report, Running, ServiceState,
    ServiceStatus, Sources, Stage, Step,
};
use giusto_compute::manager::ServerReport;
use giusto_compute::sched;
use giusto_model::{Backend, Plan, ServicePlan};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Remembers what each service has used.
#[derive(Debug, Default)]
pub struct Observer {
    meters: BTreeMap<String, Meter>,
    /// For each manager: for how long it has been there, its own processor time, its wake-ups.
    managers: BTreeMap<u32, (u64, u64, u64)>,
    /// For each managed server: for how long its manager had been there, what it had been supplied, and its part in between.
    supplied: BTreeMap<(String, Option<u32>), (u64, u64, f64)>,
    drifts: Drifts,
    responses: Responses,
    supplies: Supplies,
    paths: Paths,
    /// Giusto itself.
    own: Meter,
}

impl Observer {
    /// As a stage, to be taken about ten times a second; `warnings` are what enforcement found wrong.
    pub fn stage<'o, 's, 'p>(
        &'o mut self,
        deployment: &'s mut Deployment<'p>,
        warnings: Vec<String>,
    ) -> impl Stage + use<'o, 's, 'p> {
        self.drifts.look(deployment);
        self.responses.look(deployment);
        self.supplies.look(deployment);
        self.paths.look(&deployment.plan);
        Observed { observer: self, deployment, warnings }
    }
}

struct Observed<'o, 's, 'p> {
    observer: &'o mut Observer,
    deployment: &'s mut Deployment<'p>,
    warnings: Vec<String>,
}

impl Observed<'_, '_, '_> {
    fn look(&mut self) -> Report {
        let (deployment, observer) = (&*self.deployment, &mut *self.observer);
        let (mut services, mut processes) = (Vec::new(), BTreeMap::new());
        for (plan, running) in deployment.all() {
            let vcpu = plan.and_then(|plan| plan.vcpu).map(|vcpu| format!(" {vcpu}")).unwrap_or_default();
            let meter = observer.meters.entry(format!("{}{vcpu}", running.name)).or_default();
            let own = running.processes();
            processes.extend(own.iter().map(|process| (*process, running.name.clone())));
            let threads = match plan.filter(|plan| plan.vcpu.is_some()) {
                Some(plan) => deployment.members(plan).unwrap_or_default(),
                None => own.into_iter().flat_map(sched::threads).collect(),
            };
            let demand = plan.and_then(|plan| observer.drifts.status(&plan.name, plan.vcpu));
            // Several parts of a service serve the same requests.
            let is_first = services.iter().all(|one: &ServiceStatus| one.name != running.name);
            let responses = is_first.then(|| observer.responses.status(&running.name)).flatten();
            let observed = observer.responses.observed(&running.name);
            services.push(ServiceStatus { demand, observed, responses, ..service(plan, running, threads, meter) });
        }
        for (status, part) in services.iter_mut().zip(&deployment.parts) {
            status.supply = observer.supplies.status(&part.name, part.vcpu);
            let seen = deployment.backends.used(part.backend).map(|backend| backend.observe(part)).unwrap_or_default();
            status.left_ns = seen.left_ns;
            if let Some((for_ns, server)) = seen.counted {
                managed(status, server);
                // Threads that are born in it may be in no process group of the service.
                let key = (status.name.clone(), status.vcpu);
                let last = observer.supplied.entry(key).or_insert((for_ns, server.supplied_ns, 0.0));
                if let passed @ 1.. = for_ns.saturating_sub(last.0) {
                    let recent = server.supplied_ns.saturating_sub(last.1) as f64 / passed as f64;
                    *last = (for_ns, server.supplied_ns, recent);
                }
                status.supplied_recent = last.2;
            } else if seen.is_throttled {
                status.state = ServiceState::Throttled;
            }
        }
        let mut cores: Vec<CoreStatus> = deployment.parts.iter().map(core).collect();
        cores.sort_by_key(|core| core.core);
        cores.dedup_by_key(|core| core.core);
        for status in &mut cores {
            if let Some(report) = deployment.backends.all().find_map(|backend| backend.report(status.core)) {
                let before = observer.managers.insert(status.core, (report.for_ns, report.own_ns, report.wakeups));
                let (at, own, wakeups) = before.unwrap_or((0, 0, 0));
                let passed = report.for_ns.saturating_sub(at).max(1) as f64;
                status.manager_cpu_ns = Some(report.own_ns);
                status.manager_cost = Some(report.own_ns.saturating_sub(own) as f64 / passed);
                status.wakeups_per_s = Some(report.wakeups.saturating_sub(wakeups) as f64 * 1e9 / passed);
                status.lateness_mean_ns = Some(report.late_mean_ns);
                status.lateness_max_ns = Some(report.late_max_ns);
                status.guarded = Some(report.guarded);
                status.criticality = report.core_mode.map(|mode| {
                    let giusto_compute::manager::ModeReport { is_hi, hi_ns, switches } = mode;
                    CoreCriticality { is_hi, hi_ns, switches }
                });
            }
        }
        let used: BTreeSet<Backend> = deployment.parts.iter().map(|part| part.backend).collect();
        let used = used.into_iter().filter_map(|backend| deployment.backends.used(backend));
        let mut notes: Vec<String> = used.flat_map(|backend| backend.notes()).collect();
        let network = deployment.packets.as_ref().map(|packets| packets.status()).unwrap_or_default();
        let dropped = [giusto_network::Limit::Drop, giusto_network::Limit::DropSent];
        if network.iter().any(|link| dropped.contains(&link.limit)) {
            notes.push("packets beyond a bucket are dropped before the host works on them".into());
        }
        let drifted = services.iter().filter_map(|one| one.demand.as_ref().map(|demand| (one, demand)));
        let drifted = drifted.filter(|(_, demand)| demand.drifted_since_ns.is_some());
        notes.extend(drifted.map(|(one, demand)| words(&one.name, demand.recent, demand.planned)));
        notes.extend(observer.responses.notes());
        notes.extend(services.iter().filter_map(uncounted));
        notes.extend(deployment.parked.keys().map(|core| format!("core {core} is parked")));
        let modes = deployment.modes_status();
        for member in modes.iter().flat_map(|modes| &modes.members) {
            let own = services.iter_mut().filter(|service| service.name == member.service);
            own.for_each(|service| service.mode = Some(member.local.clone()));
        }
        let used = crate::watchdog::clock(rustix::time::ClockId::ProcessCPUTime) + deployment.beats.watching_ns();
        observer.own.read(BTreeMap::from([(0, used)]), Instant::now());
        let (cpu_ns, cpu_recent) = (used, observer.own.recent);
        let jobs = observer.responses.take_late().into_iter().map(Late::Job);
        let messages = observer.paths.take_late().into_iter().map(Late::Message);
        Report {
            cpu_ns,
            cpu_recent,
            notes,
            services,
            cores,
            network,
            modes,
            warnings: self.warnings.clone(),
            processes,
            late: jobs.chain(messages).collect(),
            paths: observer.paths.status(),
        }
    }
}

impl Stage for Observed<'_, '_, '_> {
    fn report(&mut self, _: &Plan) -> Report {
        sched::at_once(|| self.look())
    }

    fn sources(&self) -> Sources {
        let budgets = self.deployment.backends.all().flat_map(|backend| backend.budgets()).collect();
        Sources { jobs: self.observer.responses.sources(self.deployment), budgets }
    }

    fn unable(&self, plan: &Plan) -> Option<String> {
        self.deployment.backends.unable(&plan.services)
    }

    fn apply(&mut self, step: &Step, plan: &Plan) -> Result<(), Error> {
        crate::apply::apply(self.deployment, step, plan)
    }

    fn stop_modes(&mut self) -> Result<Option<Vec<String>>, Refused> {
        let Some(status) = self.deployment.modes_status() else { return Ok(None) };
        if status.changing_to.is_some() {
            return Err(Refused { exit: 4, reason: "a mode change is under way; try again".into() });
        }
        self.deployment.stop_modes();
        Ok(Some(status.locals))
    }

    fn start_modes(&mut self, plan: &Plan) -> Result<(), Error> {
        self.deployment.supervise_as(plan);
        self.deployment.plan = plan.clone();
        self.deployment.start_modes(plan)
    }

    fn wishes(&self) -> Option<Wishes> {
        self.deployment.wishes()
    }
}

/// A service of which only its supply is observed, under a backend that does not tell what it gets in each period.
fn uncounted(service: &ServiceStatus) -> Option<String> {
    let by = service.observed.as_ref().map(|observed| observed.by)?;
    let backend = service.backend.as_ref().filter(|_| by == ObservedBy::Supply && service.supply.is_none())?;
    let ServiceStatus { name, .. } = service;
    Some(format!(
        "{name}: backend {backend} does not tell what it gets in each period, only its processor time is known"
    ))
}

/// What only a manager knows.
fn managed(status: &mut ServiceStatus, server: &ServerReport) {
    status.threads = server.threads.len() as u32;
    status.supplied_ns = server.supplied_ns;
    status.depletions = Some(server.throttled);
    status.overrun_max_ns = Some(server.overrun_max_ns);
    status.late_stops = Some(server.late_stops);
    status.replenishments = Some(server.replenished);
    status.misses = Some(server.missed);
    status.boosted_ns = Some(server.boost_ns);
    status.state = match (server.is_ready, server.is_throttled) {
        _ if gone(status.state) => status.state,
        (true, true) => ServiceState::Throttled,
        (true, false) => ServiceState::Running,
        (false, _) => ServiceState::Idle,
    };
}

fn gone(state: ServiceState) -> bool {
    matches!(state, ServiceState::Ended | ServiceState::Restarting | ServiceState::Awaited)
}

fn core(service: &ServicePlan) -> CoreStatus {
    CoreStatus { core: service.core, backend: Some(service.backend.to_string()), ..CoreStatus::default() }
}

fn service(plan: Option<&ServicePlan>, running: &Running, threads: Vec<u32>, meter: &mut Meter) -> ServiceStatus {
    match running.usage_ns().filter(|_| plan.is_none_or(|plan| plan.vcpu.is_none())) {
        Some(all) => meter.read_total(all, Instant::now()),
        None => {
            let used = threads.iter().map(|&thread| (thread, sched::cpu_time_ns(thread))).collect();
            meter.read(used, Instant::now());
        }
    }
    let (restarts, last_end) = running.history();
    let state = match threads.is_empty() {
        true if running.awaited() && running.started() => ServiceState::Restarting,
        true if running.awaited() => ServiceState::Awaited,
        true => ServiceState::Ended,
        false if threads.iter().any(|&thread| sched::wants_to_run(thread)) => ServiceState::Running,
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
        restarts,
        last_end,
        escaped: running.started().then(|| running.escaped()),
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

    /// `all`: what the service has had in its life, those included that have ended.
    fn read_total(&mut self, all: u64, now: Instant) {
        self.recent = match self.at {
            Some(at) => all.saturating_sub(self.total_ns) as f64 / (now - at).as_nanos().max(1) as f64,
            None => 0.0,
        };
        (self.total_ns, self.at) = (all, Some(now));
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

    fn threads(running: &Running) -> Vec<u32> {
        running.processes().into_iter().flat_map(sched::threads).collect()
    }

    #[test]
    fn a_service_that_runs_is_seen_and_one_that_ended_too() {
        let folder = tempfile::tempdir().unwrap();
        let spin = giusto_model::Origin::Start(["sh", "-c", "while :; do :; done"].map(String::from).to_vec());
        let mut running =
            Running::begin("test-spin", &spin, &Default::default(), &[], folder.path(), &mut |_| Ok(())).unwrap();
        let mut meter = Meter::default();
        service(None, &running, threads(&running), &mut meter);
        std::thread::sleep(Duration::from_millis(50));
        let seen = service(None, &running, threads(&running), &mut meter);
        assert!(seen.supplied_ns > 0 && seen.supplied_recent > 0.0 && seen.threads == 1, "{seen:?}");
        assert_eq!((seen.state, seen.promise.as_str(), seen.core), (ServiceState::Running, "leftovers", None));
        running.end();
        while service(None, &running, threads(&running), &mut meter).state != ServiceState::Ended {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(word(&giusto_model::Promise::AsIfAlone), "as-if-alone");
    }
}
