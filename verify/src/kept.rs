//! Were promised percentiles kept? Each is judged by the interval of the measured one.

use crate::interval::percentiles_at;
use crate::words::time;
use crate::{Error, Percentile, Sample, Verdict};
use giusto_model::{PredictedPercentile, Within};
use serde::Serialize;

/// What the runs say of a promise of percentiles. Serialises as the JSON of `giusto verify --promise`.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    /// How many runs, pooled.
    pub runs: usize,
    /// How many jobs in all of them.
    pub jobs: u64,
    /// How many of them never finished.
    pub unfinished: u64,
    /// Each percentile that was promised.
    pub points: Vec<KeptPoint>,
    /// Missed if one was missed, kept if all were kept.
    pub verdict: Verdict,
    /// Why, in words for people.
    pub why: String,
}

/// One percentile that was promised.
#[derive(Clone, Debug, Serialize)]
pub struct KeptPoint {
    /// What was promised.
    #[serde(flatten)]
    pub promised: Within,
    /// What was measured, with its 95 % interval.
    pub measured: Percentile,
    /// Kept if the whole interval is within the promise, missed if it is beyond.
    pub verdict: Verdict,
}

/// Judges the `runs`, pooled. The interval of a percentile allows for neighbouring requests that wait for each other (module
/// `interval`); it is open where there are too few jobs for so high a percentile.
///
/// # Errors
/// [`Error::Empty`] without a job, [`Error::TooManyJobs`]. O(jobs · percentiles).
pub fn kept(points: &[Within], runs: &[Sample]) -> Result<Kept, Error> {
    let pooled = Sample::pool(runs)?;
    if pooled.is_empty() {
        return Err(Error::Empty { side: "the runs to be judged" });
    }
    let wanted: Vec<f64> = points.iter().map(|point| point.percentile.percent()).collect();
    let measured = percentiles_at(&wanted, &pooled);
    let judged = points.iter().zip(measured).map(|(&promised, measured)| {
        let within = promised.within.ns();
        let verdict = match (measured.low, measured.high) {
            (_, Some(high)) if high <= within => Verdict::Kept,
            (low, _) if low.is_none_or(|low| low > within) => Verdict::Missed,
            _ => Verdict::CannotTell,
        };
        KeptPoint { promised, measured, verdict }
    });
    let points: Vec<KeptPoint> = judged.collect();
    let any = |verdict| points.iter().find(|point| point.verdict == verdict);
    let (verdict, why) = if let Some(point) = any(Verdict::Missed) {
        (Verdict::Missed, words(point, &pooled))
    } else if let Some(point) = any(Verdict::CannotTell) {
        let why = format!("{}: more or longer runs, or a quieter machine, would tell", words(point, &pooled));
        (Verdict::CannotTell, why)
    } else {
        (Verdict::Kept, points.iter().map(|point| words(point, &pooled)).collect::<Vec<_>>().join("; "))
    };
    let (jobs, unfinished) = (pooled.len() as u64, pooled.unfinished() as u64);
    Ok(Kept { runs: runs.len(), jobs, unfinished, points, verdict, why })
}

/// `p90 was 12.1 ms (95 % interval 11.8 to 12.6 ms), and 20 ms was promised`, of these jobs.
fn words(point: &KeptPoint, jobs: &Sample) -> String {
    let Percentile { value, low, high, .. } = point.measured;
    let end = |ns: Option<u64>, open: &str| ns.map_or(open.to_string(), |ns| time(ns as f64));
    let upper = if jobs.unfinished() > 0 { "never" } else { "what so few jobs cannot tell" };
    let (from, to) = (end(low, "never"), end(high, upper));
    format!(
        "{} {}{}, and {} was promised",
        point.promised.percentile,
        value.map_or("falls on jobs that never finished".into(), |ns| format!("was {}", time(ns as f64))),
        if low.is_none() { String::new() } else { format!(" (95 % interval {from} to {to})") },
        time(point.promised.within.ns() as f64)
    )
}

/// An aligned table: each percentile as promised, as foreseen where that is known, and as found; both with what they are called.
pub fn table_kept(kept: &Kept, (how, foreseen): (&str, &[PredictedPercentile]), measured: &str) -> String {
    let cell = |text: String| format!("{text:>12}");
    let known = |(ns, otherwise): (Option<u64>, &str)| cell(ns.map_or(otherwise.into(), |ns| time(ns as f64)));
    let head: String = ["promised", how, measured, "from", "to"].map(|head| cell(head.into())).concat();
    let mut text = format!("{:8}{head}\n", "");
    for KeptPoint { promised, measured, verdict } in &kept.points {
        let foreseen = foreseen.iter().find(|one| one.percentile == promised.percentile);
        let upper = if kept.unfinished > 0 { "never" } else { "?" };
        let cells = [
            (Some(promised.within.ns()), ""),
            (foreseen.map(|one| one.at.ns()), "-"),
            (measured.value, "never"),
            (measured.low, "never"),
            (measured.high, upper),
        ];
        let name = promised.percentile.to_string();
        text += &format!("{name:8}{}  {} {}\n", cells.map(known).concat(), verdict.mark(), verdict.words());
    }
    text
}
