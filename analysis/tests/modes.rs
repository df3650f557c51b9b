//! How long a change of mode takes: by hand, and never less than what a schedule played instant by instant needs.

use giusto_analysis::modes::{bound, response, Course, Responder, Step};
use giusto_model::{ChangePolicy, Duration, Interface, Transition};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use ChangePolicy::{Batch, Boost, Greedy, Sequential};

fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

fn agent(cost: u64, budget: u64, period: u64) -> Responder {
    Responder { cost: ms(cost), server: Interface { budget: ms(budget), period: ms(period) } }
}

fn step(agent: Option<Responder>, shrinks: bool, grows: bool) -> Step {
    let period = agent.map_or(Duration::ZERO, |agent| agent.server.period);
    Step { agent, shrinks, grows, period }
}

#[test]
fn changes_by_hand() {
    // 2(P − B) + C where C ≤ B; P − B more for each further budget.
    assert_eq!(response(agent(1, 3, 10), false, ms(0)), Some(ms(15)));
    assert_eq!(response(agent(3, 3, 10), false, ms(0)), Some(ms(17)));
    assert_eq!(response(agent(4, 3, 10), false, ms(2)), Some(ms(27)));
    assert_eq!(response(agent(4, 3, 10), true, ms(2)), Some(ms(6)));
    assert_eq!(response(agent(4, 10, 10), false, ms(0)), Some(ms(4)));
    assert_eq!(response(agent(4, 0, 10), false, ms(0)), None);
    // Down (3, 10), up (5, 20), frozen by the host: r = 15 and 31.
    let steps =
        [step(Some(agent(1, 3, 10)), true, false), step(Some(agent(1, 5, 20)), false, true), step(None, true, false)];
    let of = |policy, transition| {
        bound(&steps, Course { policy, transition, signalling: ms(2), latency: ms(0) }).unwrap().ns() / 1_000_000
    };

    assert_eq!(of(Boost, Transition::Fast), 6 + 1 + 1);
    assert_eq!(of(Sequential, Transition::Fast), 6 + 15 + 31);
    assert_eq!(of(Batch, Transition::Fast), 6 + 15 + 31);
    assert_eq!(of(Boost, Transition::Guaranteed), 6 + 1 + 1 + 10 + 20);
    assert_eq!(of(Greedy, Transition::Guaranteed), 6 + 15 + 31 + 10 + 20);
    // Two that grow: one after the other their waits add up, together only the longest counts.
    let both = [step(Some(agent(1, 3, 10)), false, true), step(Some(agent(1, 5, 20)), false, true)];
    let of = |policy| {
        let transition = Transition::Guaranteed;
        bound(&both, Course { policy, transition, signalling: ms(0), latency: ms(0) }).unwrap().ns() / 1_000_000
    };
    assert_eq!((of(Boost), of(Sequential), of(Batch)), (32, 15 + 31 + 30, 51));
    assert_eq!(
        bound(&[], Course { policy: Boost, transition: Transition::Fast, signalling: ms(9), latency: ms(9) }),
        Some(ms(0))
    );
}

/// When work of `cost` that comes at `from` is done, if budgets come at the last instants of their periods, but in the period of
/// `from` at the first.
fn played(cost: u64, budget: u64, period: u64, from: u64) -> u64 {
    let mut left = cost;
    let mut now = from;
    while left > 0 {
        let (nth, at) = (now / period, now % period);
        let runs = if nth == 0 { at < budget } else { at >= period - budget };
        left -= u64::from(runs);
        now += 1;
    }
    now - from
}

#[test]
fn no_agent_answers_later_than_its_bound_and_the_worst_does_at_it() {
    let mut rng = StdRng::seed_from_u64(2);
    let (mut exact, mut several) = (0, 0);
    for _ in 0..2_000 {
        let period = rng.random_range(1..=12);
        let budget = rng.random_range(1..=period);
        let cost = rng.random_range(1..=14);
        let Some(told) = response(agent(cost, budget, period), false, Duration::ZERO) else { panic!() };
        let worst = (0..period).map(|from| played(cost, budget, period, from)).max().unwrap();
        assert!(ms(worst) <= told, "({cost}, {budget}, {period}): {worst} after {told}");
        exact += usize::from(ms(worst) == told);
        several += usize::from(cost > budget);
    }
    assert!(exact == 2_000 && several > 500, "{exact} {several}");
}

/// A change in the order of the paper, played step by step with each agent at its worst: when it ends.
fn change(steps: &[Step], course: Course) -> u64 {
    let answer = |step: &Step| {
        let boosted = course.policy == ChangePolicy::Boost;
        step.agent.map_or(0, |agent| match boosted {
            true => agent.cost.ns(),
            false => {
                played(
                    agent.cost.ns() / 1_000_000,
                    agent.server.budget.ns() / 1_000_000,
                    agent.server.period.ns() / 1_000_000,
                    agent.server.budget.ns() / 1_000_000 % (agent.server.period.ns() / 1_000_000),
                ) * 1_000_000
            }
        })
    };
    let s = course.signalling.ns();
    let late = |step: &Step| if course.transition == Transition::Guaranteed { step.period.ns() } else { 0 };
    let (mut now, mut free) = (0, 0);
    if matches!(course.policy, ChangePolicy::Boost | ChangePolicy::Sequential) {
        for step in steps.iter().filter(|step| !step.grows).chain(steps.iter().filter(|step| step.grows)) {
            if step.grows {
                now = now.max(free) + late(step);
            }
            now += s + answer(step);
            if step.shrinks {
                free = free.max(now + late(step));
            }
        }
        return now.max(free);
    }
    let mut ends = 0;
    for step in steps.iter().filter(|step| !step.grows) {
        now += s;
        ends = ends.max(now + answer(step));
        free = free.max(now + answer(step) + late(step));
    }
    now = now.max(ends).max(free);
    for step in steps.iter().filter(|step| step.grows) {
        now += s;
        ends = ends.max(now + late(step) + answer(step));
    }
    ends.max(now)
}

#[test]
fn no_change_takes_longer_than_its_bound() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut near = 0;
    for round in 0..4_000u32 {
        let count = rng.random_range(1..=6);
        let steps: Vec<Step> = (0..count)
            .map(|_| {
                let period = rng.random_range(2..=12);
                let frozen = rng.random_bool(0.2);
                let one =
                    Some(agent(rng.random_range(1..=3), rng.random_range(1..=period), period)).filter(|_| !frozen);
                let grows = rng.random_bool(0.5);
                step(one, !grows, grows)
            })
            .collect();
        let policy = ChangePolicy::ALL[round as usize % 4];
        let transition = Transition::ALL[round as usize / 4 % 2];
        let course = Course { policy, transition, signalling: ms(rng.random_range(0..=2)), latency: Duration::ZERO };
        let (told, needed) = (bound(&steps, course).unwrap().ns(), change(&steps, course));
        assert!(needed <= told, "{needed} of {told}: {course:?} {steps:?}");
        near += u32::from(needed * 10 >= told * 9);
    }
    assert!(near > 1_000, "{near}");
}
