//! Intervals of percentiles hold the true one as often as they say, also where jobs wait for each other.

use giusto_model::{Duration, Within};
use giusto_verify::{kept, Sample};
use rand::RngExt;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

const MS: f64 = 1e6;

/// Response times (ns) of a queue with requests at random and exponential service of mean 1 ms at this load, from its stationary state
/// on. Their law is known: exponential with mean 1 ms / (1 - load).
fn queue(n: usize, load: f64, rng: &mut ChaCha8Rng) -> Sample {
    let mut draw = |mean: f64| -mean * (1.0 - rng.random_range(0.0..1.0f64)).ln();
    let mut response = draw(MS / (1.0 - load));
    let mut next = || {
        let before = std::mem::take(&mut response);
        response = (before - draw(MS / load)).max(0.0) + draw(MS);
        Some(before as u64)
    };
    Sample::from_responses((0..n).map(|_| next())).unwrap()
}

#[test]
fn intervals_of_queues_hold_the_true_percentile_as_often_as_they_say() {
    let names = ["p50", "p90", "p99", "p99.9"];
    let tails = [0.5f64, 0.1, 0.01, 0.001];
    let points: Vec<Within> =
        (names.iter()).map(|name| Within { percentile: name.parse().unwrap(), within: Duration::from_ms(1) }).collect();
    let runs = if std::env::var_os("GIUSTO_SOAK").is_some() { 1000 } else { 200 };
    for load in [0.1, 0.5, 0.7, 0.9] {
        for n in [2_000, 10_000, 40_000] {
            let (mut held, mut open, mut width) = ([0; 4], [0; 4], [0.0; 4]);
            for run in 0..runs {
                let found = kept(&points, &[queue(n, load, &mut ChaCha8Rng::seed_from_u64(run))]).unwrap();
                for (nth, tail) in tails.into_iter().enumerate() {
                    let (truth, measured) = (-tail.ln() * MS / (1.0 - load), found.points[nth].measured);
                    let low = measured.low.unwrap() as f64;
                    let high = measured.high.map_or(f64::INFINITY, |high| high as f64);
                    held[nth] += u64::from((low..=high).contains(&truth));
                    open[nth] += u64::from(high.is_infinite());
                    width[nth] += if high.is_finite() { (high - low) / truth } else { 0.0 };
                }
            }
            for nth in 0..4 {
                let mean = width[nth] / (runs - open[nth]).max(1) as f64;
                let (name, held, open) = (names[nth], held[nth], open[nth]);
                println!(
                    "load {load}, {n} jobs, {name}: {held} of {runs} hold it, {open} open above, width {mean:.2} of it"
                );
                assert!(held * 100 >= runs * 93, "load {load}, {n} jobs, {name}: {held} of {runs}");
            }
            // Not by being open or wide: a long run of a queue that is half busy tells its p99 to a fifth.
            assert!(load > 0.5 || n < 40_000 || open[2] == 0 && width[2] / runs as f64 <= 0.25);
        }
    }
}
