//! The budget of a resource whose deadline is given too (EDP).

use super::exact::{Fraction, Load};
use super::supply::Resource;
use super::{check, least_budget, schedulable, Family, Interface, Question, Refusal};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Task};

/// The least budget, a whole number of `question.quantum`, within the first `deadline` of every `question.period`, proven.
///
/// A resource of an explicit deadline that is searched has Δ = Θ first ([`super::interface`]); here the Δ that the host can give
/// is kept, and costs more bandwidth the longer it is. Easwaran, Anand and Lee 2007, § 5. O(log(Δ/quantum)) tests. Ok(Err):
/// not even the
/// whole of `deadline` is enough, or U > 1. Errors: as [`super::interface`]; a question without a period, with a preemption's
/// cost or of another family; a deadline of 0 or beyond the period.
pub fn interface_with_deadline(
    tasks: &[Task],
    question: &Question,
    deadline: Duration,
) -> Result<Result<Interface, Refusal>, Error> {
    let Question { scheduler, supply: Family::ExplicitDeadline, quantum, period: Some(period), latency, .. } =
        *question
    else {
        return Err(Error::Period);
    };
    check(tasks)?;
    let load = Load::new(tasks);
    if load.compare((1, 1)).is_lt() {
        return Ok(Err(Refusal::Overload(Fraction::of(&load))));
    }
    let shape = |budget| Resource::ExplicitDeadline { period, budget, deadline };
    let short = |budget| match schedulable(tasks, scheduler, &shape(budget), latency)? {
        Err(shortfall) => {
            let task = tasks[shortfall.task].name.clone();
            Ok(Err(Refusal::Short { resource: shape(budget), shortfall, task }))
        }
        Ok(_) => Err(Error::Coarse { period: deadline, quantum }),
    };
    let Some(budget) = least_budget(tasks, scheduler, &shape(deadline), quantum, latency)? else {
        return short(deadline);
    };
    let Ok(certificate) = schedulable(tasks, scheduler, &shape(budget), latency)? else { return short(budget) };
    let bandwidth = Bandwidth::of(budget, period).ok_or(Error::Period)?;
    Ok(Ok(Interface {
        period,
        budget,
        bandwidth,
        utilization: Fraction::of(&load),
        overhead_bandwidth: Fraction::beyond(bandwidth, &load).ok_or(Error::TooClose)?,
        at_least: bandwidth,
        deadline: Some(deadline),
        exact_budget: None,
        searched: None,
        supply: Family::ExplicitDeadline,
        quantum,
        preemption: Duration::ZERO,
        certificate,
    }))
}
