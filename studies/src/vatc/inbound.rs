//! Packets of a critical guest beside a flood from outside for the others, which softirqs and the uplink's thread would do first.

use crate::tables::Csv;
use crate::vatc::cells::{percentile_ms, quiet};
use crate::vatc::host::{bucket, steal, Arm, Host, EVERY, GUEST, INTERFERERS, OTHERS, PING_PRIORITY};
use crate::Error;
use giusto_measure::packets::{ping, Flood, Flow, Ping, Place};
use giusto_measure::Generator;
use giusto_model::Duration;

pub(crate) const COLUMNS: [&str; 9] =
    ["arm", "set", "p50_ms", "p95_ms", "p99_ms", "lost", "offered_kpps", "low_kpps", "stolen_ms"];
const ARMS: [Arm; 2] = [Arm::Softirq, Arm::Giusto];
pub(crate) const CELLS: u64 = ARMS.len() as u64;
/// For all guests of the low class together, packets a second.
const FLOOD: u64 = 200_000;

/// The rows of a set.
pub(crate) fn set(
    set: u64,
    length: Duration,
    table: &mut Csv,
    ratios: &mut Csv,
    played: &dyn Fn(),
) -> Result<(), Error> {
    let mut found = [(f64::NAN, f64::NAN); ARMS.len()];
    for turn in 0..ARMS.len() {
        let nth = (turn + set as usize) % ARMS.len();
        let (row, result) = quiet(|| cell(ARMS[nth], set, length))?;
        table.row(&row);
        found[nth] = result;
        played();
    }
    let [stock, ours] = found;
    for (to, ratio) in [("p95 of softirq", stock.0 / ours.0), ("p95", ours.0), ("goodput", ours.1 / stock.1)] {
        ratios.row(&[set.to_string(), to.into(), format!("{ratio:.3}")]);
    }
    Ok(())
}

/// A row, its p95 and what the low class got, and per mille of both cores' time that was stolen.
#[allow(clippy::type_complexity)]
fn cell(arm: Arm, set: u64, length: Duration) -> Result<((Vec<String>, (f64, f64)), u64), Error> {
    let mut host = Host::new(1 + INTERFERERS, arm, bucket(GUEST.0, GUEST.1)?)?;
    let generator = Generator { cpu: Some(OTHERS), fifo_priority: Some(PING_PRIORITY) };
    let pings = |from, count| Ping { from, every: EVERY, count, generator: generator.clone() };
    // The bridge learns where each is.
    (0..=INTERFERERS).try_for_each(|guest| ping(&host.stage, &pings(guest, 5)).map(drop))?;
    host.proven()?;
    let rate = Some(FLOOD / INTERFERERS as u64);
    let flow = |guest| Flow { from: Place::Remote, to: Place::Guest(guest), rate, core: OTHERS };
    let flood = Flood::start(&host.stage, &(1..=INTERFERERS).map(flow).collect::<Vec<_>>())?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let look =
        || -> Result<[u64; 3], Error> { Ok([flood.sent().iter().sum(), host.given(1..=INTERFERERS)?, steal()?]) };
    let before = look()?;
    let found = ping(&host.stage, &pings(0, (length.ns() / EVERY.ns()) as u32))?;
    let after = look()?;
    flood.end()?;
    let [offered, given, stolen] = [0, 1, 2].map(|what| after[what] - before[what]);
    let kpps = |packets: u64| packets as f64 / length.ns() as f64 * 1e6;
    let mut row = vec![arm.to_string(), set.to_string()];
    row.extend([50.0, 95.0, 99.0].map(|percent| format!("{:.3}", percentile_ms(&found, percent))));
    row.push(found.lost.to_string());
    row.extend([kpps(offered), kpps(given), stolen as f64 / 1e6].map(|number| format!("{number:.3}")));
    Ok(((row, (percentile_ms(&found, 95.0), kpps(given))), stolen * 1000 / (2 * length.ns())))
}
