//! What each parameter does to the response times: [LiH21, § 4.3, Fig. 4.10].

use crate::mdds1::{shares, tenths, Case};
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_analysis::response::{response, Precision};
use giusto_simulator::in_parallel;
use std::collections::BTreeMap;

/// The base condition, in ms: λ = 0.4, d = 1, P = 2, B = 1.2.
const BASE: Case = Case { rate: "0.4/ms", service: 1000, budget: 1200, period: 2000 };
/// Response times that are told, in tenths of a ms.
const AT: [u64; 11] = [10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120];
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// (parameter, its value as printed, the case).
fn cases() -> Vec<(&'static str, &'static str, Case)> {
    let mut all = Vec::new();
    for (value, rate) in [("0.1", "0.1/ms"), ("0.2", "0.2/ms"), ("0.3", "0.3/ms"), ("0.4", "0.4/ms"), ("0.5", "0.5/ms")]
    {
        all.push(("lambda", value, Case { rate, ..BASE }));
    }
    for (value, service) in [("0.4", 400), ("0.6", 600), ("0.8", 800), ("1.0", 1000), ("1.2", 1200)] {
        all.push(("d", value, Case { service, ..BASE }));
    }
    for (value, budget) in [("50", 1000), ("60", 1200), ("70", 1400), ("80", 1600), ("100", 2000)] {
        all.push(("W", value, Case { budget, ..BASE }));
    }
    for (value, period) in [("0.5", 500), ("1", 1000), ("2", 2000), ("4", 4000), ("8", 8000)] {
        all.push(("P", value, Case { period, budget: period * 6 / 10, ..BASE }));
    }
    all
}

/// Tables `cdf` (case, method, time, share) and `percentiles` (case, percentile, ms).
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let cases = cases();
    let all = cases.len() as u64 * size.sets;
    let one = |index: usize| {
        let question = cases[index / size.sets as usize].2.question();
        // Times are the base's, as in the figure, where d is varied too.
        let at = AT.map(|k| tenths(giusto_model::Duration::from_ms(1), k));
        let shares = shares(&question, &at, &size, index as u64)?;
        let percentiles = response(&question, &[], &PERCENTILES, Precision::default())?.percentiles;
        played(all);
        Ok::<_, Error>((shares, percentiles))
    };
    let found = in_parallel(all as usize, one)?;
    let mut cdf = Csv::new(vec!["parameter", "value", "set", "method", "at_ms", "share"]);
    let mut percentiles = Csv::new(vec!["parameter", "value", "set", "percentile", "response_ms"]);
    for (index, (shares, tiles)) in found.iter().enumerate() {
        let (parameter, value, _) = cases[index / size.sets as usize];
        let case = [parameter.to_string(), value.to_string(), (index as u64 % size.sets).to_string()];
        for (method, shares) in shares {
            for (at, share) in AT.iter().zip(shares) {
                let cells = [method.to_string(), format!("{:.1}", *at as f64 / 10.0), format!("{share:.6}")];
                cdf.row(case.iter().chain(&cells));
            }
        }
        for tile in tiles {
            let cells = [tile.p.to_string(), format!("{:.6}", tile.at.ns() as f64 / 1e6)];
            percentiles.row(case.iter().chain(&cells));
        }
    }
    let named = [("cdf", cdf), ("percentiles", percentiles)];
    Ok(named.into_iter().map(|(name, table)| (name.to_string(), table.text())).collect())
}
