//! What the studies of messages share: the programs of `messaging/`, and a topic that is distributed over brokers in virtual time.

pub(crate) mod concentration;
pub(crate) mod convergence;
pub(crate) mod correlation;
pub(crate) mod maxmin;
pub(crate) mod penalty;
pub(crate) mod real;

use crate::srtm::penalty::go;
use crate::tables::Csv;
use crate::{Error, Size};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Messages a second of each publisher, in all of the paper's experiments.
pub(crate) const EACH: u32 = 10;

/// The program that plays them, built into a folder.
///
/// # Errors
/// [`Error::Lacks`] without Go; [`Error::Machine`] where it does not build.
pub(crate) fn build(folder: &Path) -> Result<PathBuf, Error> {
    let path = std::path::absolute(folder).map_err(Error::machine)?.join("distribute");
    go("./bench/distribute", &path).map(|()| path)
}

/// A topic that comes to six brokers; what is not said is as in `bench/distribute`.
pub(crate) struct Topic<'a> {
    pub(crate) kind: &'a str,
    pub(crate) publishers: u32,
    pub(crate) batch: u32,
    pub(crate) traffic: &'a str,
    /// Publishers that send together.
    pub(crate) group: u32,
    /// Other arguments.
    pub(crate) more: &'a [String],
}

/// What publishers do.
pub(crate) const TRAFFIC: [&str; 2] = ["poisson", "periodic"];

/// The columns of [`Topic::row`].
pub(crate) const COLUMNS: [&str; 9] =
    ["set", "brokers", "rounds", "met", "p99_ms", "worst_ms", "other_ms", "last_ms", "least_kmsg"];

impl Topic<'_> {
    /// One line for each set of `bench/distribute`. A round is so long that 1,000 publishers send for the size's length, and more send
    /// as many messages.
    pub(crate) fn play(&self, program: &Path, size: Size) -> Result<Vec<Value>, Error> {
        let round = size.length.ns() * 1000 / u64::from(self.publishers.max(1000));
        let mut command = Command::new(program);
        command.args(["-kind", self.kind, "-publishers", &self.publishers.to_string(), "-each", &EACH.to_string()]);
        command.args(["-batch", &self.batch.to_string(), "-group", &self.group.to_string()]);
        command.args([&format!("-periodic={}", self.traffic == TRAFFIC[1]), "-round", &format!("{round}ns")]);
        command.args(["-sets", &size.sets.to_string(), "-seed", &size.seed.to_string()]).args(self.more);
        let done = command.output().map_err(Error::machine)?;
        if !done.status.success() {
            return Err(Error::machine(String::from_utf8_lossy(&done.stderr)));
        }
        done.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(parse).collect()
    }

    /// Plays it and adds a row for each set: these cells and then [`COLUMNS`]: brokers that have publishers, measurements, whether LoadDist
    /// found all brokers within the objective (1 or 0), p99 of all messages, at the worst broker, of all with other traffic of the kind, and
    /// at the broker with the least of the topic, and how much that is. Returns the measurements of each set.
    pub(crate) fn row(&self, program: &Path, size: Size, cells: &[String], table: &mut Csv) -> Result<Vec<u64>, Error> {
        let mut measurements = Vec::new();
        for line in self.play(program, size)? {
            let number = |key: &str| line[key].as_f64().unwrap_or_default();
            let ms = |key: &str| format!("{:.3}", number(key));
            let rounds = line["rounds"].as_array().map_or(0, |all| all.iter().filter_map(Value::as_u64).sum());
            measurements.push(rounds);
            let own = [
                line["set"].to_string(),
                line["brokers"].to_string(),
                rounds.to_string(),
                u8::from(line["done"] == true).to_string(),
                ms("p99_ms"),
                ms("worst_ms"),
                ms("other_ms"),
                ms("last_ms"),
                format!("{:.1}", number("least") / 1e3),
            ];
            table.row(cells.iter().chain(&own));
        }
        Ok(measurements)
    }
}

fn parse(line: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(line).map_err(Error::machine)
}
