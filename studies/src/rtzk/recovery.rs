//! How fast real ensembles recover: [LiH21, § 5.4, Figs 5.8 to 5.10]. The one study that is not played in virtual time.

use crate::tables::Csv;
use crate::{Error, Size};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const ARMS: [&str; 3] = ["stock", "rtzk-l", "giusto"];
const PHASES: [&str; 6] = ["die", "detect", "election", "connect", "sync", "client"];
/// Name, servers, and what is different about their machines.
const CASES: [(&str, &str, &[&str]); 5] = [
    ("plain", "3", &[]),
    ("plain", "5", &[]),
    ("plain", "7", &[]),
    ("slow-disk", "3", &["--slow", "30"]),
    ("tree-100MB", "3", &["--tree", "100"]),
];

/// Tables `kills` (a row a kill and arm: time to the first acknowledged write, its phases, the bound that was exported before),
/// `pairs` (a row a kill: all arms beside each other) and `cdf`. A set is a kill of each arm's leader, one after the other. Real time: no two runs give the same bytes.
///
/// # Errors
/// [`Error::Ensemble`] where the harness of `coordination/` cannot do it, for example without Java or the built server.
pub(crate) fn run(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let mut kills = Csv::new(
        [&["case", "servers", "arm", "set", "void"][..], &["total_ms", "bound_ms", "over_bound"], &PHASES].concat(),
    );
    let mut pairs = Csv::new(vec!["case", "servers", "set", "stock_ms", "rtzk_l_ms", "giusto_ms"]);
    let mut cdf = Csv::new(vec!["case", "servers", "arm", "set", "ms", "fraction"]);
    let wanted = size.cases.and_then(|cases| usize::try_from(cases).ok()).unwrap_or(CASES.len());
    for &(case, servers, more) in CASES.iter().take(wanted) {
        let result = measure(servers, size.sets, more)?;
        let samples = |arm: &str| result[arm]["samples"].as_array().cloned().unwrap_or_default();
        let number = |sample: &Value, key: &str| sample[key].as_f64().unwrap_or(0.0);
        for arm in ARMS {
            let mut totals: Vec<f64> = Vec::new();
            for (set, one) in samples(arm).iter().enumerate() {
                let (total, bound) = (number(one, "total_ms"), number(one, "bound_ms"));
                let void = one["void"].as_bool().unwrap_or(false);
                if !void {
                    totals.push(total);
                }
                let void = u8::from(void).to_string();
                let over = u8::from(bound > 0.0 && total > bound).to_string();
                let mut cells: Vec<String> = vec![case.into(), servers.into(), arm.into(), set.to_string(), void];
                cells.extend([format!("{total:.3}"), format!("{bound:.3}"), over]);
                cells.extend(PHASES.map(|phase| format!("{:.3}", number(one, phase))));
                kills.row(&cells);
            }
            totals.sort_by(f64::total_cmp);
            for (place, total) in totals.iter().enumerate() {
                let fraction = format!("{:.4}", (place + 1) as f64 / totals.len() as f64);
                cdf.row(&[case.into(), servers.into(), arm.into(), "0".into(), format!("{total:.3}"), fraction]);
            }
        }
        let [stock, lite, ours] = ARMS.map(samples);
        for (set, ((stock, lite), ours)) in stock.iter().zip(&lite).zip(&ours).enumerate() {
            let totals = [stock, lite, ours].map(|one| format!("{:.3}", number(one, "total_ms")));
            pairs.row([case.into(), servers.into(), set.to_string()].iter().chain(&totals));
        }
        played(wanted.min(CASES.len()) as u64);
    }
    Ok([("kills", kills), ("pairs", pairs), ("cdf", cdf)]
        .into_iter()
        .map(|(name, csv)| (name.into(), csv.text()))
        .collect())
}

/// Lets the harness kill leaders, arm by arm in turns, and reads what it has written.
fn measure(servers: &str, kills: u64, more: &[&str]) -> Result<Value, Error> {
    let kills = kills.to_string();
    let arms = ARMS.join(",");
    harness("recovery", &[&["--servers", servers, "--kills", &kills, "--arms", &arms], more].concat())
}

/// Runs `NAME.py` of `coordination/harness` and reads the `NAME.json` it writes.
pub(crate) fn harness(name: &str, arguments: &[&str]) -> Result<Value, Error> {
    let failed = |why: String| Error::Ensemble(why);
    let out = std::env::temp_dir().join(format!("giusto-rtzk-{}", std::process::id()));
    let done = Command::new("python3")
        .arg(Path::new("coordination/harness").join(name).with_extension("py"))
        .args(arguments)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .output()
        .map_err(|why| failed(format!("python3: {why}")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(failed(said.lines().last().unwrap_or("no word").to_string()));
    }
    let text = std::fs::read_to_string(out.join(name).with_extension("json")).map_err(|why| failed(why.to_string()));
    let _ = std::fs::remove_dir_all(&out);
    serde_json::from_str(&text?).map_err(|why| failed(why.to_string()))
}
