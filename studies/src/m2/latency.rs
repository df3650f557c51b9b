//! How long mode changes take under the four policies. [LiH21, § 2.5.4, Figs 2.7 and 2.8].

use crate::m2::{mode, scene, shares};
use crate::vatc::{named, table, us};
use crate::{Error, Size};
use giusto_modes::Policy;
use giusto_simulator::in_parallel;
use giusto_simulator::modes::play_modes;
use giusto_simulator::network::percentile;
use rand::RngExt;
use std::collections::BTreeMap;

const POLICIES: [(&str, Policy); 4] = [
    ("sequential", Policy::Sequential),
    ("batch", Policy::Batch),
    ("greedy", Policy::Greedy),
    ("boost", Policy::Boost),
];
/// Machines, and tenths of a core that all of them have together. The one of Fig. 2.8(b) first.
const CASES: [(usize, u32); 14] = [
    (12, 90),
    (12, 80),
    (6, 90),
    (6, 80),
    (9, 90),
    (9, 80),
    (7, 90),
    (7, 80),
    (8, 90),
    (8, 80),
    (10, 90),
    (10, 80),
    (11, 90),
    (11, 80),
];
/// Of its reservation a machine's tasks need so much: most of the time its virtual CPUs have used up their budgets.
const NEEDED: f64 = 0.9;
/// Points of a distribution, in us.
const STEP: u64 = 100;
const LONGEST: u64 = 20_000;

/// Tables `latency`, a row for each set under each policy; `ratios`, a row for each set; `cdf` of 12 machines with 9 cores.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let cases = &CASES[..size.cases.map_or(CASES.len(), |cases| (cases as usize).min(CASES.len()))];
    let all = cases.len() as u64 * size.sets;
    let one = |index: usize| {
        let (number, set) = (index / size.sets as usize, index as u64 % size.sets);
        let (vms, tenths) = cases[number];
        let mut rng = size.stream(number, set);
        let mut modes = || -> Vec<_> {
            let shares = shares(vms, f64::from(tenths) / 10.0, &mut rng);
            shares.into_iter().map(|share| mode(share, NEEDED, &mut rng)).collect()
        };
        let machines: Vec<_> = modes().into_iter().zip(modes()).map(|(first, second)| vec![first, second]).collect();
        let seed = rng.random();
        let seen = POLICIES
            .map(|(_, policy)| play_modes(&scene(machines.clone(), policy)?, size.length, seed).map_err(Error::from));
        played(all);
        Ok::<_, Error>((vms, tenths, set, seen.into_iter().collect::<Result<Vec<_>, _>>()?))
    };
    let (mut latency, mut ratios, mut cdf) = (Vec::new(), Vec::new(), Vec::new());
    for (vms, tenths, set, seen) in in_parallel(all as usize, one)? {
        let case = [vms.to_string(), format!("{:.1}", f64::from(tenths) / 10.0)];
        let p99 = |policy: usize| percentile(&seen[policy].latencies, 99.0) as f64;
        let by_boost = [0, 1, 2].map(|policy| format!("{:.6}", p99(policy) / p99(3).max(1.0)));
        ratios.push([case.to_vec(), vec![set.to_string()], by_boost.to_vec()].concat());
        for ((policy, _), seen) in POLICIES.iter().zip(&seen) {
            let times = &seen.latencies;
            let (least, most) = (percentile(times, 0.0), percentile(times, 100.0));
            let mean = times.iter().sum::<u64>() / times.len().max(1) as u64;
            let numbers = [mean, percentile(times, 50.0), percentile(times, 99.0), least, most, most - least].map(us);
            let counts = [times.len().to_string(), seen.failed.to_string()];
            let of = vec![policy.to_string(), set.to_string()];
            latency.push([case.to_vec(), of, counts.to_vec(), numbers.to_vec()].concat());
            if (vms, tenths) == CASES[0] {
                cdf.extend((0..=LONGEST / STEP).map(|step| {
                    let within = times.iter().filter(|&&ns| ns <= step * STEP * 1000).count();
                    let share = format!("{:.6}", within as f64 / times.len().max(1) as f64);
                    let ms = format!("{:.1}", (step * STEP) as f64 / 1e3);
                    vec![policy.to_string(), set.to_string(), ms, share]
                }));
            }
        }
    }
    let columns = [
        "vms",
        "bandwidth",
        "policy",
        "set",
        "changes",
        "failed",
        "mean_us",
        "median_us",
        "p99_us",
        "least_us",
        "most_us",
        "spread_us",
    ];
    Ok(named(vec![
        ("latency", table(columns.to_vec(), &latency)),
        ("ratios", table(vec!["vms", "bandwidth", "set", "sequential", "batch", "greedy"], &ratios)),
        ("cdf", table(vec!["policy", "set", "ms", "share"], &cdf)),
    ]))
}
