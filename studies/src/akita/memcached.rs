//! A Memcached machine alone and beside three that are CPU-bound, on one core. [Asy20, § 4.2, Fig. 5].

use crate::akita::calibrated;
use crate::akita::{critical, each, lookbusy, memcached, percentiles, play, How, Under, Vm, TYPE_1, TYPE_2};
use crate::vatc::{named, table, us};
use crate::{Error, Size};
use giusto_model::Duration;
use rand::RngExt;
use std::collections::BTreeMap;

const CONNECTIONS: u32 = 50;
/// Requests a second on each connection: with 46 us a request 23, 4.6 and 16.1 % of a core. The first is "around 25 %"; the
/// second is less than the optimistic budget, 5 %.
const RATES: [u64; 3] = [100, 20, 70];
/// What schedules; in Akita's the server's shares in a period of so many us, the first as in Table 1.
const ARMS: [(&str, Under, u64); 6] = [
    ("akita", Under::Akita, 100_000),
    ("akita-10ms", Under::Akita, 10_000),
    ("akita-1ms", Under::Akita, 1_000),
    ("akita-plain", Under::Plain, 100_000),
    ("credit", Under::Credit, 100_000),
    ("fair", Under::Fair, 100_000),
];
/// What runs beside it: three at 25 %, three that are always ready.
const BESIDE: [&str; 2] = ["duty", "always"];
/// Of Fig. 5(c, d).
const POINTS: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99];

/// Tables `tail`, a row for each set alone and beside; `ratios` of it, beside over alone; `percentiles` at the first rate;
/// `calibration`, see [`calibrated`].
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let found = each(&size, played, &RATES, |&rate, set| one(&size, rate, set))?;
    let (mut tail, mut ratios, mut percentiles) = (Vec::new(), Vec::new(), Vec::new());
    for mut rows in found {
        tail.append(&mut rows.0);
        ratios.append(&mut rows.1);
        percentiles.append(&mut rows.2);
    }
    let columns = ["rate", "beside", "under", "set", "requests", "mean_us", "p50_us", "p99_us", "p999_us", "critical"];
    Ok(named(vec![
        ("tail", table(columns.to_vec(), &tail)),
        ("ratios", table(vec!["rate", "beside", "under", "set", "p50", "p99", "p999"], &ratios)),
        ("percentiles", table(vec!["beside", "under", "set", "percentile", "us"], &percentiles)),
        ("calibration", calibrated::table(&size)?),
    ]))
}

type Rows = (Vec<Vec<String>>, Vec<Vec<String>>, Vec<Vec<String>>);

fn one(size: &Size, rate: u64, set: u64) -> Result<Rows, Error> {
    let mut rng = size.stream(0, set);
    let seed = rng.random();
    let hogs: Vec<Vm> = (0..3).map(|_| Vm { of: TYPE_2, core: 0, runs: Some(lookbusy(&mut rng)) }).collect();
    let always: Vec<Vm> = hogs.iter().map(|vm| Vm { runs: None, ..vm.clone() }).collect();
    let mut rows = Rows::default();
    for (arm, under, period) in ARMS {
        let server = Vm { of: TYPE_1.in_period(period), core: 0, runs: Some(memcached(CONNECTIONS, rate)) };
        let how = how(size, under, seed);
        let mut alone = [0.0; 3];
        for (beside, others) in [("alone", Vec::new()), (BESIDE[0], hogs.clone()), (BESIDE[1], always.clone())] {
            let vms: Vec<Vm> = std::iter::once(server.clone()).chain(others).collect();
            let seen = play(&vms, how)?;
            let responses = seen.watch.responses(0);
            let case = |columns: &[&str]| columns.iter().map(|c| c.to_string()).collect::<Vec<_>>();
            let (rate_, set_) = (rate.to_string(), set.to_string());
            let of = case(&[&rate_, beside, arm, &set_]);
            let numbers = vec![responses.jobs().to_string(), us(responses.mean_ns() as u64)];
            let tails = percentiles(&seen, 0, &[50.0, 99.0, 99.9]);
            rows.0.push([of.clone(), numbers, tails, vec![critical(&seen, 0, how)]].concat());
            let points = [50.0, 99.0, 99.9].map(|p| responses.percentile(p).ns() as f64);
            if beside == "alone" {
                alone = points;
            } else {
                let ratio = |at: usize| format!("{:.6}", points[at] / alone[at].max(1.0));
                rows.1.push([of, vec![ratio(0), ratio(1), ratio(2)]].concat());
            }
            if rate == RATES[0] {
                for p in POINTS {
                    let number = case(&[beside, arm, &set_, &p.to_string()]);
                    rows.2.push([number, percentiles(&seen, 0, &[p])].concat());
                }
            }
        }
    }
    Ok(rows)
}

/// The first second is not watched: until the server has used its first budget, its core is in LO mode.
fn how(size: &Size, under: Under, seed: u64) -> How {
    let second = Duration::from_ms(1000);
    How { cores: 1, under, length: size.length, from: second, window: second, seed }
}
