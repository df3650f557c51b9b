//! Services that are promised every deadline: the server of each of their virtual CPUs, and what proves that it is
//! enough.

use crate::backend::{choose, deviation, most_of_a_core, Chosen, Deviation, Wanted};
use crate::cheapest::{cheapest, Demand, QUANTUM};
use crate::place::Unplaced;
use crate::size::reason;
use crate::spread::{parts, Part};
use crate::words::{share, time};
use crate::{Cause, Facts, Lack, Refusal, Shortage};
use giusto_analysis::interface::Shortfall;
use giusto_analysis::share::utilization;
use giusto_analysis::Error;
use giusto_model::{
    AgentKey, Bandwidth, Certificate, Duration, GuestScheduler, Host, Interface, LocalNeed, Point, Promise, Reason,
    Release, Scheduler, Service, SiteCriticality, Task, AGENT_TASK, STOPPED,
};

/// What one virtual CPU needs for its deadlines.
pub(crate) struct Need {
    pub(crate) tasks: Vec<Task>,
    pub(crate) utilization: Bandwidth,
    /// Of the server's bandwidth, what is counted on, and what may be lost.
    pub(crate) required: Bandwidth,
    pub(crate) margin: Bandwidth,
    pub(crate) certificate: Certificate,
    pub(crate) reasons: Vec<Reason>,
    scheduler: GuestScheduler,
    deviation: Deviation,
    least: Duration,
}

/// A virtual CPU, and in each local mode its server with what that rests on. All servers have one period.
pub(crate) struct Vcpu {
    pub(crate) vcpu: Option<u32>,
    pub(crate) chosen: Chosen,
    /// One if the service always does the same.
    pub(crate) locals: Vec<(Interface, Need)>,
    /// Of a service of high criticality: with the worst execution times of its tasks.
    pub(crate) worst: Option<(Interface, Need)>,
}

/// Of changes of the mode.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The least between two of them.
    pub(crate) spacing: Duration,
    /// For the answer of an agent.
    pub(crate) timeout: Duration,
    /// How many of them there may be in one spacing.
    pub(crate) at_once: u64,
}

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
pub(crate) fn entries(service: &Service, host: &Host, facts: &Facts, times: Times) -> Result<Vec<Vcpu>, Unplaced> {
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
                let work = work(service, agent, &parts[0].tasks, *scheduler, times).map_err(Unplaced::Other)?;
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
        entry(service, locals, host, facts)
    };
    (0..*vcpus as usize).map(vcpu).collect()
}

/// The tasks of a virtual CPU with their worst execution times, those of `tasks` being `worst`.
fn at_worst(part: &Part, tasks: &[Task], worst: &[Duration]) -> Part {
    let most = |task: &Task| tasks.iter().zip(worst).find(|(one, _)| one.name == task.name).map(|(_, most)| *most);
    let one = |task: &Task| Task { wcet: most(task).unwrap_or(task.wcet), ..task.clone() };
    Part { vcpu: part.vcpu, tasks: part.tasks.iter().map(one).collect() }
}

/// What an agent does, as a task among those that it goes before: it is done by the shortest deadline D, above all in
/// every order; and its changes are the spacing apart, but the work of one may come as much as D late, so it is taken
/// to come D more often. It may work for an urgent change and another one together, each of which has a spacing of its
/// own: as one task with the work of both. It is done before its timeout, too, where that makes no other wait: not
/// among tasks that may go in any order.
fn work(
    service: &Service,
    agent: &AgentKey,
    tasks: &[Task],
    scheduler: GuestScheduler,
    Times { spacing, timeout, at_once }: Times,
) -> Result<Task, Refusal> {
    let half = Duration::from_ns(spacing.ns() / 2);
    let soon = if scheduler == GuestScheduler::Any && !tasks.is_empty() { half } else { half.min(timeout) };
    let deadline = tasks.iter().map(|task| task.deadline).min().unwrap_or(soon).min(soon);
    let mut period = Duration::from_ns(spacing.ns() - deadline.ns());
    if scheduler == GuestScheduler::Own(Scheduler::Rm) {
        period = tasks.iter().map(|task| task.period).min().unwrap_or(period).min(period);
    }
    let cost = agent.cost.checked_mul(at_once).unwrap_or(agent.cost);
    if cost > deadline {
        return Err(Refusal::Asked {
            service: service.name.clone(),
            why: format!("its agent may work for {}, and has {} for that", time(cost), time(deadline)),
            instead: "expected a smaller cost, longer deadlines, or a longer spacing between changes".into(),
        });
    }
    let (name, wcet, release) = (AGENT_TASK.into(), cost, Release::Sporadic);
    Ok(Task { name, wcet, period, deadline, offset: Duration::ZERO, release, copies: 1 })
}

fn entry(service: &Service, locals: Vec<Local>, host: &Host, facts: &Facts) -> Result<Vcpu, Unplaced> {
    let fault = |why| refused(service, why);
    let Promise::EveryDeadline { scheduler, .. } = &service.promise else { return Err(fault(Error::NoTasks)) };
    let chosen = choose(service, Wanted::Deadlines, facts).map_err(Unplaced::Other)?;
    let (limits, deviation) = (&chosen.limits, deviation(chosen.backend, facts));
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let used: Vec<Bandwidth> =
        locals.iter().map(|local| used(&local.part.tasks)).collect::<Result<_, _>>().map_err(fault)?;
    let demand = |local: usize| Demand::new(&locals[local].part.tasks, *scheduler, &deviation, limits.budget);
    let busy: Vec<usize> = (0..locals.len()).filter(|&local| !locals[local].part.tasks.is_empty()).collect();
    let demands: Vec<Demand<'_>> = busy.iter().map(|&local| demand(local)).collect();
    let from = |shortest| match used.iter().all(|used| *used < Bandwidth::ONE) && !demands.is_empty() {
        true => cheapest(&demands, shortest, limits.longest).map_err(fault),
        false => Ok(None),
    };
    let fits = |server: &Interface| server.bandwidth() <= most;
    // Shorter than what is chosen costs the backend more than it is given; only where nothing else is enough.
    let (mut shortest, mut found) = (limits.chosen, from(limits.chosen)?);
    if limits.shortest < shortest && !found.as_ref().is_some_and(fits) {
        (shortest, found) = (limits.shortest, from(limits.shortest)?);
    }
    let vcpu = locals[0].part.vcpu;
    let Some(Interface { period, .. }) = found.filter(fits) else {
        // The mode that needs most, by itself.
        let alone = |local: usize| match used[local] < Bandwidth::ONE {
            true => cheapest(&[demand(local)], shortest, limits.longest).map_err(fault),
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
        let lack = lack(&demand(place), &local.part.tasks, period, most).map_err(fault)?;
        let cause = Cause::Deadlines(Box::new(Shortage { vcpu, needs, room: most, whole: most, cores: 1, lack }));
        let at_worst = local.worst && locals.iter().all(|other| other.worst || other.part.tasks != local.part.tasks);
        let cause = if at_worst { Cause::AtWorst(Box::new(cause)) } else { cause.within(None, local.name.clone()) };
        return Err(Unplaced::DoesNotFit { service: service.name.clone(), cause });
    };
    let worst = locals.iter().any(|local| local.worst);
    let cheapest = match locals.len() {
        1 => "the one whose server is cheapest",
        _ if worst => "the one whose server is cheapest at its worst; the same for both budgets",
        _ => "the one whose server is cheapest in the worst mode of the service; the same in all its modes, so that a change is of budgets only",
    };
    let mut needs = Vec::new();
    for (local, utilization) in locals.into_iter().zip(used) {
        let mut need = Need {
            tasks: local.part.tasks,
            utilization,
            required: Bandwidth::ZERO,
            margin: Bandwidth::ZERO,
            certificate: Certificate::Supply,
            reasons: Vec::new(),
            scheduler: *scheduler,
            deviation: deviation.clone(),
            least: limits.budget,
        };
        let budget = need.prove(period).map_err(fault)?;
        let bounds = (shortest, limits.longest, limits.bounds.as_str());
        need.reasons = reasons(service, &need, Interface { budget, period }, bounds, cheapest, (most, limit));
        needs.push((Interface { budget, period }, need));
    }
    let worst = if worst { needs.pop() } else { None };
    Ok(Vcpu { vcpu, chosen, locals: needs, worst })
}

/// Σ C/T; nothing without tasks.
fn used(tasks: &[Task]) -> Result<Bandwidth, Error> {
    match tasks.is_empty() {
        true => Ok(Bandwidth::ZERO),
        false => utilization(tasks),
    }
}

/// Where the numbers of one virtual CPU come from, in one of its modes.
fn reasons(
    service: &Service,
    need: &Need,
    server: Interface,
    (shortest, longest, bounds): (Duration, Duration, &str),
    cheapest: &str,
    (most, limit): (Bandwidth, &str),
) -> Vec<Reason> {
    let Need { tasks, scheduler, deviation, .. } = need;
    let only = tasks.len() == 1 && tasks[0].copies == 1;
    let from_site = matches!(&service.promise, Promise::EveryDeadline { placed, .. } if !placed.is_empty());
    let mut reasons = Vec::new();
    if service.origin.has_vcpus() {
        let names: Vec<String> = tasks
            .iter()
            .map(|task| if task.copies > 1 { format!("{} of {}", task.copies, task.name) } else { task.name.clone() })
            .collect();
        let how = if from_site { "from the site" } else { "largest first, each on the virtual CPU with least so far" };
        reasons.push(reason("runs here", names.join(", "), format!("{how}; pin them to this virtual CPU")));
    }
    let counted = match need.certificate {
        Certificate::EveryDeadline { budget, .. } => budget,
        _ => server.budget,
    };
    reasons.extend([
        reason("scheduler", scheduler, why_scheduler(*scheduler, only, service.origin.has_vcpus())),
        reason("utilization", share(need.utilization), "U = Σ C/T of its tasks, copies counted"),
        reason(
            "period",
            time(server.period),
            format!("of all from {} to {} ({bounds}), in steps of {QUANTUM}, {cheapest}", time(shortest), time(longest)),
        ),
        reason("required", format!("{} ({})", time(counted), share(need.required)), format!("the least, in steps of {QUANTUM}, that supplies in every window what may be asked for in it ([Lee11, Lemma 1]; Abe22)")),
        reason("loss", time(deviation.loss), format!("of each budget, not counted on: {}", deviation.why)),
        reason("latency", time(deviation.latency), "at the start of every window, not counted on: timers, wake-ups and the kernel's own work; the worst of 7,200 periods lacked 530 us"),
        reason("budget", format!("{} ({})", time(server.budget), share(server.bandwidth())), format!("required + loss; at most {} ({limit})", share(most))),
    ]);
    reasons
}

fn why_scheduler(scheduler: GuestScheduler, only: bool, vm: bool) -> String {
    match scheduler {
        _ if only => "it has one job at a time, so that any order is the same".into(),
        GuestScheduler::Any => {
            "nothing is known of the order of its jobs, so each is reckoned to wait for all others".into()
        }
        GuestScheduler::Own(_) if vm => "from the site, preemptive; its kernel has to keep this order".into(),
        GuestScheduler::Own(_) => {
            "from the site, preemptive; it has to keep this order by itself, as its threads have one priority together"
                .into()
        }
    }
}

impl Need {
    /// Takes the least budget at this period, and proves that it is enough. Without tasks there is nothing to prove:
    /// the least that the backend keeps is for the kernel of the virtual CPU.
    fn prove(&mut self, period: Duration) -> Result<Duration, Error> {
        let part_of = |time: Duration| Bandwidth::of(time, period).ok_or(Error::Range);
        if self.tasks.is_empty() {
            let budget = self.least;
            self.required = part_of(budget)?;
            self.certificate =
                Certificate::EveryDeadline { budget, latency: self.deviation.latency, points: Vec::new(), until: None };
            return Ok(budget);
        }
        let demand = Demand::new(&self.tasks, self.scheduler, &self.deviation, self.least);
        let budget = demand.budget(period)?.ok_or(Error::Range)?;
        let Some(Ok(proof)) = demand.kept(Interface { budget, period })? else { return Err(Error::Range) };
        let counted = budget.checked_sub(self.deviation.loss).unwrap_or(Duration::ZERO);
        let points: Vec<Point> = match self.scheduler {
            // Of all tasks together the last one.
            GuestScheduler::Any => {
                proof.points.last().map(|point| Point { task: None, ..*point }).into_iter().collect()
            }
            GuestScheduler::Own(_) => proof.points,
        };
        let (latency, until) = (self.deviation.latency, proof.until);
        self.certificate = Certificate::EveryDeadline { budget: counted, latency, points, until };
        (self.required, self.margin) = (part_of(counted)?, part_of(self.deviation.loss)?);
        Ok(budget)
    }

    /// Where these tasks fall short with `room` of a core, at the period of the server that they need.
    pub(crate) fn lack(&self, period: Duration, room: Bandwidth) -> Result<Lack, Error> {
        let demand = Demand::new(&self.tasks, self.scheduler, &self.deviation, self.least);
        lack(&demand, &self.tasks, period, room)
    }
}

/// The least budget for virtual CPU `vcpu` of a service that is promised supplies, in this period, while it is
/// stopped: what the backend keeps, and enough for its agent.
pub(crate) fn stopped(
    service: &Service,
    vcpu: usize,
    period: Duration,
    chosen: &Chosen,
    facts: &Facts,
    times: Times,
) -> Result<Duration, Unplaced> {
    let least = chosen.limits.budget;
    let Some(agent) = service.agent.as_ref().filter(|_| vcpu == 0) else { return Ok(least) };
    let tasks = [work(service, agent, &[], GuestScheduler::Any, times).map_err(Unplaced::Other)?];
    let demand = Demand::new(&tasks, GuestScheduler::Any, &deviation(chosen.backend, facts), least);
    let budget = demand.budget(period).map_err(|why| refused(service, why))?;
    budget.ok_or_else(|| refused(service, Error::Range))
}

/// What goes wrong with servers of this period and `room`.
fn lack(demand: &Demand<'_>, tasks: &[Task], period: Duration, room: Bandwidth) -> Result<Lack, Error> {
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
    Ok(Lack { given, task: tasks[task].name.clone(), at, demand: asked, supply })
}

fn refused(service: &Service, why: Error) -> Unplaced {
    Unplaced::Other(Refusal::Tasks { service: service.name.clone(), why })
}
