//! Interfaces on two cores, by number as they come or by load. [LiC20, § 3.4.3, Fig. 3.11].

use crate::vatc::{named, play, scene, stream, table, us};
use crate::{Error, Size};
use giusto_model::{Duration, PacketClass};
use giusto_simulator::network::{percentile, Path, Qdisc, Scene, Seen};
use std::collections::BTreeMap;

/// Orders in which domains are created, the i-th with 10 i thousand packets a second: the paper's best and worst, and two others.
const ORDERS: [(&str, [u32; 8]); 4] = [
    ("best", [1, 3, 2, 4, 7, 5, 8, 6]),
    ("second", [2, 1, 3, 4, 6, 5, 8, 7]),
    ("third", [3, 1, 4, 2, 6, 5, 8, 7]),
    ("worst", [5, 1, 6, 2, 7, 3, 8, 4]),
];

/// LNF: to the core with the fewest, the first of several.
fn by_number(order: &[u32]) -> [Vec<u32>; 2] {
    let mut cores = [Vec::new(), Vec::new()];
    for one in order {
        let least = usize::from(cores[1].len() < cores[0].len());
        cores[least].push(*one);
    }
    cores
}

/// ReBalance (Algorithm 1): the highest load first, to the core with the least.
fn by_load(order: &[u32]) -> [Vec<u32>; 2] {
    let mut sorted = order.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut cores = [Vec::new(), Vec::new()];
    for one in sorted {
        let load = |core: &Vec<u32>| core.iter().sum::<u32>();
        let least = usize::from(load(&cores[1]) < load(&cores[0]));
        cores[least].push(one);
    }
    cores
}

/// Table `cores`: load and p99 of the waits from guest to wire on each core, how far apart they are, and the longer one.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let of = |domains: &Vec<u32>| -> Scene {
        let guests = domains.iter().map(|one| stream(PacketClass::High, f64::from(*one) * 10_000.0, 60)).collect();
        scene(Path::Vatc, Qdisc::Prio, Duration::from_us(250), guests)
    };
    let mut cases = Vec::new();
    for (order, domains) in ORDERS {
        for (method, cores) in [("lnf", by_number(&domains)), ("rebalance", by_load(&domains))] {
            let loads = [0, 1].map(|core| (cores[core].iter().sum::<u32>() * 10).to_string());
            cases.push(((order, method, loads), cores.iter().map(of).collect()));
        }
    }
    let rows = play(&size, played, &cases, |(order, method, loads), set, seen| {
        let p99 = |core: &Vec<Seen>| {
            let times: Vec<u64> = core.iter().flat_map(|guest| guest.times.iter().copied()).collect();
            percentile(&times, 99.0)
        };
        let [first, second] = [p99(&seen[0]), p99(&seen[1])];
        let numbers = [us(first), us(second), us(first.abs_diff(second)), us(first.max(second))];
        [vec![order.to_string(), method.to_string(), set.to_string()], loads.to_vec(), numbers.to_vec()].concat()
    })?;
    let columns = vec!["order", "method", "set", "load0_k", "load1_k", "p99_0_us", "p99_1_us", "apart_us", "slower_us"];
    Ok(named(vec![("cores", table(columns, &rows))]))
}
