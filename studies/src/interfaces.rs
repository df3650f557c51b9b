//! An interface for every domain, and whether the host can keep them all.

use crate::sets::Domain;
use crate::Error;
use giusto_analysis::interface::{demand, Resource, Scheduler};
use giusto_model::{Bandwidth, Duration, Interface, Release, Task};

/// Xen's scheduling quantum, of which periods and budgets are multiples (paper 002, § II-C).
pub const QUANTUM: Duration = Duration::from_ms(1);

/// Plain Lemma 1; to be replaced by `analysis::interface::schedulable`.
fn enough(tasks: &[Task], resource: &Resource) -> bool {
    let order = Scheduler::Rm.order(tasks).expect("fixed priority");
    (0..order.len()).all(|rank| {
        let deadline = tasks[order[rank]].deadline.ns();
        let steps = order[..=rank].iter().flat_map(|&k| {
            let period = tasks[k].period.ns();
            (1..=deadline / period).map(move |n| n * period)
        });
        steps.chain([deadline]).any(|t| {
            let t = Duration::from_ns(t);
            u128::from(resource.supply(t).ns()) >= demand::request(tasks, &order, rank, t)
        })
    })
}

/// The integer-optimal interface of `domain` under RM.
pub fn optimal(domain: &Domain) -> Result<Interface, Error> {
    let longest = domain.iter().map(|task| task.period).max().unwrap_or(Duration::ZERO);
    let quanta = |n: u64| Duration::from_ns(n * QUANTUM.ns());
    let mut best: Option<(u64, u64)> = None;
    for period in 1..=longest.ns() / QUANTUM.ns() {
        // The largest budget that is cheaper than the best.
        let mut budget = best.map_or(period, |(b, p)| (b * period - 1) / p);
        let fits = |budget: u64| {
            budget > 0 && enough(domain, &Resource::Periodic { period: quanta(period), budget: quanta(budget) })
        };
        if !fits(budget) {
            continue;
        }
        while fits(budget - 1) {
            budget -= 1;
        }
        best = Some((budget, period));
    }
    let (budget, period) = best.ok_or(Error::NoInterface)?;
    Ok(Interface { budget: quanta(budget), period: quanta(period) })
}

/// The least budget for a domain whose period is given and whose releases sit on its boundaries.
pub fn aligned(domain: &Domain, period: Duration) -> Result<Interface, Error> {
    let fits = |n: &u64| {
        let budget = Duration::from_ns(n * QUANTUM.ns());
        enough(domain, &Resource::Aligned { period, budget })
    };
    let budget = (1..=period.ns() / QUANTUM.ns()).find(fits).ok_or(Error::NoInterface)?;
    Ok(Interface { budget: Duration::from_ns(budget * QUANTUM.ns()), period })
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
    Ok(enough(&servers, &Resource::Periodic { period: QUANTUM, budget: QUANTUM }))
}

/// Sum, for showing.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().filter_map(Task::utilization).map(Bandwidth::as_f64).sum()
}
