//! Numerical and simulated response times of a service with constant demand: [LiH21, § 4.4, Figs 4.13 and 4.14].

use crate::mdds1::{shares, tenths, Case};
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_simulator::in_parallel;
use std::collections::BTreeMap;

/// λ = 0.004 /ms, d = 100 ms.
const BASE: Case = Case { rate: "0.004/ms", service: 100_000, budget: 120_000, period: 200_000 };
/// B and P in ms: W of 60, 80, 100 % at P = 200, then P of 100, 200, 400 at W = 60 %.
pub(crate) const SERVERS: [(u64, u64); 5] = [(120, 200), (160, 200), (200, 200), (60, 100), (240, 400)];
/// Response times that are told, in tenths of d.
pub(crate) const AT: [u64; 12] = [10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 160];

/// Table `cdf` (server, method, time over d, share).
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let all = SERVERS.len() as u64 * size.sets;
    let one = |index: usize| {
        let (budget, period) = SERVERS[index / size.sets as usize];
        let case = Case { budget: 1000 * budget, period: 1000 * period, ..BASE };
        let at = AT.map(|k| tenths(Duration::from_us(BASE.service), k));
        let found = shares(&case.question(), &at, &size, index as u64)?;
        played(all);
        Ok::<_, Error>(found)
    };
    let mut cdf = Csv::new(vec!["budget_ms", "period_ms", "set", "method", "at_over_d", "share"]);
    for (index, methods) in in_parallel(all as usize, one)?.iter().enumerate() {
        let (budget, period) = SERVERS[index / size.sets as usize];
        let case = [budget.to_string(), period.to_string(), (index as u64 % size.sets).to_string()];
        for (method, shares) in methods {
            for (at, share) in AT.iter().zip(shares) {
                let cells = [method.to_string(), format!("{:.1}", *at as f64 / 10.0), format!("{share:.6}")];
                cdf.row(case.iter().chain(&cells));
            }
        }
    }
    Ok(BTreeMap::from([("cdf".to_string(), cdf.text())]))
}
