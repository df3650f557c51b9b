//! `giusto analyze interface`: the cheapest resource for a task set on one processor, or whether a given one is enough.

use crate::{falls_short, named, Error};
use giusto_analysis::interface::sensitivity::{sensitivity, Limit};
use giusto_analysis::interface::{
    default_quantum, interface_with, interface_with_deadline, schedulable, Certificate, Family, Interface, Refusal,
    Resource, Scheduler, Shortfall,
};
use giusto_model::{Duration, Task};
use giusto_planner::share as percent;
use serde::Serialize;
use std::time::Instant;

/// An interface that is not known to be the least is looked for again with so many times as many steps.
const MORE: u32 = 8;
/// For so long where no time is given.
const SOON: Duration = Duration::from_secs(1);

/// Which interface is asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The tasks; their names do not count.
    pub tasks: Vec<Task>,
    /// Inside.
    pub scheduler: Scheduler,
    /// Among which resources.
    pub supply: Family,
    /// `None`: [`default_quantum`].
    pub quantum: Option<Duration>,
    /// `None`: the one that needs least bandwidth.
    pub period: Option<Duration>,
    /// With an explicit deadline and a period: the budget comes within this time of each period.
    pub deadline: Option<Duration>,
    /// Cost of one preemption.
    pub preemption: Duration,
    /// How late the host's supply may come once in any window.
    pub latency: Duration,
    /// Whether it is asked how far each number may be off.
    pub sensitivity: bool,
    /// For so long at most; `None`: a second.
    pub most: Option<Duration>,
}

/// What was found; `formats/interface.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The cheapest.
    #[serde(flatten)]
    pub interface: Interface,
    /// Where it was asked for: how far each number may be off, what breaks first at the front.
    pub sensitivity: Option<Vec<Limit>>,
}

impl Question {
    /// The interface.
    ///
    /// # Errors
    /// Tasks that do not fit on a core, with the shortfall as witness; tasks and times that make no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let tasks = named(&self.tasks);
        let question = self.about(&tasks, self.scheduler, self.period);
        let found = match self.deadline {
            Some(_) if question.supply != Family::ExplicitDeadline => {
                return Err(Error::input("a deadline of budgets goes with the supply with an explicit deadline"))
            }
            Some(deadline) => interface_with_deadline(&tasks, &question, deadline).map_err(Error::input)?,
            None => in_time(&tasks, &question, self.most.unwrap_or(SOON))?,
        };
        let interface = found.map_err(|refusal| refused(&tasks, &refusal))?;
        let sensitivity = if self.sensitivity { Some(limits(&tasks, &interface)?) } else { None };
        Ok(Answer { interface, sensitivity })
    }

    /// The same about other tasks, for which a quantum is chosen if none is given.
    pub fn about(
        &self,
        tasks: &[Task],
        scheduler: Scheduler,
        period: Option<Duration>,
    ) -> giusto_analysis::interface::Question {
        giusto_analysis::interface::Question {
            scheduler,
            supply: self.supply,
            quantum: self.quantum.unwrap_or_else(|| default_quantum(tasks)),
            period,
            preemption: self.preemption,
            latency: self.latency,
        }
    }
}

/// The cheapest interface, looked for with more and more steps until it is the least for sure, or the next search could last
/// longer than `most`.
fn in_time(
    tasks: &[Task],
    question: &giusto_analysis::interface::Question,
    most: Duration,
) -> Result<Result<Interface, Refusal>, Error> {
    let begin = Instant::now();
    let mut effort = 1;
    let mut best = None;
    loop {
        let before = begin.elapsed();
        let found = match (interface_with(tasks, question, effort), best) {
            (Ok(found), _) => found,
            // What is nearer to U takes too long to prove.
            (Err(giusto_analysis::Error::TooClose), Some(before)) => return Ok(before),
            (Err(error), _) => return Err(Error::input(error)),
        };
        let is_least = found.as_ref().map_or(true, |found| found.at_least == found.bandwidth);
        let last = begin.elapsed() - before;
        if is_least || (begin.elapsed() + last * MORE).as_nanos() > u128::from(most.ns()) {
            return Ok(found);
        }
        best = Some(found);
        effort = effort.saturating_mul(MORE);
    }
}

/// How far each number may be off, with what preemptions cost in the execution times.
fn limits(tasks: &[Task], found: &Interface) -> Result<Vec<Limit>, Error> {
    let cost = |task: &Task| Some(Task { wcet: task.wcet.checked_add(found.preemption)?, ..task.clone() });
    let tasks: Vec<Task> = tasks.iter().map(cost).collect::<Option<_>>().ok_or_else(|| Error::input("too long"))?;
    let Certificate { scheduler, resource, latency, .. } = &found.certificate;
    let limits = sensitivity(&tasks, *scheduler, resource, *latency).map_err(Error::input)?;
    limits.map_err(|shortfall| falls_short(&tasks, "the interface", &shortfall))
}

/// Why there is none.
pub fn refused(tasks: &[Task], refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Overload(load) => Error::does_not_fit(format!(
            "the tasks need {} of a core and one core gives 100 %: run less, or less often",
            load.percent()
        )),
        Refusal::Short { shortfall, .. } => falls_short(tasks, "a whole core", shortfall),
    }
}

/// Whether a resource that is given is enough.
#[derive(Clone, Debug)]
pub struct Given {
    /// The tasks; their names do not count.
    pub tasks: Vec<Task>,
    /// Inside.
    pub scheduler: Scheduler,
    /// Of what is supplied.
    pub resource: Resource,
    /// How late the host's supply may come once in any window.
    pub latency: Duration,
    /// Whether it is asked how far each number may be off.
    pub sensitivity: bool,
}

/// Whether it is; `formats/interface.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// It is enough: why.
    pub certificate: Option<Certificate>,
    /// It is not: where it falls short.
    pub shortfall: Option<Shortfall>,
    /// Where it was asked for, of what is enough.
    pub sensitivity: Option<Vec<Limit>>,
}

impl Given {
    /// Whether it is enough.
    ///
    /// # Errors
    /// Tasks or a resource that make no sense, or too close to U to be decided.
    pub fn answer(&self) -> Result<Verdict, Error> {
        let Given { scheduler, resource, latency, .. } = self;
        let tasks = named(&self.tasks);
        let found = schedulable(&tasks, *scheduler, resource, *latency).map_err(Error::input)?;
        let sensitivity = match (&found, self.sensitivity) {
            (Ok(_), true) => sensitivity(&tasks, *scheduler, resource, *latency).map_err(Error::input)?.ok(),
            _ => None,
        };
        let (certificate, shortfall) = match found {
            Ok(certificate) => (Some(certificate), None),
            Err(shortfall) => (None, Some(shortfall)),
        };
        Ok(Verdict { certificate, shortfall, sensitivity })
    }

    /// The refusal of what falls short.
    pub fn refused(&self, shortfall: &Shortfall) -> Error {
        falls_short(&named(&self.tasks), &words(&self.resource), shortfall)
    }
}

/// `2 ms every 5 ms`
pub fn words(resource: &Resource) -> String {
    match resource {
        Resource::Periodic { period, budget } => format!("{budget} every {period}"),
        Resource::Aligned { period, budget } => format!("{budget} every {period}, aligned,"),
        Resource::ExplicitDeadline { period, budget, deadline } => {
            format!("{budget} within {deadline} of every {period}")
        }
        Resource::Table { cycle, slots } => format!("the table of {} slots in {cycle}", slots.len()),
        Resource::Linear { bandwidth, delay } => format!("{} with a delay of {delay}", percent(*bandwidth)),
        Resource::Multi { period, budget, cores } => format!("{budget} every {period} on {cores} cores"),
    }
}
