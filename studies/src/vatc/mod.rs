//! What the studies of VATC share: one core of dom0, its costs and its uplink [LiC20, § 3.4.1].

pub(crate) mod balance;
pub(crate) mod bucket;
mod cells;
pub(crate) mod host;
mod inbound;
pub(crate) mod interference;
pub(crate) mod measured;
pub(crate) mod packetrate;
pub(crate) mod rebalance;
pub(crate) mod starving;
mod uplink;

use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::{Duration, PacketClass};
use giusto_simulator::in_parallel;
use giusto_simulator::network::{play_packets, Costs, Guest, Link, Path, Qdisc, Scene, Seen, Sends};
use rand::RngExt;
use std::collections::BTreeMap;

/// Of all studies of VATC: guesses, as the paper tells no cost. With these VATC handles 240,000 packets a second: more than the
/// 180,000 that a core of Fig. 3.11 takes, less than 260,000, which it does not; and Fig. 3.10 bends beyond 100,000.
pub(crate) const COSTS: Costs = Costs {
    interrupt: Duration::from_us(1),
    send: Duration::from_us(3),
    receive: Duration::from_us(3),
    deliver: Duration::from_ns(1500),
    clear: Duration::from_ns(100),
    switch: Duration::from_us(1),
    copy: Duration::from_ns(200),
};
/// Slots of the ring between a guest and its interface (Xen's, one page).
const RING: usize = 256;

/// A core on the path of an arm, behind a Gigabit uplink that interrupts every `interval` at most.
pub(crate) fn scene(path: Path, qdisc: Qdisc, interval: Duration, guests: Vec<Guest>) -> Scene {
    let link = Link { byte: Duration::from_ns(8), answer: Duration::from_us(60), interval };
    Scene { path, qdisc, costs: COSTS, link, ring: RING, guests }
}

/// A guest that sends as many packets of `bytes` as it can, up to `rate` a second.
pub(crate) fn stream(class: PacketClass, rate: f64, bytes: u32) -> Guest {
    Guest { sends: Sends::Streams { rate, bytes, burst: 1 }, class, bucket: None }
}

/// Plays every scene of `cases` once for each set; `row` makes the cells of a set from what was seen in its scenes.
pub(crate) fn play<C: Sync>(
    size: &Size,
    played: &(dyn Fn(u64) + Sync),
    cases: &[(C, Vec<Scene>)],
    row: impl Fn(&C, u64, &[Vec<Seen>]) -> Vec<String> + Sync,
) -> Result<Vec<Vec<String>>, Error> {
    let all = cases.len() as u64 * size.sets;
    let one = |index: usize| {
        let (number, set) = (index / size.sets as usize, index as u64 % size.sets);
        let (case, scenes) = &cases[number];
        // The same guests send at the same times under every arm.
        let seed = size.stream(0, set).random();
        let seen = scenes.iter().map(|scene| play_packets(scene, size.length, seed)).collect::<Result<Vec<_>, _>>()?;
        played(all);
        Ok::<_, Error>(row(case, set, &seen))
    };
    in_parallel(all as usize, one)
}

/// A table of one name.
pub(crate) fn table(columns: Vec<&str>, rows: &[Vec<String>]) -> Csv {
    let mut csv = Csv::new(columns);
    rows.iter().for_each(|row| csv.row(row));
    csv
}

/// Tables by their names.
pub(crate) fn named(tables: Vec<(&str, Csv)>) -> BTreeMap<String, String> {
    tables.into_iter().map(|(name, table)| (name.to_string(), table.text())).collect()
}

/// ns in us.
pub(crate) fn us(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e3)
}

/// Seconds that are counted of a play.
pub(crate) fn counted(size: &Size) -> f64 {
    size.length.ns() as f64 * 0.9 / 1e9
}
