//! The plan of one entry that has its core.

use super::{Core, Critical, Entry, Local};
use crate::backend::{cost, most_of_a_core};
use crate::critical;
use crate::place::{OneHost, Unplaced};
use crate::size::{kept, reason};
use crate::words::{share, time};
use crate::Refusal;
use giusto_analysis::criticality::Refused;
use giusto_model::{
    Bandwidth, Certificate, Criticality, Hold, Interface, LocalProof, Promise, Reason, Server, ServerKind, ServicePlan,
};

/// The plan of an entry in the first mode, and its servers in all local modes of a service that has some.
pub(super) fn place(
    core: &Core,
    entries: &[Entry],
    index: usize,
    on: &OneHost,
) -> Result<(ServicePlan, Vec<(Server, LocalProof)>), Unplaced> {
    let Entry { service, vcpu, chosen, tail, .. } = &entries[index];
    let Local { interface, need } = entries[index].local(0);
    let used = core.used[0];
    let (host, facts) = (on.host, on.facts);
    let range = || {
        let why = giusto_analysis::Error::Range;
        Unplaced::Other(Refusal::Tasks { service: service.name.clone(), why })
    };
    let left_for_others = [used, host.keep_free, cost(chosen.backend, facts)]
        .into_iter()
        .try_fold(Bandwidth::ONE, Bandwidth::checked_sub)
        .ok_or_else(range)?;
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let critical = judged(core, entries, index, most).map_err(|_| range())?;
    let worst = critical.as_ref().and_then(|critical| critical.worst);
    let (hold, why_hold) =
        hold(chosen.kind, worst.map_or(*interface, |worst| worst.interface), core.on.len() == 1).ok_or_else(range)?;
    let bandwidth = share(interface.bandwidth());
    let others: Vec<String> =
        core.on.iter().filter(|&&other| other != index).map(|&other| entries[other].to_string()).collect();
    let others = if others.is_empty() { "alone on it".into() } else { format!("beside {}", others.join(", ")) };
    let together = format!("{others}: {} of at most {} ({limit})", share(used), share(most));
    let core_reason = reason(
        "core",
        core.id,
        match critical {
            None => format!("largest supply first, on the first core with room that no as-if-alone service has; {together}"),
            Some(_) => format!(
                "largest at its worst first, on the first core whose servers go together with it by EDF-VD; {together}, the larger \
                 of LO and HI mode"
            ),
        },
    );
    let supply = || {
        let when = if critical.is_some() { "usually" } else { "whatever runs" };
        reason("supply", interface, format!("{bandwidth} of a core, as promised, {when}; no margin is added"))
    };
    let numbers = match (need, tail) {
        (Some(need), _) => need.reasons.clone(),
        (None, Some(tail)) => tail.reasons.clone(),
        (None, None) => vec![supply()],
    };
    let (required, margin, certificate) = match (need, tail) {
        (Some(need), _) => (need.required, need.margin, need.certificate.clone()),
        (None, Some(tail)) => (tail.required, tail.margin, tail.certificate.clone()),
        (None, None) => (interface.bandwidth(), Bandwidth::ZERO, Certificate::Supply),
    };
    let criticality = critical.as_ref().map_or(Vec::new(), |critical| critical.reasons.clone());
    let consequences = [
        reason("hold", time(hold.enforced), why_hold),
        reason(
            "left for others",
            share(left_for_others),
            format!("1 − {} reserved on this core − {}", share(used), kept(host, chosen.backend, facts)),
        ),
    ];
    let promise = match service.promise.clone() {
        // Where tasks are is what the entries of each local mode say.
        Promise::EveryDeadline { scheduler, vcpus, .. } if service.agent.is_some() => {
            Promise::EveryDeadline { scheduler, vcpus, placed: Vec::new() }
        }
        // Of the first mode, which may be the one in which it is stopped.
        Promise::Supply(_) if service.agent.is_some() => {
            let mut own: Vec<&Entry> = entries.iter().filter(|entry| entry.order == entries[index].order).collect();
            own.sort_by_key(|entry| entry.vcpu);
            Promise::Supply(own.iter().map(|entry| entry.local(0).interface).collect())
        }
        promise => promise,
    };
    let plan = ServicePlan {
        name: service.name.clone(),
        on: host.name.clone(),
        promise,
        origin: service.origin.clone(),
        process: service.process.clone(),
        vcpu: *vcpu,
        tasks: need.as_ref().map_or(Vec::new(), |need| need.tasks.clone()),
        load: service.load.clone(),
        core: core.id,
        backend: chosen.backend,
        server: entries[index].server(0),
        cap: service.cap,
        utilization: need.as_ref().map_or(Bandwidth::ZERO, |need| need.utilization),
        required,
        margin,
        hold,
        left_for_others,
        certificate,
        adapt: service.adapt,
        pessimistic: match worst {
            Some(worst) => Some(proof(&entries[index], worst, core.on.len() == 1).ok_or_else(range)?.1),
            None => None,
        },
        criticality: critical.map(|critical| critical.criticality),
        prediction: None,
        reasons: (std::iter::once(core_reason).chain(chosen.reasons.iter().cloned()))
            .chain(numbers)
            .chain(criticality)
            .chain(consequences)
            .collect(),
    };
    let locals = entries[index].locals.iter().filter(|_| service.agent.is_some());
    let proofs = locals.map(|local| proof(&entries[index], local, core.on.len() == 1).ok_or_else(range));
    Ok((plan, proofs.collect::<Result<_, _>>()?))
}

/// What follows for an entry from its criticality, and from that of the others of its core.
struct Judged<'a> {
    criticality: Criticality,
    worst: Option<&'a Local>,
    reasons: Vec<Reason>,
}

/// `None`: it has no criticality. Errors: they do not go together after all.
fn judged<'a>(core: &Core, entries: &'a [Entry], index: usize, most: Bandwidth) -> Result<Option<Judged<'a>>, Refused> {
    let (Some(critical), Some(vm)) = (&entries[index].critical, entries[index].vm()) else { return Ok(None) };
    let here: Vec<&Entry> = core.on.iter().map(|&at| &entries[at]).collect();
    let verdict = critical::together(&here, most)?;
    let place = core.on.iter().position(|&at| at == index).unwrap_or(0);
    let timely = entries[index].local(0).need.is_some();
    Ok(Some(Judged {
        criticality: critical::criticality(&vm, place, &verdict),
        worst: if let Critical::High(worst) = critical { Some(worst.as_ref()) } else { None },
        reasons: critical::reasons(&vm, place, &verdict, most, timely),
    }))
}

/// The server of an entry in one local mode, with what it rests on.
fn proof(entry: &Entry, local: &Local, alone: bool) -> Option<(Server, LocalProof)> {
    let (hold, _) = hold(entry.chosen.kind, local.interface, alone)?;
    let server = entry.of(local.interface);
    let bare = |required| LocalProof {
        tasks: Vec::new(),
        utilization: Bandwidth::ZERO,
        required,
        margin: Bandwidth::ZERO,
        hold,
        certificate: Certificate::Supply,
    };
    let proof = match &local.need {
        None => bare(server.bandwidth()),
        Some(need) => LocalProof {
            tasks: need.tasks.clone(),
            utilization: need.utilization,
            required: need.required,
            margin: need.margin,
            hold,
            certificate: need.certificate.clone(),
        },
    };
    Some((server, proof))
}

/// How long the server runs without a break, and why. `None` beyond 584 years.
fn hold(kind: ServerKind, interface: Interface, alone: bool) -> Option<(Hold, &'static str)> {
    let budget = interface.budget;
    let (enforced, why) = match kind {
        ServerKind::Deferrable => {
            (budget.checked_mul(2)?, "2 · budget: the end of one period and the start of the next")
        }
        _ if alone => {
            (budget, "its budget: alone on its core it runs as soon as it is ready, and then waits for its next period")
        }
        _ => (
            budget.checked_mul(2)?,
            "2 · budget: the others of its core can delay it to the end of one period, and the next follows",
        ),
    };
    Some((Hold { conforming: enforced, enforced }, why))
}
