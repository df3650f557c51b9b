//! One measured point determines the only number that is not measured: how fast streams would send if nothing held them up.

use super::scene::{Costs, Guest, Link, Path, Qdisc, Scene, Sends};
use super::{percentile, play_packets_seeds};
use crate::system::Error;
use giusto_model::{Duration, PacketClass};

/// A guest that asks every 10 ms and some streams of small packets, all in network namespaces of one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bench {
    /// What a packet costs: 1/capacity.
    pub cost: Duration,
    /// A round trip with nothing else there, less its packets.
    pub base: Duration,
    /// Streams.
    pub streams: u32,
    /// Packets a second that each would send.
    pub offered: f64,
}

impl Bench {
    /// On one of the paths of stock Linux.
    pub fn scene(&self, path: Path) -> Scene {
        let asks = Sends::Asks { every: Duration::from_ms(10) };
        let stream = Sends::Streams { rate: self.offered, bytes: 43, burst: 8 };
        let low = Guest { sends: stream, class: PacketClass::Low, bucket: None };
        let mut guests = vec![Guest { sends: asks, class: PacketClass::High, bucket: None }];
        guests.extend((0..self.streams).map(|_| low));
        let (short, cost) = (Duration::from_us(1), self.cost);
        Scene {
            path,
            qdisc: Qdisc::Prio,
            costs: Costs {
                interrupt: short,
                send: cost,
                receive: cost,
                deliver: short,
                clear: short,
                switch: short,
                copy: Duration::ZERO,
            },
            link: Link { byte: Duration::ZERO, answer: self.base, interval: Duration::ZERO },
            ring: 256,
            guests,
        }
    }

    /// The 95th percentile of round trips, in ns. Errors: as [`super::play_packets`].
    pub fn p95(&self, path: Path, length: Duration, seeds: &[u64]) -> Result<u64, Error> {
        Ok(percentile(&play_packets_seeds(&self.scene(path), length, seeds)?[0].times, 95.0))
    }
}

/// The rate of the streams of `bench` at which softirqs with a backlog have this 95th percentile; the least of those that were
/// tried. O(log) plays. Errors: as [`super::play_packets`].
pub fn offered(bench: Bench, p95: Duration, length: Duration, seeds: &[u64]) -> Result<f64, Error> {
    let (mut low, mut high) = (1.0, 2e9 / bench.cost.ns().max(1) as f64);
    for _ in 0..12 {
        let offered = (low + high) / 2.0;
        let found = Bench { offered, ..bench }.p95(Path::Backlog, length, seeds)?;
        *(if found < p95.ns() { &mut low } else { &mut high }) = offered;
    }
    Ok(high)
}
