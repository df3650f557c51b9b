//! Waiting for tokens: the reference values, a simulation and a plain token bucket that share no code with the analysis.

use giusto_analysis::bucket::{least_depth, least_depth_of_trace, mean_rate, wait, BucketError};
use giusto_analysis::Error;
use giusto_model::{Arrivals, Bucket, Duration, Percentile, Rate, Tokens};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn percentile(text: &str) -> Percentile {
    text.parse().unwrap()
}

fn one_by_one(text: &str) -> Arrivals {
    Arrivals { rate: rate(text), batch: 1 }
}

fn paper() -> Bucket {
    Bucket { rate: rate("11000/s"), depth: Tokens::whole(26) }
}

#[test]
fn the_reference_values_of_the_split_bucket() {
    // λ = 10,000/s, r = 11,000/s, b = 26, split k ways: [LiC20, § 2.6.1].
    let delayed = [0.00861, 0.0988, 0.2228, 0.3346, 0.4271, 0.5025];
    let mean_us = [4.17, 95.7, 323.8, 648.3, 1034.0, 1460.0];
    let p99_us = [0.0, 2219.0, 4510.0, 6801.0, 9092.0, 11384.0];
    for k in 1..=6 {
        let found = wait(one_by_one("10k/s"), paper(), k, &[percentile("p99")]).unwrap();
        let at = k as usize - 1;
        assert!((found.delayed - delayed[at]).abs() < 6e-5, "{found:?}");
        assert!((found.mean.ns() as f64 / 1e3 / mean_us[at] - 1.0).abs() < 2e-3, "{found:?}");
        assert!((found.percentiles[0].ns() as f64 / 1e3 - p99_us[at]).abs() < 1.0, "{found:?}");
    }
    // The least with which at most 1 % wait.
    assert_eq!(least_depth(one_by_one("10k/s"), rate("11k/s"), percentile("p99")), Ok(Tokens::whole(26)));
    // Eq. (2.1) says the same at b = 1, and too much above.
    let printed = |b: u64| {
        let found = wait(one_by_one("10k/s"), Bucket { depth: Tokens::whole(b), ..paper() }, 1, &[]).unwrap();
        found.delayed / (2.0 * 11e3 * (1.0 - 10.0 / 11.0)) / (found.mean.ns() as f64 / 1e9)
    };
    assert!(
        (printed(1) - 1.0).abs() < 1e-4 && (printed(26) - 1.0 / 0.9687).abs() < 2e-3,
        "{} {}",
        printed(1),
        printed(26)
    );
}

#[test]
fn simulated_messages_wait_as_long() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut waited = [0, 0, 0];
    for _ in 0..30 {
        let batch = [1, 1, 2, 5, 10][rng.random_range(0..5)];
        let load: f64 = rng.random_range(0.2..0.9);
        let depth = rng.random_range(2..40);
        let shares = rng.random_range(1..=2.min(depth)) as u32;
        // 1,000 tokens a second, so that a token is a ms.
        let arrivals = Arrivals { rate: rate(&format!("{:.3}/s", 1000.0 * load / f64::from(batch))), batch };
        let bucket = Bucket { rate: rate("1000/s"), depth: Tokens::whole(depth) };
        let found = wait(arrivals, bucket, shares, &[percentile("p90")]).unwrap();
        // One of the shares alone: tokens come `shares` times more slowly, messages too.
        let (mut delayed, mut mean, mut within) = (Vec::new(), Vec::new(), Vec::new());
        let (token, most) = (f64::from(shares), depth as f64 / f64::from(shares));
        let mut unfinished = 0f64; // in tokens
        for _ in 0..40 {
            let (mut late, mut sum, mut early, mut all) = (0.0, 0.0, 0.0, 0.0);
            for _ in 0..20_000 / batch {
                let gap = -(1.0 - rng.random::<f64>()).ln() / (load / f64::from(batch));
                unfinished = (unfinished - gap).max(0.0);
                for _ in 0..batch {
                    unfinished += 1.0;
                    let wait_ms = (unfinished - most).max(0.0) * token;
                    all += 1.0;
                    late += f64::from(u8::from(wait_ms > 0.0));
                    early += f64::from(u8::from(wait_ms <= found.percentiles[0].ns() as f64 / 1e6 + 1e-6));
                    sum += wait_ms;
                }
            }
            delayed.push(late / all);
            mean.push(sum / all);
            within.push(early / all);
        }
        let close = |values: &[f64], truth: f64, name: &str| {
            let values = &values[2..]; // it began empty
            let n = values.len() as f64;
            let average = values.iter().sum::<f64>() / n;
            let spread = values.iter().map(|v| (v - average).powi(2)).sum::<f64>() / (n - 1.0);
            let error = 5.0 * (spread / n).sqrt() + 2e-4;
            assert!(
                (average - truth).abs() < error,
                "{name}: {average} ± {error}, computed {truth}; {found:?} {arrivals:?}"
            );
        };
        close(&delayed, found.delayed, "delayed");
        close(&mean, found.mean.ns() as f64 / 1e6, "mean");
        if found.percentiles[0].is_zero() {
            assert!(found.delayed <= 0.1 + 1e-9);
        } else {
            close(&within, 0.9, "p90");
            waited[0] += 1;
        }
        waited[1] += u32::from(batch > 1);
        waited[2] += u32::from(shares > 1);
    }
    assert!(waited.iter().all(|n| *n >= 5), "the cases that matter must occur: {waited:?}");
}

/// The part of messages that a bucket lets through at once, by the rule of its programs: all in parts of a token.
fn through(arrivals: &[u64], flow: i128, in_one: i128, depth: i128) -> (usize, usize) {
    let (mut level, mut last, mut at_once) = (depth, arrivals[0], 0);
    for &arrival in arrivals {
        level = (level + i128::from(arrival - last) * flow).min(depth);
        last = arrival;
        at_once += usize::from(level >= in_one);
        level -= in_one;
    }
    (at_once, arrivals.len())
}

#[test]
fn the_depth_of_a_trace_is_the_least_with_which_enough_messages_do_not_wait() {
    let mut rng = StdRng::seed_from_u64(4);
    let mut fractions = 0;
    for _ in 0..300 {
        let mut now = 0;
        let mut arrivals: Vec<u64> = (0..rng.random_range(2..400))
            .map(|_| {
                now += if rng.random_bool(0.3) { 0 } else { rng.random_range(0..3_000_000) };
                now
            })
            .collect();
        arrivals.push(now + 5_000_000);
        let times: Vec<Duration> = arrivals.iter().map(|ns| Duration::from_ns(*ns)).collect();
        let tokens = rate(&format!("{}/s", rng.random_range(300..3000)));
        let access = percentile(["p50", "p90", "p99", "p99.9"][rng.random_range(0..4)]);
        let depth = least_depth_of_trace(&times, tokens, access).unwrap();
        let (flow, in_one) = tokens.fraction();
        let parts = depth.as_f64() * in_one as f64;
        assert!((parts - parts.round()).abs() < 1e-3, "whole parts");
        let (flow, in_one, parts) = (i128::from(flow), i128::from(in_one), parts.round() as i128);
        let enough = |(at_once, all): (usize, usize)| at_once * 100_000 >= all * access.thousandths() as usize;
        assert!(enough(through(&arrivals, flow, in_one, parts)), "{depth}");
        assert!(parts == in_one || !enough(through(&arrivals, flow, in_one, parts - 1)), "{depth}");
        fractions += u32::from(depth != Tokens::whole(depth.at_once()));
    }
    assert!(fractions > 50, "{fractions}");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_was_expected() {
    let refused = |arrivals, depth: &str, shares| {
        let bucket = Bucket { depth: depth.parse().unwrap(), ..paper() };
        wait(arrivals, bucket, shares, &[]).unwrap_err().to_string()
    };
    assert!(refused(one_by_one("11k/s"), "26", 1).contains("take 100.00 % of the tokens; expected"));
    assert!(refused(one_by_one("0/s"), "26", 1).contains("take 0.00 %"));
    assert!(refused(one_by_one("10k/s"), "0.9", 1).contains("expected at least 1"));
    assert!(refused(one_by_one("10k/s"), "26", 27).contains("at most 26"));
    assert!(refused(one_by_one("10k/s"), "5.9", 6).contains("at most 5"));
    assert!(refused(one_by_one("10k/s"), "5.9", 0).contains("cannot be split"));
    let ns = |times: &[u64]| times.iter().map(|ns| Duration::from_ns(*ns)).collect::<Vec<_>>();
    let trace =
        |times: &[u64]| least_depth_of_trace(&ns(times), rate("1/s"), percentile("p99")).unwrap_err().to_string();
    assert!(trace(&[]).contains("expected two or more") && trace(&[5]).contains("one instant"));
    assert!(trace(&[5, 4]).contains("must ascend"));
    assert_eq!(mean_rate(&ns(&[0, 1_000_000, 2_000_000])).unwrap(), rate("1/ms"));
    let deep = least_depth(one_by_one("989/s"), rate("1000/s"), percentile("p99.999")).unwrap();
    assert!(deep > Tokens::whole(400), "{deep}");
    let too_many = least_depth(one_by_one("2/s"), rate("1/s"), percentile("p99"));
    assert_eq!(too_many, Err(Error::Bucket(BucketError::Load { hundredths: 20_000 })));
}
