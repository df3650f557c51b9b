//! A distributor with real brokers and publishers on this machine: [LiC20, § 2.6.2], at the size of two cores.

use crate::srtm::penalty::go;
use crate::tables::Csv;
use crate::{Error, Size};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Name, kind of distribution, and messages a second that a broker is said to take: 1,500 are sent.
const CASES: [(&str, &str, u32); 4] = [
    ("room on one", "srtm", 5000),
    ("room on one", "lb", 5000),
    ("room on two", "srtm", 900),
    ("room on two", "conc", 900),
];

/// Table `trials`: a row a case, kind and set. Brokers that publishers went to, rounds of measurement, ms until the topic was steady,
/// percentiles of the latency from then on, ms until another distributor led after the first was killed, messages acknowledged and
/// lost. giusto-zookeeper keeps the distributors' state. Real time: no two runs give the same bytes.
///
/// # Errors
/// [`Error::Lacks`] without Go; [`Error::Machine`] where a program of `messaging/` fails, also because giusto-zookeeper is not built.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let folder = std::path::absolute(folder).map_err(Error::machine)?;
    for package in ["./cmd/giusto-broker", "./cmd/giusto-distributor", "./bench/real"] {
        go(package, &folder.join(package.rsplit('/').next().unwrap_or(package)))?;
    }
    let mut trials = Csv::new(vec![
        "case",
        "kind",
        "set",
        "brokers",
        "rounds",
        "steady_ms",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "takeover_ms",
        "moves",
        "lost",
    ]);
    for set in 0..size.sets {
        for (case, kind, capacity) in CASES {
            let mut command = Command::new(folder.join("real"));
            command.arg("-programs").arg(&folder).arg("-zookeeper").args(["-kind", kind]);
            command.args(["-capacity", &capacity.to_string(), "-for", &format!("{}ns", size.length.ns())]);
            command.args(["-seed", &(size.seed * 1000 + set).to_string()]).current_dir("messaging");
            let done = command.output().map_err(Error::machine)?;
            if !done.status.success() {
                return Err(Error::machine(String::from_utf8_lossy(&done.stderr)));
            }
            let found: Value = serde_json::from_slice(&done.stdout).map_err(Error::machine)?;
            let number = |value: &Value| value.as_f64().map(|n| format!("{n:.3}")).unwrap_or_default();
            let mut cells = vec![case.to_owned(), kind.into(), set.to_string()];
            cells.extend(["brokers", "rounds", "steady_ms"].map(|key| number(&found[key])));
            cells.extend([0, 1, 2].map(|n| number(&found["latency_ms"][n])));
            cells.extend(["takeover_ms", "moves", "lost"].map(|key| number(&found[key])));
            trials.row(&cells);
            played(size.sets * CASES.len() as u64);
        }
    }
    Ok(BTreeMap::from([("trials".to_owned(), trials.text())]))
}
