//! Periods of the tasks and load of the core: [Lee11, § IV-B, Figs 5 to 12].

use crate::interfaces::{admitted, optimal};
use crate::play::{play, How, Served, KINDS};
use crate::sets::synthetic;
use crate::tables::{tables, Played};
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_simulator::in_parallel;
use rand::RngExt;
use std::collections::BTreeMap;

/// Ranges of the task periods in ms.
const RANGES: [(u64, u64); 3] = [(550, 650), (350, 850), (100, 1100)];
/// What the tasks need of the core, in percent.
pub(crate) const LOADS: [u64; 4] = [70, 80, 90, 100];
/// Domains of a set.
pub(crate) const DOMAINS: usize = 5;

pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let cases: Vec<_> = RANGES.iter().flat_map(|&range| LOADS.map(|load| (range, load))).collect();
    let all = cases.len() as u64 * size.sets;
    let one = |index: usize| {
        let (number, set) = (index / size.sets as usize, index as u64 % size.sets);
        let (range, load) = cases[number];
        let mut rng = size.stream(number, set);
        let served = serve(synthetic(load, range, DOMAINS, &mut rng))?;
        let seed = rng.random();
        let arms = KINDS.iter().map(|&kind| {
            let how = How { kind, factor: 100, factored: 0, switch: Duration::ZERO, length: size.length, seed };
            Ok((vec![kind.to_string()], play(&served, how)?))
        });
        let arms = arms.collect::<Result<_, Error>>()?;
        let case = vec![format!("{}-{}", range.0, range.1), load.to_string()];
        let admitted = admitted(&served.interfaces)?;
        played(all);
        Ok::<_, Error>(Played { case, set, served, admitted, arms })
    };
    Ok(tables(&["range", "load"], &["server"], &in_parallel(all as usize, one)?))
}

/// Gives every domain its integer-optimal interface and a priority by its period.
pub(crate) fn serve(domains: Vec<crate::sets::Domain>) -> Result<Served, Error> {
    let with = |domain| optimal(&domain).map(|interface| (domain, interface));
    Ok(Served::rate_monotonic(domains.into_iter().map(with).collect::<Result<_, _>>()?))
}
