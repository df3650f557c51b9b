//! What the requests and jobs of services take while they run, as the kernel tells it ([`giusto_measure::passive`]), beside what
//! was promised.

use crate::choice::{choose, is_open, Choice, Seen};
use crate::late::LateJob;
use crate::reported::Reporter;
use crate::source::{Counted, Source};
use crate::watched::{longest_ns, Watched};
use crate::{Deployment, JobSource, ObservedBy, ObservedStatus, ResponseStatus, Running};
use giusto_measure::passive::{self, Jobs, Requests, WakeUps};
use giusto_model::{Observe, Promise, ServicePlan};
use giusto_verify::Circumstances;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often the kernel's counts are read.
const EVERY: Duration = Duration::from_secs(1);
/// Looks at where a service listens: each of the first ones, as it may have to begin; then one of so many.
const LOOKS: u64 = 10;

/// All services that are observed.
#[derive(Default)]
pub(crate) struct Responses {
    requests: Source<Requests>,
    wake_ups: Source<WakeUps>,
    reporters: BTreeMap<String, Reporter>,
    services: BTreeMap<String, Watched>,
    chosen: BTreeMap<String, Chosen>,
    last: Option<Instant>,
    begun: Option<Instant>,
    /// What a hypervisor had taken of the machine, in ns.
    stolen: Option<u64>,
    /// Late jobs that were not taken yet.
    late: Vec<LateJob>,
}

/// Late jobs, or messages, that wait to be taken.
pub(crate) const LATE: usize = 10_000;

/// What is observed of a service, and how often that was looked at.
struct Chosen {
    choice: Choice,
    looks: u64,
    seen: Seen,
}

/// A service that is there now.
struct Service<'a> {
    plan: Option<&'a ServicePlan>,
    running: &'a Running,
    processes: BTreeSet<u32>,
}

impl std::fmt::Debug for Responses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responses").field("services", &self.services.keys()).finish_non_exhaustive()
    }
}

impl Responses {
    /// Reads the counts, if it is time.
    pub(crate) fn look(&mut self, deployment: &Deployment) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < EVERY) {
            return;
        }
        self.last = Some(now);
        let services: BTreeMap<&str, Service> = deployment
            .all()
            .filter(|(_, running)| !running.is_virtual() || is_reported(deployment, &running.name))
            .map(|(plan, running)| {
                let processes = running.processes().into_iter().collect();
                (running.name.as_str(), Service { plan, running, processes })
            })
            .collect();
        self.choose(deployment, &services);
        let all = &self.chosen;
        let by = |by: ObservedBy| {
            let chosen = move |name: &str| all.get(name).is_some_and(|one| one.choice.by == by);
            services.iter().filter(move |(name, _)| chosen(name)).map(|(name, one)| (*name, one.processes.clone()))
        };
        let open = services.iter().filter(|(name, _)| {
            let (asked, promise) = asked(deployment, name);
            is_open(asked, promise)
        });
        let requests = by(ObservedBy::Requests).chain(open.map(|(name, one)| (*name, one.processes.clone()))).collect();
        let wake_ups = by(ObservedBy::WakeUps).collect();
        self.requests.watch(&requests);
        self.wake_ups.watch(&wake_ups);
        self.hear(deployment, &services);
        let stolen = giusto_measure::stolen().unwrap_or(0);
        let stolen_ns = stolen.saturating_sub(self.stolen.replace(stolen).unwrap_or(stolen));
        let second = (now - *self.begun.get_or_insert(now)).as_secs();
        let counted = |name: &str| match self.chosen.get(name)?.choice.by {
            by @ ObservedBy::Requests => Some((by, self.requests.responses(name)?)),
            by @ ObservedBy::WakeUps => Some((by, self.wake_ups.responses(name)?)),
            by @ ObservedBy::Reported => {
                let now = self.reporters.get(name)?.responses();
                Some((by, Counted { before: passive::Responses::default(), now }))
            }
            ObservedBy::Supply | ObservedBy::None => None,
        };
        let counted: BTreeMap<&str, (ObservedBy, Counted)> =
            services.keys().filter_map(|name| Some((*name, counted(name)?))).collect();
        self.services.retain(|name, watched| counted.get(name.as_str()).is_some_and(|(by, _)| *by == watched.by));
        let mut late = self.late_jobs(deployment);
        for (name, (by, Counted { before, now })) in counted {
            let Service { plan, running, .. } = services[name];
            let watched = self.services.entry(name.into()).or_insert_with(|| Watched::new(by, before));
            let here = Circumstances { stolen_ns, ..watched.circumstances(deployment, plan, running) };
            let told = watched.look(second, (now, late.remove(name).unwrap_or_default()), plan, here);
            self.late.extend(told.into_iter().take(LATE.saturating_sub(self.late.len())));
        }
    }

    /// Jobs that were late since the last look, by service.
    fn late_jobs(&self, deployment: &Deployment) -> BTreeMap<String, Vec<passive::Job>> {
        let mut late: BTreeMap<String, Vec<passive::Job>> = BTreeMap::new();
        for source in self.sources(deployment) {
            let promised = source.services.iter().filter_map(|(number, (_, within))| Some((*number, (*within)?)));
            if let Err(why) = source.jobs.promise(&promised.collect()) {
                tracing::warn!("{why}");
            }
            source.jobs.take_late(|job| {
                if let Some((name, _)) = source.services.get(&job.service) {
                    late.entry(name.clone()).or_default().push(job);
                }
            });
        }
        late
    }

    /// Late jobs since this was asked last, as far as their cause is known: it is a second later.
    pub(crate) fn take_late(&mut self) -> Vec<LateJob> {
        std::mem::take(&mut self.late)
    }

    /// Decides what is observed of each service.
    fn choose(&mut self, deployment: &Deployment, services: &BTreeMap<&str, Service>) {
        self.chosen.retain(|name, _| services.contains_key(name.as_str()));
        for (&name, service) in services {
            let (asked, promise) = asked(deployment, name);
            let new = || Chosen { choice: choose(asked, promise, &Seen::default()), looks: 0, seen: Seen::default() };
            let one = self.chosen.entry(name.into()).or_insert_with(new);
            let is_told = one.seen.listens.is_some() || !is_open(asked, promise);
            if !is_told && (one.looks < LOOKS || one.looks.is_multiple_of(LOOKS)) {
                let addresses = service.processes.iter().flat_map(|&process| giusto_measure::listening(process));
                one.seen.listens = addresses.min().map(|address| address.to_string());
            }
            one.looks += 1;
            let responses = self.requests.responses(name);
            one.seen.is_asked |= responses.is_some_and(|counted| counted.is_asked());
            one.choice = choose(asked, promise, &one.seen);
        }
    }

    /// Begins to take what services report, and ends what none does any more.
    fn hear(&mut self, deployment: &Deployment, services: &BTreeMap<&str, Service>) {
        self.reporters.retain(|name, reporter| {
            let asked = services.contains_key(name.as_str()).then(|| asked(deployment, name).0).flatten();
            let is_asked = matches!(asked, Some(Observe::Reported(reported)) if *reported == reporter.reported);
            is_asked && !reporter.has_failed()
        });
        for &name in services.keys() {
            if let (Some(Observe::Reported(reported)), _) = asked(deployment, name) {
                self.reporters.entry(name.into()).or_insert_with(|| {
                    self.services.remove(name); // it counts anew
                    Reporter::start(reported)
                });
            }
        }
    }

    /// Of one service; `None` where nothing was seen of it.
    pub(crate) fn status(&self, name: &str) -> Option<ResponseStatus> {
        self.services.get(name).and_then(|watched| watched.status.clone())
    }

    /// What is observed of it, and why.
    pub(crate) fn observed(&self, name: &str) -> Option<ObservedStatus> {
        let Choice { by, why } = &self.chosen.get(name)?.choice;
        Some(ObservedStatus { by: *by, why: why.clone() })
    }

    /// What tells jobs one by one, of the services that are observed so, and what was promised of them.
    pub(crate) fn sources(&self, deployment: &Deployment) -> Vec<JobSource> {
        let source = |by: ObservedBy, told: Option<(Jobs, BTreeMap<usize, &str>)>| {
            let (jobs, places) = told?;
            let chosen =
                places.into_iter().filter(|(_, name)| self.chosen.get(*name).is_some_and(|one| one.choice.by == by));
            let promised = |name: &str| {
                let plan = deployment.plan.services.iter().find(|one| one.name == name);
                (name.to_string(), longest_ns(plan, by))
            };
            Some(JobSource { jobs, by, services: chosen.map(|(number, name)| (number, promised(name))).collect() })
        };
        let requests = source(ObservedBy::Requests, self.requests.jobs());
        requests.into_iter().chain(source(ObservedBy::WakeUps, self.wake_ups.jobs())).collect()
    }

    /// What cannot be observed, and what is told nevertheless.
    pub(crate) fn notes(&self) -> Vec<String> {
        let lacking = |what: &str, why: Option<&str>| {
            why.map(|why| format!("{what} are not observed: {why}; budgets and what servers supply are told as ever"))
        };
        let lacks = [lacking("requests", self.requests.lacks()), lacking("wake-ups", self.wake_ups.lacks())];
        let unwatched = self.requests.unwatched + self.wake_ups.unwatched;
        let more = (unwatched > 0).then(|| {
            format!(
                "{unwatched} services that were added are not observed: there is no place; start 'giusto run' again"
            )
        });
        let of_one = |(name, watched): (&String, &Watched)| unseen(name, watched.by, watched.status.as_ref()?);
        let unseen = self.services.iter().filter_map(of_one);
        let wrong = |(name, reporter): (&String, &Reporter)| Some(format!("{name}: {}", reporter.problem()?));
        let reported = self.reporters.iter().filter_map(wrong);
        lacks.into_iter().flatten().chain(unseen).chain(reported).chain(more).collect()
    }
}

/// What the site says is to be observed of a service, and its promise; `None`: it gets what is left.
fn asked<'a>(deployment: &'a Deployment, name: &str) -> (Option<&'a Observe>, Option<&'a Promise>) {
    let plan = &deployment.plan;
    match plan.services.iter().find(|one| one.name == name) {
        Some(one) => (one.observe.as_ref(), Some(&one.promise)),
        None => (plan.leftovers.iter().find(|one| one.name == name).and_then(|one| one.observe.as_ref()), None),
    }
}

fn is_reported(deployment: &Deployment, name: &str) -> bool {
    matches!(asked(deployment, name), (Some(Observe::Reported(_)), _))
}

/// What is not seen of a service; what is wrong with reports they say themselves.
fn unseen(name: &str, by: ObservedBy, status: &ResponseStatus) -> Option<String> {
    if by == ObservedBy::WakeUps {
        let lost = status.unseen;
        return (lost > 0)
            .then(|| format!("{name}: {lost} threads were born and are not observed: there are too many"));
    }
    let count = |protocol: &str| status.connections.get(protocol).copied().unwrap_or(0);
    let (tls, unknown) = (count("tls"), count("unknown"));
    (tls + unknown > 0).then(|| {
        format!(
            "{name}: nothing is seen of the requests over {tls} encrypted connections and {unknown} of unknown protocols; seen \
             are Redis, memcached's text, HTTP/1 and lines"
        )
    })
}
