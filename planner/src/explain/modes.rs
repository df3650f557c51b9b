//! The numbers of every mode of a service, and of the changes between the modes of a host.

use super::table::{row, table};
use crate::words::{share, time};
use giusto_model::{
    Certificate, LocalPlan, LocalProof, MemberPlan, ModesPlan, Plan, Point, Server, Task, AGENT_TASK, STOPPED,
};

/// The local modes of a service, if it has several: a table each.
pub(super) fn of_service(plan: &Plan, service: &str) -> String {
    let found = plan.modes.iter().flat_map(|modes| modes.members.iter().map(move |member| (modes, member)));
    let own = found.filter(|(_, member)| member.service == service);
    own.flat_map(|(modes, member)| member.locals.iter().map(move |one| local(modes, member, one))).collect()
}

fn local(modes: &ModesPlan, member: &MemberPlan, local: &LocalPlan) -> String {
    let place = modes.members.iter().position(|other| other.service == member.service);
    let named = modes.modes.iter().filter(|mode| place.is_some_and(|place| mode.locals[place] == local.name));
    let named: Vec<&str> = named.map(|mode| mode.name.as_str()).collect();
    let when = if named.is_empty() { "in no mode of the site".into() } else { format!("in {}", named.join(", ")) };
    let head = format!("\n{} {}: {when}\n", member.service, local.name);
    if member.agent.is_none() {
        let why = match local.name == STOPPED {
            true => "the host freezes all its processes",
            false => "it gets what is left",
        };
        return format!("{head}  {why}\n");
    }
    let mut rows: Vec<[String; 3]> = Vec::new();
    for (vcpu, (server, proof)) in local.servers.iter().zip(&local.proofs).enumerate() {
        let of = if local.servers.len() > 1 { format!(" of virtual CPU {vcpu}") } else { String::new() };
        rows.extend(proof.tasks.iter().map(task));
        rows.push([format!("utilization{of}"), share(proof.utilization), "U = Σ C/T of what runs there".into()]);
        rows.push(budget(&of, server, proof));
        rows.extend(decides(&of, proof));
    }
    head + &table(&rows)
}

/// A task in words: the site's, or the work of an agent.
pub(super) fn task(task: &Task) -> [String; 3] {
    let why = match task.name == AGENT_TASK {
        true => "its agent's work at a change, before all others: done by the shortest deadline, as far apart as changes, less that".into(),
        false => format!("'{}', from the site", task.name),
    };
    ["task".into(), task.to_string(), why]
}

fn budget(of: &str, server: &Server, proof: &LocalProof) -> [String; 3] {
    let value = format!("{} every {} ({})", time(server.budget), time(server.period), share(server.bandwidth()));
    let why = match (&proof.certificate, proof.tasks.is_empty()) {
        (Certificate::EveryDeadline { .. }, true) => "the least that its backend keeps: nothing runs there".into(),
        (Certificate::EveryDeadline { budget, .. }, false) => {
            format!(
                "the least for these tasks, {}, and what may be lost of each; the period is the same in all modes",
                time(*budget)
            )
        }
        _ => "as promised; or, while it is stopped, the least that its backend keeps and its agent needs".into(),
    };
    [format!("budget{of}"), value, why]
}

/// Where supply and demand are nearest.
fn decides(of: &str, proof: &LocalProof) -> Option<[String; 3]> {
    let Certificate::EveryDeadline { points, .. } = &proof.certificate else { return None };
    let spare = |point: &&Point| point.supply.ns().saturating_sub(point.demand.ns());
    let Point { at, demand, supply, .. } = points.iter().min_by_key(spare)?;
    let why = format!(
        "window with least to spare: up to {} asked for, at least {} supplied; {} compared",
        time(*demand),
        time(*supply),
        points.len()
    );
    Some([format!("decides{of}"), time(*at), why])
}

/// How a host changes its mode.
pub(super) fn of_host(modes: &ModesPlan) -> String {
    let rows: Vec<[String; 3]> = modes.reasons.iter().map(row).collect();
    let names: Vec<&str> = modes.modes.iter().map(|mode| mode.name.as_str()).collect();
    format!("modes on {}: {}\n{}", modes.on, names.join(", "), table(&rows))
}
