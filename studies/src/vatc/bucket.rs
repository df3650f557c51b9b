//! What packet buckets of the high class leave to the low one. [LiC20, § 3.4.2, Fig. 3.10].

use crate::vatc::{counted, named, play, scene, stream, table};
use crate::{Error, Size};
use giusto_model::{Duration, PacketClass};
use giusto_simulator::network::{Guest, Path, Qdisc};
use std::collections::BTreeMap;

/// Packets a second of both guests of the high class together, in thousands.
const OFFERED: [u32; 6] = [20, 60, 100, 140, 200, 400];
/// Bits a second of each of them, whatever the packets.
const BITS: f64 = 50e6;
/// Of each of them: packets a second and at once.
const BUCKET: (f64, f64) = (20_000.0, 100.0);

/// Table `throughput`: Mbit of the low class, what it is of that without any high class, and packets of the high class.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let of = |high: Vec<Guest>| {
        let low = stream(PacketClass::Low, 100_000.0, 1514);
        let guests = high.into_iter().chain([low]).collect();
        scene(Path::Vatc, Qdisc::Prio, Duration::from_us(50), guests)
    };
    let mut cases = Vec::new();
    for (arm, bucket) in [("none", None), ("bucket", Some(BUCKET))] {
        for offered in OFFERED {
            let each = f64::from(offered) * 500.0;
            let bytes = (BITS / 8.0 / each).max(60.0) as u32;
            let high = Guest { bucket, ..stream(PacketClass::High, each, bytes) };
            cases.push(((arm, offered), vec![of(vec![high; 2]), of(Vec::new())]));
        }
    }
    let seconds = counted(&size);
    let rows = play(&size, played, &cases, |(arm, offered), set, seen| {
        let sent = |scene: usize, guest: usize| seen[scene][guest].sent as f64 / seconds;
        let (low, alone) = (sent(0, 2), sent(1, 0));
        let numbers = [low * 1514.0 * 8.0 / 1e6, low / alone, (sent(0, 0) + sent(0, 1)) / 1e3];
        let numbers = numbers.map(|number| format!("{number:.6}"));
        [vec![arm.to_string(), offered.to_string(), set.to_string()], numbers.to_vec()].concat()
    })?;
    Ok(named(vec![("throughput", table(vec!["arm", "offered_k", "set", "mbit", "of_alone", "high_k"], &rows))]))
}
