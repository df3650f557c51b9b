//! Were promised percentiles kept? Each is judged by the interval of the measured one.

use crate::interval::percentiles_at;
use crate::words::time;
use crate::{Error, Percentile, Sample, Verdict};
use giusto_model::{Duration, PredictedPercentile, Within};
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

/// Percentiles that are known before anything is measured.
#[derive(Clone, Copy, Debug)]
pub enum Foreseen<'a> {
    /// By the law of the response time.
    Predicted(&'a [PredictedPercentile]),
    /// An upper end.
    Proven(&'a [PredictedPercentile]),
    /// By playing the plan.
    Simulated(&'a [PredictedPercentile]),
}

impl<'a> Foreseen<'a> {
    /// In a table.
    pub fn name(self) -> &'static str {
        match self {
            Foreseen::Predicted(_) => "predicted",
            Foreseen::Proven(_) => "proven",
            Foreseen::Simulated(_) => "simulated",
        }
    }

    /// Of each percentile the time.
    pub fn points(self) -> &'a [PredictedPercentile] {
        match self {
            Foreseen::Predicted(points) | Foreseen::Proven(points) | Foreseen::Simulated(points) => points,
        }
    }

    /// How sure it is, for who reads the word for the first time.
    pub(crate) fn means(self) -> &'static str {
        match self {
            Foreseen::Predicted(_) => "What the plan was proven to keep, before anything was measured.",
            Foreseen::Proven(_) => {
                "No more than the rest takes longer, whatever happens: an upper end, mostly far above."
            }
            Foreseen::Simulated(_) => "What the plan does in virtual time: what to expect of a quiet machine.",
        }
    }

    pub(crate) fn at(self, percentile: giusto_model::Percentile) -> Option<Duration> {
        self.points().iter().find(|one| one.percentile == percentile).map(|one| one.at)
    }
}

/// An aligned table: each percentile as promised, as foreseen where that is known, and as found, which is called `measured`.
pub fn table_kept(kept: &Kept, foreseen: &[Foreseen], measured: &str) -> String {
    let cell = |text: String| format!("{text:>12}");
    let known = |(ns, otherwise): (Option<u64>, &str)| cell(ns.map_or(otherwise.into(), |ns| time(ns as f64)));
    let names = foreseen.iter().map(|one| one.name());
    let head: String = std::iter::once("promised")
        .chain(names)
        .chain([measured, "from", "to"])
        .map(|head| cell(head.into()))
        .collect();
    let mut text = format!("{:8}{head}\n", "");
    for KeptPoint { promised, measured, verdict } in &kept.points {
        let upper = if kept.unfinished > 0 { "never" } else { "?" };
        let mut cells = vec![(Some(promised.within.ns()), "")];
        cells.extend(foreseen.iter().map(|one| (one.at(promised.percentile).map(Duration::ns), "-")));
        cells.extend([(measured.value, "never"), (measured.low, "never"), (measured.high, upper)]);
        let name = promised.percentile.to_string();
        text += &format!(
            "{name:8}{}  {} {}\n",
            cells.into_iter().map(known).collect::<String>(),
            verdict.mark(),
            verdict.words()
        );
    }
    text
}
