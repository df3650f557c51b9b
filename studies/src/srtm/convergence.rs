//! How many measurements it takes to distribute a topic: [LiC20, § 2.6.5, Table 2.1], in virtual time; with and
//! without a first guess by a
//! model that does not know the brokers' own capacity errors and stalls.

use crate::srtm::{build, Topic, COLUMNS, TRAFFIC};
use crate::tables::Csv;
use crate::{Error, Size};
use std::collections::BTreeMap;
use std::path::Path;

/// Group sizes of Table 2.1, and the paper's rounds: the sum of a row.
const PAPER: [(u32, u32); 6] = [(5, 1), (10, 3), (15, 9), (20, 12), (25, 14), (30, 17)];
/// What the brokers are and what is thought of them (truth, model, errors, stops, objective): alike, as the paper's; the testbed, each broker up to
/// a fifth slower or faster than is thought; both stop five times a second for 100 µs. And our own broker as it was in one measured profile,
/// guessed by another.
const BROKERS: [(&str, [&str; 5]); 3] = [
    ("alike", ["testbed", "testbed", "0", "100us", "1ms"]),
    ("testbed", ["testbed", "testbed", "0.2", "100us", "1ms"]),
    ("second", ["second", "first", "0.2", "0s", "12ms"]),
];

/// Table `topics`: a row a broker, traffic, group size, way (`measured`: LoadDist, `guessed`: after a guess) and set, with the rounds that
/// the paper needed. Table `typical`: the median of the sets' rounds in each of these cases.
///
/// # Errors
/// [`Error::Lacks`] without Go; [`Error::Machine`] where the program fails.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let program = build(folder)?;
    let columns = ["brokers_are", "traffic", "group", "way", "paper_rounds"];
    let mut table = Csv::new([&columns[..], &COLUMNS].concat());
    let mut typical = Csv::new([&columns[..], &["set", "rounds"]].concat());
    for (are, [truth, model, errors, stall, objective]) in BROKERS {
        for traffic in TRAFFIC {
            for (group, paper) in PAPER {
                for (way, guess) in [("measured", ""), ("guessed", model)] {
                    let more = [
                        "-broker",
                        truth,
                        "-errors",
                        errors,
                        "-stall",
                        stall,
                        "-objective",
                        objective,
                        "-guess",
                        guess,
                    ];
                    let more = more.map(String::from);
                    let topic = Topic { kind: "SRTM", publishers: 1000, batch: 10, traffic, group, more: &more };
                    let cells = [are.to_string(), traffic.into(), group.to_string(), way.into(), paper.to_string()];
                    let mut rounds = topic.row(&program, size, &cells, &mut table)?;
                    rounds.sort_unstable();
                    let (low, high) = (rounds[(rounds.len() - 1) / 2], rounds[rounds.len() / 2]);
                    typical.row(cells.iter().chain(&["0".to_owned(), format!("{:.1}", (low + high) as f64 / 2.0)]));
                }
                played((BROKERS.len() * TRAFFIC.len() * PAPER.len()) as u64);
            }
        }
    }
    Ok(BTreeMap::from([("topics".into(), table.text()), ("typical".into(), typical.text())]))
}
