//! How long answers take.

use giusto_analysis::interface::{interface, Family, Question, Scheduler};
use giusto_model::{Duration, Release, Task};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Instant;

fn set(rng: &mut StdRng, n: usize, load: f64, unit: u64) -> Vec<Task> {
    let mut left = load;
    let mut tasks = Vec::new();
    for i in 0..n {
        let rest = if i + 1 == n { 0.0 } else { left * rng.random::<f64>().powf(1.0 / (n - i - 1) as f64) };
        let share = left - rest;
        left = rest;
        let period = rng.random_range(100_000_000 / unit..=2_000_000_000 / unit) * unit;
        let wcet = ((share * period as f64 / unit as f64).round() as u64).max(1) * unit;
        let d = Duration::from_ns;
        tasks.push(Task {
            name: format!("task{i}"),
            wcet: d(wcet),
            period: d(period),
            deadline: d(period),
            offset: d(0),
            release: Release::Sporadic,
            copies: 1,
        });
    }
    tasks
}

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (n, quantum, unit) = (args[0] as usize, args[1], args[2]);
    for scheduler in [Scheduler::Rm, Scheduler::Edf] {
        for load in [0.3, 0.5, 0.7, 0.9] {
            let mut rng = StdRng::seed_from_u64(1);
            let mut times = Vec::new();
            let mut note = String::new();
            for _ in 0..args[3] {
                let tasks = set(&mut rng, n, load, unit);
                let question = Question {
                    scheduler,
                    supply: Family::General,
                    quantum: Duration::from_ns(quantum),
                    period: None,
                    preemption: Duration::ZERO,
                    latency: Duration::ZERO,
                };
                let start = Instant::now();
                let answer = interface(&tasks, &question);
                times.push(start.elapsed().as_secs_f64() * 1e3);
                note = match answer {
                    Ok(Ok(a)) => format!(
                        "{} {} bw {:.6} U {} at_least {} points {}",
                        a.period,
                        a.budget,
                        a.bandwidth.as_f64(),
                        a.utilization.percent(),
                        a.at_least == a.bandwidth,
                        a.certificate.points.len()
                    ),
                    Ok(Err(r)) => format!("{r:?}").chars().take(80).collect(),
                    Err(e) => e.to_string(),
                };
            }
            times.sort_by(f64::total_cmp);
            println!(
                "{scheduler} n={n} q={quantum} U={load}: median {:.3} ms max {:.3} ms; {note}",
                times[times.len() / 2],
                times[times.len() - 1]
            );
        }
    }
}
