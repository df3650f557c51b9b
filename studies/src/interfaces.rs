//! An interface for every domain, and whether the host can keep them all.

use crate::sets::Domain;
use crate::Error;
use giusto_analysis::interface::{least_budget, schedulable, Resource, Scheduler};
use giusto_model::{Bandwidth, Duration, Interface, Release, Task};

/// Xen's scheduling quantum, of which periods and budgets are multiples (paper 002, § II-C).
pub const QUANTUM: Duration = Duration::from_ms(1);

/// The integer-optimal interface of `domain` under RM: Algorithm 1 of paper 002 over all periods up to the longest task's.
pub fn optimal(domain: &Domain) -> Result<Interface, Error> {
    let longest = domain.iter().map(|task| task.period).max().unwrap_or(Duration::ZERO);
    let mut best: Option<Interface> = None;
    for quanta in 1..=longest.ns() / QUANTUM.ns() {
        let period = Duration::from_ns(quanta * QUANTUM.ns());
        // The largest budget that is cheaper than the best.
        let most = match best {
            Some(best) => {
                let (budget, of) = (best.budget.ns() / QUANTUM.ns(), best.period.ns() / QUANTUM.ns());
                Duration::from_ns((budget * quanta - 1) / of * QUANTUM.ns())
            }
            None => period,
        };
        if most.is_zero() || !fits(domain, &Resource::Periodic { period, budget: most })? {
            continue;
        }
        let shape = Resource::Periodic { period, budget: most };
        let least = least_budget(domain, Scheduler::Rm, &shape, QUANTUM, Duration::ZERO)?;
        best = least.map(|budget| Interface { budget, period });
    }
    best.ok_or(Error::NoInterface)
}

/// The least budget for a domain whose period is given and whose releases sit on its boundaries. (The paper computes a rational
/// budget and rounds it up; what is enough stays so with more, so that is the same.)
pub fn aligned(domain: &Domain, period: Duration) -> Result<Interface, Error> {
    let shape = Resource::Aligned { period, budget: period };
    let budget = least_budget(domain, Scheduler::Rm, &shape, QUANTUM, Duration::ZERO)?;
    Ok(Interface { budget: budget.ok_or(Error::NoInterface)?, period })
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
    // A whole core.
    fits(&servers, &Resource::Periodic { period: QUANTUM, budget: QUANTUM })
}

fn fits(tasks: &[Task], resource: &Resource) -> Result<bool, Error> {
    Ok(schedulable(tasks, Scheduler::Rm, resource, Duration::ZERO)?.is_ok())
}

/// Sum, for showing.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().filter_map(Task::utilization).map(Bandwidth::as_f64).sum()
}
