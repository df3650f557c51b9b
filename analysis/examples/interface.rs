//! How long the cheapest interface takes; `tests/bench-interface.sh` calls it.
//!
//! `interface scale`: a table over tasks and quanta. `interface pair TASKS SETS SEED`: beside a plain search, each set's tasks and
//! answers as lines for another peer.

use giusto_analysis::interface::{interface, Family, Interface, Question, Refusal, Scheduler};
use giusto_analysis::Error;
use giusto_model::{Duration, Release, Task};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Instant;

const MS: u64 = 1_000_000;
/// Parts of the core that a set may need.
const LOADS: std::ops::Range<f64> = 0.5..0.7;
/// Deadlines times tasks after which the plain search gives a set up, about a second.
const PATIENCE: u64 = 200_000_000;
/// Sets of each cell of the table.
const SETS: u64 = 5;

/// `count` tasks with periods from 100 to 2000 ms, in whole quanta; a load from `LOADS`, cut at random.
fn set(rng: &mut StdRng, count: u32, quantum: u64) -> Vec<Task> {
    let mut left = rng.random_range(LOADS);
    let task = |number: u32| {
        let rest = left * rng.random::<f64>().powf(1.0 / f64::from((count - number).saturating_sub(1).max(1)));
        let rest = if number + 1 == count { 0.0 } else { rest };
        let share = left - rest;
        left = rest;
        let period = rng.random_range(100 * MS / quantum..=2000 * MS / quantum) * quantum;
        let wcet = ((share * period as f64) as u64).max(1);
        let [wcet, period] = [wcet, period].map(Duration::from_ns);
        let (offset, release) = (Duration::ZERO, Release::Sporadic);
        Task { name: format!("task{number}"), wcet, period, deadline: period, offset, release, copies: 1 }
    };
    (0..count).map(task).collect()
}

type Answer = Result<Result<Interface, Refusal>, Error>;

/// The answer, and the milliseconds that it took.
fn timed(tasks: &[Task], scheduler: Scheduler, quantum: u64) -> (Answer, f64) {
    let (supply, quantum, none) = (Family::General, Duration::from_ns(quantum), Duration::ZERO);
    let question = Question { scheduler, supply, quantum, period: None, preemption: none, latency: none };
    let start = Instant::now();
    let answer = interface(tasks, &question);
    (answer, start.elapsed().as_secs_f64() * 1e3)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn scale() {
    let quanta = [("1 ms", MS), ("1 us", 1000), ("1 ns", 1)];
    println!("median ms of {SETS} sets, periods 100 to 2000 ms, U = {} to {}; in brackets how many were proven to be the least", LOADS.start, LOADS.end);
    print!("{:>6}", "tasks");
    for scheduler in [Scheduler::Rm, Scheduler::Edf] {
        quanta.iter().for_each(|(name, _)| print!("{:>18}", format!("{scheduler}, {name}")));
    }
    println!();
    for count in [10, 30, 100, 300, 1000] {
        print!("{count:>6}");
        for scheduler in [Scheduler::Rm, Scheduler::Edf] {
            for (_, quantum) in quanta {
                let mut least = 0;
                let one = |seed: u64| {
                    let tasks = set(&mut StdRng::seed_from_u64(seed), count, quantum);
                    let (answer, took) = timed(&tasks, scheduler, quantum);
                    least += u64::from(answer.is_ok_and(|a| a.is_ok_and(|found| found.at_least == found.bandwidth)));
                    took
                };
                let mut times: Vec<f64> = (0..SETS).map(one).collect();
                print!("{:>18}", format!("{:.2} ({least})", median(&mut times)));
            }
        }
        println!();
    }
}

/// sbf of the periodic resource, as the paper has it.
fn supply(period: u64, budget: u64, t: u64) -> u64 {
    let gap = period - budget;
    if t < gap {
        return 0;
    }
    let y = (t - gap) / period;
    y * budget + t.saturating_sub(2 * gap + y * period)
}

/// The points of each task under RM, with the work asked for by then.
fn points(tasks: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
    let mut ordered = tasks.to_vec();
    ordered.sort();
    let of = |i: usize| {
        let own = &ordered[..=i];
        let times = own.iter().flat_map(|(period, _)| (1..=ordered[i].0 / period).map(move |k| k * period));
        times.map(|t| (t, own.iter().map(|(period, wcet)| t.div_ceil(*period) * wcet).sum())).collect()
    };
    (0..ordered.len()).map(of).collect()
}

/// Steps through all periods and budgets in whole quanta: period and budget with the least bandwidth. Implicit deadlines. `None`: given up.
fn plain(tasks: &[(u64, u64)], scheduler: Scheduler, quantum: u64) -> Option<(u64, u64)> {
    let load: f64 = tasks.iter().map(|(period, wcet)| *wcet as f64 / *period as f64).sum();
    let shortest = tasks.iter().map(|task| task.0).min().unwrap_or(0);
    let points = points(tasks);
    let mut patience = PATIENCE;
    let mut enough = |period: u64, budget: u64| match scheduler {
        Scheduler::Edf => {
            let share = budget as f64 / period as f64;
            // Beyond where the line below sbf is above U·t.
            let until = (share * 2.0 * (period - budget) as f64 / (share - load)) as u64 + 1;
            let mut t = shortest;
            loop {
                let demand: u64 = tasks.iter().map(|(period, wcet)| t / period * wcet).sum();
                if supply(period, budget, t) < demand {
                    return Some(false);
                }
                patience = patience.checked_sub(tasks.len() as u64)?;
                t = tasks.iter().map(|(period, _)| (t / period + 1) * period).min().unwrap_or(0);
                if t > until {
                    return Some(true);
                }
            }
        }
        _ => Some(points.iter().all(|own| own.iter().any(|(t, work)| supply(period, budget, *t) >= *work))),
    };
    let mut best = (quantum, quantum); // a whole core
    let mut period = 0;
    // A window of the shortest deadline must be supplied something at all.
    while 2 * (period - best.1 * period / best.0) <= shortest + 2 * quantum {
        period += quantum;
        let mut budget = ((load * period as f64) as u64 / quantum + 1) * quantum;
        while budget * best.0 < best.1 * period {
            if enough(period, budget)? {
                best = (period, budget);
                break;
            }
            budget += quantum;
        }
    }
    Some(best)
}

fn pair(count: u32, sets: u64, seed: u64) {
    for set_seed in seed..seed + sets {
        for scheduler in [Scheduler::Rm, Scheduler::Edf] {
            let tasks = set(&mut StdRng::seed_from_u64(set_seed), count, MS);
            let (answer, ours) = timed(&tasks, scheduler, MS);
            let found = answer.expect("good tasks").expect("a whole core is enough");
            let simple: Vec<(u64, u64)> = tasks.iter().map(|task| (task.period.ns(), task.wcet.ns())).collect();
            let start = Instant::now();
            let best = plain(&simple, scheduler, MS);
            let peer = start.elapsed().as_secs_f64() * 1e3;
            let (period, budget) = (found.period.ns(), found.budget.ns());
            assert!(
                best.is_none_or(|best| best == (period, budget)),
                "{scheduler}: {best:?} {period} {budget} {simple:?}"
            );
            let words: Vec<String> = simple.iter().map(|(period, wcet)| format!("{period}:{wcet}")).collect();
            println!("{scheduler} {period} {budget} {ours} {peer} {} {}", u8::from(best.is_none()), words.join(" "));
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
    match (words.first().map(String::as_str), number(1), number(2), number(3)) {
        (Some("scale"), ..) => scale(),
        (Some("pair"), Some(count), Some(sets), Some(seed)) => pair(count as u32, sets, seed),
        _ => eprintln!("interface scale | interface pair TASKS SETS SEED"),
    }
}
