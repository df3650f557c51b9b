//! The plan of one entry that has its core.

use crate::admission::Core;
use crate::backend::{cost, most_of_a_core};
use crate::candidates::Candidate;
use crate::critical;
use crate::host::{kept, OneHost};
use crate::needs::Need;
use crate::promises;
use crate::refusal::Refusal;
use crate::words::{reason, share, time};
use crate::xen;
use giusto_analysis::criticality::{judge_soonest, Refused, Vm};
use giusto_model::{
    Bandwidth, Certificate, Criticality, Hold, Interface, LocalProof, Reason, Renewal, Server, ServerKind, ServicePlan,
};

/// The plan of an entry in the first mode, and its servers in all local modes of a service that has some.
pub(super) fn place(
    core: &Core,
    entries: &[Candidate],
    index: usize,
    on: &OneHost,
) -> Result<(ServicePlan, Vec<(Server, LocalProof)>), Refusal> {
    let Candidate { service, vcpu, .. } = &entries[index];
    let (need, chosen) = (entries[index].need(0), &vcpu.chosen);
    let interface = need.interface;
    let used = core.used[0];
    let (host, facts) = (on.host, on.facts);
    let range = || Refusal::tasks(&service.name, giusto_analysis::Error::Range);
    let left_for_others = [used, host.keep_free, cost(chosen.backend, facts)]
        .into_iter()
        .try_fold(Bandwidth::ONE, Bandwidth::checked_sub)
        .ok_or_else(range)?;
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let critical = judged(core, entries, index, most).map_err(|_| range())?;
    let worst = critical.as_ref().and_then(|critical| critical.worst);
    let (hold, why_hold) =
        hold(chosen.kind, worst.map_or(interface, |worst| worst.interface), core.on.len() == 1).ok_or_else(range)?;
    let others: Vec<String> =
        core.on.iter().filter(|&&other| other != index).map(|&other| entries[other].to_string()).collect();
    let others = if others.is_empty() { "alone on it".into() } else { format!("beside {}", others.join(", ")) };
    let upkeep = core.on.iter().map(|&at| entries[at].upkeep(facts)).try_fold(Bandwidth::ZERO, Bandwidth::add_up);
    let upkeep = upkeep.filter(|upkeep| *upkeep > cost(chosen.backend, facts)).map_or(String::new(), |upkeep| {
        format!("; for their periods the manager takes up to {}, which is within what is kept free", share(upkeep))
    });
    let together = format!("{others}: {} of at most {} ({limit}){upkeep}", share(used), share(most));
    let core_reason = reason(
        "core",
        core.id,
        match critical {
            _ if xen::is_dom0(host, &service.name) => {
                format!("as 'dom0' of its host says; {together}")
            }
            _ if entries[index].now(on).is_some_and(|(id, _)| id == core.id) => format!("the one that it has now; {together}"),
            None => format!("largest supply first, on the first core with room that no as-if-alone service has; {together}"),
            Some(_) => format!(
                "largest at its worst first, on the first core whose servers go together with it by EDF-VD; {together}, the larger \
                 of LO and HI mode"
            ),
        },
    );
    let criticality = critical.as_ref().map_or(Vec::new(), |critical| critical.reasons.clone());
    let consequences = [
        reason("hold", time(hold.enforced), why_hold),
        reason(
            "left for others",
            share(left_for_others),
            format!("1 − {} reserved on this core − {}", share(used), kept(host, chosen.backend, facts)),
        ),
    ];
    let promise = match service.agent {
        None => service.promise.clone(),
        Some(_) => {
            let mut own: Vec<&Candidate> = entries.iter().filter(|entry| entry.order == entries[index].order).collect();
            own.sort_by_key(|entry| entry.vcpu.vcpu);
            let first = own.iter().map(|entry| entry.need(0).interface).collect();
            promises::of(&service.promise).in_first_mode(&service.promise, first)
        }
    };
    let plan = ServicePlan {
        name: service.name.clone(),
        on: host.name.clone(),
        promise,
        origin: service.origin.clone(),
        process: service.process.clone(),
        vcpu: vcpu.vcpu,
        copies: None,
        tasks: need.tasks.clone(),
        load: service.load.clone(),
        core: core.id,
        backend: chosen.backend,
        server: entries[index].server(0),
        cap: service.cap,
        utilization: need.utilization,
        required: need.required,
        margin: need.margin,
        hold,
        left_for_others,
        certificate: need.certificate.clone(),
        adapt: service.adapt,
        observe: service.observe.clone(),
        pessimistic: match worst {
            Some(worst) => Some(proof(&entries[index], worst, core.on.len() == 1).ok_or_else(range)?.1),
            None => None,
        },
        criticality: critical.map(|critical| critical.criticality),
        prediction: None,
        reasons: (std::iter::once(core_reason).chain(chosen.reasons.iter().cloned()))
            .chain(need.reasons.iter().cloned())
            .chain(criticality)
            .chain(consequences)
            .collect(),
    };
    let locals = vcpu.locals.iter().filter(|_| service.agent.is_some());
    let proofs = locals.map(|local| proof(&entries[index], local, core.on.len() == 1).ok_or_else(range));
    Ok((plan, proofs.collect::<Result<_, _>>()?))
}

/// What follows for an entry from its criticality, and from that of the others of its core.
struct Judged<'a> {
    criticality: Criticality,
    worst: Option<&'a Need>,
    reasons: Vec<Reason>,
}

/// `None`: it has no criticality. Errors: they do not go together after all.
fn judged<'a>(
    core: &Core,
    entries: &'a [Candidate],
    index: usize,
    most: Bandwidth,
) -> Result<Option<Judged<'a>>, Refused> {
    let Some(vm) = entries[index].vm() else { return Ok(None) };
    let here: Vec<Vm> = core.on.iter().filter_map(|&at| entries[at].vm()).collect();
    let verdict = judge_soonest(&here, most)?;
    let place = core.on.iter().position(|&at| at == index).unwrap_or(0);
    let timely = matches!(entries[index].need(0).certificate, Certificate::EveryDeadline { .. });
    Ok(Some(Judged {
        criticality: critical::criticality(&vm, place, &verdict),
        worst: entries[index].vcpu.worst.as_ref(),
        reasons: critical::reasons(&vm, place, &verdict, most, timely),
    }))
}

/// The server of an entry in one local mode, with what it rests on.
fn proof(entry: &Candidate, need: &Need, alone: bool) -> Option<(Server, LocalProof)> {
    let (hold, _) = hold(entry.vcpu.chosen.kind, need.interface, alone)?;
    Some((entry.vcpu.server(need.interface), need.proof(hold)))
}

/// How long the server runs without a break, and why. `None` beyond 584 years.
fn hold(kind: ServerKind, interface: Interface, alone: bool) -> Option<(Hold, &'static str)> {
    let budget = interface.budget;
    let (enforced, why) = match (kind.renewal(), alone) {
        (Renewal::KeptOnGrid, _) => {
            (budget.checked_mul(2)?, "2 · budget: the end of one period and the start of the next")
        }
        (Renewal::Grid | Renewal::Parts | Renewal::Steady | Renewal::Unlimited, true) => {
            (budget, "its budget: alone on its core it runs as soon as it is ready, and then waits for its next period")
        }
        (Renewal::Grid | Renewal::Parts | Renewal::Steady | Renewal::Unlimited, false) => (
            budget.checked_mul(2)?,
            "2 · budget: the others of its core can delay it to the end of one period, and the next follows",
        ),
    };
    Some((Hold { conforming: enforced, enforced }, why))
}
