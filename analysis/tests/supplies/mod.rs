//! Global EDF in whole ns against every arrival of sporadic tasks and every supply that virtual CPUs may give.

use giusto_analysis::admission::Grids;
use giusto_analysis::interface::multi::{least_budget, schedulable, Total, Wanted};
use giusto_model::{Duration, Task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashSet;

const TASKS: usize = 3;
const PARTS: usize = 2;

/// Of each task: work left, time to its deadline, time to the next job it may have. Of each supply: how far its period is, and
/// what is left of its budget.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    tasks: [(u8, u8, u8); TASKS],
    parts: [(u8, u8); PARTS],
}

/// A supply: Π, Θ, and at most so many processors at a time.
type Part = (u8, u8, u8);

/// Whether some arrivals and some supply make a job miss, and over how many states that was looked for.
fn misses(tasks: &[Task], parts: &[Part]) -> (bool, usize) {
    let small = |time: Duration| time.ns() as u8;
    let set: Vec<(u8, u8, u8)> = tasks.iter().map(|t| (small(t.wcet), small(t.deadline), small(t.period))).collect();
    let mut first = vec![State { tasks: [(0, 0, 0); TASKS], parts: [(0, 0); PARTS] }];
    for (at, &(period, budget, cores)) in parts.iter().enumerate() {
        // Where several, each is anywhere in its period, with as much before it as can still come.
        let phases = if parts.len() > 1 { period } else { 1 };
        let with = |state: &State| {
            let at_phase = |phase: u8| {
                let mut state = *state;
                state.parts[at] = (phase, budget.min(cores * (period - phase)));
                state
            };
            (0..phases).map(at_phase).collect::<Vec<_>>()
        };
        first = first.iter().flat_map(with).collect();
    }
    let mut seen: HashSet<State> = first.iter().copied().collect();
    let mut states = first;
    while let Some(state) = states.pop() {
        for releases in 0..1 << set.len() {
            let mut jobs = state.tasks;
            let may = |i: usize| releases >> i & 1 == 0 || jobs[i].2 == 0;
            if !(0..set.len()).all(may) {
                continue;
            }
            for (i, job) in jobs.iter_mut().enumerate().take(set.len()).filter(|(i, _)| releases >> i & 1 == 1) {
                *job = set[i];
            }
            for given in supplies(&state, parts) {
                match pass(&jobs, &state, &given, parts) {
                    None => return (true, seen.len()),
                    Some(next) => {
                        if seen.insert(next) {
                            states.push(next);
                        }
                    }
                }
            }
        }
    }
    (false, seen.len())
}

/// What the supplies may give in the next ns: each at most its processors, and so that its budget can still be had.
fn supplies(state: &State, parts: &[Part]) -> Vec<[u8; PARTS]> {
    let mut all = vec![[0; PARTS]];
    for (at, &(period, _, cores)) in parts.iter().enumerate() {
        let (passed, left) = state.parts[at];
        let least = left.saturating_sub(cores * (period - passed - 1));
        all = all
            .iter()
            .flat_map(|some| {
                (least..=left.min(cores)).map(move |now| {
                    let mut some = *some;
                    some[at] = now;
                    some
                })
            })
            .collect();
    }
    all
}

/// One ns; `None` if a deadline is missed at its end.
fn pass(jobs: &[(u8, u8, u8); TASKS], state: &State, given: &[u8; PARTS], parts: &[Part]) -> Option<State> {
    let mut next = State { tasks: *jobs, parts: state.parts };
    let mut order: Vec<usize> = (0..TASKS).filter(|&i| jobs[i].0 > 0).collect();
    order.sort_by_key(|&i| (jobs[i].1, i));
    for &i in order.iter().take(given.iter().sum::<u8>().into()) {
        next.tasks[i].0 -= 1;
    }
    for (left, due, again) in &mut next.tasks {
        (*due, *again) = (due.saturating_sub(1), again.saturating_sub(1));
        if *left == 0 {
            *due = 0;
        } else if *due == 0 {
            return None;
        }
    }
    for (at, &(period, budget, _)) in parts.iter().enumerate() {
        let (passed, left) = state.parts[at];
        next.parts[at] = if passed + 1 == period { (0, budget) } else { (passed + 1, left - given[at]) };
    }
    Some(next)
}

fn parts(total: &Total) -> Vec<Part> {
    let small = |time: Duration| time.ns() as u8;
    let cores = total.budgets.len() as u8;
    match total.grids {
        Grids::Aligned => vec![(small(total.period), total.budgets.iter().map(|b| small(*b)).sum(), cores)],
        Grids::Apart => total.budgets.iter().map(|budget| (small(total.period), small(*budget), 1)).collect(),
    }
}

#[test]
fn no_arrivals_and_no_supply_make_a_task_of_an_admitted_set_miss() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut admitted, mut least, mut rightly, mut in_vain, mut most) = ([0; 2], 0, 0, 0, 0);
    for round in 0..160 {
        let grids = if round % 2 == 0 { Grids::Aligned } else { Grids::Apart };
        let longest = if grids == Grids::Aligned { 6 } else { 5 };
        let tasks: Vec<Task> = (0..TASKS)
            .map(|_| {
                let period: u64 = rng.random_range(2..=longest);
                let deadline = if rng.random_bool(0.7) { period } else { rng.random_range(2..=period) };
                super::task(rng.random_range(1..=deadline.div_ceil(2)), deadline, period, 1)
            })
            .collect();
        let period = Duration::from_ns(rng.random_range(1..=3));
        let wanted = Wanted { cores: 2, quantum: Duration::from_ns(1), grids, latency: Duration::ZERO };
        // The least that passes is where a test that is too weak is wrong first; and one less, or any.
        let mut totals: Vec<Total> = least_budget(&tasks, period, &wanted)
            .unwrap()
            .into_iter()
            .map(|v| Total { period, budgets: v.vcpus, grids })
            .collect();
        least += totals.len();
        totals.push(Total {
            period,
            budgets: (0..2).map(|_| Duration::from_ns(rng.random_range(1..=period.ns()))).collect(),
            grids,
        });
        for total in totals {
            let passes = schedulable(&tasks, &total, Duration::ZERO).unwrap();
            let (missed, states) = misses(&tasks, &parts(&total));
            assert!(passes.is_err() || !missed, "{tasks:?} {total:?} {passes:?}");
            most = most.max(states);
            match (passes.is_ok(), missed) {
                (true, _) => admitted[usize::from(grids == Grids::Apart)] += 1,
                (false, true) => rightly += 1,
                (false, false) => in_vain += 1,
            }
        }
    }
    println!("admitted {admitted:?} (aligned, apart), {least} with the least budget; refused {rightly} rightly, {in_vain} in vain; up to {most} states");
    assert!(admitted.iter().all(|n| *n > 15) && least > 30 && rightly > 30);
}
