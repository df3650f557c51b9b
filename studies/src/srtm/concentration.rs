//! What concentrating a topic on few brokers is good for: [LiC20, § 2.6.2, Fig. 2.7], in virtual time.

use crate::srtm::{build, Topic, COLUMNS, TRAFFIC};
use crate::tables::Csv;
use crate::{Error, Size};
use std::collections::BTreeMap;
use std::path::Path;

const PUBLISHERS: [u32; 5] = [1000, 2000, 4000, 6000, 10_000];

/// Table `topics`: a row a traffic, batch, number of publishers, kind of distribution and set.
///
/// # Errors
/// [`Error::Lacks`] without Go; [`Error::Machine`] where the program fails.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let program = build(folder)?;
    let mut table = Csv::new([&["traffic", "batch", "publishers", "kind"][..], &COLUMNS].concat());
    for traffic in TRAFFIC {
        for batch in [1, 10] {
            for publishers in PUBLISHERS {
                for kind in ["LB", "Conc"] {
                    let topic = Topic { kind, publishers, batch, traffic, group: 1, more: &[] };
                    let cells = [traffic.into(), batch.to_string(), publishers.to_string(), kind.into()];
                    topic.row(&program, size, &cells, &mut table)?;
                }
                played(20);
            }
        }
    }
    Ok(BTreeMap::from([("topics".into(), table.text())]))
}
