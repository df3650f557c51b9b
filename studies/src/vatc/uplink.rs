//! What the uplink's queue decides: much where the wire is full, nothing where the core is. [LiC20, § 3.2.3].

use crate::tables::Csv;
use crate::vatc::{counted, play, scene, stream, table, us};
use crate::{Error, Size};
use giusto_model::{Duration, PacketClass};
use giusto_simulator::network::{percentile, Guest, Path, Qdisc, Seen, Sends};

const ARMS: [(&str, Qdisc); 2] = [("prio", Qdisc::Prio), ("fq_codel", Qdisc::FqCodel)];
/// What floods beside a modest stream: packets a second, bytes, and how many. The wire takes 81,000 of the large packets a
/// second, the core three times as many; small ones fill the core and a fifth of the wire.
const FLOODS: [(&str, f64, u32, usize); 2] = [("wire", 110_000.0, 1514, 1), ("core", 200_000.0, 60, 2)];
/// Packets of 1,514 bytes a second.
const MODEST: f64 = 10_000.0;

/// A row a bottleneck, set and discipline: p95 of pings and of the modest stream's waits from guest to wire, what part of its
/// packets gets there, and how many packets the queue drops.
pub(crate) fn run(size: &Size, played: &(dyn Fn(u64) + Sync)) -> Result<Csv, Error> {
    let asks = Guest { sends: Sends::Asks { every: Duration::from_ms(10) }, class: PacketClass::High, bucket: None };
    let mut cases = Vec::new();
    for (full, rate, bytes, count) in FLOODS {
        for (arm, qdisc) in ARMS {
            let mut guests = vec![asks, stream(PacketClass::Low, MODEST, 1514)];
            guests.extend(vec![stream(PacketClass::Low, rate, bytes); count]);
            cases.push(([full, arm], vec![scene(Path::Dom0, qdisc, Duration::from_us(10), guests)]));
        }
    }
    let seconds = counted(size);
    let rows = play(size, played, &cases, |names, set, seen| {
        let dropped = |guest: &Seen| guest.dropped as f64;
        let [asks, modest] = [&seen[0][0], &seen[0][1]];
        let kept = modest.sent as f64 / (modest.sent as f64 + dropped(modest));
        let all = seen[0].iter().map(dropped).sum::<f64>() / seconds;
        let p95 = |guest: &Seen| us(percentile(&guest.times, 95.0));
        let numbers = vec![p95(asks), p95(modest), format!("{kept:.6}"), format!("{all:.3}")];
        [names.map(String::from).to_vec(), vec![set.to_string()], numbers].concat()
    })?;
    Ok(table(vec!["full", "arm", "set", "ping_p95_us", "modest_p95_us", "modest_kept", "dropped"], &rows))
}
