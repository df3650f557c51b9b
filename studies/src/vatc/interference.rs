//! Round trips beside streams of small packets. [LiC20, § 3.4.1, Figs 3.6 to 3.9].

use crate::vatc::{counted, named, play, scene, stream, table, uplink, us};
use crate::{Error, Size};
use giusto_model::{Duration, PacketClass};
use giusto_simulator::network::{percentile, Guest, Path, Qdisc, Seen, Sends};
use std::collections::BTreeMap;

/// Arms: dom0 and VATC. Another queue of the uplink than Prio is in the table `uplink`.
const ARMS: [(&str, Path); 2] = [("prio", Path::Dom0), ("vatc", Path::Vatc)];
/// Packets a second that a stream of 1-byte UDP would send.
const RATE: f64 = 200_000.0;
/// Of them all where the streams share what one would send.
const SHARED: f64 = RATE;
const INTERVALS: [u64; 3] = [10, 250, 1000];
const STREAMS: u32 = 4;

#[derive(Clone, Copy)]
struct Case {
    traffic: &'static str,
    streams: u32,
    interval: u64,
}

/// Table `latency`, a row an arm: percentiles of round trips, mean parts of them, notifications a second; table `ratios`, a row
/// a case: p95 of Prio over that of VATC; table `uplink`: see [`uplink::run`].
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let mut all = Vec::new();
    for streams in 1..=STREAMS {
        all.extend(INTERVALS.map(|interval| Case { traffic: "each", streams, interval }));
        all.push(Case { traffic: "shared", streams, interval: INTERVALS[0] });
    }
    let cases: Vec<_> = all
        .iter()
        .map(|case| {
            let scenes = ARMS.map(|(_, path)| scene(path, Qdisc::Prio, Duration::from_us(case.interval), guests(case)));
            (*case, scenes.to_vec())
        })
        .collect();
    let seconds = counted(&size);
    let rows = play(&size, played, &cases, |case, set, seen| {
        let key = [case.traffic.to_string(), case.streams.to_string(), case.interval.to_string(), set.to_string()];
        let arms = ARMS
            .iter()
            .zip(seen)
            .flat_map(|((arm, ..), seen)| [key.to_vec(), vec![arm.to_string()], cells(seen, seconds)].concat());
        let p95 = |arm: usize| percentile(&seen[arm][0].times, 95.0) as f64;
        let over = format!("{:.6}", p95(0) / p95(1));
        arms.chain(key.clone()).chain([over]).collect()
    })?;
    let columns =
        ["traffic", "streams", "interval_us", "set", "arm", "p50_us", "p95_us", "max_us", "vif_us", "qdisc_us"];
    let columns = [&columns[..], &["rx_us", "all_us", "notifications"]].concat();
    let width = columns.len();
    let latency: Vec<Vec<String>> =
        rows.iter().flat_map(|row| row[..ARMS.len() * width].chunks(width).map(<[_]>::to_vec)).collect();
    let ratios: Vec<Vec<String>> = rows.iter().map(|row| row[ARMS.len() * width..].to_vec()).collect();
    let over = vec!["traffic", "streams", "interval_us", "set", "prio"];
    let uplink = uplink::run(&size, played)?;
    Ok(named(vec![("latency", table(columns, &latency)), ("ratios", table(over, &ratios)), ("uplink", uplink)]))
}

fn guests(case: &Case) -> Vec<Guest> {
    let asks = Sends::Asks { every: Duration::from_ms(10) };
    let rate = if case.traffic == "each" { RATE } else { SHARED / f64::from(case.streams) };
    let mut guests = vec![Guest { sends: asks, class: PacketClass::High, bucket: None }];
    guests.extend((0..case.streams).map(|_| stream(PacketClass::Low, rate, 60)));
    guests
}

fn cells(seen: &[Seen], seconds: f64) -> Vec<String> {
    let asks = &seen[0];
    let mean = |part: &Vec<u64>| part.iter().sum::<u64>() / (part.len().max(1) as u64);
    let parts = [mean(&asks.parts[0]), mean(&asks.parts[1]), mean(&asks.parts[2])];
    let notices = seen[1..].iter().map(|guest| guest.notifications).sum::<u64>() as f64 / (seconds / 0.9);
    let mut cells = [50.0, 95.0, 100.0].map(|p| us(percentile(&asks.times, p))).to_vec();
    cells.extend(parts.into_iter().chain([parts.iter().sum()]).map(us));
    cells.push(format!("{notices:.3}"));
    cells
}
