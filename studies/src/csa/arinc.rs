//! Harmonic workloads as in ARINC 653: [Lee11, § IV-C, Table I, Figs 15 and 16].

use crate::interfaces::{admitted, aligned};
use crate::play::{play, How, Served, KINDS};
use crate::sets::harmonic;
use crate::tables::{tables, Played};
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_simulator::in_parallel;
use rand::RngExt;
use std::collections::BTreeMap;

/// U_W of Table I in millionths, workloads 1 to 7.
const LOADS: [u64; 7] = [378_000, 511_000, 481_000, 389_000, 537_000, 426_000, 3_000];
/// Workload 2 has 6 domains (Table II), workload 7 has one (§ IV-C (4)); the others are not known.
const MOST_DOMAINS: usize = 6;
/// Workload 7's interface has 1 quantum in 50: U_RM is 0.020.
const PERIOD_OF_7_MS: u64 = 50;
/// What a switch costs, in µs: nothing as in the analysis, and what was not accounted for on the paper's machine.
const SWITCHES: [u64; 2] = [0, 50];

pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let all = LOADS.len() as u64 * size.sets;
    let one = |index: usize| {
        let (number, set) = (index / size.sets as usize, index as u64 % size.sets);
        let mut rng = size.stream(number, set);
        let (domains, period) = match number {
            1 => (MOST_DOMAINS, None),
            6 => (1, Some(PERIOD_OF_7_MS)),
            _ => (rng.random_range(4..=MOST_DOMAINS), None),
        };
        let partitions = harmonic(LOADS[number], domains, period, &mut rng).into_iter();
        let with = partitions.map(|p| aligned(&p.tasks, p.period).map(|interface| (p.tasks, interface)));
        let served = Served::rate_monotonic(with.collect::<Result<_, _>>()?);
        let seed = rng.random();
        let arms = KINDS.iter().flat_map(|&kind| SWITCHES.map(|switch| (kind, switch))).map(|(kind, switch_us)| {
            let switch = Duration::from_us(switch_us);
            let how = How { kind, factor: 100, factored: 0, switch, length: size.length, seed };
            Ok((vec![kind.to_string(), switch_us.to_string()], play(&served, how)?))
        });
        let arms = arms.collect::<Result<_, Error>>()?;
        let admitted = admitted(&served.interfaces)?;
        played(all);
        Ok::<_, Error>(Played { case: vec![(number + 1).to_string()], set, served, admitted, arms })
    };
    Ok(tables(&["workload"], &["server", "switch_us"], &in_parallel(all as usize, one)?))
}
