//! Services that are promised every deadline: the server of each of their virtual CPUs, and what proves that it is enough.

use crate::backend::{choose, deviation, most_of_a_core, Chosen, Deviation, Wanted};
use crate::cheapest::{Demand, QUANTUM};
use crate::place::Unplaced;
use crate::size::reason;
use crate::spread::{parts, Part};
use crate::words::{share, time};
use crate::{Cause, Facts, Lack, Refusal, Shortage};
use giusto_analysis::interface::Shortfall;
use giusto_analysis::share::utilization;
use giusto_analysis::Error;
use giusto_model::{
    Bandwidth, Certificate, Duration, GuestScheduler, Host, Interface, Point, Promise, Reason, Service, Task,
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

/// A virtual CPU, its server, and what that rests on.
pub(crate) type Entry = (Option<u32>, Interface, Chosen, Need);

/// The servers of `service`, one a virtual CPU: of all periods and budgets that its backend can do the cheapest.
///
/// Errors: no backend, tasks that cannot be analysed, deadlines for which no core is enough.
pub(crate) fn entries(service: &Service, host: &Host, facts: &Facts) -> Result<Vec<Entry>, Unplaced> {
    let parts = parts(service).ok_or_else(|| refused(service, Error::Range))?;
    parts.into_iter().map(|part| entry(service, part, host, facts)).collect()
}

fn entry(service: &Service, part: Part, host: &Host, facts: &Facts) -> Result<Entry, Unplaced> {
    let fault = |why| refused(service, why);
    let (scheduler, from_site) = match &service.promise {
        Promise::EveryDeadline { scheduler, placed, .. } => (*scheduler, !placed.is_empty()),
        _ => (GuestScheduler::Any, false), // has no parts
    };
    let chosen = choose(service, Wanted::Deadlines, facts).map_err(Unplaced::Other)?;
    let (limits, deviation) = (&chosen.limits, deviation(chosen.backend, facts));
    let (most, limit) = most_of_a_core(host, facts, chosen.backend);
    let utilization = utilization(&part.tasks).map_err(fault)?;
    let demand = Demand::new(&part.tasks, scheduler, &deviation, limits.budget);
    let from = |shortest| match utilization < Bandwidth::ONE {
        true => demand.cheapest(shortest, limits.longest).map_err(fault),
        false => Ok(None),
    };
    let fits = |server: &Interface| server.bandwidth() <= most;
    // Shorter than what is chosen costs the backend more than it is given; only where nothing else is enough.
    let (mut shortest, mut cheapest) = (limits.chosen, from(limits.chosen)?);
    if limits.shortest < shortest && !cheapest.as_ref().is_some_and(fits) {
        (shortest, cheapest) = (limits.shortest, from(limits.shortest)?);
    }
    let Some(server) = cheapest.filter(fits) else {
        let period = cheapest.map_or(shortest, |server| server.period);
        let lack = lack(&demand, &part.tasks, period, most).map_err(fault)?;
        let (vcpu, needs) = (part.vcpu, cheapest);
        let cause = Cause::Deadlines(Box::new(Shortage { vcpu, needs, room: most, whole: most, cores: 1, lack }));
        return Err(Unplaced::DoesNotFit { service: service.name.clone(), cause });
    };
    let Interface { budget, period } = server;
    let Some(Ok(proof)) = demand.kept(server).map_err(fault)? else { return Err(fault(Error::Range)) };
    let counted = budget.checked_sub(deviation.loss).unwrap_or(Duration::ZERO);
    let only = part.tasks.len() == 1 && part.tasks[0].copies == 1;
    let points: Vec<Point> = match scheduler {
        // Of all tasks together the last one.
        GuestScheduler::Any => proof.points.last().map(|point| Point { task: None, ..*point }).into_iter().collect(),
        GuestScheduler::Own(_) => proof.points,
    };
    let certificate =
        Certificate::EveryDeadline { budget: counted, latency: deviation.latency, points, until: proof.until };
    let part_of = |time: Duration| Bandwidth::of(time, period).unwrap_or(Bandwidth::ZERO);
    let (required, margin) = (part_of(counted), part_of(deviation.loss));
    let mut reasons = Vec::new();
    if service.origin.has_vcpus() {
        let names: Vec<String> = part
            .tasks
            .iter()
            .map(|task| if task.copies > 1 { format!("{} of {}", task.copies, task.name) } else { task.name.clone() })
            .collect();
        let how = if from_site { "from the site" } else { "largest first, each on the virtual CPU with least so far" };
        reasons.push(reason("runs here", names.join(", "), format!("{how}; pin them to this virtual CPU")));
    }
    reasons.extend([
        reason("scheduler", scheduler, why_scheduler(scheduler, only, service.origin.has_vcpus())),
        reason("utilization", share(utilization), "U = Σ C/T of its tasks, copies counted"),
        reason(
            "period",
            time(period),
            format!(
                "of all from {} to {} ({}), in steps of {QUANTUM}, the one whose server is cheapest",
                time(shortest),
                time(limits.longest),
                limits.bounds
            ),
        ),
        reason("required", format!("{} ({})", time(counted), share(required)), format!("the least, in steps of {QUANTUM}, that supplies in every window what may be asked for in it (paper 002, Lemma 1; paper 004)")),
        reason("loss", time(deviation.loss), format!("of each budget, not counted on: {}", deviation.why)),
        reason("latency", time(deviation.latency), "at the start of every window, not counted on: timers, wake-ups and the kernel's own work; the worst of 7,200 periods lacked 530 us"),
        reason("budget", format!("{} ({})", time(budget), share(server.bandwidth())), format!("required + loss; at most {} ({limit})", share(most))),
    ]);
    let least = limits.budget;
    let need =
        Need { utilization, required, margin, certificate, reasons, scheduler, deviation, least, tasks: part.tasks };
    Ok((part.vcpu, server, chosen, need))
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
    /// Where these tasks fall short with `room` of a core, at the period of the server that they need.
    pub(crate) fn lack(&self, period: Duration, room: Bandwidth) -> Result<Lack, Error> {
        let demand = Demand::new(&self.tasks, self.scheduler, &self.deviation, self.least);
        lack(&demand, &self.tasks, period, room)
    }
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
