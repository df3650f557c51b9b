//! Random task sets, as the papers describe theirs.

use giusto_model::{Duration, Release, Task};
use rand::seq::IndexedRandom;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Tasks of one domain: what one guest runs.
pub type Domain = Vec<Task>;

/// A millionth of a core.
pub const PPM: u64 = 1_000_000;

/// The sets of [Lee11, § IV-B]: tasks of 0.2 to 5 % of the core, uniform, until together they need `percent` of it (so at
/// most 5 points more), each in one of `domains` domains at random. Periods are whole ms, uniform over `periods_ms`, ends
/// included; deadline = period.
///
/// The paper does not say when tasks start: here each at an offset of its own, uniform over its period, that no analysis
/// relies on. A distribution that leaves a domain empty is drawn anew.
pub fn synthetic(percent: u64, periods_ms: (u64, u64), domains: usize, rng: &mut ChaCha8Rng) -> Vec<Domain> {
    let mut tasks = Vec::new();
    let mut sum = 0;
    while sum < percent * PPM / 100 {
        let share = rng.random_range(2_000..=50_000);
        let period_ms = rng.random_range(periods_ms.0..=periods_ms.1);
        let offset = rng.random_range(0..period_ms * PPM);
        // ppm · ms are whole ns.
        tasks.push(task(share * period_ms, period_ms * PPM, offset));
        sum += share;
    }
    loop {
        let mut spread = vec![Domain::new(); domains];
        tasks.iter().for_each(|task| spread[rng.random_range(0..domains)].push(task.clone()));
        if spread.iter().all(|domain| !domain.is_empty()) {
            return spread;
        }
    }
}

/// A domain of an ARINC-653 workload: its period is given, and so it is not the analysis that chooses it.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Period of its server.
    pub period: Duration,
    /// What it runs.
    pub tasks: Domain,
}

/// Harmonic sets in the manner of [Lee11, § IV-C]: `partitions` domains that need `ppm` millionths of the core together.
///
/// The task tables of the paper's seven workloads are in an appendix of another report, not in the paper, so these are made
/// up: domains of 25, 50 or 100 ms, `period_ms` where it is given; 2 to 6 tasks each with 1, 2, 4 or 8 times its period, one
/// of them with just that; the core's share cut at random among all tasks, execution times to the µs; releases on the
/// boundaries of the domain's periods. All periods are 25 ms times a power of two, so they divide each other.
pub fn harmonic(ppm: u64, partitions: usize, period_ms: Option<u64>, rng: &mut ChaCha8Rng) -> Vec<Partition> {
    let mut all = Vec::new();
    let mut weights = Vec::new();
    for _ in 0..partitions {
        let period_ms = period_ms.unwrap_or_else(|| *[25, 50, 100].choose(rng).expect("not empty"));
        let tasks = rng.random_range(2..=6);
        let mut factors: Vec<u64> = (1..tasks).map(|_| 1 << rng.random_range(0..4)).collect();
        factors.push(1);
        weights.push(factors.iter().map(|_| rng.random_range(1..=1000u64)).collect::<Vec<_>>());
        all.push((period_ms, factors));
    }
    let total: u64 = weights.iter().flatten().sum();
    let partition = |((period_ms, factors), weights): ((u64, Vec<u64>), Vec<u64>)| {
        let mut make = |(factor, weight): (u64, u64)| {
            let task_ms = period_ms * factor;
            // ppm · ms are ns; to whole µs, at least one.
            let wcet = (ppm * task_ms * weight / total / 1000).max(1) * 1000;
            task(wcet, task_ms * PPM, rng.random_range(0..factor) * period_ms * PPM)
        };
        let tasks = factors.into_iter().zip(weights).map(&mut make).collect();
        Partition { period: Duration::from_ms(period_ms), tasks }
    };
    all.into_iter().zip(weights).map(partition).collect()
}

fn task(wcet: u64, period: u64, offset: u64) -> Task {
    let [wcet, period, offset] = [wcet, period, offset].map(Duration::from_ns);
    Task { name: String::new(), wcet, period, deadline: period, offset, release: Release::KeptOffset, copies: 1 }
}
