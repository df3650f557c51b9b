//! What each promise claims of an entry of a plan. This is their list.

use super::broken::Broken;
use super::demand::{self, Counted};
use super::{aligned, alone, percentiles, wake_up};
use giusto_model::{Certificate, Duration, Promise, Renewal, RestsOn, ServerKind, ServicePlan, Supply};

/// What was proven of an entry.
pub(super) struct Proven {
    /// Comparisons of demand and supply.
    pub(super) compared: usize,
    /// What the server may lack of each budget.
    pub(super) loss: Duration,
    /// How late its supply may come, once in any window.
    pub(super) latency: Duration,
    /// How closely percentiles were established.
    pub(super) within: Option<Duration>,
}

/// What a promise claims.
pub(super) struct Claims {
    pub(super) name: &'static str,
    /// How many entries a service has; `None`: it reserves nothing.
    pub(super) entries: Option<usize>,
    /// Whether the proof of such an entry needs a core without others.
    pub(super) alone: fn(&ServicePlan) -> bool,
    /// Proves an entry by its certificate, which counts on so much of its budget.
    pub(super) check: fn(&ServicePlan, Duration) -> Result<Proven, Broken>,
}

pub(super) fn claims(promise: &Promise) -> Claims {
    match promise {
        Promise::AsIfAlone => Claims { name: "as-if-alone", entries: Some(1), alone: |_| true, check: as_if_alone },
        Promise::EveryDeadline { vcpus, .. } => Claims {
            name: "every-deadline",
            entries: Some(*vcpus as usize),
            // Budgets that end at the tick: each of the others may run over by one.
            alone: |entry| {
                entry.backend.abilities().at_the_tick || matches!(rests_on(entry), RestsOn::WholeCore { .. })
            },
            check: every_deadline,
        },
        Promise::Percentiles { .. } => Claims {
            name: "percentiles",
            entries: Some(1),
            // Its response times are those of the highest priority.
            alone: |entry| matches!(entry.certificate, Certificate::Percentiles { wait, .. } if wait.is_zero()),
            check: of_percentiles,
        },
        Promise::Stage { .. } => Claims { name: "stage", entries: Some(1), alone: |_| false, check: stage },
        Promise::Supply(interfaces) => {
            Claims { name: "supply", entries: Some(interfaces.len()), alone: |_| false, check: supply }
        }
        Promise::Leftovers { .. } => {
            Claims { name: "leftovers", entries: None, alone: |_| false, check: |_, _| Err(of_another()) }
        }
    }
}

fn of_another() -> Broken {
    Broken::new("a certificate of its promise", "of the same name", "of another")
}

fn every_deadline(entry: &ServicePlan, counted: Duration) -> Result<Proven, Broken> {
    let (
        Promise::EveryDeadline { scheduler, .. },
        Certificate::EveryDeadline { budget, latency, points, until, rests_on },
    ) = (&entry.promise, &entry.certificate)
    else {
        return Err(of_another());
    };
    let server = entry.server;
    let (compared, loss) = match rests_on {
        RestsOn::PeriodicResource => {
            supplies_at_any_time(server.kind)?;
            let supply = Counted::new(server, *budget, *latency);
            (demand::check(&entry.tasks, *scheduler, &supply, points, *until)?, lost(entry, counted))
        }
        RestsOn::AlignedReleases => {
            begins_with_work(entry)?;
            let supply = aligned::supply(&entry.tasks, server, *budget, *latency)?;
            (demand::check(&entry.tasks, *scheduler, &supply, points, *until)?, lost(entry, counted))
        }
        RestsOn::WakeUp => {
            begins_with_work(entry)?;
            (wake_up::check(&entry.tasks, server, *budget, *latency, points, *until)?, lost(entry, counted))
        }
        RestsOn::WholeCore { loss } => {
            if !server.kind.facts().whole_core {
                let what = "a server for which Theorem 1 holds";
                return Err(Broken::new(what, "constant_bandwidth or deferrable", server.kind));
            }
            let all = server.period.checked_sub(*loss).unwrap_or(Duration::ZERO);
            let supply = Counted::new(server, all, *latency);
            let compared = demand::check(&entry.tasks, *scheduler, &supply, points, *until)?;
            (compared + alone::never_out(&entry.tasks, server, *budget, *loss, *latency)?, *loss)
        }
    };
    Ok(Proven { compared, loss, latency: *latency, within: None })
}

fn begins_with_work(entry: &ServicePlan) -> Result<(), Broken> {
    match entry.server.kind.renewal() == Renewal::Steady && entry.backend.abilities().at_wake_up {
        true => Ok(()),
        false => {
            let what = format!("{} of {}", entry.server.kind, entry.backend);
            Err(Broken::new("a server whose period begins when work comes", "constant_bandwidth", what))
        }
    }
}

fn rests_on(entry: &ServicePlan) -> RestsOn {
    match entry.certificate {
        Certificate::EveryDeadline { rests_on, .. } => rests_on,
        _ => RestsOn::PeriodicResource,
    }
}

fn as_if_alone(entry: &ServicePlan, _counted: Duration) -> Result<Proven, Broken> {
    let Certificate::AsIfAlone { from, demand } = &entry.certificate else { return Err(of_another()) };
    let kind = entry.server.kind;
    if !kind.facts().whole_core {
        return Err(Broken::new("a server for which Theorem 1 holds", "constant_bandwidth or deferrable", kind));
    }
    let compared = alone::check(&entry.tasks, entry.server, *from, *demand)?;
    Ok(Proven { compared, loss: Duration::ZERO, latency: Duration::ZERO, within: None })
}

fn of_percentiles(entry: &ServicePlan, counted: Duration) -> Result<Proven, Broken> {
    let (
        Promise::Percentiles { points, arrivals, service },
        Certificate::Percentiles { budget, latency, wait, predicted, .. },
    ) = (&entry.promise, &entry.certificate)
    else {
        return Err(of_another());
    };
    let given = percentiles::Counted { server: entry.server, budget: *budget, latency: *latency, wait: *wait };
    let within = Some(percentiles::check(points, *arrivals, service, &given, predicted)?);
    Ok(Proven { compared: points.len(), loss: lost(entry, counted), latency: *latency, within })
}

/// What its paths count on is what it gives; that it is enough for them is theirs to prove.
fn stage(entry: &ServicePlan, counted: Duration) -> Result<Proven, Broken> {
    let (Promise::Stage { counted: told, .. }, Certificate::Stage { budget, latency }) =
        (&entry.promise, &entry.certificate)
    else {
        return Err(of_another());
    };
    let given = giusto_model::Interface { budget: *budget, period: entry.server.period };
    if *told != Some(given) {
        return Err(Broken::new("what paths count on", given, told.map_or("none".into(), |told| told.to_string())));
    }
    if entry.server.kind != ServerKind::Deferrable {
        return Err(Broken::new("a server on a fixed grid", ServerKind::Deferrable, entry.server.kind));
    }
    Ok(Proven { compared: 1, loss: lost(entry, counted), latency: *latency, within: None })
}

fn supply(entry: &ServicePlan, _counted: Duration) -> Result<Proven, Broken> {
    let (Promise::Supply(interfaces), Certificate::Supply) = (&entry.promise, &entry.certificate) else {
        return Err(of_another());
    };
    let server = entry.server;
    let own = interfaces.get(entry.vcpu.unwrap_or(0) as usize);
    let given = |i: &&giusto_model::Interface| i.period == server.period && i.budget <= server.budget;
    if own.filter(given).is_none() {
        let own = own.map_or("none".into(), ToString::to_string);
        let found = format!("{} every {}", server.budget, server.period);
        return Err(Broken::new("the supply that was promised", own, found));
    }
    Ok(Proven { compared: 1, loss: Duration::ZERO, latency: Duration::ZERO, within: None })
}

fn lost(entry: &ServicePlan, counted: Duration) -> Duration {
    Duration::from_ns(entry.server.budget.ns() - counted.ns())
}

/// Whether work that comes at any time is sure of what the periodic resource supplies.
fn supplies_at_any_time(kind: ServerKind) -> Result<(), Broken> {
    match kind.facts().supply {
        Supply::AtAnyTime => Ok(()),
        Supply::Less(_) => {
            Err(Broken::new("a server that supplies at any time", "periodic, deferrable or constant_bandwidth", kind))
        }
    }
}
