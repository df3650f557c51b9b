//! What splitting a token bucket over brokers costs: [LiC20, § 2.6.1, Fig. 2.6]. At the paper's size in virtual time, through
//! the bucket that ships, and at this machine's size with real brokers.

use crate::tables::Csv;
use crate::{Error, Size};
use giusto_analysis::bucket::{least_depth, wait};
use giusto_model::{Arrivals, Bucket, Duration, Percentile, Rate};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Messages a second of each publisher, in both of the paper's experiments.
const EACH: u32 = 10;
/// Publishers, and whether they are real. 180: all numbers of brokers divide it, and two cores carry it.
const CASES: [(u32, bool); 3] = [(1000, false), (6000, false), (180, true)];
/// So many times longer is what is played in virtual time: p99 of the wait forgets slowly what has been.
const VIRTUAL: u64 = 20;
const MOST_BROKERS: u32 = 6;
/// Messages a second that a simulated broker handles. The paper gives no number but that 60,000 are too many for one and
/// fewer than 100,000 are what brokers of Fig. 2.8 carry.
const CAPACITY: u32 = 50_000;
const PERCENTILES: [&str; 3] = ["p50", "p95", "p99"];

/// Tables `penalty` (a row a case, method, number of brokers and set) and `pairs` (a row for each p99 that was foretold, beside
/// the one that came). Foretold is the law of the split bucket. For real brokers it is the median latency of a single one, measured
/// in the same set, and the wait in the bucket, in virtual time, of what was really sent. Real time: no two runs give the same bytes.
///
/// # Errors
/// [`Error::Lacks`] without Go; [`Error::Machine`] where a program of `messaging/` fails.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let programs = build(folder)?;
    let mut penalty = Csv::new(vec!["publishers", "method", "brokers", "set", "p50_ms", "p95_ms", "p99_ms"]);
    let mut pairs = Csv::new(vec!["publishers", "brokers", "set", "foretold_ms", "found_ms"]);
    for (publishers, real) in CASES {
        let (arrivals, bucket) = topic(publishers)?;
        for set in 0..size.sets {
            let mut broker = Duration::from_ns(1_000_000_000 / u64::from(CAPACITY));
            for brokers in 1..=MOST_BROKERS {
                let question = Question { publishers, brokers, bucket, real };
                let (found, waits) = question.ask(&programs, size, set)?;
                let row = |method: &str, times: [f64; 3]| {
                    let mut cells = vec![publishers.to_string(), method.into(), brokers.to_string(), set.to_string()];
                    cells.extend(times.map(|time| format!("{time:.3}")));
                    cells
                };
                penalty.row(&row(if real { "measured" } else { "simulated" }, found));
                if real && brokers == 1 {
                    broker = Duration::from_ns((found[0] * 1e6) as u64);
                }
                let law = wait(arrivals, bucket, brokers, &PERCENTILES.map(percentile))?;
                let ms = |index: usize| (law.percentiles[index].ns() + broker.ns()) as f64 / 1e6;
                let foretold = [ms(0), ms(1), ms(2)];
                if set == 0 {
                    penalty.row(&row("exact", foretold));
                }
                // What real publishers sent is at random only as far as the machine lets them.
                let foretold = waits.map_or(foretold[2], |waits| waits[2] + broker.ns() as f64 / 1e6);
                let times = [foretold, found[2]].map(|time| format!("{time:.3}"));
                let cells = [publishers.to_string(), brokers.to_string(), set.to_string()];
                pairs.row(cells.iter().chain(&times));
            }
            played(size.sets * CASES.len() as u64);
        }
    }
    Ok([("penalty", penalty), ("pairs", pairs)].into_iter().map(|(name, csv)| (name.into(), csv.text())).collect())
}

fn percentile(text: &str) -> Percentile {
    text.parse().expect("a percentile")
}

/// All messages, and the paper's bucket for them: a tenth more tokens, and the least depth with which 99 % do not wait.
fn topic(publishers: u32) -> Result<(Arrivals, Bucket), Error> {
    let second = |count: u64| Rate::of(count, Duration::from_secs(1)).expect("a second is some time");
    let messages = u64::from(publishers * EACH);
    let arrivals = Arrivals { rate: second(messages), batch: 1 };
    let rate = second(messages / 10 * 11);
    Ok((arrivals, Bucket { rate, depth: least_depth(arrivals, rate, percentile("p99"))? }))
}

struct Programs {
    penalty: PathBuf,
    broker: PathBuf,
}

fn build(folder: &Path) -> Result<Programs, Error> {
    let folder = std::path::absolute(folder).map_err(Error::machine)?;
    let one = |package: &str, name: &str| go(package, &folder.join(name)).map(|()| folder.join(name));
    Ok(Programs { penalty: one("./bench/penalty", "penalty")?, broker: one("./cmd/giusto-broker", "giusto-broker")? })
}

/// Builds a program of `messaging/`.
pub(crate) fn go(package: &str, to: &Path) -> Result<(), Error> {
    let done = Command::new("go").args(["build", "-o"]).arg(to).arg(package).current_dir("messaging").output();
    let done = done.map_err(|why| Error::Lacks(format!("go ({why}): apt-get install golang-go")))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(Error::machine(String::from_utf8_lossy(&done.stderr))),
    }
}

struct Question {
    publishers: u32,
    brokers: u32,
    bucket: Bucket,
    real: bool,
}

impl Question {
    /// Median, 95th and 99th percentile in ms: of latencies; and, of real messages, of their waits for tokens in the bucket that
    /// ships, given when they were sent.
    fn ask(&self, programs: &Programs, size: Size, set: u64) -> Result<([f64; 3], Option<[f64; 3]>), Error> {
        let mut command = Command::new(&programs.penalty);
        let longer = if self.real { 1 } else { VIRTUAL };
        let length = format!("{}ns", size.length.ns() * longer);
        let seed = (size.seed * 1000 + set).to_string();
        let rate = (self.bucket.rate.per_second().round() as u64).to_string();
        let depth = self.bucket.depth.at_once().to_string();
        command.args(["-publishers", &self.publishers.to_string(), "-each", &EACH.to_string()]);
        command.args(["-brokers", &self.brokers.to_string(), "-rate", &rate, "-depth", &depth]);
        command.args(["-for", &length, "-seed", &seed]);
        match self.real {
            true => command.arg("-broker").arg(&programs.broker),
            false => command.args(["-capacity", &CAPACITY.to_string()]),
        };
        let done = command.output().map_err(Error::machine)?;
        if !done.status.success() {
            return Err(Error::machine(String::from_utf8_lossy(&done.stderr)));
        }
        let found: Value = serde_json::from_slice(&done.stdout).map_err(Error::machine)?;
        let times = |key: &str| serde_json::from_value(found[key].clone()).map_err(Error::machine);
        Ok((times("latency_ms")?, self.real.then(|| times("wait_ms")).transpose()?))
    }
}
