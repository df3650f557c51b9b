//! Modes of a host: what each member has in each of its local modes, whether every mode fits, what reserving for the
//! worst of all would cost.

use crate::host::{OneHost, Placed, Supplied};
use crate::promises::leftovers::Floors;
use crate::refusal::{Cause, Refusal};
use crate::words::{reason, share, time};
use giusto_analysis::admission::{place, Fit, Grids, Order};
use giusto_analysis::Error;
use giusto_model::{
    Bandwidth, ChangePolicy, Duration, HostPlan, LeftoverPlan, LocalNeed, LocalPlan, MemberPlan, ModePlan, ModesPlan,
    Plan, Reason, Server, Service, SiteModes, StaticCost, Transition, PLAN_VERSION, RUNNING, STOPPED,
};

/// The modes of a host that was placed in the first of them; `None`: none of its services has any. Errors: a mode in
/// which the floors of leftovers do not fit.
pub(crate) fn of_host(
    on: &OneHost,
    supplied: &[(String, Supplied)],
    policy: Option<ChangePolicy>,
    placed: &Placed,
) -> Result<Option<ModesPlan>, Refusal> {
    let (Some(site), Some(policy)) = (on.modes, policy) else { return Ok(None) };
    let named = |service: &&&Service| site.modes[0].locals.iter().any(|local| local.service == service.name);
    let services: Vec<&Service> = on.services.iter().filter(named).copied().collect();
    let Some(first) = services.first() else { return Ok(None) };
    let range = || Refusal::tasks(&first.name, Error::Range);
    let members: Vec<MemberPlan> =
        services.iter().map(|service| member(service, supplied)).collect::<Option<_>>().ok_or_else(range)?;
    let mode = |mode: &giusto_model::SiteMode| ModePlan {
        name: mode.name.clone(),
        within: mode.within,
        urgent: mode.urgent,
        locals: (mode.locals.iter().filter(|local| members.iter().any(|member| member.service == local.service)))
            .map(|local| local.local.clone())
            .collect(),
        bound: Duration::ZERO,
        admission: Vec::new(),
    };
    let modes = site.modes.iter().map(mode).collect();
    let changes = site.changes.clone().with(policy);
    let none = Bandwidth::ZERO;
    let static_cost = StaticCost { fixed: none, modal: none, fixed_cores: 0, modal_cores: 0 };
    let whole = ModesPlan { on: on.host.name.clone(), changes, members, modes, static_cost, reasons: Vec::new() };
    let host = HostPlan {
        name: on.host.name.clone(),
        cores: on.host.cores.clone(),
        keep_free: on.host.keep_free,
        assumed: None,
        admission: placed.admission.clone(),
        parked: placed.parked.clone(),
        latency: None,
    };
    let mut plan = Plan {
        giusto_plan: PLAN_VERSION,
        basis: None,
        hosts: vec![host],
        services: placed.services.clone(),
        leftovers: placed.leftovers.clone(),
        topics: Vec::new(),
        coordination: None,
        paths: Vec::new(),
        network: Vec::new(),
        modes: vec![whole],
    };
    let in_modes: Vec<Plan> =
        plan.modes[0].modes.iter().map(|mode| plan.in_mode(&mode.locals)).collect::<Option<_>>().ok_or_else(range)?;
    for (nth, part) in in_modes.iter().enumerate() {
        floors(part, nth, on)?;
    }
    let mut whole = plan.modes.remove(0);
    for (mode, part) in whole.modes.iter_mut().zip(&in_modes) {
        mode.admission.clone_from(&part.hosts[0].admission);
    }
    let most = placed.admission.iter().map(|told| told.most).max().unwrap_or(Bandwidth::ONE);
    whole.static_cost = static_cost_of(&in_modes, most).ok_or_else(range)?;
    whole.reasons = reasons(site, &whole);
    Ok(Some(whole))
}

fn member(service: &Service, supplied: &[(String, Supplied)]) -> Option<MemberPlan> {
    let bare = |name: &str| LocalPlan {
        name: name.into(),
        utilization: Bandwidth::ZERO,
        servers: Vec::new(),
        tasks: Vec::new(),
        proofs: Vec::new(),
    };
    let locals = match service.agent {
        None => vec![bare(RUNNING), bare(STOPPED)],
        Some(_) => {
            let names = service.modes.iter().map(|mode| mode.name.as_str()).chain([STOPPED]);
            let own: Vec<&Supplied> =
                supplied.iter().filter(|(name, _)| *name == service.name).map(|(_, one)| one).collect();
            let local = |(nth, name): (usize, &str)| {
                let tasks = match service.modes.get(nth).map(|mode| &mode.need) {
                    Some(LocalNeed::Tasks { tasks, .. }) => tasks.clone(),
                    _ => Vec::new(),
                };
                let each = own.iter().map(|one| one.locals.get(nth).cloned());
                let (servers, proofs): (Vec<_>, Vec<_>) = each.collect::<Option<Vec<_>>>()?.into_iter().unzip();
                let mut used = proofs.iter().map(|proof: &giusto_model::LocalProof| proof.utilization);
                let utilization = used.try_fold(Bandwidth::ZERO, Bandwidth::add_up)?;
                Some(LocalPlan { utilization, servers, tasks, proofs, ..bare(name) })
            };
            names.enumerate().map(local).collect::<Option<_>>()?
        }
    };
    Some(MemberPlan { service: service.name.clone(), agent: service.agent.clone(), locals })
}

/// Whether what is left in this mode is enough for the floors of all leftovers that run in it.
fn floors(part: &Plan, nth: usize, on: &OneHost) -> Result<(), Refusal> {
    let Some(site) = on.modes else { return Ok(()) };
    let mode = &site.modes[nth];
    let stopped =
        |one: &&LeftoverPlan| !mode.locals.iter().any(|local| local.service == one.name && local.local == STOPPED);
    let running: Vec<&LeftoverPlan> = part.leftovers.iter().filter(stopped).collect();
    let demand = running.iter().try_fold(Bandwidth::ZERO, |sum, one| sum.add_up(one.at_least));
    let Some(largest) = running.iter().max_by_key(|one| one.at_least) else { return Ok(()) };
    let demand = demand.ok_or_else(|| Refusal::tasks(&largest.name, Error::Range))?;
    if demand > largest.available {
        let cause = Cause::Floors(Floors { demand, supply: largest.available });
        return Err(Refusal::does_not_fit(&largest.name, cause.within(Some(mode.name.clone()), None)));
    }
    Ok(())
}

/// Worst modes of each against the worst mode of all. `None` where exact shares need too much.
fn static_cost_of(in_modes: &[Plan], most: Bandwidth) -> Option<StaticCost> {
    let servers = |part: &Plan| part.services.iter().map(|entry| entry.server).collect::<Vec<Server>>();
    let each: Vec<Vec<Server>> = in_modes.iter().map(servers).collect();
    let count = each.first().map_or(0, Vec::len);
    let worst = |entry: usize| each.iter().map(|servers| servers[entry]).max_by_key(|server| server.budget);
    let fixed: Vec<Server> = (0..count).map(worst).collect::<Option<_>>()?;
    let sum = |servers: &[Server]| servers.iter().try_fold(Bandwidth::ZERO, |sum, one| sum.add_up(one.bandwidth()));
    let modal: Vec<Bandwidth> = each.iter().map(|servers| sum(servers)).collect::<Option<_>>()?;
    let modal_cores = each.iter().map(|servers| cores(servers, most)).collect::<Option<Vec<_>>>()?;
    Some(StaticCost {
        fixed: sum(&fixed)?,
        modal: modal.into_iter().max()?,
        fixed_cores: cores(&fixed, most)?,
        modal_cores: modal_cores.into_iter().max()?,
    })
}

/// Cores that these servers take, each on the first with room, the largest first; of each core `most` can be given.
fn cores(servers: &[Server], most: Bandwidth) -> Option<u32> {
    let fits = |cores: &u32| matches!(place(servers, Order::Edf, Grids::Apart, most, *cores, Fit::First), Ok(Ok(_)));
    (0..=servers.len() as u32).find(fits)
}

fn reasons(site: &SiteModes, plan: &ModesPlan) -> Vec<Reason> {
    let changes = &plan.changes;
    let policy = match site.changes.policy {
        Some(_) => "from the site",
        None if plan.boosts() => {
            "Giusto's manager enforces all services with agents, so that it can boost them: they wait for no budget"
        }
        None => "of those without boosts the fastest; not every service with an agent is enforced by Giusto's manager",
    };
    let transition = match changes.transition {
        Transition::Fast => "what is given up counts as free at once: one budget of others may be late at a change",
        Transition::Guaranteed => "what is given up counts as free from its next replenishment on, and servers grow at theirs: nothing is late",
    };
    let mut reasons = vec![
        reason("policy", changes.policy, policy),
        reason("transition", changes.transition, transition),
        reason(
            "spacing",
            time(changes.spacing),
            "least time from one change to the next, enforced; what agents and boosts cost is counted once in it",
        ),
    ];
    let urgent: Vec<&str> = plan.modes.iter().filter(|mode| mode.urgent).map(|mode| mode.name.as_str()).collect();
    if !urgent.is_empty() {
        reasons.push(reason(
            "urgent",
            urgent.join(", "),
            "not held back by spacing, and takes over from another change: what agents and boosts cost is counted twice in a spacing",
        ));
    }
    let boosts = plan.modes.first().into_iter().flat_map(|mode| &mode.admission);
    reasons.extend(boosts.filter_map(|told| {
        let boost = told.boost?;
        let value = format!("{} every {}", time(boost.budget), time(boost.period));
        let why =
            "the work of all agents on it, as a hypothetical server before all others, in every mode [LiH21, § 2.4.2]";
        Some(reason(&format!("boosts on core {}", told.core), value, why))
    }));
    let StaticCost { fixed, modal, fixed_cores, modal_cores } = plan.static_cost;
    let s = |cores: u32| if cores == 1 { "" } else { "s" };
    let why = format!(
        "each server at its worst mode; with modes {} of a core, {modal_cores} core{}, in the worst mode of all; cores counted first-fit, the largest first",
        share(modal),
        s(modal_cores)
    );
    reasons.push(reason(
        "static cost",
        format!("{} of a core, {fixed_cores} core{}", share(fixed), s(fixed_cores)),
        why,
    ));
    reasons
}
