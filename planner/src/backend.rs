//! Which mechanism enforces a service, and as which server.

use crate::size::reason;
use crate::words::time;
use crate::{Facts, Refusal};
use giusto_model::{Backend, Bandwidth, Cap, Duration, Host, Interface, Reason, ServerKind, Service};

/// SCHED_DEADLINE and real-time groups are enforced at the tick: below 10 of them the supply is no longer what was reserved.
const TICKS: u64 = 10;
/// Shortest period of the manager. It keeps budgets to about 0.1 ms, and took 2.5 % of a core at this period.
const MANAGER_SHORTEST: Duration = Duration::from_ms(5);
/// The shortest that the planner chooses by itself: there the manager stays below its 2 %.
const MANAGER_CHOSEN: Duration = Duration::from_ms(10);
/// Where the kernel sets no bound: beyond, a service could hold its core for seconds.
const LONGEST: Duration = Duration::from_secs(4);

/// The periods and budgets that a backend can do well.
pub(crate) struct Limits {
    pub(crate) shortest: Duration,
    /// The shortest to choose where nobody asked for one.
    pub(crate) chosen: Duration,
    pub(crate) longest: Duration,
    pub(crate) budget: Duration,
    /// Where shortest and longest come from.
    pub(crate) bounds: String,
    /// Where the least budget comes from.
    pub(crate) least: &'static str,
}

/// What a server is to keep.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// The response times of a whole core.
    WholeCore,
    /// This much processor time in every period.
    Supply(Interface),
    /// Every deadline; the budget follows from what the backend can do.
    Deadlines,
    /// Percentiles of response time; budget and period follow likewise.
    Percentiles,
}

/// How far what a program gets may lie below what its server promises.
#[derive(Clone)]
pub(crate) struct Deviation {
    /// Of each budget.
    pub(crate) loss: Duration,
    /// Once in any window.
    pub(crate) latency: Duration,
    /// Where the loss comes from.
    pub(crate) why: String,
}

/// A backend for one server, with the reasons.
pub(crate) struct Chosen {
    pub(crate) backend: Backend,
    pub(crate) kind: ServerKind,
    pub(crate) limits: Limits,
    pub(crate) reasons: Vec<Reason>,
}

/// Why a backend cannot serve a service, and what to change on the machine where that would help.
struct Unable {
    why: String,
    remedy: Option<&'static str>,
}

/// What `backend` can do on this machine.
fn limits(backend: Backend, facts: &Facts) -> Limits {
    let ticks = facts.tick.checked_mul(TICKS).unwrap_or(Duration::from_ns(u64::MAX)).max(Duration::from_ns(1));
    match backend {
        Backend::Manager => Limits {
            shortest: MANAGER_SHORTEST,
            chosen: MANAGER_CHOSEN,
            longest: LONGEST,
            budget: Duration::from_us(100),
            bounds: "where the manager takes less than 2 % of a core, and what nobody should hold a core for".into(),
            least: "the least budget that the manager keeps",
        },
        Backend::Deadline => {
            let shortest = ticks.max(facts.deadline_period_min);
            Limits {
                shortest,
                chosen: shortest,
                longest: facts.deadline_period_max,
                budget: Duration::from_ns(1024), // DL_SCALE
                bounds: format!("{TICKS} ticks of {} and the kernel's least and most", facts.tick),
                least: "the least runtime that the kernel accepts",
            }
        }
        Backend::RtGroup | Backend::Quota => Limits {
            shortest: ticks,
            chosen: ticks,
            longest: LONGEST,
            budget: Duration::from_us(1),
            bounds: format!("{TICKS} ticks of {}, and what nobody should hold a core for", facts.tick),
            least: "the least runtime that the kernel accepts",
        },
    }
}

/// The shortest period of its servers.
pub(crate) fn shortest(backend: Backend, facts: &Facts) -> Duration {
    limits(backend, facts).shortest
}

/// Whether budgets end at the kernel's tick only: a server then runs over by up to one, and pays it back.
pub(crate) fn at_the_tick(backend: Backend) -> bool {
    backend != Backend::Manager
}

/// What deadlines have to do without (docs/decisions/0009). A budget that ends at the tick: of what the period before ran
/// over, up to a tick is paid back.
pub(crate) fn deviation(backend: Backend, facts: &Facts) -> Deviation {
    let measured = "interrupts, being stopped and let go on: 24 to 48 us a period were measured, deviation 13 to 29 us";
    if at_the_tick(backend) {
        let loss = facts.loss.checked_add(facts.tick).unwrap_or(facts.tick);
        let why = format!(
            "up to a tick of {} that the period before ran over, and {}: {measured}",
            time(facts.tick),
            time(facts.loss)
        );
        return Deviation { loss, latency: facts.lateness, why };
    }
    Deviation { loss: facts.loss, latency: facts.lateness, why: measured.into() }
}

/// What `backend` itself takes of a core.
pub(crate) fn cost(backend: Backend, facts: &Facts) -> Bandwidth {
    if backend == Backend::Manager {
        facts.manager_cost
    } else {
        Bandwidth::ZERO
    }
}

/// Most that reservations may take of one core, and why.
pub(crate) fn most_of_a_core(host: &Host, facts: &Facts, backend: Backend) -> (Bandwidth, &'static str) {
    capacity(host.keep_free, facts, backend)
}

/// Most that reservations may take of one core of which `keep_free` stays free, and why.
pub fn capacity(keep_free: Bandwidth, facts: &Facts, backend: Backend) -> (Bandwidth, &'static str) {
    let rest = Bandwidth::ONE.checked_sub(keep_free).and_then(|rest| rest.checked_sub(cost(backend, facts)));
    let rest = rest.unwrap_or(Bandwidth::ZERO);
    match backend {
        Backend::Manager => (rest, "1 − keep-free − what the manager takes"),
        _ if facts.deadline_bandwidth_cap < rest => (facts.deadline_bandwidth_cap, "what the kernel admits of a core"),
        _ => (rest, "1 − keep-free"),
    }
}

/// The backend for a server of `service` that is to keep what is wanted.
///
/// The first of the promise's order that the machine has and that can do what was asked; where the machine has none, the
/// first that can: then this is a plan for another machine. Errors: nobody can, or not the one that is insisted on.
pub(crate) fn choose(service: &Service, wanted: Wanted, facts: &Facts) -> Result<Chosen, Refusal> {
    sound_kinds(service, wanted)?;
    let shares = !matches!(wanted, Wanted::WholeCore);
    let chosen = |backend, kind, note: String| {
        let mut whys = (why_backend(backend, wanted, facts), why_kind(kind, service.server.is_some(), wanted));
        if service.criticality.is_some() {
            whys.0 =
                "Giusto's manager, budgets kept to about 0.1 ms; the mixed order among the servers of its core".into();
            whys.1 =
                "a wake-up after idling begins a new period: jobs a period apart, for which EDF-VD is proven".into();
        }
        let mut reasons = vec![reason("backend", backend, format!("{}{note}", whys.0)), reason("server", kind, whys.1)];
        if service.criticality.is_some() {
            let why = "time that is left over goes to high ones that have work, then to low ones; the mixed order of the manager";
            reasons.push(reason("cap", "soft", why));
        } else if shares || service.cap == Cap::Soft {
            reasons.push(match service.cap {
                Cap::Hard => reason("cap", "hard", "with its budget used up it does not run, even on an idle core"),
                Cap::Soft => {
                    reason("cap", "soft", "with its budget used up it goes on in the time left over, as a leftover")
                }
            });
        }
        Chosen { backend, kind, limits: limits(backend, facts), reasons }
    };
    if let Some(backend) = facts.insist {
        let kind = able(backend, service, wanted, facts).map_err(|unable| {
            let why = format!("backend {backend} cannot serve it: {}", unable.why);
            match unable.remedy {
                Some(remedy) => machine(service, why, remedy),
                None => asked(service, why, "leave --backend out to let Giusto choose"),
            }
        })?;
        return match facts.lacks(backend) {
            Some(why) => {
                Err(machine(service, format!("this machine has no backend {backend}: {why}"), "or leave --backend out"))
            }
            None => Ok(chosen(backend, kind, "; insisted on".into())),
        };
    }
    let order = match wanted {
        Wanted::WholeCore => [Backend::Deadline, Backend::Manager, Backend::RtGroup],
        Wanted::Supply(_) | Wanted::Deadlines | Wanted::Percentiles => {
            [Backend::Manager, Backend::Deadline, Backend::RtGroup]
        }
    };
    let elsewhere = order.iter().all(|backend| facts.lacks(*backend).is_some());
    let mut passed = Vec::new();
    for backend in order {
        let lack = facts.lacks(backend);
        match able(backend, service, wanted, facts) {
            Err(unable) => passed.push(format!("not {backend}: {}", unable.why)),
            Ok(_) if lack.is_some() && !elsewhere => {
                passed.push(format!("not {backend}: {}", lack.unwrap_or_default()))
            }
            Ok(kind) => {
                let lack = lack.map(|why| format!("this machine cannot now, and 'giusto run' would refuse: {why}"));
                let notes: String = passed.iter().chain(&lack).map(|note| format!("; {note}")).collect();
                return Ok(chosen(backend, kind, notes));
            }
        }
    }
    let remedy = "change what it is promised, or get what is missing";
    Err(machine(service, format!("nothing here can enforce it: {}", passed.join("; ")), remedy))
}

/// The kind of server that `backend` would be for `service`.
fn able(backend: Backend, service: &Service, wanted: Wanted, facts: &Facts) -> Result<ServerKind, Unable> {
    let no = |why: String| Err(Unable { why, remedy: None });
    let kind = match (backend, service.server) {
        (Backend::Quota, _) => return no("it is a cap, never a guarantee".into()),
        (Backend::Deadline | Backend::RtGroup, _) if service.criticality.is_some() => {
            return no("the kernel knows no criticality; the mixed order, in which low ones give way to high ones, is the manager's".into());
        }
        (Backend::Deadline | Backend::RtGroup, _) if matches!(wanted, Wanted::Percentiles) => {
            return no("it is a constant_bandwidth server, and percentiles are known for deferrable ones".into());
        }
        (Backend::Deadline | Backend::RtGroup, Some(kind)) if kind != ServerKind::ConstantBandwidth => {
            return no(format!("it is a constant_bandwidth server and cannot be {kind}"));
        }
        (Backend::Deadline | Backend::RtGroup, _) if service.cap == Cap::Soft => {
            return no("its cap is hard, and a soft one was asked for".into());
        }
        (Backend::Manager, None) if matches!(wanted, Wanted::WholeCore | Wanted::Percentiles) => ServerKind::Deferrable,
        (_, kind) => kind.unwrap_or(ServerKind::ConstantBandwidth),
    };
    let limits = limits(backend, facts);
    if limits.shortest > limits.longest {
        let why = format!(
            "it allows periods up to {}, and this kernel (tick {}) enforces only those from {} on",
            limits.longest, facts.tick, limits.shortest
        );
        return Err(Unable { why, remedy: Some("raise /proc/sys/kernel/sched_deadline_period_max_us") });
    }
    let Wanted::Supply(Interface { budget, period }) = wanted else { return Ok(kind) };
    if period < limits.shortest || period > limits.longest {
        let what = if backend == Backend::Manager { "keeps" } else { "is enforced at the kernel's tick and keeps" };
        let (shortest, longest) = (time(limits.shortest), time(limits.longest));
        return no(format!("it {what} periods from {shortest} to {longest}, and {} was promised", time(period)));
    }
    if budget < limits.budget {
        return no(format!("{} is {}, and {} was promised", time(limits.budget), limits.least, time(budget)));
    }
    Ok(kind)
}

/// Which kinds keep what is wanted: W(P) is proven for two, the law of response times known for one, and deadlines need a supply
/// at any instant at which work may come.
fn sound_kinds(service: &Service, wanted: Wanted) -> Result<(), Refusal> {
    use ServerKind::{ConstantBandwidth, Deferrable, Polling, Sporadic};
    match (service.server, wanted) {
        (Some(kind), Wanted::WholeCore) if ![ConstantBandwidth, Deferrable].contains(&kind) => {
            let why = format!("as-if-alone on a {kind} server is not built yet: W(P) is not proven for it");
            Err(asked(service, why, "expected server: constant_bandwidth or deferrable, or leave it out"))
        }
        (Some(kind), Wanted::Percentiles) if kind != Deferrable => {
            let why = format!("percentiles on a {kind} server are not built yet: their law is not known here");
            Err(asked(service, why, "expected server: deferrable, or leave it out"))
        }
        (Some(kind @ (Polling | Sporadic)), Wanted::Deadlines) => {
            let why = match kind {
                Polling => {
                    "it loses its budget when it is idle, so that work which comes then waits for the next period"
                }
                _ => "it remembers eight wake-ups a period, and what more of them used comes back late",
            };
            let why = format!("a {kind} server cannot keep deadlines: {why}");
            Err(asked(
                service,
                why,
                "expected server: constant_bandwidth, deferrable or one of the periodic ones, or leave it out",
            ))
        }
        _ => Ok(()),
    }
}

fn asked(service: &Service, why: String, instead: &str) -> Refusal {
    Refusal::Asked { service: service.name.clone(), why, instead: instead.into() }
}

fn machine(service: &Service, why: String, remedy: &str) -> Refusal {
    Refusal::Machine { lacks: format!("service '{}': {why}", service.name), remedy: remedy.into() }
}

fn why_backend(backend: Backend, wanted: Wanted, facts: &Facts) -> String {
    let deadlines = matches!(wanted, Wanted::Deadlines);
    match (backend, !matches!(wanted, Wanted::WholeCore)) {
        (Backend::Deadline, false) => {
            "SCHED_DEADLINE, hard constant bandwidth, pinned: the highest priority on its core, as Theorem 1 asks".into()
        }
        (Backend::Deadline, true) => format!(
            "SCHED_DEADLINE, pinned: {}, enforced at the tick of {}; it serves one thread, the one that does the work",
            if deadlines { "alone on its core, as others would run over by a tick" } else { "EDF among the reservations of its core" },
            facts.tick
        ),
        (Backend::Manager, false) => {
            "Giusto's manager, budgets kept to about 0.1 ms; alone on its core, hence the highest priority, as Theorem 1 asks".into()
        }
        (Backend::Manager, true) => {
            "Giusto's manager, budgets kept to about 0.1 ms; EDF among the servers of its core".into()
        }
        (_, false) => "a real-time group, alone on its core: the highest priority, as Theorem 1 asks".into(),
        (_, true) => format!(
            "a real-time group, enforced at the tick of {}; alone on its core, as groups have fixed priorities",
            facts.tick
        ),
    }
}

fn why_kind(kind: ServerKind, from_site: bool, wanted: Wanted) -> String {
    let from = if from_site { "from the site; " } else { "" };
    let supply = !matches!(wanted, Wanted::WholeCore);
    let what = match kind {
        ServerKind::ConstantBandwidth if matches!(wanted, Wanted::Deadlines) => {
            "work that comes finds a new period, or one in which no more is used up than went by: never less than the periodic \
             resource supplies; sound under EDF with any mix of periods, as long as Σ B/P fits"
        }
        ServerKind::ConstantBandwidth if supply => {
            "a wake-up after idling begins a new period: sound under EDF with any mix of periods, as long as Σ B/P fits"
        }
        ServerKind::ConstantBandwidth => "a wake-up after idling begins a new period: Theorem 1 holds for it too",
        ServerKind::Deferrable if supply => {
            "keeps its budget while idle, and so can take 2 · budget in a row: sound under EDF where no window can ask for \
             more than its length"
        }
        ServerKind::Deferrable => "full budget on a fixed grid, kept while idle: Theorem 1",
        ServerKind::PeriodicStrict | ServerKind::PeriodicConserving | ServerKind::PeriodicReclaiming => {
            "on a fixed grid; idle, its budget burns: to the others it is a periodic task"
        }
        ServerKind::Polling => {
            "on a fixed grid; idle, it loses its budget: its supply counts from a replenishment at which it has work"
        }
        ServerKind::Sporadic => "what is used returns one period later; late for a service with many short wake-ups a period",
        ServerKind::Unlimited => "no budget",
    };
    format!("{from}{what}")
}
