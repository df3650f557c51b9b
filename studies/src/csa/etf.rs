//! Jobs that run shorter than their worst case: [Lee11, § IV-B, Figs 13 and 14].

use crate::csa::period::{serve, DOMAINS, LOADS};
use crate::interfaces::admitted;
use crate::play::{play, How, KINDS};
use crate::sets::synthetic;
use crate::tables::{tables, Played};
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_simulator::in_parallel;
use rand::RngExt;
use std::collections::BTreeMap;

/// Task periods in ms.
const RANGE: (u64, u64) = (550, 650);
/// Execution-time factors in percent.
const FACTORS: [u32; 3] = [100, 50, 10];
/// Domains of highest priority that they apply to.
const FACTORED: usize = 3;

pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let all = LOADS.len() as u64 * size.sets;
    let one = |index: usize| {
        let (number, set) = (index / size.sets as usize, index as u64 % size.sets);
        let mut rng = size.stream(number, set);
        let served = serve(synthetic(LOADS[number], RANGE, DOMAINS, &mut rng))?;
        let seed = rng.random();
        let arms = KINDS.iter().flat_map(|&kind| FACTORS.map(|factor| (kind, factor))).map(|(kind, factor)| {
            let how = How { kind, factor, factored: FACTORED, switch: Duration::ZERO, length: size.length, seed };
            Ok((vec![kind.to_string(), factor.to_string()], play(&served, how)?))
        });
        let arms = arms.collect::<Result<_, Error>>()?;
        let admitted = admitted(&served.interfaces)?;
        played(all);
        Ok::<_, Error>(Played { case: vec![LOADS[number].to_string()], set, served, admitted, arms })
    };
    Ok(tables(&["load"], &["server", "factor"], &in_parallel(all as usize, one)?))
}
