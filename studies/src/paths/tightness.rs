//! How far what is proven of a path is from what its messages take: on servers that give the least they may, and as the plan is
//! played.

use super::split::{usual, Drawn};
use super::{quantiles, LOADS, SERVICES};
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::{Certificate, Duration, Interface, PathSource, Rate, ServicePlan, ServiceTime};
use giusto_simulator::{in_parallel, play_alone, play_path, settling, Alone, AloneRun, Unobserved};
use std::collections::BTreeMap;

/// Messages of a path that count.
const COUNTED: usize = 40_000;
/// In so many runs, each with other places of the servers' periods.
const RUNS: usize = 20;

/// What is counted on of a stage.
fn alone<'a>((entry, service): (&ServicePlan, &'a ServiceTime)) -> Alone<'a> {
    let (budget, late) = match entry.certificate {
        Certificate::Stage { budget, latency } => (budget, latency),
        _ => (entry.server.budget, Duration::ZERO),
    };
    Alone { server: Interface { budget, period: entry.server.period }, late, service }
}

/// What all but one in 100 messages take at most on servers that give the least they may: each its budget at the end of its
/// period, wherever periods lie.
fn on_the_least(Drawn { chain, plan, .. }: &Drawn, rate: Rate, seed: u64) -> Result<Duration, Error> {
    let path = &plan.paths[0];
    let services: Vec<Alone> = plan.services.iter().zip(&chain.times).map(alone).collect();
    let before = settling(&path.through, &services, rate).ceil() as usize;
    let mut took = Vec::with_capacity(COUNTED);
    for run in 0..RUNS as u64 {
        let run =
            AloneRun { rate, before, counted: COUNTED / RUNS, seed: seed.wrapping_mul(1 << 16).wrapping_add(run) };
        took.extend(play_alone(&path.through, &services, &run)?);
    }
    took.sort_unstable();
    Ok(took[took.len() * 99 / 100])
}

/// Tables `tightness`: a row a path, with what is proven of its p99, what it is on servers that give the least they may
/// (`least`) and as the plan is played (`played`), in ms, and whether that of the least is above what is proven; `quartiles` of
/// what is proven over each.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let cases: Vec<(usize, u64)> = SERVICES.iter().flat_map(|services| LOADS.map(|load| (*services, load))).collect();
    let sets = size.sets as usize;
    let one = |nth: usize| {
        let (case, set) = (nth / sets, nth % sets);
        let (services, load) = cases[case];
        let drawn = usual(services, load, &mut size.stream(case, set as u64))?;
        let PathSource::Poisson(rate) = drawn.chain.source else {
            return Err(giusto_analysis::Error::Range.into());
        };
        let least = on_the_least(&drawn, rate, size.seed ^ nth as u64)?;
        let horizon = Duration::from_ns((COUNTED as f64 / rate.per_ns()) as u64);
        let path = &drawn.plan.paths[0];
        let whole = play_path(&drawn.plan, path, horizon, size.seed ^ nth as u64, &mut Unobserved)?.whole;
        played((cases.len() * sets) as u64);
        Ok::<_, Error>([path.points[0].at, least, whole.percentile(99.0)].map(|time| time.ns() as f64 / 1e6))
    };
    let mut all = Csv::new(vec!["services", "load", "set", "proven", "least", "played", "above"]);
    let mut ratios: BTreeMap<(usize, u64, &str), Vec<f64>> = BTreeMap::new();
    for (nth, [proven, least, played]) in in_parallel(cases.len() * sets, one)?.into_iter().enumerate() {
        let (services, load) = cases[nth / sets];
        let key = [services.to_string(), load.to_string(), (nth % sets).to_string()];
        let numbers = [proven, least, played].map(|x| format!("{x:.6}"));
        all.row(key.iter().chain(&numbers).chain([&u8::from(least > proven).to_string()]));
        ratios.entry((services, load, "least")).or_default().push(proven / least);
        ratios.entry((services, load, "played")).or_default().push(proven / played);
    }
    let mut quartiles = Csv::new(vec!["services", "load", "beside", "least", "q1", "median", "q3", "most"]);
    for ((services, load, beside), ratios) in ratios {
        let names = [services.to_string(), load.to_string(), beside.into()];
        let told = quantiles(ratios).map_or([""; 5].map(String::from), |all| all.map(|x| format!("{x:.4}")));
        quartiles.row(names.iter().chain(&told));
    }
    Ok([("tightness", all), ("quartiles", quartiles)]
        .into_iter()
        .map(|(name, csv)| (name.into(), csv.text()))
        .collect())
}
