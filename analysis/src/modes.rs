//! How long a change of mode takes at most [LiH21, §§ 2.3.2 and 2.4].
//!
//! A step of a change is one member's: the host sends a command and changes a reservation (signalling, s), the agent does its
//! work on its virtual CPU and answers. Unless it is boosted, that virtual CPU may have used up its budget just before: in the
//! worst case nothing comes for 2(P − B), and work of more than one budget waits P − B again for each further one. So an agent
//! with work C has answered after at most
//!
//!   r = L + C + (P − B)(⌈C/B⌉ + 1),   boosted: r = L + C,
//!
//! the inverse of the general supply bound (Abe22) with L taken off the window. (Where the agent runs as soon as its budget
//! comes and no other server shares the core, half of that: P − B, § 2.5.3.)
//!
//! One after the other (sequential, boost) that is Σ (s + r). In two groups (batch) Σ s + the longest r of those that give
//! something up + the longest of those that get something; greedy ends no later than batch, as a member that gets something
//! begins at the latest when all have given up.
//!
//! A guaranteed transition adds what keeps every budget: what is given up counts from the next replenishment of the member that
//! gave it up, at most the longest P of these later; and a member that gets something gets it at its own next replenishment, P
//! later, before its command: Σ P one after the other, else the longest.

use giusto_model::{ChangePolicy, Duration, Interface, Transition};

/// What a member does in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its agent; `None`: the host freezes it or lets it go on.
    pub agent: Option<Responder>,
    /// Whether one of its servers gets less.
    pub shrinks: bool,
    /// Whether one of its servers gets more.
    pub grows: bool,
    /// The longest period of its servers that change.
    pub period: Duration,
}

/// An agent's work, and what it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Responder {
    /// C.
    pub cost: Duration,
    /// What its virtual CPU can count on before the change, which it keeps until its answer: (B, P).
    pub server: Interface,
}

/// How a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The order.
    pub policy: ChangePolicy,
    /// Whether nothing may be late.
    pub transition: Transition,
    /// s: what the host needs for the command, the answer and the reservation of one member.
    pub signalling: Duration,
    /// L: by how much a supply may come late, once in any window.
    pub latency: Duration,
}

/// r: how long an agent takes at most for its work. `None`: it has no budget, or beyond 584 years. O(1).
pub fn response(agent: Responder, boosted: bool, latency: Duration) -> Option<Duration> {
    let Responder { cost, server: Interface { budget, period } } = agent;
    let at_once = latency.checked_add(cost)?;
    if boosted {
        return Some(at_once);
    }
    let whole = Some(budget.ns()).filter(|budget| *budget > 0)?;
    let budgets = cost.ns().div_ceil(whole);
    at_once.checked_add(period.checked_sub(budget)?.checked_mul(budgets.checked_add(1)?)?)
}

/// How long a change with these steps takes at most. `None`: an agent without a budget, or beyond 584 years. O(steps).
pub fn bound(steps: &[Step], course: Course) -> Option<Duration> {
    let boosted = course.policy == ChangePolicy::Boost;
    let answer = |step: &Step| match step.agent {
        Some(agent) => response(agent, boosted, course.latency),
        None => Some(Duration::ZERO),
    };
    let answers: Vec<Duration> = steps.iter().map(answer).collect::<Option<_>>()?;
    let signalling = course.signalling.checked_mul(steps.len() as u64)?;
    let kept = course.transition == Transition::Guaranteed;
    let longest = |times: &mut dyn Iterator<Item = Duration>| times.max().unwrap_or(Duration::ZERO);
    let released = match kept {
        true => longest(&mut steps.iter().filter(|step| step.shrinks).map(|step| step.period)),
        false => Duration::ZERO,
    };
    let replenished = |step: &Step| if kept && step.grows { step.period } else { Duration::ZERO };
    let course = match course.policy {
        ChangePolicy::Boost | ChangePolicy::Sequential => {
            let waits = steps.iter().map(replenished);
            answers.into_iter().chain(waits).try_fold(Duration::ZERO, Duration::checked_add)?
        }
        ChangePolicy::Batch | ChangePolicy::Greedy => {
            let both = || steps.iter().zip(&answers);
            // Who only changes its tasks may be in either group.
            let down = longest(&mut both().filter(|(step, _)| step.shrinks || !step.grows).map(|(_, time)| *time));
            let up = both().filter(|(step, _)| step.grows || !step.shrinks);
            let up: Vec<Duration> =
                up.map(|(step, time)| time.checked_add(replenished(step))).collect::<Option<_>>()?;
            down.checked_add(longest(&mut up.into_iter()))?
        }
    };
    signalling.checked_add(course)?.checked_add(released)
}
