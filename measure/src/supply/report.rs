//! What a recording says, in numbers.

use super::behind::behind;
use super::bound::{below, delay, least};
use super::{Probed, Recording, Resource, SupplyPlan};
use giusto_model::{Bandwidth, Behind, Duration, Instant};
use serde::{Deserialize, Serialize};

/// Lengths of the bound, in quarters of a window.
const QUARTERS: u64 = 40;

/// What was measured; in JSON as `formats/supply.schema.json` describes it. All fields named `..._ns` there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupplyReport {
    /// First instant of the recording, CLOCK_MONOTONIC.
    #[serde(rename = "start_ns")]
    pub start: Instant,
    /// Its length.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Duration,
    /// All of it but the gaps.
    #[serde(rename = "supply_ns")]
    pub supply: Duration,
    /// `supply / elapsed`.
    pub share: Bandwidth,
    /// Processor time of the thread in the kernel's books. Not in them: when it was not scheduled. In them, but not supplied:
    /// what interrupts and a hypervisor took while it was.
    #[serde(rename = "cpu_ns")]
    pub cpu: Duration,
    /// What a hypervisor took from `cores` meanwhile, no matter what ran, in the kernel's ticks; `None` where it does not tell.
    #[serde(rename = "steal_ns")]
    pub steal: Option<Duration>,
    /// Where the probe might run.
    pub cores: Vec<u32>,
    /// Its policy.
    pub policy: String,
    /// How long one reading of the clock takes (median).
    #[serde(rename = "loop_ns")]
    pub reading: Duration,
    /// Readings further apart than this are a gap.
    #[serde(rename = "threshold_ns")]
    pub threshold: Duration,
    /// Whether the record was locked in memory.
    pub locked: bool,
    /// How many gaps.
    pub gaps: u64,
    /// How many older ones there was no room for; the recording starts after them.
    pub dropped_gaps: u64,
    /// The longest.
    #[serde(rename = "longest_gap_ns")]
    pub longest_gap: Duration,
    /// Length of a window.
    #[serde(rename = "window_ns")]
    pub window: Duration,
    /// When windows begin, modulo their length.
    #[serde(rename = "phase_ns")]
    pub phase: Duration,
    /// How many whole windows.
    pub windows: u64,
    /// Their supply; `None` without a whole window.
    pub per_window: Option<Spread>,
    /// The empirical supply bound function at every quarter of a window up to ten, as far as the recording reaches.
    pub bound: Vec<BoundPoint>,
    /// The best line below it; `None` if nothing was supplied.
    pub linear: Option<Linear>,
    /// Against what was asked for; `None` if nothing was, or without a whole window.
    pub asked: Option<Asked>,
}

/// Supply of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Least.
    #[serde(rename = "min_ns")]
    pub min: Duration,
    /// 1st percentile, by nearest rank.
    #[serde(rename = "p1_ns")]
    pub p1: Duration,
    /// Rounded down to a ns.
    #[serde(rename = "mean_ns")]
    pub mean: Duration,
    /// 99th percentile, by nearest rank.
    #[serde(rename = "p99_ns")]
    pub p99: Duration,
    /// Most.
    #[serde(rename = "max_ns")]
    pub max: Duration,
    /// Standard deviation over these windows, rounded.
    #[serde(rename = "sd_ns")]
    pub sd: Duration,
}

/// A point of the supply bound function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundPoint {
    /// Length of windows.
    #[serde(rename = "length_ns")]
    pub length: Duration,
    /// Least supply in any window of that length.
    #[serde(rename = "supply_ns")]
    pub supply: Duration,
    /// What the periodic resource that was asked for is sure of.
    #[serde(rename = "asked_ns", default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Duration>,
}

/// α (t − Δ): no window of any length t within the recording has less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// The share that was measured.
    pub alpha: Bandwidth,
    /// The smallest with which that holds, rounded up.
    #[serde(rename = "delta_ns")]
    pub delta: Duration,
}

/// How the supply deviates from the budget B in every period P that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// B.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// P.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// Mean supply of a window less B; negative if short.
    #[serde(rename = "mean_deviation_ns")]
    pub mean_deviation: i64,
    /// Root of the mean square of a window's deviation from B.
    #[serde(rename = "rms_deviation_ns")]
    pub rms_deviation: Duration,
    /// Most that a window had beyond B.
    #[serde(rename = "overrun_ns")]
    pub overrun: Duration,
    /// Most that a window lacked of B.
    #[serde(rename = "shortfall_ns")]
    pub shortfall: Duration,
    /// How many windows had less than B.
    pub short_windows: u64,
    /// Longest gap of a periodic resource, 2 (P − B).
    #[serde(rename = "blackout_ns")]
    pub blackout: Duration,
    /// Most that the measured bound lies below that of the periodic resource, of all lengths up to ten periods.
    #[serde(rename = "below_ns")]
    pub below: Duration,
    /// Against a supply that gives each budget at the beginning of its window.
    pub behind: Behind,
}

impl SupplyReport {
    /// O((windows + gaps) log).
    pub(super) fn of(probed: &Probed, plan: &SupplyPlan) -> Self {
        let Probed { recording, cores, policy, .. } = probed;
        let supplies: Vec<u64> = recording.windows(plan.window, plan.phase).map(|window| window.supply.ns()).collect();
        let bound: Vec<BoundPoint> = (1..=QUARTERS).map_while(|n| point(probed, plan, n)).collect();
        let (elapsed, supply) = (recording.elapsed(), recording.supply());
        let share = Bandwidth::of(supply, elapsed).unwrap_or(Bandwidth::ZERO);
        let delta = Duration::from_ns(delay(recording));
        SupplyReport {
            start: recording.start(),
            elapsed,
            supply,
            share,
            cpu: probed.cpu,
            steal: probed.steal,
            cores: cores.clone(),
            policy: policy.clone(),
            reading: probed.reading,
            threshold: probed.threshold,
            locked: probed.locked,
            gaps: recording.gaps().len() as u64,
            dropped_gaps: probed.dropped,
            longest_gap: Duration::from_ns(recording.gaps().iter().map(|gap| gap.ns()).max().unwrap_or(0)),
            window: plan.window,
            phase: Duration::from_ns(plan.phase.ns() % plan.window.ns()),
            windows: supplies.len() as u64,
            per_window: spread(&supplies),
            linear: (!supply.is_zero()).then_some(Linear { alpha: share, delta }),
            asked: plan.ask.and_then(|ask| asked(&supplies, ask, recording, plan.phase)),
            bound,
        }
    }
}

fn point(probed: &Probed, plan: &SupplyPlan, quarters: u64) -> Option<BoundPoint> {
    let length = Duration::from_ns(plan.window.checked_mul(quarters)?.ns() / 4);
    let supply = Duration::from_ns(least(&probed.recording, length.ns())?);
    let asked = plan.ask.map(|ask| Duration::from_ns(ask.least_ns(length.ns())));
    Some(BoundPoint { length, supply, asked })
}

fn spread(supplies: &[u64]) -> Option<Spread> {
    let mut sorted = supplies.to_vec();
    sorted.sort_unstable();
    let rank = |percent: usize| Duration::from_ns(sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let (count, sum) = (sorted.len() as u128, sorted.iter().map(|&ns| u128::from(ns)).sum::<u128>());
    // All of it is at most the recording's length squared, which fits.
    let squares: u128 = sorted.iter().map(|&ns| u128::from(ns).pow(2)).sum();
    let sd = ((count * squares - sum * sum) as f64).sqrt() / count as f64;
    Some(Spread {
        min: Duration::from_ns(min),
        p1: rank(1),
        mean: Duration::from_ns((sum / count) as u64),
        p99: rank(99),
        max: Duration::from_ns(max),
        sd: Duration::from_ns(sd.round() as u64),
    })
}

fn asked(supplies: &[u64], ask: Resource, recording: &Recording, phase: Duration) -> Option<Asked> {
    let budget = ask.budget.ns();
    let (min, max) = (*supplies.iter().min()?, *supplies.iter().max()?);
    let deviations = supplies.iter().map(|&ns| i128::from(ns) - i128::from(budget));
    let count = supplies.len() as i128;
    let mean = deviations.clone().sum::<i128>() / count;
    let square = deviations.map(|ns| ns * ns).sum::<i128>() as f64 / count as f64;
    Some(Asked {
        budget: ask.budget,
        period: ask.period,
        mean_deviation: mean as i64, // less than a period
        rms_deviation: Duration::from_ns(square.sqrt().round() as u64),
        overrun: Duration::from_ns(max.saturating_sub(budget)),
        shortfall: Duration::from_ns(budget.saturating_sub(min)),
        short_windows: supplies.iter().filter(|&&ns| ns < budget).count() as u64,
        blackout: Duration::from_ns(ask.blackout_ns()),
        below: Duration::from_ns(below(recording, ask, QUARTERS / 4)),
        behind: behind(recording, ask, phase)?,
    })
}

impl Probed {
    /// In numbers; `plan` is the one it was measured with. O((windows + gaps) log).
    pub fn report(&self, plan: &SupplyPlan) -> SupplyReport {
        SupplyReport::of(self, plan)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::tests::{any_recording, recording};
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn probed(recording: super::super::Recording) -> Probed {
        Probed {
            cpu: recording.supply(),
            recording,
            steal: Some(Duration::from_ms(10)),
            cores: vec![1],
            policy: "fifo 1".into(),
            reading: Duration::from_ns(40),
            threshold: Duration::from_ns(200),
            locked: true,
            dropped: 0,
        }
    }

    fn plan(window: u64, ask: Option<(u64, u64)>) -> SupplyPlan {
        let ns = Duration::from_ns;
        let ask = ask.map(|(budget, period)| Resource { budget: ns(budget), period: ns(period) });
        SupplyPlan { length: ns(window * 2), window: ns(window), phase: ns(3), core: None, ask }
    }

    proptest! {
        #[test]
        fn statistics_of_windows_are_those_of_the_textbook(recording in any_recording(), window in 1..6u64, budget in 1..6u64) {
            let budget = budget.min(window);
            let plan = plan(window, Some((budget, window)));
            let report = probed(recording.clone()).report(&plan);
            let mut sorted: Vec<u64> = recording.windows(plan.window, plan.phase).map(|w| w.supply.ns()).collect();
            sorted.sort_unstable();
            prop_assert_eq!(report.windows, sorted.len() as u64);
            let (Some(spread), Some(asked)) = (report.per_window, report.asked) else {
                prop_assert!(sorted.is_empty() && report.per_window.is_none() && report.asked.is_none());
                return Ok(());
            };
            let count = sorted.len() as f64;
            let mean = sorted.iter().sum::<u64>() as f64 / count;
            let around = |centre: f64| (sorted.iter().map(|&x| (x as f64 - centre).powi(2)).sum::<f64>() / count).sqrt();
            prop_assert_eq!((spread.min.ns(), spread.max.ns()), (sorted[0], sorted[sorted.len() - 1]));
            // Nearest rank: the least value that so many of all do not exceed.
            let rank = |p: f64| *sorted.iter().find(|&&x| sorted.iter().filter(|&&y| y <= x).count() as f64 >= p * count).unwrap();
            prop_assert_eq!((spread.p1.ns(), spread.p99.ns()), (rank(0.01), rank(0.99)));
            prop_assert_eq!(spread.mean.ns(), mean.floor() as u64);
            prop_assert!((spread.sd.ns() as f64 - around(mean)).abs() <= 0.5 + 1e-6);
            prop_assert!((asked.rms_deviation.ns() as f64 - around(budget as f64)).abs() <= 0.5 + 1e-6);
            prop_assert_eq!(asked.mean_deviation, (mean - budget as f64).trunc() as i64);
            prop_assert_eq!(asked.short_windows, sorted.iter().filter(|&&x| x < budget).count() as u64);
        }
    }

    /// A supply of 4, 5 and 3 in 10 ms in turns, against 3 ms that were asked for; and the file that other tools test with.
    #[test]
    fn the_golden_report_is_what_this_recording_says() {
        const MS: u64 = 1_000_000;
        let pieces = [4, 7, 5, 4, 3, 7].map(|ms| ms * MS).repeat(4);
        let plan = plan(10 * MS, Some((3 * MS, 10 * MS)));
        let report = probed(recording(3, &pieces)).report(&plan);
        assert_eq!(report.share, "2/5".parse().unwrap());
        assert_eq!((report.windows, report.longest_gap), (12, Duration::from_ms(7)));
        let asked = report.asked.unwrap();
        assert_eq!(
            (asked.overrun, asked.shortfall, asked.below),
            (Duration::from_ms(2), Duration::ZERO, Duration::ZERO)
        );
        let text = serde_json::to_string_pretty(&report).unwrap() + "\n";
        assert_eq!(serde_json::from_str::<SupplyReport>(&text).unwrap(), report);
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../formats/goldens/supply.json");
        if std::env::var_os("GIUSTO_REWRITE").is_some() {
            std::fs::write(golden, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(golden).unwrap(), "set GIUSTO_REWRITE=1 if the change is meant");
    }

    #[test]
    fn a_supply_that_lags_is_told_in_windows_and_in_the_bound() {
        const MS: u64 = 1_000_000;
        let report = probed(recording(3, &[3 * MS, 7 * MS, 3 * MS, 17 * MS, 6 * MS, 4 * MS]))
            .report(&plan(10 * MS, Some((3 * MS, 10 * MS))));
        let asked = report.asked.unwrap();
        assert_eq!(
            (asked.shortfall, asked.overrun, asked.short_windows),
            (Duration::from_ms(3), Duration::from_ms(3), 1)
        );
        // 17 ms without supply, where 14 ms were the most.
        assert_eq!((asked.blackout, asked.below), (Duration::from_ms(14), Duration::from_ms(3)));
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_what_can() {
        for (plan, word) in [
            (plan(9_999, None), "10 us"),
            (SupplyPlan { length: Duration::from_ms(19), ..plan(10_000_000, None) }, "two windows"),
            (SupplyPlan { length: Duration::from_secs(1000), ..plan(20_000, None) }, "longer windows"),
            (plan(20_000, Some((3, 30_000))), "30 us"),
            (plan(20_000, Some((30_000, 20_000))), "within the period"),
            (plan(20_000, Some((0, 20_000))), "within the period"),
        ] {
            let text = plan.check().unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
        assert!(plan(20_000, Some((20_000, 20_000))).check().is_ok());
    }
}
