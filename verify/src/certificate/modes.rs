//! Modes: each local mode of a service has servers that keep its promise, and in each global mode all servers fit.
//!
//! A global mode is a plan of its own: the same entries on the same cores, with other budgets. So it is checked as
//! one. That a change takes as long as the plan says is not checked here: how late a machine is, and what its
//! signalling takes, the plan only claims.

use super::broken::Broken;
use super::exact::utilization;
use super::{admission, criticality, entry, exact, hold};
use giusto_model::{
    About, Bandwidth, Duration, GuestScheduler, HostPlan, LocalPlan, MemberPlan, ModePlan, ModesPlan, Plan, Promise,
    Release, Scheduler, Server, ServicePlan, Task, AGENT_TASK, RUNNING, STOPPED,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// A mode in which every promise is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedMode {
    /// Its host.
    pub on: String,
    /// Its name.
    pub mode: String,
    /// Cores whose servers fit together in it.
    pub cores: usize,
    /// Comparisons of demand and supply that were made for the local modes of its members.
    pub compared: usize,
    /// How long a change to it takes, as the plan says.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
}

/// The modes of one host.
pub(super) fn check(plan: &Plan, modes: &ModesPlan) -> Result<Vec<CheckedMode>, Broken> {
    let named = |what: &str, needed: &dyn ToString, found: &dyn ToString| {
        Broken::new(format!("modes of {}: {what}", modes.on), needed.to_string(), found.to_string())
    };
    let same = plan.modes.iter().filter(|other| other.on == modes.on).count();
    let (Some(part), 1) = (plan.on(&modes.on), same) else {
        return Err(named("a host of the plan, once", &1, &same));
    };
    let mut compared: Vec<BTreeMap<&str, usize>> = Vec::new();
    for (nth, member) in modes.members.iter().enumerate() {
        if modes.members[..nth].iter().any(|other| other.service == member.service) {
            return Err(named("members that differ", &"one", &format!("two '{}'", member.service)));
        }
        compared.push(self::member(&part, modes, member)?);
    }
    if modes.modes.is_empty() {
        return Err(named("a mode to begin in", &1, &0));
    }
    let mut checked = Vec::new();
    for (nth, mode) in modes.modes.iter().enumerate() {
        let locals = locals(modes, mode)?;
        let whole = in_mode(&part, modes, mode, &locals)?;
        if nth == 0 {
            begins(&part, &whole)?;
        }
        let cores = admission::one_host(&whole, &whole.hosts[0]).map_err(|broken| in_words(broken, &mode.name))?;
        boosts(&whole, modes).map_err(|broken| in_words(broken, &mode.name))?;
        if let Some(within) = mode.within.filter(|within| mode.bound > *within) {
            return Err(named(&format!("a change to '{}' as promised", mode.name), &within, &mode.bound));
        }
        let counts = locals.iter().zip(&compared).filter_map(|(local, known)| known.get(local.name.as_str()));
        let (on, mode, bound) = (modes.on.clone(), mode.name.clone(), mode.bound);
        checked.push(CheckedMode { on, mode, cores: cores.len(), compared: counts.sum(), bound });
    }
    Ok(checked)
}

fn in_words(broken: Broken, mode: &str) -> Broken {
    Broken { what: format!("in mode '{mode}': {}", broken.what), ..broken }
}

/// The local mode of each member.
fn locals<'a>(modes: &'a ModesPlan, mode: &ModePlan) -> Result<Vec<&'a LocalPlan>, Broken> {
    let what = || format!("in mode '{}': a local mode of each member", mode.name);
    if mode.locals.len() != modes.members.len() {
        return Err(Broken::new(what(), modes.members.len(), mode.locals.len()));
    }
    let local = |(member, name): (&'a MemberPlan, &String)| {
        let found = member.locals.iter().find(|local| local.name == *name);
        found.ok_or_else(|| Broken::new(what(), format!("one of '{}'", member.service), name))
    };
    modes.members.iter().zip(&mode.locals).map(local).collect()
}

/// Whether nothing but the kernel of a virtual CPU runs in the mode in which the host of this entry begins.
pub(super) fn idle(plan: &Plan, entry: &ServicePlan) -> bool {
    let stopped = |modes: &ModesPlan| {
        let place = modes.members.iter().position(|member| member.service == entry.name && member.agent.is_some())?;
        modes.modes.first()?.locals.get(place).map(|local| local == STOPPED)
    };
    let mut on = plan.modes.iter().filter(|modes| modes.on == entry.on);
    entry.vcpu.is_some_and(|vcpu| vcpu > 0) && entry.tasks.is_empty() && on.any(|modes| stopped(modes) == Some(true))
}

/// All local modes of a member keep its promise; how much was compared for each.
fn member<'a>(part: &Plan, modes: &ModesPlan, member: &'a MemberPlan) -> Result<BTreeMap<&'a str, usize>, Broken> {
    let own: Vec<&ServicePlan> = part.services.iter().filter(|entry| entry.name == member.service).collect();
    let broken = |what: &str, needed: &dyn ToString, found: &dyn ToString| {
        let broken = Broken::new(what, needed.to_string(), found.to_string());
        Broken { service: Some(member.service.clone()), ..broken }
    };
    if member.agent.is_some() == own.is_empty() {
        return Err(broken("an agent, where it has reservations", &!own.is_empty(), &member.agent.is_some()));
    }
    let mut found = BTreeMap::new();
    for local in &member.locals {
        if member.agent.is_none() {
            let there = part.leftovers.iter().any(|leftover| leftover.name == member.service);
            let known = [RUNNING, STOPPED].contains(&local.name.as_str());
            if !there || !known || !local.servers.is_empty() {
                return Err(broken("of what is left: running or stopped", &RUNNING, &local.name));
            }
        }
        for (what, count) in [("servers", local.servers.len()), ("proofs", local.proofs.len())] {
            if count != own.len() {
                return Err(broken(&format!("{what} in '{}', one an entry", local.name), &own.len(), &count));
            }
        }
        let mut compared = 0;
        for (nth, (base, (server, proof))) in own.iter().zip(local.servers.iter().zip(&local.proofs)).enumerate() {
            let told = |broken: Broken| Broken { what: format!("in '{}': {}", local.name, broken.what), ..broken };
            if (server.kind, server.period) != (base.server.kind, base.server.period) {
                let needed = format!("{} every {}", base.server.kind, base.server.period);
                let found = format!("{} every {}", server.kind, server.period);
                return Err(told(Broken::new("the same server but for its budget", needed, found)).of(base));
            }
            if let (Promise::EveryDeadline { scheduler, .. }, Some(agent), 0) = (&base.promise, &member.agent, nth) {
                let (cost, spacing) = (at_once(modes, agent.cost), modes.changes.spacing);
                work(&proof.tasks, cost, spacing, *scheduler).map_err(|one| told(one).of(base))?;
            }
            let entry = entry::with(base, *server, proof);
            // Nothing runs there but the kernel of the virtual CPU.
            let nothing = local.name == STOPPED && proof.tasks.is_empty() && nth > 0;
            if nothing && !server.budget.is_zero() && server.budget <= server.period {
                continue;
            }
            compared += criticality::check(&entry).map_err(|one| told(one).of(base))?.compared;
            let alone = part.services.iter().filter(|other| other.core == base.core).count() == 1;
            hold::check(&entry, alone).map_err(|one| told(one).of(base))?;
        }
        if !own.is_empty() && own[0].promise.about() == About::Deadlines {
            let there: Vec<&Task> = local.proofs.iter().flat_map(|proof| &proof.tasks).collect();
            all_there(&local.tasks, &there).map_err(|(needed, copies)| {
                broken(&format!("in '{}': copies of its tasks on virtual CPUs", local.name), &needed, &copies)
            })?;
        }
        if let ([proof], [_]) = (&local.proofs[..], &own[..]) {
            let there = proof.tasks.iter().filter(|task| task.name != AGENT_TASK);
            if !there.eq(&local.tasks) {
                return Err(broken(&format!("in '{}': its tasks in their order", local.name), &"the same", &"others"));
            }
        }
        let used: exact::Exact = local.proofs.iter().map(|proof| utilization(&proof.tasks)).sum();
        let told = exact::share(local.utilization);
        let rounded = exact::fraction(local.tasks.len() as u128 + 2, 1_000_000_000).unwrap_or_else(|| exact::whole(0));
        if told < used || told > &used + rounded {
            return Err(broken(&format!("in '{}': utilization of its tasks", local.name), &used, &local.utilization));
        }
        if found.insert(local.name.as_str(), compared).is_some() {
            return Err(broken("modes that differ", &"one", &format!("two '{}'", local.name)));
        }
    }
    Ok(found)
}

/// What agents may have to do in one spacing: for one change, and where a mode is urgent, which does not wait, for two.
fn at_once(modes: &ModesPlan, cost: Duration) -> Duration {
    let changes = if modes.modes.iter().any(|mode| mode.urgent) { 2 } else { 1 };
    Duration::from_ns(cost.ns().saturating_mul(changes))
}

/// Whether the first of `tasks` covers what an agent does before all others, once in `spacing`: it is done within its
/// deadline D, so that its work can be D late and the next in time. D is the shortest, so EDF counts it in every
/// window that it counts; by fixed priorities it is the first.
fn work(tasks: &[Task], cost: Duration, spacing: Duration, scheduler: GuestScheduler) -> Result<(), Broken> {
    let Some((agent, others)) = tasks.split_first().filter(|(first, _)| first.name == AGENT_TASK) else {
        return Err(Broken::new("its agent's work, before its tasks", AGENT_TASK, "none"));
    };
    if agent.release != Release::Sporadic || !agent.offset.is_zero() {
        return Err(Broken::new("its agent's work at any time", "sporadic", "with an offset"));
    }
    if agent.wcet < cost {
        return Err(Broken::new("its agent's work", cost, agent.wcet));
    }
    let apart = agent.period.ns().saturating_add(agent.deadline.ns());
    if apart > spacing.ns() {
        return Err(Broken::new(
            "its agent's work at least as often as there are changes",
            spacing,
            Duration::from_ns(apart),
        ));
    }
    let rm = scheduler == GuestScheduler::Own(Scheduler::Rm);
    let before = |other: &&Task| agent.deadline > other.deadline || (rm && agent.period > other.period);
    match others.iter().find(before) {
        Some(other) => Err(Broken::new("its agent before all its tasks", &agent.name, &other.name)),
        None => Ok(()),
    }
}

/// Whether `there` holds as many copies of each of `tasks` as it should, and nothing else but an agent's work.
pub(super) fn all_there(tasks: &[Task], there: &[&Task]) -> Result<(), (u64, u64)> {
    let copies = |of: &mut dyn Iterator<Item = &Task>| {
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for task in of.filter(|task| task.name != AGENT_TASK) {
            let kept = task.release == Release::KeptOffset;
            let key = (task.name.clone(), task.wcet, task.period, task.deadline, task.offset, kept);
            *counts.entry(key).or_default() += u64::from(task.copies);
        }
        counts
    };
    let (needed, found) = (copies(&mut tasks.iter()), copies(&mut there.iter().copied()));
    match needed == found {
        true => Ok(()),
        false => Err((needed.values().sum(), found.values().sum())),
    }
}

/// The plan of the host in a mode, by its own numbers.
fn in_mode(part: &Plan, modes: &ModesPlan, mode: &ModePlan, locals: &[&LocalPlan]) -> Result<Plan, Broken> {
    let mut services = part.services.clone();
    for (member, local) in modes.members.iter().zip(locals) {
        let own = services.iter_mut().filter(|entry| entry.name == member.service);
        let proofs = local.servers.iter().zip(&local.proofs);
        own.zip(proofs).for_each(|(entry, (server, proof))| *entry = entry::with(entry, *server, proof));
    }
    let host = HostPlan { admission: mode.admission.clone(), ..part.hosts[0].clone() };
    for entry in &mut services {
        let told = host.admission.iter().find(|told| told.core == entry.core);
        let taken = told.map(|told| [told.reserved, host.keep_free, told.cost]);
        let left = taken.and_then(|taken| taken.into_iter().try_fold(Bandwidth::ONE, Bandwidth::checked_sub));
        entry.left_for_others = left.ok_or_else(|| {
            let what = format!("in mode '{}': a core that has something left, and says so", mode.name);
            Broken::new(what, "a proof that its servers fit", "none").of(entry)
        })?;
    }
    let stopped = |name: &str| {
        modes.members.iter().zip(&mode.locals).any(|(member, local)| member.service == name && local == STOPPED)
    };
    let running = part.leftovers.iter().filter(|leftover| !stopped(&leftover.name));
    let leftovers = running.cloned().collect();
    Ok(Plan { hosts: vec![host], services, leftovers, modes: Vec::new(), ..part.clone() })
}

/// Whether the plan is that of its first mode.
fn begins(part: &Plan, first: &Plan) -> Result<(), Broken> {
    for (entry, own) in part.services.iter().zip(&first.services) {
        if (entry.server, &entry.tasks) != (own.server, &own.tasks) {
            let interface = |server: Server| format!("{} every {}", server.budget, server.period);
            return Err(
                Broken::new("the server of the first mode", interface(own.server), interface(entry.server)).of(entry)
            );
        }
    }
    Ok(())
}

/// Whether the work of all boosted agents of a core is counted there.
fn boosts(whole: &Plan, modes: &ModesPlan) -> Result<(), Broken> {
    for told in whole.hosts.iter().flat_map(|host| &host.admission) {
        let here = |member: &&MemberPlan| {
            let first = whole.services.iter().find(|entry| entry.name == member.service);
            first.is_some_and(|entry| entry.core == told.core)
        };
        let costs = modes.members.iter().filter(here).filter_map(|member| Some(member.agent.as_ref()?.cost.ns()));
        let cost = if modes.boosts() { at_once(modes, Duration::from_ns(costs.sum())).ns() } else { 0 };
        let given = told.boost.map_or(0, |boost| boost.budget.ns());
        let often = told.boost.is_none_or(|boost| boost.period == modes.changes.spacing);
        if given != cost || !often {
            let (needed, found) = (Duration::from_ns(cost), Duration::from_ns(given));
            return Err(Broken {
                core: Some(told.core),
                ..Broken::new("room for boosts between two changes", needed, found)
            });
        }
    }
    Ok(())
}
