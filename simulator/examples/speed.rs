//! Jobs per second: 10 tasks, rate monotonic, U = 0.8, one core, nobody watching.

use giusto_model::{Duration, Release, ServerKind, Task};
use giusto_policy::Order;
use giusto_simulator::{simulate, Execution, Guest, ServerSpec, Sporadic, System, Unobserved, Workload};

fn main() {
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
    let workload = Workload {
        tasks: (0..10).map(task).collect(),
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
        workload: Some(workload),
    };
    let system = System { order: Order::FixedPriority, servers: vec![spec] };
    let start = std::time::Instant::now();
    let stats = simulate(&system, Duration::from_secs(3000), 1, &mut Unobserved).expect("the system makes sense");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} jobs in {seconds:.2} s: {:.2} million a second",
        stats[0].jobs(),
        stats[0].jobs() as f64 / seconds / 1e6
    );
}
