//! Watches what services ask for while a plan is enforced ([`giusto_verify::Drift`]), from the processor time that the
//! kernel accounts
//! anyway.

use crate::{DemandStatus, Deployment};
use giusto_compute::sched;
use giusto_model::{Duration, Plan, Promise, ServicePlan};
use giusto_verify::{Drift, Planned, WINDOW};
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Which threads a service has is looked up once in so many windows.
const THREADS_EVERY: u32 = 10;
/// What a service does at its start is no request: it is judged after so long at the least, ...
const START: Duration = Duration::from_secs(2);
/// ... and once it has taken no more in a window than was planned, which it does not before all is started, or after so long.
const LONGEST_START: Duration = Duration::from_secs(10);

/// All services with a planned demand.
#[derive(Debug, Default)]
pub(crate) struct Drifts {
    watched: BTreeMap<(String, Option<u32>), Watched>,
    last: Option<Instant>,
}

#[derive(Debug)]
struct Watched {
    drift: Drift,
    threads: Vec<u32>,
    age: u32,
    used: BTreeMap<u32, u64>,
    start: Option<Start>,
    since: Option<SystemTime>,
}

/// A service that is starting.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    age: Duration,
    rested: bool,
}

impl Drifts {
    /// Looks, if a window has passed.
    pub(crate) fn look(&mut self, deployment: &Deployment) {
        let now = Instant::now();
        let passed = self.last.map(|last| Duration::from_ns((now - last).as_nanos() as u64));
        if passed.is_some_and(|passed| passed < Duration::from_ns(WINDOW.ns() * 9 / 10)) {
            return;
        }
        self.last = Some(now);
        let parts: Vec<(&ServicePlan, Planned)> =
            deployment.parts.iter().filter_map(|part| Some((part, planned(&deployment.plan, part)?))).collect();
        self.watched.retain(|key, _| parts.iter().any(|(part, _)| *key == self::key(part)));
        for (part, planned) in parts {
            let key = key(part);
            if self.watched.get(&key).is_none_or(|watched| *watched.drift.planned() != planned) {
                self.watched.insert(key.clone(), Watched::new(planned)); // a new plan begins anew
            }
            let Some(watched) = self.watched.get_mut(&key) else { continue };
            watched.look(passed, || {
                let members = deployment.members(part).unwrap_or_default();
                match part.vcpu {
                    Some(_) => members,
                    None => members.into_iter().flat_map(sched::threads).collect(),
                }
            });
            watched.tell(part);
        }
    }

    /// Of one service.
    pub(crate) fn status(&self, name: &str, vcpu: Option<u32>) -> Option<DemandStatus> {
        let watched = self.watched.get(&(name.to_string(), vcpu))?;
        let unix = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Some(DemandStatus {
            planned: watched.drift.planned().share(),
            recent: watched.drift.recent(),
            drifted_since_ns: watched.since.map(unix),
            alarms: watched.drift.alarms(),
        })
    }
}

impl Start {
    /// A window later; `None`: it is over, and this window is the first that is judged.
    fn after(self, passed: Duration, rests: bool) -> Option<Start> {
        let rested = self.rested || rests;
        let goes_on = self.age < START || (!rested && self.age < LONGEST_START);
        self.age.checked_add(passed).filter(|_| goes_on).map(|age| Start { age, rested })
    }
}

impl Watched {
    fn new(planned: Planned) -> Watched {
        let drift = Drift::new(planned);
        Watched { drift, threads: Vec::new(), age: 0, used: BTreeMap::new(), start: None, since: None }
    }

    fn look(&mut self, passed: Option<Duration>, threads: impl FnOnce() -> Vec<u32>) {
        if self.age.is_multiple_of(THREADS_EVERY) {
            self.threads = threads();
        }
        self.age += 1;
        let used: BTreeMap<u32, u64> = self.threads.iter().map(|&tid| (tid, sched::cpu_time_ns(tid))).collect();
        // A thread that is new here may be old: what it had before does not count.
        let more = |(tid, now): (&u32, &u64)| now.saturating_sub(*self.used.get(tid).unwrap_or(now));
        let more: u64 = used.iter().map(more).sum();
        let started = !used.keys().any(|tid| self.used.contains_key(tid));
        self.used = used;
        if started {
            self.start = Some(Start::default());
        }
        let Some(passed) = passed else { return };
        let rests = !started && more as f64 <= self.drift.planned().share() * passed.ns() as f64;
        self.start = self.start.and_then(|start| start.after(passed, rests));
        if self.start.is_none() {
            self.drift.see(passed, Duration::from_ns(more));
        }
    }

    /// To the log, once a change.
    fn tell(&mut self, plan: &ServicePlan) {
        match (self.drift.drifted(), self.since) {
            (true, None) => {
                self.since = Some(SystemTime::now());
                tracing::warn!(
                    service = plan.name,
                    "{}",
                    words(&plan.name, self.drift.recent(), self.drift.planned().share())
                );
            }
            (false, Some(_)) => {
                self.since = None;
                tracing::info!(service = plan.name, "{}: asks for no more than was planned again", plan.name);
            }
            _ => {}
        }
    }
}

/// `drift: cache asks for 61.2 % of a core, planned were 33.0 %`.
pub(crate) fn words(name: &str, recent: f64, planned: f64) -> String {
    format!(
        "drift: {name} asks for {:.1} % of a core or more, {:.1} % were planned for: its requests take longer, or more of them come",
        recent * 100.0,
        planned * 100.0
    )
}

fn key(plan: &ServicePlan) -> (String, Option<u32>) {
    (plan.name.clone(), plan.vcpu)
}

/// What was planned for; `None` where only a supply was promised, or the tasks change with modes.
fn planned(all: &Plan, plan: &ServicePlan) -> Option<Planned> {
    if all.modes.iter().any(|modes| modes.members.iter().any(|member| member.service == plan.name)) {
        return None;
    }
    match &plan.promise {
        Promise::Percentiles { arrivals, service, .. } => Some(Planned::Random {
            rate: arrivals.rate.per_ns(),
            batch: arrivals.batch,
            times: service.bound().iter().map(|(time, p)| (time.ns() as f64, *p)).collect(),
            budget: plan.server.budget,
            period: plan.server.period,
        }),
        Promise::Supply(_) | Promise::Leftovers { .. } => None,
        _ if plan.tasks.is_empty() || plan.criticality.is_some() => None,
        _ => Some(Planned::Tasks { tasks: plan.tasks.clone(), period: plan.server.period }),
    }
}
