//! Response times of Redis sorting a list of 20,000 items on this machine: [LiH21, § 4.4, Figs 4.15 and 4.16].

use crate::measured::{computed, histogram, quantiles, Bench, Deviation};
use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::{Duration, Interface, Load};
use giusto_verify::{kolmogorov_smirnov, wasserstein, Sample};
use std::collections::BTreeMap;
use std::path::Path;

const ITEMS: u32 = 20_000;
/// P = 10 ms and B = 6 ms, as in the paper; then a larger budget.
const SERVERS: [Interface; 2] = [server(6), server(8)];
/// Requests; the paper has 4/s, too few in a minute.
const RATES: [&str; 2] = ["20/s", "12/s"];
/// Bins of the histogram of service times.
const BINS: usize = 20;
/// Response times that are told, in tenths of the mean service time.
const AT: [u64; 9] = [13, 15, 20, 25, 30, 40, 50, 60, 80];
const PORT: u16 = 7012;

const fn server(budget: u64) -> Interface {
    Interface { budget: Duration::from_ms(budget), period: Duration::from_ms(10) }
}

/// Tables `cdf` and `distances`, from the measured responses: of the M/D(DS)/1 queue with the mean service time and with the
/// longest, and of M/G(DS)/1 with the histogram. The first rate on the first server calibrates, all others are predicted. A set is a
/// stretch of a run.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let words = format!("redis-server --port {PORT} --bind 127.0.0.1 --save '' --appendonly no");
    let words: Vec<String> = words.split(' ').map(|word| word.trim_matches('\'').to_string()).collect();
    let load = Load::RedisSort { address: ([127, 0, 0, 1], PORT).into(), items: ITEMS };
    let case = ["budget_ms", "rate", "point", "set", "method"];
    let mut cdf = Csv::new([&case[..], &["at_over_d", "share"]].concat());
    let mut distances = Csv::new([&case[..], &["wasserstein_ms", "ks"]].concat());
    let mut machine = Csv::new(vec!["budget_ms", "rate", "set", "mean_us", "max_us", "loss_us", "latency_us", "jobs"]);
    let mut calibrated: Option<Deviation> = None;
    for (nth, server) in SERVERS.into_iter().enumerate() {
        let bench = Bench::start(&words, load.clone(), server, &folder.join(nth.to_string()))?;
        for (rate_nth, rate) in RATES.into_iter().enumerate() {
            // Before and after: what sorting takes drifts with what else the machine does.
            let mut times = bench.profile(size.seed)?;
            let seen = bench.drive(rate, size.length, size.seed + rate_nth as u64)?;
            times.extend(bench.profile(size.seed)?);
            let measured = bench.question(rate, histogram(&times, BINS));
            let single = |time| giusto_analysis::response::Question { service: vec![(time, 1.0)], ..measured.clone() };
            let mean = histogram(&times, 1)[0].0;
            let max = times.iter().copied().max().map_or(mean, Duration::from_ns);
            let point = if calibrated.is_none() { "calibrated" } else { "predicted" };
            let deviation = match calibrated {
                Some(deviation) => deviation,
                None => *calibrated.insert(Deviation::calibrate(&measured, &seen)?),
            };
            let us = |time: Duration| format!("{:.1}", time.ns() as f64 / 1e3);
            let case = [format!("{}", server.budget.ns() / 1_000_000), rate.to_string()];
            let told = [mean, max, deviation.loss, deviation.latency].map(us);
            let jobs = seen.responses.len();
            machine.row(case.iter().chain(&["0".to_string()]).chain(&told).chain(&[jobs.to_string()]));
            let at = AT.map(|k| Duration::from_ns(mean.ns() * k / 10));
            for (method, question) in [
                ("measured", None),
                ("mean", Some(single(mean))),
                ("max", Some(single(max))),
                ("histogram", Some(measured.clone())),
            ] {
                let model = question.map(|question| -> Result<_, Error> {
                    let sample = Sample::from_responses(quantiles(&question, deviation)?.into_iter().map(Some));
                    Ok((computed(&question, deviation, &at)?, sample.map_err(Error::machine)?))
                });
                let model = model.transpose()?;
                for set in 0..size.sets as usize {
                    let stretch =
                        &seen.responses[jobs * set / size.sets as usize..jobs * (set + 1) / size.sets as usize];
                    let cells = [point.to_string(), set.to_string(), method.to_string()];
                    for (place, k) in AT.into_iter().enumerate() {
                        let within = stretch.iter().filter(|ns| **ns <= at[place].ns()).count() as f64;
                        let share = model.as_ref().map_or(within / stretch.len() as f64, |(shares, _)| shares[place]);
                        let told = [format!("{:.1}", k as f64 / 10.0), format!("{share:.6}")];
                        cdf.row(case.iter().chain(&cells).chain(&told));
                    }
                    if let Some((_, sample)) = &model {
                        let found =
                            Sample::from_responses(stretch.iter().copied().map(Some)).map_err(Error::machine)?;
                        let (far, ks) = (wasserstein(&found, sample) / 1e6, kolmogorov_smirnov(&found, sample));
                        let told = [format!("{far:.6}"), format!("{ks:.6}")];
                        distances.row(case.iter().chain(&cells).chain(&told));
                    }
                }
            }
            played((SERVERS.len() * RATES.len()) as u64);
        }
    }
    let named = [("cdf", cdf), ("distances", distances), ("machine", machine)];
    Ok(named.into_iter().map(|(name, table)| (name.to_string(), table.text())).collect())
}
