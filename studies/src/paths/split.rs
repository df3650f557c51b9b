//! What it saves to choose the servers of all stages together: beside two rules that divide the time first, and beside all
//! servers that there are.

use super::chain::Chain;
use super::rules::{split, Rule};
use super::{exhaustive, overheads, planned, quantiles, taken, within, LOADS, SERVICES};
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::{Duration, Plan};
use giusto_simulator::in_parallel;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// Of the messages what may take longer; and what the planner leaves of it for numbers that it rounds.
const LATE: f64 = 0.01;
const ROUNDED: f64 = 0.99;
/// Promised times, in multiples of the time that a message takes on average with nothing to wait for, over the part of a core
/// that the busiest service leaves.
const PROMISED: (f64, f64) = (10.0, 40.0);
/// In ms, where all servers are tried: there are few periods then.
const SHORT: (u64, u64) = (25, 41);
/// Draws until a path can keep its promise.
const DRAWS: u64 = 200;

/// A path whose promise can be kept.
pub(super) struct Drawn {
    pub(super) chain: Chain,
    promised: Duration,
    pub(super) plan: Plan,
}

/// ... of a p99 within [`PROMISED`].
pub(super) fn usual(services: usize, load: u64, rng: &mut ChaCha8Rng) -> Result<Drawn, Error> {
    let promised = |chain: &Chain, rng: &mut ChaCha8Rng| {
        let times = rng.random_range(PROMISED.0..PROMISED.1) / (1.0 - load as f64 / 100.0);
        Duration::from_ns((chain.work().ns() as f64 * times) as u64)
    };
    drawn(services, load, promised, rng)
}

fn drawn(
    services: usize,
    load: u64,
    mut promised: impl FnMut(&Chain, &mut ChaCha8Rng) -> Duration,
    rng: &mut ChaCha8Rng,
) -> Result<Drawn, Error> {
    for _ in 0..DRAWS {
        let chain = Chain::random(services, load, rng);
        let promised = promised(&chain, rng);
        if let Some(plan) = planned(&chain, vec![within("p99", promised)])? {
            return Ok(Drawn { chain, promised, plan });
        }
    }
    Err(Error::Size(format!("none of {DRAWS} random paths keeps its promise")))
}

/// Tables `splits`: a row a path and rule, with what the plan takes, what the rule does (`kept` 0: its parts cannot be
/// kept), and what is saved; `quartiles` of the part that is saved; `least`: two services, beside the cheapest of all pairs of
/// servers.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let cases: Vec<(usize, u64)> = SERVICES.iter().flat_map(|services| LOADS.map(|load| (*services, load))).collect();
    let (sets, small) = (size.sets as usize, LOADS.len());
    let total = (cases.len() + small) as u64 * size.sets;
    let beside_rules = |nth: usize| {
        let (case, set) = (nth / sets, nth % sets);
        let (services, load) = cases[case];
        let one = usual(services, load, &mut size.stream(case, set as u64))?;
        let overhead = overheads(&one.plan);
        let costs = Rule::ALL.map(|rule| split(rule, &one.chain, one.promised, LATE, &overhead));
        played(total);
        Ok::<_, Error>((taken(&one.plan), costs))
    };
    let beside_all = |nth: usize| {
        let (case, set) = (nth / sets, nth % sets);
        let promised = |_: &Chain, rng: &mut ChaCha8Rng| Duration::from_ms(rng.random_range(SHORT.0..SHORT.1));
        let one = drawn(2, LOADS[case], promised, &mut size.stream(cases.len() + case, set as u64))?;
        let together = taken(&one.plan);
        let found = exhaustive::least(&one.chain, one.promised, LATE * ROUNDED, &overheads(&one.plan), together)?;
        played(total);
        Ok::<_, Error>((together, found))
    };
    let mut splits = Csv::new(vec!["services", "load", "set", "rule", "together", "split", "saved", "kept"]);
    let mut saved: BTreeMap<(usize, u64, &str), Vec<f64>> = BTreeMap::new();
    let mut without: BTreeMap<(usize, u64, &str), u64> = BTreeMap::new();
    for (nth, (together, costs)) in in_parallel(cases.len() * sets, beside_rules)?.into_iter().enumerate() {
        let (services, load) = cases[nth / sets];
        for (rule, cost) in Rule::ALL.into_iter().zip(costs) {
            let key = [services.to_string(), load.to_string(), (nth % sets).to_string(), rule.name().into()];
            // Where a rule has no servers, nothing is compared.
            let numbers = cost.map_or([0.0; 3], |cost| [together, cost, cost - together]).map(|x| format!("{x:.6}"));
            splits.row(key.iter().chain(&numbers).chain([&u8::from(cost.is_some()).to_string()]));
            match cost {
                Some(cost) => saved.entry((services, load, rule.name())).or_default().push(1.0 - together / cost),
                None => *without.entry((services, load, rule.name())).or_default() += 1,
            }
        }
    }
    let columns = ["services", "load", "rule", "paths", "least", "q1", "median", "q3", "most", "not_kept"];
    let mut quartiles = Csv::new(columns.to_vec());
    for (services, load) in &cases {
        for rule in Rule::ALL {
            let key = (*services, *load, rule.name());
            let all = saved.remove(&key).unwrap_or_default();
            let (count, not_kept) = (all.len(), without.get(&key).copied().unwrap_or(0));
            let names = [services.to_string(), load.to_string(), rule.name().into(), count.to_string()];
            let told = quantiles(all).map_or([""; 5].map(String::from), |all| all.map(|x| format!("{x:.4}")));
            quartiles.row(names.iter().chain(&told).chain([&not_kept.to_string()]));
        }
    }
    let mut least = Csv::new(vec!["load", "set", "together", "least", "more", "pairs"]);
    for (nth, (together, (found, pairs))) in in_parallel(small * sets, beside_all)?.into_iter().enumerate() {
        let key = [LOADS[nth / sets].to_string(), (nth % sets).to_string()];
        let numbers = [together, found, together - found].map(|x| format!("{x:.6}"));
        least.row(key.iter().chain(&numbers).chain([&pairs.to_string()]));
    }
    let tables = [("splits", splits), ("quartiles", quartiles), ("least", least)];
    Ok(tables.into_iter().map(|(name, csv)| (name.into(), csv.text())).collect())
}
