//! Shares of CPU-bound machines over time, where the critical one wants more for a while. [Asy20, § 4.4, Fig. 7].

use crate::akita::{critical, each, lookbusy, play, How, Vm, ALL, TYPE_2, TYPE_6};
use crate::vatc::{named, table};
use crate::{Error, Size};
use giusto_model::Duration;
use giusto_simulator::{services, Sporadic, Workload};
use rand::RngExt;
use std::collections::BTreeMap;

/// A piece of the critical machine's work; it comes every 20 pieces (5 %), then every 2 (50 %), then every 20.
const PIECE: Duration = Duration::from_ms(1);
const APART: [(u64, &str); 3] = [(20, "before"), (2, "intense"), (20, "after")];

/// Tables `shares`, a row a second and machine; `phases`, a row for each phase of a set; `pieces`, how long a piece of the
/// critical machine's work took.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let found = each(&size, played, &ALL, |&under, set| {
        let mut rng = size.stream(0, set);
        let seed = rng.random();
        let third = size.length.ns() / 3;
        let critical_one = Vm { of: TYPE_6, core: 0, runs: Some(phases(third)) };
        let others = (0..3).map(|_| Vm { of: TYPE_2, core: 0, runs: Some(lookbusy(&mut rng)) });
        let vms: Vec<Vm> = std::iter::once(critical_one).chain(others).collect();
        let window = Duration::from_ms(500);
        let how = How { cores: 1, under, length: size.length, from: Duration::ZERO, window, seed };
        let seen = play(&vms, how)?;
        let of = [under.name().to_string(), set.to_string()];
        let rows: Vec<Vec<f64>> = seen.watch.shares().collect();
        let mut shares = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            for (vm, share) in row[..4].iter().enumerate() {
                let at = format!("{:.1}", number as f64 / 2.0);
                let name = if vm == 0 { "critical".to_string() } else { format!("low-{vm}") };
                shares.push([of.to_vec(), vec![name, at, format!("{share:.6}")]].concat());
            }
        }
        let mut phases = Vec::new();
        for (number, (_, name)) in APART.iter().enumerate() {
            // Each phase without its first window, in which the old one may still echo.
            let (begin, end) = (rows.len() * number / 3 + 1, rows.len() * (number + 1) / 3);
            let mean = |vm: usize| rows[begin..end].iter().map(|row| row[vm]).sum::<f64>() / (end - begin) as f64;
            let low = (mean(1) + mean(2) + mean(3)) / 3.0;
            let numbers = [mean(0), low, mean(4)].map(|share| format!("{:.6}", share * 100.0));
            phases
                .push([of.to_vec(), vec![name.to_string()], numbers.to_vec(), vec![critical(&seen, 0, how)]].concat());
        }
        let pieces = seen.watch.responses(0);
        let times = [pieces.mean_ns(), pieces.percentile(99.0).ns() as f64].map(|ns| format!("{:.6}", ns / 1e6));
        Ok([shares, phases, vec![[of.to_vec(), times.to_vec()].concat()]])
    })?;
    let of = |table: usize| found.iter().flat_map(|rows| rows[table].clone()).collect::<Vec<_>>();
    Ok(named(vec![
        ("shares", table(vec!["under", "set", "vm", "second", "share"], &of(0))),
        ("phases", table(vec!["under", "set", "phase", "critical", "low", "idle", "hi"], &of(1))),
        ("pieces", table(vec!["under", "set", "mean_ms", "p99_ms"], &of(2))),
    ]))
}

/// Pieces of work at the pace of each phase.
fn phases(third: u64) -> Workload {
    let gap = |apart: u64| PIECE.ns() * apart;
    let gaps = APART.iter().flat_map(|&(apart, _)| (0..third / gap(apart)).map(move |_| gap(apart)));
    let workload = services::batch(PIECE);
    Workload { sporadic: Sporadic::Gaps(gaps.collect::<Vec<_>>().into()), ..workload }
}
