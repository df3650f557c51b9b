//! Response times of a service with constant demand on this machine: [LiH21, § 4.4, Figs 4.13 and 4.14], twenty times as fast.

use crate::mdds1::synthetic::SERVERS;
use crate::measured::{beside, computed, histogram, simulated, Bench, Deviation};
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::{Duration, Interface, Load};
use std::collections::BTreeMap;
use std::path::Path;

/// λ = 0.004 /ms and d = 100 ms, that much faster.
const FASTER: u64 = 20;
const RATE: &str = "0.08/ms";
const SERVICE: Duration = Duration::from_ms(100 / FASTER);
/// A whole core cannot be reserved: this share of one can.
const MOST: u64 = 95;
/// Response times that are told, in tenths of d.
const AT: [u64; 10] = [15, 20, 25, 30, 40, 50, 60, 80, 100, 120];
const PORT: u16 = 7011;

/// Table `cdf`: the first server calibrates (what is lost of a budget, and the latency of the machine), the others are predicted.
/// A set is a stretch of the one run of each server.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let spinner = beside("giusto-spin").ok_or_else(|| Error::Lacks("giusto-spin beside this program".into()))?;
    let words = [spinner.display().to_string(), PORT.to_string(), SERVICE.ns().to_string()];
    let load = Load::Redis { address: ([127, 0, 0, 1], PORT).into(), fields: 1, value: 1 };
    let at = AT.map(|k| Duration::from_ns(SERVICE.ns() * k / 10));
    let mut cdf = Csv::new(vec!["budget_ms", "period_ms", "point", "set", "method", "at_over_d", "share"]);
    let mut machine = Csv::new(vec!["budget_ms", "period_ms", "set", "service_us", "loss_us", "latency_us", "jobs"]);
    let mut calibrated: Option<Deviation> = None;
    for (nth, (budget, period)) in SERVERS.into_iter().enumerate() {
        let [budget, period] =
            [budget.min(period * MOST / 100), period].map(|ms| Duration::from_us(ms * 1000 / FASTER));
        let bench = Bench::start(&words, load.clone(), Interface { budget, period }, &folder.join(nth.to_string()))?;
        let question = bench.question(RATE, histogram(&bench.profile(size.seed)?, 1));
        let seen = bench.drive(RATE, size.length, size.seed + nth as u64)?;
        drop(bench);
        let point = if calibrated.is_none() { "calibrated" } else { "predicted" };
        let deviation = match calibrated {
            Some(deviation) => deviation,
            None => *calibrated.insert(Deviation::calibrate(&question, &seen)?),
        };
        let (numerical, again) = (computed(&question, deviation, &at)?, simulated(&question, deviation, &seen)?);
        let jobs = seen.responses.len();
        let case = [budget, period].map(|time| format!("{}", time.ns() as f64 / 1e6));
        let us = |time: Duration| format!("{:.1}", time.ns() as f64 / 1e3);
        let told = [us(question.service[0].0), us(deviation.loss), us(deviation.latency), jobs.to_string()];
        machine.row(case.iter().chain(&["0".to_string()]).chain(&told));
        for set in 0..size.sets as usize {
            let stretch = jobs * set / size.sets as usize..jobs * (set + 1) / size.sets as usize;
            let share = |all: &[u64], at: Duration| {
                let part = all.chunks(jobs).flat_map(|run| &run[stretch.clone()]);
                let (mut within, mut count) = (0, 0);
                part.for_each(|ns| (within, count) = (within + usize::from(*ns <= at.ns()), count + 1));
                within as f64 / f64::from(count.max(1))
            };
            for (nth, (k, at)) in AT.into_iter().zip(at).enumerate() {
                let methods = [
                    ("numerical", numerical[nth]),
                    ("simulated", share(&again, at)),
                    ("measured", share(&seen.responses, at)),
                ];
                for (method, share) in methods {
                    let cells = [point.to_string(), set.to_string(), method.to_string()];
                    let told = [format!("{:.1}", k as f64 / 10.0), format!("{share:.6}")];
                    cdf.row(case.iter().chain(&cells).chain(&told));
                }
            }
        }
        played(SERVERS.len() as u64);
    }
    Ok(BTreeMap::from([("cdf".to_string(), cdf.text()), ("machine".to_string(), machine.text())]))
}
