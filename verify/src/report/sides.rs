//! What is drawn side by side: every arm with its runs, whatever the report is about.

use super::boxes::Boxed;
use super::findings::Findings;
use crate::words::time;
use crate::{Arm, Arms, Predicted, Sample, PERCENTILES};

/// Most runs with a box of their own; of more there is one box an arm.
const MOST_BOXES: usize = 24;

/// Percentiles of the table that stands for the curves.
const TABLE: [f64; 12] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

/// An arm.
pub(super) struct Side<'a> {
    pub(super) arm: Arm,
    pub(super) runs: Vec<&'a Sample>,
    pub(super) known: Known,
}

/// What is known of its jobs.
pub(super) enum Known {
    /// All runs as one.
    Jobs(Sample),
    /// Percentiles and times in ns.
    Percentiles(Vec<(f64, u64)>),
}

/// The arms with jobs or percentiles, in the order of drawing: what matters most is drawn last, above the others.
pub(super) fn of(findings: Findings) -> Vec<Side> {
    match findings {
        Findings::AsIfAlone(_, arms) | Findings::Two(_, arms) => {
            let order = [arms.reference(), Arm::Unprotected, arms.judged()];
            let predicted = predicted(arms);
            predicted.into_iter().chain(order.into_iter().filter_map(|arm| side(arm, arms.runs(arm)))).collect()
        }
        Findings::Percentiles { runs, no_plan, foreseen, .. } => {
            // What comes nearest to what is measured is said last.
            let points = foreseen.last().map_or(&[][..], |one| one.points());
            let points: Vec<(f64, u64)> = points.iter().map(|one| (one.percentile.percent(), one.at.ns())).collect();
            let predicted = (!points.is_empty()).then(|| Side {
                arm: Arm::Predicted,
                runs: Vec::new(),
                known: Known::Percentiles(points),
            });
            let unprotected = (!no_plan.is_empty()).then(|| side(Arm::Unprotected, no_plan.iter().collect())).flatten();
            predicted.into_iter().chain(unprotected).chain(side(Arm::Measured, runs.iter().collect())).collect()
        }
    }
}

fn side(arm: Arm, runs: Vec<&Sample>) -> Option<Side<'_>> {
    let pooled = Sample::pool(runs.iter().copied()).ok().filter(|pooled| !pooled.is_empty())?;
    Some(Side { arm, runs, known: Known::Jobs(pooled) })
}

fn predicted(arms: &Arms) -> Option<Side<'_>> {
    match arms.predicted.as_ref()? {
        Predicted::Sample(_) => side(Arm::Predicted, arms.runs(Arm::Predicted)),
        Predicted::Percentiles(p) => {
            let points = PERCENTILES.into_iter().zip([p.p50, p.p99, p.p99_9].map(|at| at.ns())).collect();
            Some(Side { arm: Arm::Predicted, runs: Vec::new(), known: Known::Percentiles(points) })
        }
    }
}

/// A box for every run, or for every arm where there are too many.
pub(super) fn boxed<'a>(sides: &'a [Side<'a>]) -> Vec<Boxed<'a>> {
    let each = sides.iter().map(|side| side.runs.len()).sum::<usize>() <= MOST_BOXES;
    let mut all = Vec::new();
    for side in sides {
        let Known::Jobs(pooled) = &side.known else { continue };
        let name = side.arm.name();
        match side.runs.as_slice() {
            [_, _, ..] if each => all.extend(side.runs.iter().enumerate().map(|(nth, &sample)| Boxed {
                arm: side.arm,
                name: format!("{name}, run {}", nth + 1),
                sample,
            })),
            _ => all.push(Boxed { arm: side.arm, name: name.into(), sample: pooled }),
        }
    }
    all
}

/// The curves in rows of cells: percentiles below each other, the arms side by side.
pub(super) fn quantiles(sides: &[Side]) -> Vec<Vec<String>> {
    let head = std::iter::once("share of jobs".into()).chain(sides.iter().map(|side| side.arm.name().to_string()));
    let cell = |side: &Side, p: f64| match &side.known {
        Known::Jobs(sample) => sample.percentile(p).map_or("never".into(), |ns| time(ns as f64)),
        Known::Percentiles(points) => {
            points.iter().find(|(of, _)| *of == p).map_or("-".into(), |&(_, ns)| time(ns as f64))
        }
    };
    let row = |p: f64| {
        let name = if p == 100.0 { "slowest".into() } else { format!("{p} %") };
        std::iter::once(name).chain(sides.iter().map(|side| cell(side, p))).collect()
    };
    std::iter::once(head.collect()).chain(TABLE.into_iter().map(row)).collect()
}
