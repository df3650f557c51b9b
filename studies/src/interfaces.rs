//! An interface for every domain, and whether the host can keep them all.

use crate::sets::Domain;
use crate::Error;
use giusto_analysis::interface::{interface, schedulable, Family, Question, Resource, Scheduler};
use giusto_model::{Bandwidth, Duration, Interface, Release, Task};

/// Xen's scheduling quantum, of which periods and budgets are multiples [Lee11, § II-C].
pub const QUANTUM: Duration = Duration::from_ms(1);

/// The integer-optimal interface of `domain` under RM (Algorithm 1 of Lee11).
pub fn optimal(domain: &Domain) -> Result<Interface, Error> {
    cheapest(domain, Family::General, None)
}

/// The least budget for a domain whose period is given and whose releases sit on its boundaries. (The paper computes a rational
/// budget and rounds it up; what is enough stays so with more, so that is the same.)
pub fn aligned(domain: &Domain, period: Duration) -> Result<Interface, Error> {
    cheapest(domain, Family::Aligned, Some(period))
}

fn cheapest(domain: &Domain, supply: Family, period: Option<Duration>) -> Result<Interface, Error> {
    let none = Duration::ZERO;
    let question =
        Question { scheduler: Scheduler::Rm, supply, quantum: QUANTUM, period, preemption: none, latency: none };
    let found = interface(domain, &question)?.map_err(|_| Error::NoInterface)?;
    Ok(Interface { budget: found.budget, period: found.period })
}

/// Whether periodic servers with these interfaces, shorter period first, all get their budgets on one core: to each other
/// they are periodic tasks.
pub fn admitted(interfaces: &[Interface]) -> Result<bool, Error> {
    let task = |interface: &Interface| Task {
        name: String::new(),
        wcet: interface.budget,
        period: interface.period,
        deadline: interface.period,
        offset: Duration::ZERO,
        release: Release::Sporadic,
        copies: 1,
    };
    let servers: Vec<Task> = interfaces.iter().map(task).collect();
    let whole = Resource::Periodic { period: QUANTUM, budget: QUANTUM };
    Ok(schedulable(&servers, Scheduler::Rm, &whole, Duration::ZERO)?.is_ok())
}

/// Sum, for showing.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().filter_map(Task::utilization).map(Bandwidth::as_f64).sum()
}
