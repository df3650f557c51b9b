//! What fills dom0's core: packets or bytes. [LiC20, § 3.3.2, Fig. 3.4].

use crate::vatc::{counted, named, play, scene, stream, table};
use crate::{Error, Size};
use giusto_model::{Duration, PacketClass};
use giusto_simulator::network::{Path, Qdisc};
use std::collections::BTreeMap;

/// Bytes of a packet, headers included.
const BYTES: [u32; 7] = [60, 100, 150, 200, 250, 512, 1514];
const PATHS: [(&str, Path); 2] = [("dom0", Path::Dom0), ("vatc", Path::Vatc)];
/// On the wire beside a packet's bytes.
const AROUND: f64 = 24.0;

/// Table `rates`: packets and Mbit a second of four guests that send as fast as they can, and the part of the wire that is used.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let interval = Duration::from_us(50);
    let mut cases = Vec::new();
    for (path, of) in PATHS {
        for bytes in BYTES {
            let guests = vec![stream(PacketClass::Low, 150_000.0, bytes); 4];
            cases.push(((path, bytes), vec![scene(of, Qdisc::Prio, interval, guests)]));
        }
    }
    let seconds = counted(&size);
    let rows = play(&size, played, &cases, |(path, bytes), set, seen| {
        let rate = seen[0].iter().map(|guest| guest.sent).sum::<u64>() as f64 / seconds;
        let wire = rate * (f64::from(*bytes) + AROUND) * 8.0 / 1e9;
        let mbit = rate * f64::from(*bytes) * 8.0 / 1e6;
        let numbers = [rate, mbit, wire].map(|number| format!("{number:.6}"));
        [vec![path.to_string(), bytes.to_string(), set.to_string()], numbers.to_vec()].concat()
    })?;
    Ok(named(vec![("rates", table(vec!["path", "bytes", "set", "packets", "mbit", "wire"], &rows))]))
}
