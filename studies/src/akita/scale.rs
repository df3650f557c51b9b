//! An RPC machine beside more and more CPU-bound ones on the cores of a host: first fit, or load balancing. [Asy20,
//! § 4.3, Figs 8]
//! and 9.

use crate::akita::{each, lookbusy, memcached, percentiles, play, How, Under, Vm, ALL, TYPE_1, TYPE_2};
use crate::vatc::{named, table};
use crate::{Error, Size};
use giusto_model::Duration;
use rand::RngExt;
use std::collections::BTreeMap;

/// 12 less two for dom0.
const CORES: u32 = 10;
/// CPU-bound machines; without any the RPC machine is alone on the host.
const OTHERS: [u32; 6] = [0, 5, 10, 15, 20, 24];
/// Percentiles are compared with those beside so many.
const FIRST: u32 = 5;
/// Clients of the RPC machine and calls a second of each: 16.1 % of a core.
const CLIENTS: u32 = 5;
const CALLS: u64 = 700;
/// Machines that a core takes: four of 25 %, in the worst case of the critical one.
const EACH: u32 = 4;

/// Tables `tail`, a row for each set; `ratios` of its percentiles to those beside 5; `idle`, what cores do without work.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let found = each(&size, played, &ALL, |&under, set| one(&size, under, set))?;
    let [mut tail, mut ratios, mut idle]: [Vec<Vec<String>>; 3] = Default::default();
    for rows in found {
        [&mut tail, &mut ratios, &mut idle].into_iter().zip(rows).for_each(|(all, mut rows)| all.append(&mut rows));
    }
    let columns = ["under", "set", "others", "mean_us", "p50_us", "p99_us", "p999_us"];
    let idle_columns = ["under", "set", "others", "idle", "unused", "deep", "stretches"];
    Ok(named(vec![
        ("tail", table(columns.to_vec(), &tail)),
        ("ratios", table(vec!["under", "set", "others", "p99", "p999"], &ratios)),
        ("idle", table(idle_columns.to_vec(), &idle)),
    ]))
}

fn one(size: &Size, under: Under, set: u64) -> Result<[Vec<Vec<String>>; 3], Error> {
    let mut rng = size.stream(0, set);
    let seed = rng.random();
    let server = Vm { of: TYPE_1, core: 0, runs: Some(memcached(CLIENTS, CALLS)) };
    let other = |nth: u32| Vm { of: TYPE_2, core: nth / EACH, runs: Some(lookbusy(&mut rng)) };
    // First fit: the critical machine came first.
    let vms: Vec<Vm> = std::iter::once(server).chain((1..=*OTHERS.last().unwrap_or(&0)).map(other)).collect();
    let second = Duration::from_ms(1000);
    let how = How { cores: CORES, under, length: size.length, from: second, window: second, seed };
    let [mut tail, mut ratios, mut idle]: [Vec<Vec<String>>; 3] = Default::default();
    let mut points = Vec::new();
    for others in OTHERS {
        let seen = play(&vms[..=others as usize], how)?;
        let of = vec![under.name().to_string(), set.to_string(), others.to_string()];
        let responses = seen.watch.responses(0);
        let mean = crate::vatc::us(responses.mean_ns() as u64);
        tail.push([of.clone(), vec![mean], percentiles(&seen, 0, &[50.0, 99.0, 99.9])].concat());
        points.push([99.0, 99.9].map(|p| responses.percentile(p).ns().max(1) as f64));
        let cores = seen.watch.idled();
        let watched = (size.length.ns() - second.ns()) as f64;
        let sum = |what: &dyn Fn(&giusto_simulator::Idle) -> f64| cores.iter().map(what).sum::<f64>();
        let numbers = [
            sum(&|core| core.ns as f64) / watched,
            sum(&|core| f64::from(u8::from(core.ns as f64 >= watched))),
            sum(&|core| core.deep_ns as f64) / watched,
            sum(&|core| core.stretches as f64) / (watched / 1e9),
        ];
        idle.push([of, numbers.map(|number| format!("{number:.6}")).to_vec()].concat());
    }
    let first = points[OTHERS.iter().position(|&others| others == FIRST).unwrap_or(0)];
    for (others, points) in OTHERS.iter().zip(&points) {
        let of = vec![under.name().to_string(), set.to_string(), others.to_string()];
        ratios.push([of, (0..2).map(|at| format!("{:.6}", points[at] / first[at])).collect()].concat());
    }
    Ok([tail, ratios, idle])
}
