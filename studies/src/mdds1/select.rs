//! The cheapest server that meets an objective: [LiH21, § 4.3, Fig. 4.11].

use crate::mdds1::Case;
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_analysis::response::{map, slo, Objective, Question, Verdict};
use giusto_model::{Bandwidth, Duration};
use std::collections::BTreeMap;

/// λ = 0.4, d = 1 (ms); budget and period are looked for.
const CASE: Case = Case { rate: "0.4/ms", service: 1000, budget: 1000, period: 1000 };
/// Of the figure, in ms.
const PERIODS: [u64; 5] = [1, 2, 4, 8, 16];
/// Bandwidths in percent.
const SHARES: [u64; 8] = [45, 50, 60, 65, 70, 80, 90, 100];

/// Tables `least` (the least bandwidth at each period that meets p90 = 3 ms) and `map` (p90 over bandwidth and period). Nothing is
/// random: the one set there is says so.
pub(crate) fn run(_: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let question: Question = CASE.question();
    let periods = PERIODS.map(Duration::from_ms);
    let objective = Objective { percentile: 90.0, within: Duration::from_ms(3) };
    let mut least = Csv::new(vec!["period_ms", "set", "budget_ms", "bandwidth", "hold_ms", "reached"]);
    if let Verdict::Achievable(found) = slo(&question, &[objective], &periods, Duration::from_us(1))? {
        for choice in found.iter().flatten() {
            let ms = |time: Duration| format!("{:.6}", time.ns() as f64 / 1e6);
            let bandwidth = format!("{:.6}", choice.bandwidth.as_f64());
            let period = (choice.period.ns() / 1_000_000).to_string();
            let cells = [
                period,
                "0".into(),
                ms(choice.budget),
                bandwidth,
                ms(choice.hold),
                format!("{:.4}", choice.reached[0]),
            ];
            least.row(&cells);
        }
    }
    played(2);
    let shares: Vec<Bandwidth> =
        SHARES.iter().map(|&percent| Bandwidth::new(percent, 100).expect("not over 0")).collect();
    let over = map(&question, &[90.0], &shares, &periods, &|| ())?;
    let mut table = Csv::new(vec!["bandwidth", "period_ms", "set", "p90_ms", "over_limit_ms"]);
    let limit = over.whole[0].ns() as f64;
    for cell in over.cells.iter().filter(|cell| !cell.at.is_empty()) {
        let at = cell.at[0].ns() as f64;
        let cells = [
            ((cell.bandwidth.as_f64() * 100.0).round()).to_string(),
            (cell.period.ns() / 1_000_000).to_string(),
            "0".into(),
            format!("{:.6}", at / 1e6),
            format!("{:.6}", (at - limit) / 1e6),
        ];
        table.row(&cells);
    }
    played(2);
    let named = [("least", least), ("map", table)];
    Ok(named.into_iter().map(|(name, table)| (name.to_string(), table.text())).collect())
}
