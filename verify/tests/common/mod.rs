//! Response times with known properties.
#![allow(dead_code, unreachable_pub)]

use giusto_verify::{Arms, Round, Sample, Source};
use rand::RngExt;
use rand_chacha::{rand_core::SeedableRng, ChaCha8Rng};

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub fn sample(times: impl IntoIterator<Item = u64>) -> Sample {
    Sample::from_responses(times.into_iter().map(Some)).unwrap()
}

/// `n` independent response times: 100 us plus an exponential part with mean `mean` us.
pub fn exponential(n: usize, mean: f64, rng: &mut ChaCha8Rng) -> Sample {
    sample((0..n).map(|_| 100_000 + (-mean * 1000.0 * (1.0 - rng.random::<f64>()).ln()) as u64))
}

/// `n` correlated response times with the same distribution: exponential levels, each kept for `burst` jobs on average.
pub fn bursty(n: usize, mean: f64, burst: f64, rng: &mut ChaCha8Rng) -> Sample {
    bursty_above(100_000, n, mean, burst, rng)
}

/// The same above another least time, in ns.
pub fn bursty_above(least: u64, n: usize, mean: f64, burst: f64, rng: &mut ChaCha8Rng) -> Sample {
    let mut level = 0;
    sample((0..n).map(|job| {
        if job == 0 || rng.random::<f64>() < 1.0 / burst {
            level = least + (-mean * 1000.0 * (1.0 - rng.random::<f64>()).ln()) as u64;
        }
        level
    }))
}

/// Rounds of two runs of a reference and one to be judged.
pub fn arms(rounds: impl IntoIterator<Item = [Sample; 3]>) -> Arms {
    let round = |[a, b, giusto]: [Sample; 3]| Round {
        whole_a: Some(a),
        whole_b: Some(b),
        giusto: Some(giusto),
        unprotected: None,
    };
    Arms { rounds: rounds.into_iter().map(round).collect(), source: Source::Files, ..Arms::default() }
}

/// Cycles of a trial: two slices of a whole core and one of Giusto's.
pub fn cycles(rounds: impl IntoIterator<Item = [Sample; 3]>) -> Arms {
    Arms { source: Source::Trial, ..arms(rounds) }
}
