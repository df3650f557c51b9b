//! Compositional analysis: the periodic resource that is enough for a task set, and cheapest (CSA).
//!
//! Sources: Lee11 (eq. 1, Lemma 1, Algorithm 1), Abe22 ("Schedulability Analysis", (α, Δ) design). Time is integer
//! nanoseconds; bandwidths that decide are compared as exact fractions. Offsets are ignored: all tasks count as sporadic,
//! which is sufficient, and exact for sporadic tasks. Copies count as so many tasks.
//!
//! What took the place of Lee11's names:
//!
//! | Lee11 | here |
//! |---|---|
//! | sbf (eq. 1) | [`Resource::supply`], and its inverse [`Resource::inverse`] |
//! | usbf, the line Θ/Π·(t − (Π − Θ)) above sbf | `Need::short`, `Need::slope`: least bandwidth with which it reaches a point |
//! | CrT, the critical time points (Lemma 3) | points that a candidate once missed (`Need`), for D ≤ T and EDF too |
//! | B_min(Π, t) (Lemma 4) | `Need::slope`, in integers; `Need::least`: the exact budget, without the line |
//! | MaxResPeriod (Theorem 1) | where one point rules out all longer ones (`Need::next`): [`Interface::searched`] |
//! | Algorithm 1 | [`interface`]: a sweep that jumps over all periods without a better whole budget |
//!
//! [`Resource`] is what supplies, [`demand`] what a task set asks for; `schedulable` compares the two and gives a
//! [`Certificate`], the points that decide.

mod aligned;
mod certificate;
mod deadlines;
pub mod demand;
mod demands;
mod edf;
mod error;
mod exact;
mod fixed;
mod given;
mod lattice;
mod levels;
mod lines;
pub mod multi;
mod need;
pub mod plane;
mod prepared;
mod question;
mod range;
mod ranks;
pub mod sensitivity;
mod server;
pub mod supply;
mod sweep;
mod table;

pub use certificate::{Certificate, Shortfall};
pub use error::ResourceError;
pub use exact::Fraction;
pub use giusto_model::{Point, Scheduler};
pub use given::interface_with_deadline;
pub use prepared::Prepared;
pub use question::{default_quantum, interface, interface_with, Family, Interface, Question, Refusal};
pub use range::interface_within;
pub use supply::Resource;

use crate::Error;
use giusto_model::{Duration, Task};

/// Steps that one test may take.
fn most_steps(scheduler: Scheduler) -> u64 {
    if scheduler == Scheduler::Edf {
        edf::MOST_STEPS
    } else {
        fixed::MOST_STEPS
    }
}

/// Whether `resource` keeps every deadline of `tasks` under `scheduler`, with `latency` taken off every window.
///
/// Ok(Ok): the certificate; Ok(Err): the witness. Errors: an impossible task or resource, `Multi` (global EDF is another
/// test), a bandwidth so close to U that the answer takes millions of steps.
pub fn schedulable(
    tasks: &[Task],
    scheduler: Scheduler,
    resource: &Resource,
    latency: Duration,
) -> Result<Result<Certificate, Shortfall>, Error> {
    check(tasks)?;
    resource.validate_for(tasks)?;
    if matches!(resource, Resource::Multi { .. }) {
        return Err(ResourceError::Cores.into());
    }
    prove(tasks, scheduler, resource, latency, &mut most_steps(scheduler))
}

/// [`schedulable`] for what is checked, in the steps that are `left`; C may be longer than D.
fn prove(
    tasks: &[Task],
    scheduler: Scheduler,
    resource: &Resource,
    latency: Duration,
    left: &mut u64,
) -> Result<Result<Certificate, Shortfall>, Error> {
    let found = match scheduler.order(tasks) {
        Some(order) => fixed::test(tasks, &order, resource, latency, left)?.map(|points| (points, None)),
        None => edf::test(tasks, resource, latency, left)?.map(|(points, until)| (points, Some(until))),
    };
    let resource = resource.clone();
    Ok(found.map(|(points, until)| Certificate { scheduler, resource, latency, points, until }))
}

/// Least whole number of `quantum` that is enough as the budget of `shape`, whose period (and EDP deadline) is kept and whose
/// budget is ignored; `None` if not even a whole period of it (EDP: its deadline) is, or that has no whole quantum.
///
/// Errors: as [`schedulable`], a quantum of 0, a shape without a budget (a table, a line).
pub fn least_budget(
    tasks: &[Task],
    scheduler: Scheduler,
    shape: &Resource,
    quantum: Duration,
    latency: Duration,
) -> Result<Option<Duration>, Error> {
    if quantum.is_zero() {
        return Err(Error::Quantum);
    }
    let most = match *shape {
        Resource::Periodic { period, .. } | Resource::Aligned { period, .. } => period,
        Resource::ExplicitDeadline { deadline, .. } => deadline,
        Resource::Multi { .. } => return Err(ResourceError::Cores.into()),
        Resource::Table { .. } | Resource::Linear { .. } => return Err(ResourceError::NoShape.into()),
    };
    let with = |budget: Duration| match *shape {
        Resource::Aligned { period, .. } => Resource::Aligned { period, budget },
        Resource::ExplicitDeadline { period, deadline, .. } => Resource::ExplicitDeadline { period, budget, deadline },
        _ => Resource::Periodic { period: most, budget },
    };
    check(tasks)?;
    with(most).validate_for(tasks)?;
    let enough = |count: u64| {
        let resource = with(Duration::from_ns(count * quantum.ns()));
        Ok::<bool, Error>(schedulable(tasks, scheduler, &resource, latency)?.is_ok())
    };
    let whole = most.ns() / quantum.ns();
    if whole == 0 || !enough(whole)? {
        return Ok(None);
    }
    let (mut low, mut high) = (0, whole); // short, enough
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Some(Duration::from_ns(high * quantum.ns())))
}

/// Whether each task makes sense.
fn check(tasks: &[Task]) -> Result<(), Error> {
    if tasks.is_empty() {
        return Err(Error::NoTasks);
    }
    tasks.iter().try_for_each(|task| task.validate().map_err(|why| Error::Task { name: task.name.clone(), why }))
}
