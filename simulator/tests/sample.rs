//! Sampled response times lie where they must, and their intervals say how far they may be off.

use giusto_analysis::response::{response, Precision, Question, Server};
use giusto_model::Duration;
use giusto_simulator::{sample, Interval};

/// A fixed sample of seeds, or the campaign; and the jobs of each sample, over its 20 runs.
fn seeds_and_jobs() -> (u64, u64) {
    match std::env::var_os("GIUSTO_SOAK") {
        Some(_) => (100, 20_000),
        None => (40, 6_000),
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn question(
    server: Server,
    budget: u64,
    period: u64,
    rate: &str,
    service: &[(u64, f64)],
    batch: &[(u32, f64)],
) -> Question {
    Question {
        server,
        budget: ms(budget),
        period: ms(period),
        rate: rate.parse().unwrap(),
        service: service.iter().map(|(time, p)| (ms(*time), *p)).collect(),
        batch: batch.to_vec(),
    }
}

/// How many of the intervals hold the truth, and the ratio of their mean half width to what 95 % need: 1.96 deviations of the
/// values, over seeds.
fn covered(intervals: &[Interval], truth: f64) -> (usize, f64) {
    let count = intervals.len() as f64;
    let mean = intervals.iter().map(|i| i.value).sum::<f64>() / count;
    let deviation = (intervals.iter().map(|i| (i.value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    let half = intervals.iter().map(|i| (i.high - i.low) / 2.0).sum::<f64>() / count;
    // The mean over all seeds itself: no bias that could be seen.
    let apart = (mean - truth).abs() / (deviation / count.sqrt());
    assert!(apart < 4.0, "{mean} instead of {truth}: {apart:.1} standard errors");
    let holds = |i: &&Interval| (i.low..=i.high).contains(&truth);
    (intervals.iter().filter(holds).count(), half / (1.96 * deviation))
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let (seeds, jobs) = seeds_and_jobs();
    let single = [(1, 1.0)];
    let constant = [(100, 1.0)];
    let two = [(40, 0.75), (280, 0.25)];
    // Exact: M/D/1 and M/G/1, of Pollaczek and Khinchine, and that a request that finds no other has its own service time: 1 − U
    // of all.
    let exact = [
        ("M/D/1", question(Server::Deferrable, 200, 200, "0.004/ms", &constant, &single), 133.3333, Some((100, 0.6))),
        ("M/G/1", question(Server::Periodic, 10, 10, "0.004/ms", &two, &single), 100.0 + 0.004 * 20800.0 / 1.2, None),
    ];
    // And of the mathematics, which shares no code with the player.
    let alone = [
        ("M/D(DS)/1", question(Server::Deferrable, 120, 200, "0.004/ms", &constant, &single)),
        ("M/D(PS)/1", question(Server::Periodic, 120, 200, "0.003/ms", &constant, &single)),
        ("M/G(CBS)/1", question(Server::ConstantBandwidth, 120, 200, "0.003/ms", &two, &single)),
        ("batches", question(Server::Deferrable, 120, 200, "0.0015/ms", &constant, &[(1, 0.5), (3, 0.5)])),
    ];
    let mut seen = Vec::new();
    let mut check = |name: &str, question: &Question, mean: f64, shares: &[(u64, f64)]| {
        let at: Vec<Duration> = shares.iter().map(|(at, _)| ms(*at)).collect();
        let samples: Vec<_> = (0..seeds).map(|seed| sample(question, &at, &[], jobs, seed).unwrap()).collect();
        let of = |value: &dyn Fn(usize) -> Interval| (0..samples.len()).map(value).collect::<Vec<Interval>>();
        let mut told = vec![(format!("{name}: mean"), covered(&of(&|i| samples[i].mean_ns), mean * 1e6))];
        for (nth, (at, share)) in shares.iter().enumerate() {
            told.push((format!("{name}: {at} ms"), covered(&of(&|i| samples[i].cdf[nth]), *share)));
        }
        seen.extend(told);
    };
    for (name, question, mean, share) in &exact {
        check(name, question, *mean, share.as_slice());
    }
    for (name, question) in &alone {
        let at = [150, 300, 600];
        let truth = response(question, &at.map(ms), &[], Precision::Within(5e-4)).unwrap();
        let shares: Vec<(u64, f64)> = at.into_iter().zip(truth.cdf.iter().map(|at| at.p)).collect();
        check(name, question, truth.mean.ns() as f64 / 1e6, &shares);
    }
    println!("{seen:?}");
    // 95 of 100, give or take 2.2, or 38 of 40, give or take 1.4; and not because they are wide.
    let count = seeds as f64;
    let (fewest, off) = (0.95 * count - 3.5 * (0.05 * 0.95 * count).sqrt(), 3.5 / (2.0 * count).sqrt());
    for (what, (held, width)) in &seen {
        let fits = *held as f64 >= fewest && (1.0 - off..1.1 + off).contains(width);
        assert!(fits, "{what}: {held} of {seeds} hold, {width:.2} as wide");
    }
    let all: usize = seen.iter().map(|(_, (held, _))| held).sum();
    let share = all as f64 / (seen.len() as f64 * count);
    assert!(seen.len() == 19 && (0.92..0.98).contains(&share), "{share}");
}

#[test]
fn percentiles_and_shares_of_a_sample_are_those_of_the_same_jobs_and_a_seed_is_a_sample() {
    let question = question(Server::Deferrable, 120, 200, "0.004/ms", &[(100, 1.0)], &[(1, 1.0)]);
    let at = [ms(200), ms(537)]; // the truth's median lies between
    let of = |seed| sample(&question, &at, &[50.0, 90.0, 99.0], 20_000, seed).unwrap();
    let found = of(7);
    assert_eq!(found, of(7));
    assert_ne!(found.mean_ns, of(8).mean_ns);
    assert_eq!((found.jobs, found.seed), (18_000, 7), "the first tenth of each run is left out");
    let tiles: Vec<f64> = found.percentiles_ns.iter().map(|i| i.value / 1e8).collect();
    // 4·10⁸ jobs of another simulator: 1.850, 5.368 and 10.396 service times.
    for (nth, want) in [1.850, 5.368, 10.396].into_iter().enumerate() {
        let Interval { low, high, .. } = found.percentiles_ns[nth];
        let room = (high - low) / 2e8;
        assert!((tiles[nth] - want).abs() <= 2.0 * room, "{tiles:?}");
    }
    assert!(tiles[0] < tiles[1] && tiles[1] < tiles[2]);
    assert!(found.cdf[0].value < found.cdf[1].value && (found.cdf[1].value - 0.9).abs() < 0.03, "{found:?}");
}
