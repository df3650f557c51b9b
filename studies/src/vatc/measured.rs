//! Packets of a critical guest beside guests that flood the host, on this machine's own kernel: [LiC20, § 3.4, Figs 3.6 to 3.11].

use crate::tables::Csv;
use crate::vatc::cells::{percentile_ms, quiet};
use crate::vatc::host::{bucket, capacity, steal, Arm, Host, EVERY, GUEST, INTERFERERS, OTHERS, PING_PRIORITY, UPLINK};
use crate::vatc::{balance, inbound, starving};
use crate::{Error, Size};
use giusto_analysis::packets::{delay_bound, Flow as PacketFlow, Poll};
use giusto_measure::packets::{ping, Flood, Flow, Ping, Place};
use giusto_measure::Generator;
use giusto_model::Duration;
use rustix::thread::{sched_setaffinity, CpuSet};
use std::collections::BTreeMap;

/// What comes back gathers for so long at the uplink (network/src/end.rs), in ns.
const GATHERED: f64 = 100_000.0;

/// Real time: no two runs give the same bytes.
///
/// * `trips`: a row a set, arm and number of interferers: percentiles of a ping's round trip (ms), the flood's packets that the host took
///   each second, and the bound, of what goes out and what comes back, that holds with priorities;
/// * `ratios`: of a set's p95 with all interferers under Giusto, what that of others is;
/// * `bounds`: of a set's longest ping under Giusto, with any number of interferers, what the bound is;
/// * `inbound`: a row a set and arm, as `trips`, beside a flood from outside for the guests of the low class; what they got each
///   second; and `outside`: how the two arms compare;
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
    let cells = ((INTERFERERS + 1) * Arm::ALL.len()) as u64 + inbound::CELLS + starving::CELLS + balance::CELLS;
    let all = size.sets * cells;
    let played = || played(all);
    let columns = vec![
        "arm",
        "interferers",
        "set",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
        "bound_ms",
        "lost",
        "low_kpps",
        "stolen_ms",
        "late_ms",
    ];
    let mut trips = Csv::new(columns);
    let mut ratios = Csv::new(vec!["set", "to", "p95"]);
    let mut bounds = Csv::new(vec!["set", "interferers", "bound"]);
    let mut inbound = Csv::new(inbound::COLUMNS.to_vec());
    let mut outside = Csv::new(vec!["set", "to", "ratio"]);
    let mut starving = Csv::new(starving::COLUMNS.to_vec());
    let mut balance = Csv::new(balance::COLUMNS.to_vec());
    for set in 0..size.sets {
        let core = quiet(|| capacity(size.length))?;
        let bound = bound(core)?;
        let mut p95 = BTreeMap::new();
        for interferers in 0..=INTERFERERS {
            for nth in 0..Arm::ALL.len() {
                let arm = Arm::ALL[(nth + set as usize) % Arm::ALL.len()];
                let (row, [of_95, longest]) = quiet(|| cell(arm, interferers, set, bound, size.length))?;
                trips.row(&row);
                p95.insert((arm.to_string(), interferers), of_95);
                if arm == Arm::Giusto {
                    bounds.row(&[set.to_string(), interferers.to_string(), format!("{:.3}", bound / longest)]);
                }
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
        inbound::set(set, size.length, &mut inbound, &mut outside, &played)?;
        starving::set(set, core, size.length, &mut starving, &played)?;
        balance::set(set, core, size.length, &mut balance, &played)?;
    }
    let tables = [
        ("trips", trips),
        ("ratios", ratios),
        ("bounds", bounds),
        ("inbound", inbound),
        ("outside", outside),
        ("starving", starving),
        ("balance", balance),
    ];
    Ok(tables.into_iter().map(|(name, csv)| (name.into(), csv.text())).collect())
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
    Ok((2.0 * out + back + GATHERED) / 1e6)
}

/// A row, its p95 and its longest, and per mille of both cores' time that was stolen.
#[allow(clippy::type_complexity)]
fn cell(
    arm: Arm,
    interferers: usize,
    set: u64,
    bound: f64,
    length: Duration,
) -> Result<((Vec<String>, [f64; 2]), u64), Error> {
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
    row.extend([50.0, 95.0, 99.0, 100.0].map(|percent| format!("{:.3}", percentile_ms(&found, percent))));
    row.push(format!("{bound:.3}"));
    row.push(found.lost.to_string());
    row.push(format!("{:.1}", taken as f64 / length.ns() as f64 * 1e6));
    row.extend([stolen, found.latest].map(ms));
    Ok(((row, [95.0, 100.0].map(|percent| percentile_ms(&found, percent))), stolen * 1000 / (2 * length.ns())))
}
