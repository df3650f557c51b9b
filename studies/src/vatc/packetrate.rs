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

/// Table `rates`: packets and Mbit a second of four guests that send as fast as they can, the part of the wire that is used, and
/// packets a second over those of the smallest ones.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let of = |path, bytes| {
        let guests = vec![stream(PacketClass::Low, 150_000.0, bytes); 4];
        scene(path, Qdisc::Prio, Duration::from_us(50), guests)
    };
    let cases = PATHS.map(|(name, path)| (name, BYTES.map(|bytes| of(path, bytes)).to_vec()));
    let seconds = counted(&size);
    let rows = play(&size, played, &cases, |path, set, seen| {
        let rates: Vec<f64> =
            seen.iter().map(|seen| seen.iter().map(|guest| guest.sent).sum::<u64>() as f64 / seconds).collect();
        let row = |(bytes, rate): (&u32, &f64)| {
            let wire = rate * (f64::from(*bytes) + AROUND) * 8.0 / 1e9;
            let mbit = rate * f64::from(*bytes) * 8.0 / 1e6;
            let numbers = [*rate, mbit, wire, rate / rates[0]].map(|number| format!("{number:.6}"));
            [vec![path.to_string(), bytes.to_string(), set.to_string()], numbers.to_vec()].concat()
        };
        BYTES.iter().zip(&rates).flat_map(row).collect()
    })?;
    let columns = vec!["path", "bytes", "set", "packets", "mbit", "wire", "of_smallest"];
    let rows: Vec<Vec<String>> = rows.iter().flat_map(|row| row.chunks(columns.len()).map(<[_]>::to_vec)).collect();
    Ok(named(vec![("rates", table(columns, &rows))]))
}
