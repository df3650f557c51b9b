//! What an agent needs for its work at a change of the mode.

use super::every_deadline::cheapest::Demand;
use crate::backend::{deviation, Chosen};
use crate::facts::Facts;
use crate::host::Times;
use crate::refusal::Refusal;
use crate::words::time;
use giusto_analysis::Error;
use giusto_model::{AgentKey, Duration, GuestScheduler, Release, Scheduler, Service, Task, AGENT_TASK};

/// What an agent does, as a task among those that it goes before: it is done by the shortest deadline D, above all in
/// every order; and its changes are the spacing apart, but the work of one may come as much as D late, so it is taken
/// to come D more often. It may work for an urgent change and another one together, each of which has a spacing of its
/// own: as one task with the work of both. It is done before its timeout, too, where that makes no other wait: not
/// among tasks that may go in any order.
pub(super) fn work(
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

/// The least budget for virtual CPU `vcpu` of a service that is promised supplies, in this period, while it is
/// stopped: what the backend keeps, and enough for its agent.
pub(super) fn stopped(
    service: &Service,
    vcpu: usize,
    period: Duration,
    chosen: &Chosen,
    facts: &Facts,
    times: Times,
) -> Result<Duration, Refusal> {
    let least = chosen.limits.budget;
    let Some(agent) = service.agent.as_ref().filter(|_| vcpu == 0) else { return Ok(least) };
    let tasks = [work(service, agent, &[], GuestScheduler::Any, times)?];
    let demand = Demand::new(&tasks, GuestScheduler::Any, &deviation(chosen.backend, facts), least);
    let budget = demand.budget(period).map_err(|why| Refusal::tasks(&service.name, why))?;
    budget.ok_or_else(|| Refusal::tasks(&service.name, Error::Range))
}
