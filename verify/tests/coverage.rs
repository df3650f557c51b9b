//! How often the intervals hold the truth, on response times whose distribution is known: independent ones, ones that follow each other
//! closely, and those of a queue. Twenty times more in the long campaign (GIUSTO_SOAK).

mod common;

use common::{exponential, rng, sample};
use giusto_model::{Duration, Percentile, Within};
use giusto_verify::{compare_two, kept, History, Past, Sample};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Shares of trials in which an interval holds the truth.
#[derive(Debug)]
struct Coverage {
    w1: f64,
    p50: f64,
    p99: f64,
    /// How many trials.
    of: u64,
}

impl Coverage {
    /// Least share that `nominal` has in all but one of a thousand such numbers of trials (normal approximation).
    fn least(&self, nominal: f64) -> f64 {
        nominal - 3.09 * (nominal * (1.0 - nominal) / self.of as f64).sqrt()
    }
}

/// Of two runs drawn by `draw`, that are shifted exponentials of these means, in us: they are ordered, so W1 is what the means differ by.
fn coverage(name: &str, means: [f64; 2], draw: impl Fn(f64, &mut ChaCha8Rng) -> Sample + Sync) -> Coverage {
    let of = if std::env::var_os("GIUSTO_SOAK").is_some() { 4000 } else { 200 };
    let quantile = |p: f64| 100_000.0 - means[1] * 1000.0 * (1.0 - p).ln();
    let truth = [(means[1] - means[0]).abs() * 1000.0, quantile(0.5), quantile(0.99)];
    let p99: Percentile = "p99".parse().unwrap();
    let promise = [Within { percentile: p99, within: Duration::from_ms(1000) }];
    let trial = |seed: u64| {
        let mut rng = rng(9000 + seed);
        let (a, b) = (draw(means[0], &mut rng), draw(means[1], &mut rng));
        let two = compare_two(&a, &b, None, seed).unwrap();
        let tail = kept(&promise, std::slice::from_ref(&b)).unwrap().points[0].measured;
        let holds = |low: f64, high: f64, truth: f64| u64::from((low..=high).contains(&truth));
        let ends = |p: giusto_verify::Percentile| (p.low.unwrap() as f64, p.high.map_or(f64::INFINITY, |ns| ns as f64));
        let (median, tail) = (ends(two.b[0]), ends(tail));
        [holds(two.w1.low, two.w1.high, truth[0]), holds(median.0, median.1, truth[1]), holds(tail.0, tail.1, truth[2])]
    };
    let held = (0..of).into_par_iter().map(trial).reduce(|| [0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    let [w1, p50, p99] = held.map(|held| held as f64 / of as f64);
    println!("{name}: W1 {w1:.3}, p50 {p50:.3}, p99 {p99:.3} of {of}, asked for 0.95");
    Coverage { w1, p50, p99, of }
}

/// A uniform number from a standard normal one: Abramowitz and Stegun, 26.2.17, to 7.5e-8.
fn uniform(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.2316419 * z.abs());
    let series = [0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429];
    let sum = series.iter().rev().fold(0.0, |sum, b| (sum + b) * t);
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if z > 0.0 {
        1.0 - tail
    } else {
        tail
    }
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}

#[test]
fn of_independent_jobs() {
    let found = coverage("independent", [50.0, 80.0], |mean, rng| exponential(1500, mean, rng));
    // A bootstrap of 200 resamples and a tail of 20 jobs cost a little: two points are allowed to the tail, one to the median.
    assert!(
        found.w1 >= found.least(0.95) && found.p50 >= found.least(0.94) && found.p99 >= found.least(0.93),
        "{found:?}"
    );
    assert!(found.p50 <= 0.99 && found.p99 <= 0.995, "intervals that hold everything say nothing: {found:?}");
}

#[test]
fn of_equal_runs_the_interval_of_the_distance_reaches_zero() {
    let found = coverage("equal", [50.0, 50.0], |mean, rng| exponential(1500, mean, rng));
    assert!(found.w1 >= found.least(0.95), "{found:?}");
}

#[test]
fn of_jobs_each_like_the_last() {
    // An autoregressive series, correlated by 0.8 from job to job, with an exponential distribution.
    let found = coverage("autoregressive", [50.0, 80.0], |mean, rng| {
        let mut z = normal(rng);
        sample((0..4000).map(|_| {
            z = 0.8 * z + 0.6 * normal(rng);
            100_000 + (-mean * 1000.0 * (1.0 - uniform(z)).max(1e-12).ln()) as u64
        }))
    });
    assert!(
        found.w1 >= found.least(0.93) && found.p50 >= found.least(0.92) && found.p99 >= found.least(0.91),
        "{found:?}"
    );
}

/// M/M/1 at this load, from its stationary state on: response times are exponential with this mean (us; Kleinrock 1975, eq.
/// 5.121), after 100 us.
fn queue(jobs: usize, load: f64, mean: f64, rng: &mut ChaCha8Rng) -> Sample {
    let draw = |mean: f64, rng: &mut ChaCha8Rng| -mean * (1.0 - rng.random::<f64>()).ln();
    let service = (1.0 - load) * mean;
    let mut response = draw(mean, rng);
    sample((0..jobs).map(|_| {
        let now = response;
        response = (response - draw(service / load, rng)).max(0.0) + draw(service, rng);
        100_000 + (now * 1000.0) as u64
    }))
}

#[test]
fn of_jobs_in_a_queue() {
    let found = coverage("queue", [50.0, 80.0], |mean, rng| queue(10_000, 0.7, mean, rng));
    assert!([found.w1, found.p50, found.p99].iter().all(|held| *held >= found.least(0.93)), "{found:?}");
}

/// In a hundred slow jobs there may be but ten or so busy periods that made them, and some are much longer than others. Then a
/// run does not bound its tail from above, and says so.
#[test]
fn of_percentiles_in_queues_of_any_load_and_length() {
    let names = ["p50", "p90", "p99", "p99.9"];
    let tails = [0.5f64, 0.1, 0.01, 0.001];
    let within = Duration::from_ms(1000);
    let points = names.map(|name| Within { percentile: name.parse().unwrap(), within });
    let of: u64 = if std::env::var_os("GIUSTO_SOAK").is_some() { 1000 } else { 200 };
    for load in [0.1, 0.5, 0.7, 0.9] {
        for jobs in [2_000, 10_000, 40_000] {
            let trial = |seed: u64| {
                let found = kept(&points, &[queue(jobs, load, 80.0, &mut rng(seed))]).unwrap();
                [0, 1, 2, 3].map(|nth| {
                    let (truth, measured) = (100_000.0 - 80_000.0 * tails[nth].ln(), found.points[nth].measured);
                    let low = measured.low.unwrap() as f64;
                    let high = measured.high.map_or(f64::INFINITY, |high| high as f64);
                    ((low..=high).contains(&truth), (high - low) / truth)
                })
            };
            let trials: Vec<[(bool, f64); 4]> = (0..of).into_par_iter().map(trial).collect();
            for nth in 0..4 {
                let held = trials.iter().filter(|trial| trial[nth].0).count() as u64;
                let mut widths: Vec<f64> = trials.iter().map(|trial| trial[nth].1).collect();
                widths.sort_unstable_by(f64::total_cmp);
                let (name, half) = (names[nth], widths[widths.len() / 2]);
                println!(
                    "load {load}, {jobs} jobs, {name}: {held} of {of} hold it, half are at most {half:.2} of it wide"
                );
                assert!(held * 100 >= of * 93, "load {load}, {jobs} jobs, {name}: {held} of {of}");
                // Not by being wide: long runs of a queue that is half busy tell.
                assert!(load > 0.5 || jobs < 40_000 || nth == 3 || half <= [0.08, 0.1, 0.2][nth], "{name}: {half}");
            }
        }
    }
}

/// What a status tells of the last minute of a queue: counts by the second, lengths to 0.8 %.
#[test]
fn of_the_last_minute() {
    let tails = [0.5f64, 0.1, 0.01];
    let of: u64 = if std::env::var_os("GIUSTO_SOAK").is_some() { 2000 } else { 300 };
    for (load, rate) in [(0.1, 20.0), (0.5, 20.0), (0.5, 300.0), (0.7, 100.0), (0.7, 2_000.0), (0.9, 1_000.0)] {
        let mean = load / rate / (1.0 - load); // s
        let trial = |seed: u64| {
            let mut rng = rng(seed);
            let draw = |mean: f64, rng: &mut ChaCha8Rng| -mean * (1.0 - rng.random::<f64>()).ln();
            let (mut history, mut counts) = (History::default(), Vec::new());
            let (mut at, mut second, mut response) = (0.0, 0u32, draw(mean, &mut rng));
            while second < 60 {
                // To the least of a 128th of an octave above.
                let exact = response * 1e9 + 1e6;
                let unit = 2f64.powi(exact.log2().floor() as i32 - 7);
                counts.push([((exact / unit).floor() as u64 + 1) * unit as u64, 1]);
                let gap = draw(1.0 / rate, &mut rng);
                at += gap;
                response = (response - gap).max(0.0) + draw(load / rate, &mut rng);
                while at >= f64::from(second + 1) && second < 60 {
                    let mut sorted = std::mem::take(&mut counts);
                    sorted.sort_unstable();
                    let same = |a: &mut [u64; 2], b: &mut [u64; 2]| {
                        a[0] == b[0] && {
                            b[1] += a[1];
                            true
                        }
                    };
                    sorted.dedup_by(same);
                    history.add(u64::from(second) + 600, sorted);
                    second += 1;
                }
            }
            // The hour is no longer than the minute here.
            let look = history.over([Past::Minute, Past::Hour][seed as usize % 2]);
            tails.map(|tail| {
                let (truth, found) = (1e6 - mean * 1e9 * tail.ln(), look.percentile(100.0 - 100.0 * tail));
                let (low, high) =
                    (found.low.unwrap() as f64 / 1.01, found.high.map_or(f64::INFINITY, |ns| ns as f64 * 1.01));
                ((low..=high).contains(&truth), (high - low) / truth)
            })
        };
        let trials: Vec<[(bool, f64); 3]> = (0..of).into_par_iter().map(trial).collect();
        for (nth, tail) in tails.into_iter().enumerate() {
            let held = trials.iter().filter(|trial| trial[nth].0).count() as u64;
            let mut widths: Vec<f64> = trials.iter().map(|trial| trial[nth].1).collect();
            widths.sort_unstable_by(f64::total_cmp);
            let half = widths[widths.len() / 2];
            println!(
                "load {load}, {rate}/s, p{}: {held} of {of} hold it, half are at most {half:.2} of it wide",
                100.0 - 100.0 * tail
            );
            assert!(held * 100 >= of * 93, "load {load}, {rate}/s: {held} of {of}");
            // Not by being wide.
            assert!(load != 0.5 || rate < 300.0 || half <= [0.1, 0.15, 0.35][nth], "{half}");
        }
    }
}
