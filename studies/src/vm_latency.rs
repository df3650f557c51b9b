//! Latency on a host, in a container and in a guest, measured on this machine: Abe22, "Hypervisor Latencies" to
//! "Cyclictest Period".

use crate::tables::Csv;
use crate::{Error, Size};
use giusto_model::{Latency, LatencyRun, Stress};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that measures, built with this one.
const GIUSTO: &str = "target/release/giusto";
/// Makes a guest of stock parts in which a command runs.
const GUEST: &str = "tests/guest.sh";
const PERIODS: [&str; 4] = ["50us", "500us", "1ms", "10ms"];
const ARMS: [&str; 3] = ["host", "container", "guest"];

/// Real time: no two runs give the same bytes.
///
/// * `cells`: a row a set, arm, period, load and core: percentiles (us), the part of activations that were late by their whole period
///   or more, what was stolen (ms);
/// * `ratios`: of a set, period and load, the pooled cores' median and worst of an arm over those of another, or of stress over quiet.
///
/// # Errors
/// [`Error::Lacks`] without root, the program or what the guest needs; [`Error::Machine`] where it does not measure.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Lacks("root: run it as root".into()));
    }
    if !Path::new(GIUSTO).exists() {
        return Err(Error::Lacks(format!("{GIUSTO}: cargo build --release -p giusto-cli")));
    }
    let columns = ["set", "arm", "period", "load", "core", "p50_us", "p99_us", "max_us", "late_part", "stolen_ms"];
    let mut cells = Csv::new(columns.to_vec());
    let mut ratios = Csv::new(vec!["set", "what", "period", "load", "p50", "max"]);
    for set in 0..size.sets {
        let mut found: BTreeMap<(&str, &str, Stress), (f64, f64)> = BTreeMap::new();
        for nth in 0..ARMS.len() {
            // In turns, so that none is always first.
            let arm = ARMS[(nth + set as usize) % ARMS.len()];
            for run in measure(arm, &size)?.runs {
                let period = PERIODS.into_iter().find(|text| text.parse() == Ok(run.period)).unwrap_or("?");
                cells.row(&row(set, arm, period, &run));
                let pooled = found.entry((arm, period, run.load)).or_insert((0.0, 0.0));
                *pooled = (pooled.0.max(us(run.latency.p50.ns())), pooled.1.max(us(run.latency.max.ns())));
            }
            played(size.sets * ARMS.len() as u64);
        }
        let mut ratio = |what: &str, period: &str, load: &str, above: (f64, f64), below: (f64, f64)| {
            let each = [above.0 / below.0, above.1 / below.1].map(|ratio| format!("{ratio:.3}"));
            ratios.row(&[vec![set.to_string(), what.into(), period.into(), load.into()], each.to_vec()].concat());
        };
        for period in PERIODS {
            for load in [Stress::Quiet, Stress::Stress] {
                let host = found[&("host", period, load)];
                ratio("guest/host", period, &load.to_string(), found[&("guest", period, load)], host);
                ratio("container/host", period, &load.to_string(), found[&("container", period, load)], host);
            }
            for arm in ARMS {
                let of = |load| found[&(arm, period, load)];
                ratio("stress/quiet", period, arm, of(Stress::Stress), of(Stress::Quiet));
            }
        }
    }
    Ok([("cells", cells), ("ratios", ratios)].into_iter().map(|(name, csv)| (name.into(), csv.text())).collect())
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn row(set: u64, arm: &str, period: &str, run: &LatencyRun) -> Vec<String> {
    let LatencyRun { core, load, activations, passed, latency, .. } = run;
    let stolen = run.steal.map_or(0.0, |steal| steal.ns() as f64 / 1e6);
    let late = *passed as f64 / (*activations).max(1) as f64;
    let mut cells = vec![set.to_string(), arm.into(), period.into(), load.to_string(), core.to_string()];
    cells.extend([latency.p50, latency.p99, latency.max].map(|time| format!("{:.1}", us(time.ns()))));
    cells.extend([format!("{late:.6}"), format!("{stolen:.0}")]);
    cells
}

/// What `giusto measure latency --json` says there.
fn measure(arm: &str, size: &Size) -> Result<Latency, Error> {
    let giusto = std::path::absolute(GIUSTO).map_err(Error::machine)?;
    let giusto = giusto.to_string_lossy();
    let length = format!("{}ns", size.length.ns());
    let mut words = vec!["measure", "latency", "--stress", "--json", "--for", &length];
    words.extend(PERIODS.iter().flat_map(|period| ["--period", period]));
    let mut command = match arm {
        "host" => Command::new(&*giusto),
        "container" => {
            let mut container = Command::new("unshare");
            container
                .args(["--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--mount-proc", "--kill-child"])
                .arg(&*giusto);
            container
        }
        _ => {
            let mut guest = Command::new(GUEST);
            guest.args([&*giusto, "--", &*giusto]);
            guest
        }
    };
    let done = command.args(words).stdin(Stdio::null()).stderr(Stdio::piped()).output().map_err(Error::machine)?;
    // The guest's console is copied to standard error.
    let printed = String::from_utf8_lossy(if arm == "guest" { &done.stderr } else { &done.stdout }).into_owned();
    match done.status.code() {
        Some(0 | 6) => {}
        Some(77) => return Err(Error::Lacks(printed)),
        _ => return Err(Error::machine(format!("{arm}: {}", String::from_utf8_lossy(&done.stderr)))),
    }
    let json = printed.find('{').zip(printed.rfind('}')).and_then(|(from, to)| printed.get(from..=to));
    let json = json.ok_or_else(|| Error::machine(format!("{arm}: no measurement in '{printed}'")))?;
    serde_json::from_str(json).map_err(|why| Error::machine(format!("{arm}: {why}")))
}
