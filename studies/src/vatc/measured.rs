//! Packets of a critical guest beside guests that flood the host, on this machine's own kernel: [LiC20, § 3.4, Figs 3.6 to 3.11].

use crate::tables::Csv;
use crate::vatc::cells::{percentile_ms, quiet};
use crate::vatc::host::{bucket, capacity, steal, Arm, Host, OTHERS, UPLINK};
use crate::vatc::{balance, starving};
use crate::{Error, Size};
use giusto_analysis::packets::{delay_bound, Flow as PacketFlow, Poll};
use giusto_measure::packets::{ping, Flood, Flow, Ping, Place};
use giusto_measure::Generator;
use giusto_model::Duration;
use rustix::thread::{sched_setaffinity, CpuSet};
use std::collections::BTreeMap;

/// Guests that flood.
const INTERFERERS: usize = 4;
/// A ping every so often.
const EVERY: Duration = Duration::from_ms(3);
/// What comes from outside for guests of the low class: packets a second.
const INBOUND: u64 = 200_000;
/// Above all guests, so that what is measured is the host.
const PING_PRIORITY: u8 = 50;
/// The bucket of the guest that pings: packets a second, and at once.
const GUEST: (u64, u64) = (2_000, 64);

/// Real time: no two runs give the same bytes.
///
/// * `trips`: a row a set, arm and number of interferers: percentiles of a ping's round trip (ms), the flood's packets that the host took
///   each second, and the bound, of what goes out and what comes back, that holds with priorities;
/// * `ratios`: of a set's p95 with all interferers under Giusto, what that of others is, and the bound;
/// * `inbound`: a row a set and arm, as `trips`, beside a flood from outside for the guests of the low class; what they got each
///   second;
/// * `starving`: a row a set, protocol and offered load of a high class without and with a bucket: what the low class gets each
///   second, of what it gets where the high class keeps to the bucket.
///
/// # Errors
/// [`Error::Lacks`] without root, two cores or a program; [`Error::Machine`] where the host cannot be made.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    crate::vatc::host::lack().map_or(Ok(()), |lack| Err(Error::Lacks(lack)))?;
    // What this process does is done elsewhere than on the host's core.
    let mut others = CpuSet::new();
    others.set(OTHERS as usize);
    sched_setaffinity(None, &others).map_err(Error::machine)?;
    let cells = ((INTERFERERS + 1) * Arm::ALL.len() + INBOUND_ARMS.len()) as u64 + starving::CELLS + balance::CELLS;
    let all = size.sets * cells;
    let played = || played(all);
    let columns = vec![
        "arm",
        "interferers",
        "set",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "bound_ms",
        "lost",
        "low_kpps",
        "stolen_ms",
        "late_ms",
    ];
    let mut trips = Csv::new(columns);
    let mut ratios = Csv::new(vec!["set", "to", "p95"]);
    let mut inbound =
        Csv::new(vec!["arm", "set", "p50_ms", "p95_ms", "p99_ms", "lost", "offered_kpps", "low_kpps", "stolen_ms"]);
    let mut inbound_ratios = Csv::new(vec!["set", "to", "ratio"]);
    let mut starving = Csv::new(starving::COLUMNS.to_vec());
    let mut balance = Csv::new(balance::COLUMNS.to_vec());
    for set in 0..size.sets {
        let core = quiet(|| capacity(size.length))?;
        let bound = bound(core)?;
        let mut p95 = BTreeMap::new();
        for interferers in 0..=INTERFERERS {
            for nth in 0..Arm::ALL.len() {
                let arm = Arm::ALL[(nth + set as usize) % Arm::ALL.len()];
                let (row, found) = quiet(|| cell(arm, interferers, set, bound, size.length))?;
                trips.row(&row);
                p95.insert((arm.to_string(), interferers), found);
                played();
            }
        }
        let of = |arm: Arm, interferers| p95.get(&(arm.to_string(), interferers)).copied().unwrap_or(f64::NAN);
        let ours = of(Arm::Giusto, INTERFERERS);
        let mut ratio = |to: &str, ratio: f64| ratios.row(&[set.to_string(), to.into(), format!("{ratio:.3}")]);
        [Arm::Softirq, Arm::Htb, Arm::Threads]
            .iter()
            .for_each(|&arm| ratio(&arm.to_string(), of(arm, INTERFERERS) / ours));
        ratio("one interferer", of(Arm::Giusto, 1) / ours);
        ratio("bound", bound / ours);
        let mut outside = BTreeMap::new();
        for nth in 0..INBOUND_ARMS.len() {
            let arm = INBOUND_ARMS[(nth + set as usize) % INBOUND_ARMS.len()];
            let (row, found) = quiet(|| from_outside(arm, set, size.length))?;
            inbound.row(&row);
            outside.insert(arm.to_string(), found);
            played();
        }
        let [stock, ours] =
            INBOUND_ARMS.map(|arm| outside.get(&arm.to_string()).copied().unwrap_or((f64::NAN, f64::NAN)));
        for (to, ratio) in [("p95 of softirq", stock.0 / ours.0), ("p95", ours.0), ("goodput", ours.1 / stock.1)] {
            inbound_ratios.row(&[set.to_string(), to.into(), format!("{ratio:.3}")]);
        }
        starving::set(set, core, size.length, &mut starving, &played)?;
        balance::set(set, core, size.length, &mut balance, &played)?;
    }
    let tables = [
        ("trips", trips),
        ("ratios", ratios),
        ("inbound", inbound),
        ("outside", inbound_ratios),
        ("starving", starving),
        ("balance", balance),
    ];
    Ok(tables.into_iter().map(|(name, csv)| (name.into(), csv.text())).collect())
}

const INBOUND_ARMS: [Arm; 2] = [Arm::Softirq, Arm::Giusto];

/// A row, its p95 and what the low class got, and per mille of both cores' time that was stolen.
#[allow(clippy::type_complexity)]
fn from_outside(arm: Arm, set: u64, length: Duration) -> Result<((Vec<String>, (f64, f64)), u64), Error> {
    let mut host = Host::new(1 + INTERFERERS, arm, bucket(GUEST.0, GUEST.1)?)?;
    let generator = Generator { cpu: Some(OTHERS), fifo_priority: Some(PING_PRIORITY) };
    let pings = |from, count| Ping { from, every: EVERY, count, generator: generator.clone() };
    (0..=INTERFERERS).try_for_each(|guest| ping(&host.stage, &pings(guest, 5)).map(drop))?; // the bridge learns where each is
    host.proven()?;
    let rate = Some(INBOUND / INTERFERERS as u64);
    let flows: Vec<Flow> = (1..=INTERFERERS)
        .map(|guest| Flow { from: Place::Remote, to: Place::Guest(guest), rate, core: OTHERS })
        .collect();
    let flood = Flood::start(&host.stage, &flows)?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (before, offered, noise) = (host.given(1..=INTERFERERS)?, flood.sent().iter().sum::<u64>(), steal()?);
    let found = ping(&host.stage, &pings(0, (length.ns() / EVERY.ns()) as u32))?;
    let offered = flood.sent().iter().sum::<u64>() - offered;
    let (given, stolen) = (host.given(1..=INTERFERERS)? - before, steal()? - noise);
    flood.end()?;
    let kpps = |packets: u64| packets as f64 / length.ns() as f64 * 1e6;
    let mut row = vec![arm.to_string(), set.to_string()];
    row.extend([50.0, 95.0, 99.0].map(|percent| format!("{:.3}", percentile_ms(&found, percent))));
    row.push(found.lost.to_string());
    row.extend([kpps(offered), kpps(given), stolen as f64 / 1e6].map(|number| format!("{number:.3}")));
    Ok(((row, (percentile_ms(&found, 95.0), kpps(given))), stolen * 1000 / (2 * length.ns())))
}

/// How long a ping takes at most, in ms, where a core processes so many packets a second: what goes out passes the guest's thread, what comes
/// back the uplink's and the guest's again, each after a poll of another interface.
fn bound(core: f64) -> Result<f64, Error> {
    let capacity = bucket(core as u64, 1)?.rate;
    let flow = |bucket| PacketFlow { bucket, capacity };
    let (uplink, guest) = (flow(bucket(UPLINK.0, UPLINK.1)?), flow(bucket(GUEST.0, GUEST.1)?));
    let poll = Poll { packets: 64, capacity, late: Duration::ZERO };
    let ns = |bound: Option<Duration>| bound.map_or(f64::INFINITY, |bound| bound.ns() as f64);
    let (out, back) = (ns(delay_bound(&[uplink], guest, poll)?), ns(delay_bound(&[], uplink, poll)?));
    Ok((2.0 * out + back) / 1e6)
}

/// A row and its p95, and per mille of both cores' time that was stolen.
#[allow(clippy::type_complexity)]
fn cell(
    arm: Arm,
    interferers: usize,
    set: u64,
    bound: f64,
    length: Duration,
) -> Result<((Vec<String>, f64), u64), Error> {
    let mut host = Host::new(1 + INTERFERERS, arm, bucket(GUEST.0, GUEST.1)?)?;
    let generator = Generator { cpu: Some(OTHERS), fifo_priority: Some(PING_PRIORITY) };
    let pings = |count| Ping { from: 0, every: EVERY, count, generator: generator.clone() };
    ping(&host.stage, &pings(20))?; // the bridge learns where each guest is
    let flows: Vec<Flow> = (1..=interferers)
        .map(|from| Flow { from: Place::Guest(from), to: Place::Remote, rate: None, core: OTHERS })
        .collect();
    let flood = Flood::start(&host.stage, &flows)?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (before, noise) = (host.taken(1..=interferers)?, steal()?);
    let found = ping(&host.stage, &pings((length.ns() / EVERY.ns()) as u32))?;
    let (taken, stolen) = (host.taken(1..=interferers)? - before, steal()? - noise);
    flood.end()?;
    host.proven()?;
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    let mut row = vec![arm.to_string(), interferers.to_string(), set.to_string()];
    row.extend([50.0, 95.0, 99.0].map(|percent| format!("{:.3}", percentile_ms(&found, percent))));
    row.push(format!("{bound:.3}"));
    row.push(found.lost.to_string());
    row.push(format!("{:.1}", taken as f64 / length.ns() as f64 * 1e6));
    row.extend([stolen, found.latest].map(ms));
    Ok(((row, percentile_ms(&found, 95.0)), stolen * 1000 / (2 * length.ns())))
}
