//! Which mechanism enforces a service, and as which server.

use crate::facts::Facts;
use crate::refusal::Refusal;
use crate::words::{reason, time};
use giusto_model::{
    Abilities, Backend, Bandwidth, Cap, Duration, Host, Interface, ManagerLatency, Periods, Reason, ServerKind,
    Service, Supply,
};

/// What ends at the tick is enforced in this many at least: below, the supply is no longer what was reserved.
const TICKS: u64 = 10;
/// Where the kernel sets no bound: beyond, a service could hold its core for seconds.
const LONGEST: Duration = Duration::from_secs(4);

/// The manager's shortest period, where its cost was measured.
const LEAST_PERIOD: Duration = Duration::from_ms(1);
/// Most of a core that the manager takes for one server: 5 %.
const DEAR: (u64, u64) = (1, 20);
/// Of a shortest period.
const STEP: Duration = Duration::from_us(100);

/// The periods and budgets that a backend can do well.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) shortest: Duration,
    /// The shortest to choose where the service asks for none.
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

/// What else to do where a backend that was named is not there.
pub const UNNAMED: &str = "or leave --backend out";

/// A backend for one server, with the reasons.
#[derive(Clone)]
pub(crate) struct Chosen {
    pub(crate) backend: Backend,
    pub(crate) kind: ServerKind,
    pub(crate) limits: Limits,
    pub(crate) reasons: Vec<Reason>,
}

/// Why a backend cannot serve a service, and what to change on the machine where that would help.
struct BackendRefusal {
    why: String,
    remedy: Option<&'static str>,
}

/// What `backend` can do on this machine.
fn limits(backend: Backend, facts: &Facts) -> Limits {
    let ticks = facts.tick.checked_mul(TICKS).unwrap_or(Duration::from_ns(u64::MAX)).max(Duration::from_ns(1));
    let &Abilities { ref periods, least: (budget, least), .. } = backend.abilities();
    let (shortest, chosen, longest, bounds) = match *periods {
        Periods::From { shortest, chosen, why } => {
            let measured = facts.manager.filter(|_| backend.abilities().own_thread).and_then(|manager| manager.cost);
            let shortest = measured.map_or(shortest, |cost| affordable(cost).min(chosen));
            (shortest, chosen, LONGEST, format!("{why}, and the longest that a server should hold a core"))
        }
        Periods::OfTheKernel => {
            let shortest = ticks.max(facts.deadline_period_min);
            let why = format!("{TICKS} ticks of {} and the kernel's least and most", facts.tick);
            (shortest, shortest, facts.deadline_period_max, why)
        }
        Periods::OfTheTick => {
            let why = format!("{TICKS} ticks of {}, and the longest that a server should hold a core", facts.tick);
            (ticks, ticks, LONGEST, why)
        }
    };
    Limits { shortest, chosen, longest, budget, bounds, least }
}

/// The shortest period for which a manager with this cost of each period takes [`DEAR`] of a core, in steps of 100 us.
fn affordable(cost: Duration) -> Duration {
    let dear = cost.ns().saturating_mul(DEAR.1).div_ceil(DEAR.0);
    Duration::from_ns(dear.div_ceil(STEP.ns()).saturating_mul(STEP.ns())).max(LEAST_PERIOD)
}

/// The shortest period of its servers.
pub(crate) fn shortest(backend: Backend, facts: &Facts) -> Duration {
    limits(backend, facts).shortest
}

/// Why some of each budget is not counted on.
const LOST: &str = "interrupts, being stopped and let go on: 24 to 48 us a period were measured, deviation 13 to 29 us";
const LOST_IN_XEN: &str =
    "interrupts, being stopped and let go on: as much as on Linux is reckoned with, as nothing was measured of Xen";

/// What deadlines have to do without (docs/decisions/0041). A budget that ends at the tick: of what the period before ran
/// over, up to a tick is paid back.
pub(crate) fn deviation(backend: Backend, facts: &Facts) -> Deviation {
    let own = deviation_without_end(backend, facts);
    if backend.abilities().at_the_tick {
        let loss = facts.loss.checked_add(facts.tick).unwrap_or(facts.tick);
        let (tick, lost) = (time(facts.tick), time(facts.loss));
        let why = format!("up to a tick of {tick} that the period before ran over, and {lost}: {LOST}");
        return Deviation { loss, why, ..own };
    }
    own
}

/// The same where the budget never runs out: then no period runs over.
pub(crate) fn deviation_without_end(backend: Backend, facts: &Facts) -> Deviation {
    match facts.manager.filter(|_| backend.abilities().own_thread) {
        Some(ManagerLatency { loss, late, periods, .. }) => Deviation {
            loss,
            latency: late,
            why: format!("what a server under the manager lost on this machine, measured over {periods} periods"),
        },
        None => {
            let why = if backend == Backend::Rtds { LOST_IN_XEN } else { LOST };
            Deviation { loss: facts.loss, latency: facts.lateness, why: why.into() }
        }
    }
}

/// What `backend` itself takes of a core.
pub(crate) fn cost(backend: Backend, facts: &Facts) -> Bandwidth {
    if backend.abilities().own_thread {
        facts.manager_cost
    } else {
        Bandwidth::ZERO
    }
}

/// What `backend` takes for each period of a server.
pub(crate) fn upkeep_of_period(backend: Backend, facts: &Facts) -> Duration {
    match backend.abilities().own_thread {
        true => facts.manager.and_then(|manager| manager.cost).unwrap_or(facts.period_cost),
        false => Duration::ZERO,
    }
}

/// What `backend` takes of a core for the periods of a server.
pub(crate) fn upkeep(backend: Backend, period: Duration, facts: &Facts) -> Bandwidth {
    Bandwidth::of(upkeep_of_period(backend, facts), period).unwrap_or(Bandwidth::ONE)
}

/// Most that `backend` may take of a core for the periods of all its servers: what reservations never get.
pub(crate) fn most_upkeep(keep_free: Bandwidth, backend: Backend, facts: &Facts) -> Bandwidth {
    cost(backend, facts).add_up(keep_free).unwrap_or(Bandwidth::ONE)
}

/// Most that reservations may take of one core, and why.
pub(crate) fn most_of_a_core(host: &Host, facts: &Facts, backend: Backend) -> (Bandwidth, &'static str) {
    capacity(host.keep_free, facts, backend)
}

/// Most that reservations may take of one core of which `keep_free` stays free, and why.
pub fn capacity(keep_free: Bandwidth, facts: &Facts, backend: Backend) -> (Bandwidth, &'static str) {
    let rest = Bandwidth::ONE.checked_sub(keep_free).and_then(|rest| rest.checked_sub(cost(backend, facts)));
    let rest = rest.unwrap_or(Bandwidth::ZERO);
    match backend.abilities().own_thread {
        true => (rest, "1 − keep-free − what the manager takes"),
        false if facts.deadline_bandwidth_cap < rest => {
            (facts.deadline_bandwidth_cap, "what the kernel admits of a core")
        }
        false => (rest, "1 − keep-free"),
    }
}

/// The backend for a server of `service` that is to keep what is wanted.
///
/// The first of the promise's order that the machine has and that can do what was asked; where the machine has none, the
/// first that can: then this is a plan for another machine. Errors: no backend can, or not the one that is insisted on.
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
                None if backend == Backend::Rtds => {
                    asked(service, why, "ask for less, or place it on a host that runs Linux")
                }
                None => asked(service, why, "leave --backend out to let Giusto choose"),
            }
        })?;
        return match facts.lacks(backend) {
            Some(why) => Err(machine(service, format!("this machine has no backend {backend}: {why}"), UNNAMED)),
            None if backend == Backend::Rtds => Ok(chosen(backend, kind, String::new())),
            None => Ok(chosen(backend, kind, "; insisted on".into())),
        };
    }
    let place = |backend: &Backend| backend.abilities().order[usize::from(shares)];
    let mut order: Vec<Backend> = Backend::ALL.into_iter().filter(|backend| place(backend).is_some()).collect();
    order.sort_by_key(place);
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
fn able(backend: Backend, service: &Service, wanted: Wanted, facts: &Facts) -> Result<ServerKind, BackendRefusal> {
    let no = |why: String| Err(BackendRefusal { why, remedy: None });
    let can = backend.abilities();
    let kind = match service.server {
        _ if can.kinds.is_empty() => return no("it is a cap, never a guarantee".into()),
        _ if service.criticality.is_some() && !can.criticality => {
            return no("the kernel knows no criticality; the mixed order, in which low ones give way to high ones, is the manager's".into());
        }
        _ if service.copies.is_some() && !can.single_threads => {
            return no("it cannot serve single threads, and each of the copies is one".into());
        }
        _ if matches!(wanted, Wanted::Percentiles) && !can.kinds.contains(&ServerKind::Deferrable) => {
            return no("it is a constant_bandwidth server, and percentiles are known for deferrable ones".into());
        }
        Some(kind) if !can.kinds.contains(&kind) => {
            return no(format!("it is a {} server and cannot be {kind}", can.kinds[0]));
        }
        _ if service.cap == Cap::Soft && !can.soft_caps => {
            return no("its cap is hard, and a soft one was asked for".into());
        }
        Some(kind) => kind,
        None if matches!(wanted, Wanted::WholeCore | Wanted::Percentiles)
            && can.kinds.contains(&ServerKind::Deferrable) =>
        {
            ServerKind::Deferrable
        }
        None if can.kinds.contains(&ServerKind::ConstantBandwidth) => ServerKind::ConstantBandwidth,
        None => can.kinds[0],
    };
    let limits = limits(backend, facts);
    if limits.shortest > limits.longest {
        let why = format!(
            "it allows periods up to {}, and this kernel (tick {}) enforces only those from {} on",
            limits.longest, facts.tick, limits.shortest
        );
        return Err(BackendRefusal { why, remedy: Some("raise /proc/sys/kernel/sched_deadline_period_max_us") });
    }
    let Wanted::Supply(Interface { budget, period }) = wanted else { return Ok(kind) };
    if let Some(odd) = [budget, period].into_iter().find(|time| !time.ns().is_multiple_of(can.grain.ns())) {
        return no(format!("it keeps whole multiples of {}, and {} was promised", can.grain, time(odd)));
    }
    if period < limits.shortest || period > limits.longest {
        let what = if can.at_the_tick { "is enforced at the kernel's tick and keeps" } else { "keeps" };
        let (shortest, longest) = (time(limits.shortest), time(limits.longest));
        return no(format!("it {what} periods from {shortest} to {longest}, and {} was promised", time(period)));
    }
    if budget < limits.budget {
        return no(format!("{} is {}, and {} was promised", time(limits.budget), limits.least, time(budget)));
    }
    Ok(kind)
}

/// Which kinds keep what is wanted: W(P) is proven for some, the law of response times known for some, and deadlines need a
/// supply at any instant at which work may come.
fn sound_kinds(service: &Service, wanted: Wanted) -> Result<(), Refusal> {
    let Some(kind) = service.server else { return Ok(()) };
    let facts = kind.facts();
    match (wanted, facts.supply) {
        (Wanted::WholeCore, _) if !facts.whole_core => {
            let why = format!("as-if-alone on a {kind} server is not built yet: W(P) is not proven for it");
            Err(asked(service, why, "expected server: constant_bandwidth or deferrable, or leave it out"))
        }
        (Wanted::Percentiles, _) if !facts.response_times => {
            let why = format!("percentiles on a {kind} server are not built yet: their law is not known here");
            Err(asked(service, why, "expected server: deferrable, or leave it out"))
        }
        (Wanted::Deadlines, Supply::Less(less)) => {
            let why = format!("a {kind} server cannot keep deadlines: {less}");
            Err(asked(
                service,
                why,
                "expected server: constant_bandwidth, deferrable or one of the periodic ones, or leave it out",
            ))
        }
        (Wanted::WholeCore | Wanted::Percentiles | Wanted::Deadlines | Wanted::Supply(_), _) => Ok(()),
    }
}

fn asked(service: &Service, why: String, instead: &str) -> Refusal {
    Refusal::Asked { service: service.name.clone(), why, instead: instead.into() }
}

fn machine(service: &Service, why: String, remedy: &str) -> Refusal {
    Refusal::Machine { lacks: format!("service '{}': {why}", service.name), remedy: remedy.into() }
}

fn why_backend(backend: Backend, wanted: Wanted, facts: &Facts) -> String {
    let Abilities { why, at_the_tick, .. } = backend.abilities();
    let among = match wanted {
        Wanted::Deadlines if *at_the_tick => "alone on its core, as others would run over by a tick",
        _ => "EDF among the reservations of its core",
    };
    let why = why[usize::from(!matches!(wanted, Wanted::WholeCore))];
    why.replace("{tick}", &facts.tick.to_string()).replace("{among}", among)
}

fn why_kind(kind: ServerKind, from_site: bool, wanted: Wanted) -> String {
    let from = if from_site { "from the site; " } else { "" };
    let [whole_core, deadlines, others] = kind.facts().why;
    let what = match wanted {
        Wanted::WholeCore => whole_core,
        Wanted::Deadlines => deadlines,
        Wanted::Percentiles | Wanted::Supply(_) => others,
    };
    format!("{from}{what}")
}
