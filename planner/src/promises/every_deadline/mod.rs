//! Every deadline: the server of each virtual CPU, and what proves that it is enough.

mod alternatives;
pub(super) mod cheapest;
mod explain;
mod prices;
mod refusal;
mod spread;

pub use refusal::{Late, Shortage};

use crate::backend::{choose, deviation, deviation_without_end, most_of_a_core, Deviation, Wanted};
use crate::facts::Facts;
use crate::host::{OneHost, Times};
use crate::needs::{Company, Need, Vcpu};
use crate::promises::agent::work;
use crate::promises::method::{Asks, Method, Room};
use crate::refusal::{Cause, NearestFit, Refusal};
use crate::trial::Trial;
use crate::words::{share, time};
use alternatives::Alternatives;
use cheapest::{cheapest, Demand};
use explain::reasons;
use giusto_analysis::interface::Shortfall;
use giusto_analysis::share::utilization_at_most as utilization;
use giusto_analysis::Error;
use giusto_model::{
    Bandwidth, Certificate, Duration, GuestScheduler, HostLatency, Interface, LocalNeed, Promise, RestsOn, Scheduler,
    Service, ServiceMode, ServicePlan, SiteCriticality, Task, STOPPED,
};
use spread::{parts, Part};

/// The method of this promise.
pub(crate) struct EveryDeadline;

/// A local mode: its name, unless the service always does the same, and what runs on one virtual CPU.
struct Local {
    name: Option<String>,
    /// With the worst execution times.
    worst: bool,
    part: Part,
}

/// The servers of `service`, one a virtual CPU: of all periods and budgets that its backend can do the cheapest, in
/// the worst of its modes, with what changes of the mode cost.
///
/// Errors: no backend, tasks that cannot be analysed, deadlines for which no core is enough.
fn servers(service: &Service, on: &OneHost, times: Times, company: Company) -> Result<Vec<Vcpu>, Refusal> {
    let Promise::EveryDeadline { vcpus, placed, scheduler } = &service.promise else { return Ok(Vec::new()) };
    let spread = |tasks: &[Task], placed: &[u32]| {
        parts(&service.origin, *vcpus, tasks, placed).ok_or_else(|| refused(service, Error::Range))
    };
    // By local mode, and in each by virtual CPU.
    let mut all: Vec<(Option<String>, Vec<Part>)> = Vec::new();
    for mode in &service.modes {
        let LocalNeed::Tasks { tasks, placed } = &mode.need else { continue };
        all.push((Some(mode.name.clone()), spread(tasks, placed)?));
    }
    match &service.agent {
        None => all.push((None, spread(&service.tasks, placed)?)),
        Some(agent) => {
            all.push((Some(STOPPED.into()), spread(&[], &[])?));
            for (_, parts) in &mut all {
                let work = work(service, agent, &parts[0].tasks, *scheduler, times)?;
                parts[0].tasks.insert(0, work);
            }
        }
    }
    let vcpu = |vcpu: usize| {
        let locals =
            all.iter().map(|(name, parts)| Local { name: name.clone(), worst: false, part: parts[vcpu].clone() });
        let mut locals: Vec<Local> = locals.collect();
        if let (Some(SiteCriticality::High { worst }), Some((_, parts))) = (&service.criticality, all.first()) {
            let part = at_worst(&parts[vcpu], &service.tasks, worst);
            locals.push(Local { name: None, worst: true, part });
        }
        entry(service, locals, on, company)
    };
    (0..*vcpus as usize).map(vcpu).collect()
}

/// The tasks of a virtual CPU with their worst execution times, those of `tasks` being `worst`.
fn at_worst(part: &Part, tasks: &[Task], worst: &[Duration]) -> Part {
    let most = |task: &Task| tasks.iter().zip(worst).find(|(one, _)| one.name == task.name).map(|(_, most)| *most);
    let one = |task: &Task| Task { wcet: most(task).unwrap_or(task.wcet), ..task.clone() };
    Part { vcpu: part.vcpu, tasks: part.tasks.iter().map(one).collect() }
}

fn entry(service: &Service, locals: Vec<Local>, on: &OneHost, company: Company) -> Result<Vcpu, Refusal> {
    let (host, facts) = (on.host, on.facts);
    let fault = |why| refused(service, why);
    let Promise::EveryDeadline { scheduler, .. } = &service.promise else { return Err(fault(Error::NoTasks)) };
    let chosen = choose(service, Wanted::Deadlines, facts)?;
    let (limits, deviation) = (&chosen.limits, deviation(chosen.backend, facts));
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let used: Vec<Bandwidth> =
        locals.iter().map(|local| used(&local.part.tasks)).collect::<Result<_, _>>().map_err(fault)?;
    let demand = |local: usize| Demand::new(&locals[local].part.tasks, *scheduler, &deviation, limits.budget);
    let busy: Vec<usize> = (0..locals.len()).filter(|&local| !locals[local].part.tasks.is_empty()).collect();
    let demands: Vec<Demand<'_>> = busy.iter().map(|&local| demand(local)).collect();
    // Budgets of one period for several modes are known of the periodic resource only.
    let always = locals.len() == 1 && service.agent.is_none() && service.criticality.is_none();
    let endless = deviation_without_end(chosen.backend, facts);
    let all = match always {
        true => Alternatives::of(&locals[0].part.tasks, *scheduler, &chosen, (&deviation, &endless), most),
        false => Alternatives::default(),
    };
    let than = all.cheapest(None, company).map(|found| found.server);
    let from = |shortest| match used.iter().all(|used| *used < Bandwidth::ONE) && !demands.is_empty() {
        true => cheapest(&demands, shortest, limits.longest, than).map_err(fault),
        false => Ok(None),
    };
    let fits = |server: &Interface| server.bandwidth() <= most;
    // Shorter than what is chosen costs the backend more than it is given; only where nothing else is enough.
    let (mut shortest, mut found) = (limits.chosen, from(limits.chosen)?);
    if limits.shortest < shortest && than.is_none() && !found.as_ref().is_some_and(fits) {
        (shortest, found) = (limits.shortest, from(limits.shortest)?);
    }
    let vcpu = locals[0].part.vcpu;
    if let Some(other) = all.cheapest(found.filter(fits), company) {
        let whole = matches!(other.rests_on, RestsOn::WholeCore { .. });
        let alone = whole || chosen.backend.abilities().at_the_tick;
        let tasks = &locals[0].part.tasks;
        let mut need = other.need(tasks, used[0]).map_err(fault)?;
        let deviation = if whole { &endless } else { &deviation };
        need.reasons = explain::alternative(service, &need, *scheduler, deviation, limits, (most, limit));
        need.reasons.extend(prices::reasons(&all, tasks, &chosen, found, (most, company)));
        return Ok(Vcpu { vcpu, chosen, locals: vec![need], worst: None, critical: false, alone });
    }
    let Some(Interface { period, .. }) = found.filter(fits) else {
        // The mode that needs most, by itself.
        let alone = |local: usize| match used[local] < Bandwidth::ONE {
            true => cheapest(&[demand(local)], shortest, limits.longest, None).map_err(fault),
            false => Ok(None),
        };
        let mut worst: Option<(Option<Bandwidth>, Option<Interface>, usize)> = None;
        for &place in &busy {
            let needs = alone(place)?;
            // None, more than a whole core, is the most of all.
            let bandwidth = needs.map(|needs| needs.bandwidth());
            let more =
                |(before, ..): &(Option<Bandwidth>, _, _)| before.is_some_and(|b| bandwidth.is_none_or(|own| own > b));
            if worst.as_ref().is_none_or(more) {
                worst = Some((bandwidth, needs, place));
            }
        }
        let Some((_, needs, place)) = worst else { return Err(fault(Error::NoTasks)) };
        let needs = if needs.as_ref().is_some_and(fits) { found.or(needs) } else { needs };
        let local = &locals[place];
        let period = needs.map_or(shortest, |server| server.period);
        let late = late(&demand(place), &local.part.tasks, period, most).map_err(fault)?;
        let cause = Cause::Deadlines(Box::new(Shortage {
            vcpu,
            scheduler: *scheduler,
            needs,
            room: most,
            whole: most,
            cores: 1,
            late,
        }));
        let at_worst = local.worst && locals.iter().all(|other| other.worst || other.part.tasks != local.part.tasks);
        let cause = if at_worst { Cause::AtWorst(Box::new(cause)) } else { cause.within(None, local.name.clone()) };
        return Err(Refusal::does_not_fit(&service.name, cause));
    };
    let worst = locals.iter().any(|local| local.worst);
    let cheapest = match locals.len() {
        1 => "the one whose server is cheapest",
        _ if worst => "the one whose server is cheapest at its worst; the same for both budgets",
        _ => {
            "the one whose server is cheapest in the worst mode of the service; the same in all its modes, so that a \
              change is of budgets only"
        }
    };
    let mut needs = Vec::new();
    for (local, utilization) in locals.into_iter().zip(used) {
        let need = prove(local.part.tasks, *scheduler, &deviation, limits.budget, period).map_err(fault)?;
        let bounds = (shortest, limits.longest, limits.bounds.as_str());
        let mut need = Need { utilization, ..need };
        need.reasons = reasons(service, &need, *scheduler, &deviation, bounds, cheapest, (most, limit));
        if always && !need.tasks.is_empty() {
            need.reasons.push(prices::periodic());
            let tasks = &need.tasks;
            need.reasons.extend(prices::reasons(&all, tasks, &chosen, found, (most, company)));
        }
        needs.push(need);
    }
    let worst = if worst { needs.pop() } else { None };
    // Where budgets end at the tick the others would run over by one each.
    let alone = chosen.backend.abilities().at_the_tick;
    Ok(Vcpu { vcpu, chosen, locals: needs, worst, critical: service.criticality.is_some(), alone })
}

/// Σ C/T; nothing without tasks.
fn used(tasks: &[Task]) -> Result<Bandwidth, Error> {
    match tasks.is_empty() {
        true => Ok(Bandwidth::ZERO),
        false => utilization(tasks),
    }
}

/// The least budget for `tasks` at this period, and what proves that it is enough. Without tasks there is nothing to prove:
/// the `least` that the backend keeps is for the kernel of the virtual CPU.
fn prove(
    tasks: Vec<Task>,
    scheduler: GuestScheduler,
    deviation: &Deviation,
    least: Duration,
    period: Duration,
) -> Result<Need, Error> {
    let part_of = |time: Duration| Bandwidth::of(time, period).ok_or(Error::Range);
    let (latency, utilization, reasons) = (deviation.latency, Bandwidth::ZERO, Vec::new());
    if tasks.is_empty() {
        let interface = Interface { budget: least, period };
        let rests_on = RestsOn::PeriodicResource;
        let certificate =
            Certificate::EveryDeadline { budget: least, latency, points: Vec::new(), until: None, rests_on };
        let (required, margin) = (part_of(least)?, Bandwidth::ZERO);
        return Ok(Need { interface, tasks, utilization, required, margin, certificate, reasons });
    }
    let demand = Demand::new(&tasks, scheduler, deviation, least);
    let budget = demand.budget(period)?.ok_or(Error::Range)?;
    let interface = Interface { budget, period };
    let Some(Ok(proof)) = demand.kept(interface)? else { return Err(Error::Range) };
    let counted = budget.checked_sub(deviation.loss).unwrap_or(Duration::ZERO);
    let until = proof.until;
    let points = demand.points(proof);
    let rests_on = RestsOn::PeriodicResource;
    let certificate = Certificate::EveryDeadline { budget: counted, latency, points, until, rests_on };
    let (required, margin) = (part_of(counted)?, part_of(deviation.loss)?);
    Ok(Need { interface, tasks, utilization, required, margin, certificate, reasons })
}

/// What goes wrong with servers of this period and `room`.
fn late(demand: &Demand<'_>, tasks: &[Task], period: Duration, room: Bandwidth) -> Result<Late, Error> {
    let budget = u128::from(period.ns()) * u128::from(room.numer()) / u128::from(room.denom());
    let given = Interface { budget: Duration::from_ns(u64::try_from(budget).unwrap_or(u64::MAX)), period };
    let (task, at, asked, supply) = match demand.kept(given)? {
        Some(Err(Shortfall { point, task })) => (task, point.at, point.demand, point.supply),
        // Nothing of it can be counted on.
        _ => {
            let task = (0..tasks.len()).min_by_key(|&task| tasks[task].deadline).ok_or(Error::NoTasks)?;
            (task, tasks[task].deadline, tasks[task].wcet, Duration::ZERO)
        }
    };
    Ok(Late { given, task: tasks[task].name.clone(), at, demand: asked, supply })
}

fn refused(service: &Service, why: Error) -> Refusal {
    Refusal::tasks(&service.name, why)
}

/// Σ C/T, in the mode in which it is most; a whole core where that cannot be written.
fn busiest(service: &Service) -> Bandwidth {
    let of = |tasks: &[Task]| utilization(tasks).unwrap_or(Bandwidth::ONE);
    let in_mode = |mode: &ServiceMode| match &mode.need {
        LocalNeed::Tasks { tasks, .. } => of(tasks),
        LocalNeed::Supply(_) => Bandwidth::ZERO,
    };
    service.modes.iter().map(in_mode).max().unwrap_or_else(|| of(&service.tasks))
}

/// An order of its jobs with which it fits, where nothing is known of it or it is a worse one.
fn another_order(trial: &Trial, witness: &Service) -> Option<NearestFit> {
    let Promise::EveryDeadline { scheduler: now, .. } = &witness.promise else { return None };
    let change = |service: &mut Service, to: GuestScheduler| {
        if let Promise::EveryDeadline { scheduler, .. } = &mut service.promise {
            *scheduler = to;
        }
    };
    let others = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf].map(GuestScheduler::Own);
    let others = others.into_iter().filter(|other| other != now);
    others.into_iter().find(|&to| trial.with(|service, _| change(service, to))).map(NearestFit::Scheduler)
}

impl Method for EveryDeadline {
    fn asks(&self, service: &Service) -> Asks {
        Asks::Share(busiest(service))
    }

    fn breaks_under_shares(&self) -> u8 {
        4
    }

    fn cheaper_alone(&self) -> bool {
        true
    }

    fn needs(&self, on: &OneHost, service: &Service, company: Company) -> Result<Vec<Vcpu>, Refusal> {
        servers(service, on, on.times(), company)
    }

    fn no_room(&self, service: &Service, vcpu: &Vcpu, need: &Need, room: &Room, facts: &Facts) -> Result<Cause, Error> {
        let Promise::EveryDeadline { scheduler, .. } = &service.promise else { return Err(Error::NoTasks) };
        let (deviation, least) = (deviation(vcpu.chosen.backend, facts), vcpu.chosen.limits.budget);
        let mut demand = Demand::new(&need.tasks, *scheduler, &deviation, least);
        if matches!(need.certificate, Certificate::EveryDeadline { rests_on: RestsOn::AlignedReleases, .. }) {
            demand = demand.aligned();
        }
        let late = late(&demand, &need.tasks, need.interface.period, room.left)?;
        let &Room { left: room, whole, cores } = room;
        let needs = Some(need.interface);
        let (vcpu, scheduler) = (vcpu.vcpu, *scheduler);
        Ok(Cause::Deadlines(Box::new(Shortage { vcpu, scheduler, needs, room, whole, cores, late })))
    }

    fn nearest(&self, trial: &Trial, witness: &Service, cause: &Cause) -> Vec<NearestFit> {
        let Cause::Deadlines(shortage) = cause else { return Vec::new() };
        // The task that is late, or, where that is not to blame, the one with the largest utilization.
        let late = trial.tasks(witness).iter().position(|task| task.name == shortage.late.task);
        let shorter = late.and_then(|late| trial.longest_wcet(witness, late)).or_else(|| trial.shorter_task(witness));
        let whole = shortage.needs.is_some_and(|needs| needs.bandwidth() <= shortage.whole);
        let order = another_order(trial, witness);
        order.into_iter().chain(shorter).chain(whole.then(|| trial.more_cores(1)).flatten()).collect()
    }

    fn smaller(&self, trial: &Trial, witness: &Service) -> Vec<NearestFit> {
        trial.shorter_task(witness).into_iter().chain(trial.more_cores(1)).collect()
    }

    /// Where tasks are is what the servers of each local mode say.
    fn in_first_mode(&self, promise: &Promise, _first: Vec<Interface>) -> Promise {
        match promise.clone() {
            Promise::EveryDeadline { scheduler, vcpus, .. } => {
                Promise::EveryDeadline { scheduler, vcpus, placed: Vec::new() }
            }
            other => other,
        }
    }

    fn alone(&self, planned: &ServicePlan) -> bool {
        let whole =
            matches!(planned.certificate, Certificate::EveryDeadline { rests_on: RestsOn::WholeCore { .. }, .. });
        whole || planned.backend.abilities().at_the_tick
    }

    fn asked(&self, planned: &ServicePlan) -> String {
        format!("{} for every deadline + {} loss", share(planned.required), share(planned.margin))
    }

    fn promised(&self, planned: &ServicePlan) -> String {
        format!("no job late, with {} in every {}", time(planned.server.budget), time(planned.server.period))
    }

    fn late(&self, late: &HostLatency, allowed: &str) -> String {
        format!(
            "nothing is counted on in the first {allowed} of any window or after a wake-up, {} allowed for in any \
             case: sbf(t − L)",
            time(late.allowance)
        )
    }

    fn proof(&self, planned: &ServicePlan) -> Vec<[String; 3]> {
        explain::decides(planned).into_iter().collect()
    }
}
