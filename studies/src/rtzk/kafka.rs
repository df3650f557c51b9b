//! Kafka on real ensembles whose leader dies: [LiH21, § 5.5, Figs 5.12 to 5.14 and 5.16]. Like `rtzk_recovery`, not
//! played in virtual
//! time.

use crate::rtzk::recovery::harness;
use crate::tables::Csv;
use crate::{Error, Size};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Kills whose median and maximum are one number each, so that these have an interval too.
const BATCH: usize = 5;
/// Between two messages of the stream, ms.
const PERIOD: f64 = 100.0;
/// tickTime in ms, what fails, and the arms beside each other. Where a broker alone fails, a time-out detects it whatever the arm.
const CASES: [(&str, &str, &str); 4] = [
    ("300", "kafka,both,zookeeper", "stock,stock-socket,giusto,giusto-socket"),
    ("1000", "kafka", "giusto-socket"),
    ("500", "kafka", "giusto-socket"),
    ("2000", "kafka", "giusto-socket"),
];

/// One measured time.
struct Sample {
    tick: String,
    /// What failed, or what the time is of.
    what: String,
    arm: String,
    kill: u64,
    ms: f64,
    void: bool,
}

/// Fig. 5.12. Tables `kills`, `batches` and `cdf` ([`tables`]) of the times from the leader's death (`killed`) and from the loss of the
/// broker's connection (`lost`, as in the paper) to its session, and `pairs`: Giusto with the stock socket beside Giusto with
/// ours, and what only the client's waiting makes of it. A set is a kill, which both sockets of an ensemble see.
///
/// # Errors
/// [`Error::Ensemble`] where the harness of `coordination/` cannot do it, for example without Java or Kafka; [`Error::Machine`] where the
/// machine was busy with other things in every kill.
pub(crate) fn reconnect(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let samples = measure(&["reconnect"], size.sets, &[("ms", "killed"), ("lost_ms", "lost")])?;
    played(1);
    let mut pairs = Csv::new(vec!["set", "void", "waiting_ms", "giusto_ms"]);
    let of = |arm: &str, kill: u64| {
        samples.iter().find(|one| one.arm == arm && one.kill == kill && one.what == "killed").map_or(0.0, |one| one.ms)
    };
    let void = disturbed(&samples);
    for kill in samples.iter().map(|one| one.kill).collect::<BTreeSet<_>>() {
        let [plain, ours] = ["giusto", "giusto-socket"].map(|arm| of(arm, kill));
        let gone = u8::from(void.contains(&(String::new(), kill))).to_string();
        pairs.row(&[kill.to_string(), gone, format!("{:.3}", plain - ours), format!("{plain:.3}")]);
    }
    Ok(tables(&samples, vec![("pairs", pairs)]))
}

/// Fig. 5.13. Tables `kills`, `batches` and `cdf` ([`tables`]) of the times from asking for a topic to its acknowledgement, with
/// nothing wrong (`quiet`) and with a leader that was killed at that moment (`killed`).
///
/// # Errors
/// As [`reconnect`].
pub(crate) fn topic(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let samples = measure(&["topic"], size.sets, &[("quiet_ms", "quiet"), ("topic_ms", "killed")])?;
    played(1);
    Ok(tables(&samples, Vec::new()))
}

/// Figs 5.14 and 5.16. Tables `kills`, `batches` and `cdf` ([`tables`]) of the longest time that a message was under way around a death;
/// `detections`, where a broker alone died: `early` is sooner than a session of two ticks can end; `steps`: one tick beside the next longer one.
///
/// # Errors
/// As [`reconnect`].
pub(crate) fn e2e(size: Size, played: &(dyn Fn(u64) + Sync)) -> Result<BTreeMap<String, String>, Error> {
    let wanted = size.cases.and_then(|cases| usize::try_from(cases).ok()).unwrap_or(CASES.len()).min(CASES.len());
    let mut samples = Vec::new();
    for (tick, failures, arms) in CASES.iter().take(wanted) {
        samples.extend(measure(
            &["e2e", "--tick", tick, "--failures", failures, "--arms", arms],
            size.sets,
            &[("ms", "")],
        )?);
        played(wanted as u64);
    }
    let alone: Vec<&Sample> = samples.iter().filter(|one| one.what == "kafka" && one.arm == "giusto-socket").collect();
    let void = disturbed(&samples);
    let gone = |one: &Sample| void.contains(&(one.tick.clone(), one.kill));
    let tick = |one: &Sample| one.tick.parse::<f64>().expect("ours");
    let mut detections = Csv::new(vec!["tick", "set", "void", "ms", "tick_ms", "early"]);
    for one in &alone {
        // A client says that it lives before a third of its time-out, 2/3 tick, has gone by; and the message may be sent a period later.
        let early = u8::from(one.ms < 4.0 / 3.0 * tick(one) - PERIOD).to_string();
        let row = [one.tick.clone(), one.kill.to_string(), u8::from(gone(one)).to_string(), format!("{:.3}", one.ms)];
        detections.row(row.iter().chain(&[one.tick.clone(), early]));
    }
    let mut ticks: Vec<&str> = CASES.iter().take(wanted).map(|case| case.0).collect();
    ticks.sort_by_key(|tick| tick.parse::<u32>().expect("ours"));
    let mut steps = Csv::new(vec!["from", "to", "set", "void", "more_ms", "tick_ms"]);
    for pair in ticks.windows(2) {
        let at = |tick: &str, kill: u64| alone.iter().find(|one| one.tick == tick && one.kill == kill).copied();
        for kill in 0..size.sets {
            let (Some(low), Some(high)) = (at(pair[0], kill), at(pair[1], kill)) else { continue };
            let void = u8::from(gone(low) || gone(high)).to_string();
            let numbers = [high.ms - low.ms, tick(high) - tick(low)].map(|number| format!("{number:.3}"));
            let row = [pair[0].to_string(), pair[1].to_string(), kill.to_string(), void];
            steps.row(row.iter().chain(&numbers));
        }
    }
    Ok(tables(&samples, vec![("detections", detections), ("steps", steps)]))
}

/// Runs the harness once; `columns`: which of its numbers become a sample, and what these are called (else by what failed).
fn measure(arguments: &[&str], kills: u64, columns: &[(&str, &str)]) -> Result<Vec<Sample>, Error> {
    let kills = kills.to_string();
    let result = harness("kafka", &[arguments, &["--kills", &kills]].concat())?;
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_string();
    let samples: Vec<Sample> = columns
        .iter()
        .flat_map(|&(column, name)| {
            result["samples"].as_array().into_iter().flatten().map(move |one| Sample {
                tick: one["tick"].as_u64().map_or(String::new(), |tick| tick.to_string()),
                what: if name.is_empty() { text(one, "failure") } else { name.into() },
                arm: text(one, "arm"),
                kill: one["kill"].as_u64().unwrap_or(0),
                ms: one[column].as_f64().unwrap_or(0.0),
                void: one["void"].as_bool().unwrap_or(true),
            })
        })
        .collect();
    let void = disturbed(&samples);
    match samples.iter().all(|one| void.contains(&(one.tick.clone(), one.kill))) {
        true => Err(Error::Machine("others had the processors in every kill, which is void then; try it again".into())),
        false => Ok(samples),
    }
}

/// Ticks and kills of which a sample is void: what is compared is void together.
fn disturbed(samples: &[Sample]) -> BTreeSet<(String, u64)> {
    samples.iter().filter(|one| one.void).map(|one| (one.tick.clone(), one.kill)).collect()
}

/// `kills` (a row a time), `batches` (median and maximum of five kills in turn, void ones left out) and `cdf`, and more.
fn tables(samples: &[Sample], more: Vec<(&str, Csv)>) -> BTreeMap<String, String> {
    let void = disturbed(samples);
    let mut kills = Csv::new(vec!["tick", "what", "arm", "set", "void", "ms"]);
    let mut batches = Csv::new(vec!["tick", "what", "arm", "set", "kills", "median_ms", "max_ms"]);
    let mut cdf = Csv::new(vec!["tick", "what", "arm", "set", "ms", "fraction"]);
    let mut good: BTreeMap<[&String; 3], Vec<f64>> = BTreeMap::new();
    for one in samples {
        let key = [&one.tick, &one.what, &one.arm];
        let gone = void.contains(&(one.tick.clone(), one.kill));
        let cells = [one.kill.to_string(), u8::from(gone).to_string(), format!("{:.3}", one.ms)];
        kills.row(key.into_iter().chain(&cells));
        if !gone {
            good.entry(key).or_default().push(one.ms);
        }
    }
    for (key, times) in &mut good {
        // What is left over makes no batch, unless it is all there is.
        for (set, batch) in
            times.chunks(BATCH.min(times.len())).filter(|batch| batch.len() == BATCH.min(times.len())).enumerate()
        {
            let mut batch = batch.to_vec();
            batch.sort_by(f64::total_cmp);
            let median = (batch[(batch.len() - 1) / 2] + batch[batch.len() / 2]) / 2.0;
            let numbers = [median, batch[batch.len() - 1]].map(|ms| format!("{ms:.3}"));
            batches.row(key.iter().copied().chain(&[set.to_string(), batch.len().to_string()]).chain(&numbers));
        }
        times.sort_by(f64::total_cmp);
        for (place, ms) in times.iter().enumerate() {
            let fraction = format!("{:.4}", (place + 1) as f64 / times.len() as f64);
            cdf.row(key.iter().copied().chain(&["0".into(), format!("{ms:.3}"), fraction]));
        }
    }
    let all = [("kills", kills), ("batches", batches), ("cdf", cdf)].into_iter().chain(more);
    all.map(|(name, csv)| (name.into(), csv.text())).collect()
}
