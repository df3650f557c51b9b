//! Jobs per second: 10 tasks, rate monotonic, U = 0.8, one core, no observer.
//!
//! `speed [SECONDS]` simulates that long, 3,000 s unless said. `speed SECONDS jobs` prints what each task got, finished jobs,
//! worst response time and sum of all in ns; `speed SECONDS tasks` the tasks, so that others can play them: period, worst case and
//! offset in ns.

use giusto_model::{Duration, JobRecord, Release, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{simulate, Execution, Guest, ServerSpec, Sporadic, System, Unobserved, Workload};

fn tasks() -> Vec<Task> {
    let us = Duration::from_us;
    let task = |index: u64| {
        let period = us(1000 * (index + 1));
        Task {
            name: String::new(),
            wcet: us(80 * (index + 1)),
            period,
            deadline: period,
            offset: us(37 * index),
            release: Release::KeptOffset,
            copies: 1,
        }
    };
    (0..10).map(task).collect()
}

fn main() {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().map_or(3000, |word| word.parse().expect("the seconds to simulate"));
    let tasks = tasks();
    let workload = Workload {
        tasks: tasks.clone(),
        guest: Guest::RateMonotonic,
        execution: Execution::Worst,
        sporadic: Sporadic::Densest,
    };
    let spec = ServerSpec {
        kind: ServerKind::Unlimited,
        budget: Duration::ZERO,
        period: Duration::ZERO,
        first: Duration::ZERO,
        priority: 0,
        vcpus: 1,
        workload: Some(workload),
    };
    let system = System::new(Order::FixedPriority, vec![spec]);
    let horizon = Duration::from_secs(seconds);
    match words.next().as_deref() {
        None => speed(&system, horizon),
        Some("tasks") => {
            for task in &tasks {
                println!("{} {} {}", task.period.ns(), task.wcet.ns(), task.offset.ns());
            }
        }
        Some(_) => {
            let mut seen = vec![(0, 0, 0); tasks.len()];
            let mut watch = |_: usize, job: &JobRecord| {
                let (jobs, worst, sum) = &mut seen[job.task as usize];
                let response = job.finish.expect("only finished jobs are told").ns() - job.release.ns();
                *jobs += 1;
                *worst = response.max(*worst);
                *sum += response;
            };
            simulate(&system, horizon, 1, &mut watch).expect("the system makes sense");
            for (jobs, worst, sum) in seen {
                println!("{jobs} {worst} {sum}");
            }
        }
    }
}

fn speed(system: &System, horizon: Duration) {
    let start = std::time::Instant::now();
    let stats = simulate(system, horizon, 1, &mut Unobserved).expect("the system makes sense");
    let seconds = start.elapsed().as_secs_f64();
    let jobs = stats[0].jobs();
    println!("{jobs} jobs in {seconds:.6} s: {:.2} million a second, {} kB", jobs as f64 / seconds / 1e6, peak_kb());
}

/// The most memory that this process had. What its parent would be told includes the parent's own, from before `exec`.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
