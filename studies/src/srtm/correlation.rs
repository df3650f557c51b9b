//! What knowing which publishers send together is good for: [LiC20, § 2.6.4, Figs 2.9 to 2.11], in virtual time.

use crate::srtm::{build, Topic, COLUMNS, TRAFFIC};
use crate::tables::Csv;
use crate::{Error, Size};
use std::collections::BTreeMap;
use std::path::Path;

/// Group sizes of Figs 2.9 and 2.10, and over how many ms what a group sends is spread in Fig. 2.11, with its group size.
const GROUPS: [u32; 6] = [5, 10, 15, 20, 25, 30];
const SPREADS: [u32; 5] = [0, 2, 4, 8, 16];
const SPREAD_GROUP: u32 = 25;

/// Tables `accurate` (Figs 2.9 and 2.10: a row a traffic, group size, kind and set; `Max-Min over k` has as many brokers as SRTM most
/// often took) and `noisy` (Fig. 2.11: with `spread_ms`).
///
/// # Errors
/// [`Error::Lacks`] without Go; [`Error::Machine`] where the program fails.
pub(crate) fn run(size: Size, folder: &Path, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let program = build(folder)?;
    let mut accurate = Csv::new([&["traffic", "group", "kind"][..], &COLUMNS].concat());
    let mut noisy = Csv::new([&["traffic", "spread_ms", "kind"][..], &COLUMNS].concat());
    for traffic in TRAFFIC {
        for group in GROUPS {
            let topic = |kind, more| Topic { kind, publishers: 1000, batch: 10, traffic, group, more };
            let cells = |kind: &str| [traffic.into(), group.to_string(), kind.into()];
            for kind in ["Max-Min", "SRTM"] {
                topic(kind, &[]).row(&program, size, &cells(kind), &mut accurate)?;
            }
            let srtm = topic("SRTM", &[]).play(&program, size)?;
            let mut brokers: Vec<u64> = srtm.iter().filter_map(|line| line["brokers"].as_u64()).collect();
            brokers.sort_unstable();
            let over = ["-over".to_string(), brokers[brokers.len() / 2].to_string()];
            topic("Max-Min", &over).row(&program, size, &cells("Max-Min over k"), &mut accurate)?;
            played(22);
        }
        for spread in SPREADS {
            let more = ["-spread".to_string(), format!("{spread}ms")];
            for kind in ["Max-Min", "SRTM"] {
                let topic = Topic { kind, publishers: 1000, batch: 10, traffic, group: SPREAD_GROUP, more: &more };
                topic.row(&program, size, &[traffic.into(), spread.to_string(), kind.into()], &mut noisy)?;
            }
            played(22);
        }
    }
    Ok(BTreeMap::from([("accurate".into(), accurate.text()), ("noisy".into(), noisy.text())]))
}
