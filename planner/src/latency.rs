//! A host's measured latency L, and what it does to a plan.
//!
//! All that a server supplies may come L late: in any window of length t no more than sbf(t − L) can be counted on (Abe22,
//! "Latency"), 0 for t < L. That is the same as deadlines that are L shorter: dbf(t) ≤ sbf(t − L) for all t says with t = s + L
//! that dbf(s + L) ≤ sbf(s) for all s, and dbf(s + L) is the demand of tasks whose deadlines are D − L; with fixed priorities a
//! job that is done at the first t with rbf(t) ≤ sbf(t − L) is done L after the first s with rbf(s + L) ≤ sbf(s), in time for
//! D if that is in time for D − L. The analysis takes the first form, so L is one more term of the allowance
//! ([`Facts::lateness`]) that every test, certificate and predicted percentile has already; what each promise makes of it is
//! told in docs/latency.md.

use crate::error::Error;
use crate::facts::Facts;
use crate::refusal::Refusal;
use giusto_model::{
    Backend, CoreLatency, Duration, Host, HostLatency, Latency, LocalNeed, ManagerLatency, ManagerRun, Service, Site,
    Stress, LATENCY_VERSION,
};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// Reads what `giusto measure latency --out` wrote. Errors name the file: it cannot be read, is no such file or of another
/// version, or what it measured is void.
pub fn read_latency(path: &Path) -> Result<Latency, Error> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|why| Error::Io { what: "read", path: name.clone(), why })?;
    // The version first: a newer file has fields that this one would only call unknown.
    #[derive(Deserialize)]
    struct Version {
        giusto_latency: u64,
    }
    let bad = |why: String| Error::Latency { path: name.clone(), why };
    let Version { giusto_latency } = serde_json::from_str(&text).map_err(|why| bad(why.to_string()))?;
    if giusto_latency != u64::from(LATENCY_VERSION) {
        return Err(bad(format!("it has version {giusto_latency}, expected {LATENCY_VERSION}")));
    }
    let latency: Latency = serde_json::from_str(&text).map_err(|why| bad(why.to_string()))?;
    match &latency.void {
        Some(why) => Err(Error::Void { path: name, why: why.clone() }),
        None => Ok(latency),
    }
}

/// L of `host`, which is this machine. `None`: L was not measured, or the host has none. Errors: one of its cores was not
/// measured, or not at a period that is short enough.
pub(crate) fn of_host(site: &Site, host: &Host, facts: &Facts) -> Result<Option<HostLatency>, Refusal> {
    let Some(measured) = &facts.latency else { return Ok(None) };
    let manager = manager(measured);
    let shortest = shortest(site, &Facts { manager, ..facts.clone() });
    let periods = || measured.runs.iter().filter(|run| run.activations > 0).map(|run| run.period);
    let period = periods().filter(|period| *period <= shortest).max().ok_or_else(|| {
        let least = periods().min().map_or("nothing".into(), |period| format!("{period} and longer periods"));
        let why = format!("the shortest period that matters is {shortest}, and {least} was measured");
        Refusal::Latency { why, remedy: format!("measure again with 'giusto measure latency --period {shortest}'") }
    })?;
    let counts = measured.runs.iter().filter(|run| run.period >= period && run.activations > 0);
    let cores: Vec<u32> =
        host.cores.iter().chain(host.network.iter().flat_map(|network| &network.cores)).copied().collect();
    // What came later under the manager than is usual there is the machine's, on whatever core.
    let rare = |run: &ManagerRun| run.behind.late.checked_sub(run.behind.usual).unwrap_or(Duration::ZERO);
    let rare = measured.manager.iter().map(rare).max().unwrap_or(Duration::ZERO);
    let worst = |core: u32| {
        let own = counts.clone().filter(|run| run.core == core);
        // A core that was measured at other periods only is as good as not measured.
        let there = own.clone().any(|run| run.period == period);
        let worst = own.map(|run| run.latency.max).max().filter(|_| there);
        let worst = worst.map(|worst| worst.max(rare));
        worst.map(|worst| CoreLatency { core, worst }).ok_or_else(|| Refusal::Latency {
            why: format!("core {core} of host '{}' was not measured at a period of {period}", host.name),
            remedy: format!(
                "measure again with 'giusto measure latency --core {core} --period {period}', and the others with it"
            ),
        })
    };
    let cores: Vec<CoreLatency> = cores.into_iter().map(worst).collect::<Result<_, _>>()?;
    let latency = cores.iter().map(|core| core.worst).max().unwrap_or(Duration::ZERO);
    let stressed = counts.clone().any(|run| run.load == Stress::Stress);
    let allowance = manager.map_or(facts.lateness, |manager| manager.late);
    let has_some = !latency.is_zero() || manager.is_some();
    Ok(has_some.then_some(HostLatency { latency, allowance, shortest, period, stressed, cores, manager }))
}

/// What servers under the manager do without, of all runs the worst.
fn manager(measured: &Latency) -> Option<ManagerLatency> {
    let runs = &measured.manager;
    Some(ManagerLatency {
        loss: runs.iter().map(|run| run.behind.loss).max()?,
        late: runs.iter().map(|run| run.behind.usual).max()?,
        periods: runs.iter().map(|run| run.periods).sum(),
        cost: runs.iter().filter_map(|run| run.cost).max(),
    })
}

/// The shortest period of all that may be planned: of tasks in any mode, of supplies that are promised, of an agent's work, and the
/// shortest that a server may have here.
fn shortest(site: &Site, facts: &Facts) -> Duration {
    let tasks = |service: &Service| {
        let local = |need: &LocalNeed| match need {
            LocalNeed::Tasks { tasks, .. } => tasks.iter().map(|task| task.period).collect(),
            LocalNeed::Supply(interfaces) => interfaces.iter().map(|one| one.period).collect::<Vec<_>>(),
        };
        let promised = service.promise.supplies().iter().map(|one| one.period);
        let own = service.tasks.iter().map(|task| task.period).chain(promised);
        own.chain(service.modes.iter().flat_map(|mode| local(&mode.need))).collect::<Vec<_>>()
    };
    let servers = Backend::ALL.into_iter().filter(|backend| facts.lacks(*backend).is_none());
    let servers = servers.map(|backend| crate::backend::shortest(backend, facts));
    // Of an agent's work, which comes up to its deadline, at most half of that, more often.
    let agents = site.modes.iter().map(|modes| Duration::from_ns(modes.changes.spacing.ns() / 2));
    let all = site.services.iter().flat_map(tasks).chain(servers).chain(agents);
    all.min().unwrap_or(Duration::ZERO)
}
