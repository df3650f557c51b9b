//! The event-driven engine against a clock that ticks every nanosecond and is written from the definitions alone.

use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{simulate, Execution, Guest, ServerSpec, Sporadic, System, Workload};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// (task, job, finish) of all jobs that finish by `horizon` on a deferrable server of highest priority.
fn tick_by_tick(tasks: &[Task], guest: Guest, budget: u64, period: u64, horizon: u64) -> Vec<(u32, u64, u64)> {
    // task, job, release, work left
    let mut pending: Vec<(usize, u64, u64, u64)> = Vec::new();
    let mut done = Vec::new();
    let mut left = budget;
    for now in 0..horizon {
        if now % period == 0 {
            left = budget;
        }
        for (index, task) in tasks.iter().enumerate() {
            let (t, a) = (task.period.ns(), task.offset.ns());
            if now >= a && (now - a) % t == 0 {
                pending.push((index, (now - a) / t, now, task.wcet.ns()));
            }
        }
        if left == 0 {
            continue;
        }
        let urgency = |&(index, job, release, _): &(usize, u64, u64, u64)| {
            let by = match guest {
                Guest::DeadlineMonotonic | Guest::Listed => unreachable!("not drawn here"),
                Guest::Fifo => release,
                Guest::RateMonotonic => tasks[index].period.ns(),
                Guest::Edf => release + tasks[index].deadline.ns(),
            };
            (by, index, job)
        };
        let Some(first) = (0..pending.len()).min_by_key(|&i| urgency(&pending[i])) else { continue };
        left -= 1;
        pending[first].3 -= 1;
        if pending[first].3 == 0 {
            let (index, job, ..) = pending.remove(first);
            done.push((index as u32, job, now + 1));
        }
    }
    done
}

#[test]
fn events_and_ticks_give_the_same_schedule() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (mut preempted, mut throttled, mut idle) = (0, 0, 0);
    for _ in 0..300 {
        let ns = Duration::from_ns;
        let tasks: Vec<Task> = (0..rng.random_range(1..5))
            .map(|_| {
                let period = rng.random_range(4..30);
                let wcet = rng.random_range(1..=period.min(6));
                let deadline = rng.random_range(wcet..=period);
                let (release, offset) = (Release::KeptOffset, ns(rng.random_range(0..40)));
                Task {
                    name: String::new(),
                    wcet: ns(wcet),
                    period: ns(period),
                    deadline: ns(deadline),
                    offset,
                    release,
                    copies: 1,
                }
            })
            .collect();
        let (period, horizon) = (rng.random_range(2..40u64), 600);
        let budget = rng.random_range(1..=period);
        for guest in [Guest::Fifo, Guest::RateMonotonic, Guest::Edf] {
            let workload =
                Workload { tasks: tasks.clone(), guest, execution: Execution::Worst, sporadic: Sporadic::Densest };
            let spec = ServerSpec {
                kind: ServerKind::Deferrable,
                budget: ns(budget),
                period: ns(period),
                first: Duration::ZERO,
                priority: 0,
                vcpus: 1,
                workload: Some(workload),
            };
            let mut found = Vec::new();
            let mut keep = |_: usize, job: &JobRecord| found.push((job.task, job.job, job.finish.unwrap().ns()));
            let stats = simulate(&System::new(Order::FixedPriority, vec![spec]), ns(horizon), 1, &mut keep).unwrap();
            let expected = tick_by_tick(&tasks, guest, budget, period, horizon);
            assert_eq!(found, expected, "{guest:?} ({budget}, {period}) {tasks:?}");
            let order: Vec<_> = expected.iter().map(|(task, job, _)| (*job, *task)).collect();
            preempted += usize::from(order.windows(2).any(|pair| pair[0] > pair[1]));
            throttled += usize::from(stats[0].unfinished > 0);
            idle += usize::from(stats[0].consumed.ns() * period < budget * horizon);
        }
    }
    println!("order changed in {preempted}, work left over in {throttled}, budget left over in {idle} of 900");
    assert!(preempted > 90 && throttled > 90 && idle > 90);
}
