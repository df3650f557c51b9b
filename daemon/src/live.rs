//! Response times as they come, second by second, and how what was promised of them stands.

use crate::response_status::{bucket, PastStatus, PointStatus, ResponseStatus, StandingStatus};
use giusto_model::Within;
use giusto_verify::{History, Look, Past};
use std::collections::BTreeMap;

/// See the module.
#[derive(Default)]
pub(crate) struct Live {
    /// What was promised, and of each point those that were late so far, by cause.
    points: Vec<Within>,
    lates: Vec<BTreeMap<String, u64>>,
    lengths: BTreeMap<u64, u64>,
    history: History,
    waits: History,
    windows: [Option<Window>; 3],
    answered: u64,
    total_ns: u64,
    unseen: u64,
}

/// What came in a second; lengths in ns, ascending, each with its count.
#[derive(Default)]
pub(crate) struct Second {
    pub(crate) lengths: Vec<[u64; 2]>,
    pub(crate) total_ns: u64,
    pub(crate) waits: Vec<[u64; 2]>,
    pub(crate) unseen: u64,
}

/// A window of the history as it was looked at last.
struct Window {
    second: u64,
    past: PastStatus,
    standings: Vec<StandingStatus>,
}

impl Live {
    /// What is promised from now on; true: it is something else, and what was late counts anew.
    pub(crate) fn promise(&mut self, points: &[Within]) -> bool {
        let differs = self.points != points;
        if differs {
            (self.points, self.lates) = (points.to_vec(), vec![BTreeMap::new(); points.len()]);
            self.windows = Default::default();
        }
        differs
    }

    pub(crate) fn points(&self) -> &[Within] {
        &self.points
    }

    /// So many were later than point `nth`, for that reason.
    pub(crate) fn late(&mut self, nth: usize, cause: &str, count: u64) {
        if let Some(lates) = self.lates.get_mut(nth).filter(|_| count > 0) {
            *lates.entry(cause.into()).or_default() += count;
        }
    }

    pub(crate) fn add(&mut self, second: u64, new: Second) {
        self.answered += answered(&new.lengths);
        self.total_ns += new.total_ns;
        self.unseen += new.unseen;
        for [ns, count] in &new.lengths {
            *self.lengths.entry(bucket(*ns)).or_default() += count;
        }
        self.history.add(second, new.lengths);
        self.waits.add(second, new.waits);
        for (window, past) in self.windows.iter_mut().zip(Past::ALL) {
            // A look is as old as a sixtieth of what it is at.
            let is_fresh = |window: &Window| second - window.second < window.past.seconds / 60;
            if !window.as_ref().is_some_and(is_fresh) {
                let (history, waits) = (self.history.over(past), self.waits.over(past));
                *window = Some(Window::look(second, &history, &waits, &self.points));
            }
        }
    }

    /// `recent` of each point were late and have no cause yet; `predicted` of each is what the plan expects.
    pub(crate) fn status(&self, recent: &[u64], predicted: impl Fn(usize) -> Option<u64>) -> ResponseStatus {
        let point = |nth: usize| self.point(nth, recent.get(nth).copied().unwrap_or(0), predicted(nth));
        ResponseStatus {
            answered: self.answered,
            total_ns: self.total_ns,
            lengths: self.lengths.iter().map(|(&ns, &count)| [ns, count]).collect(),
            unseen: self.unseen,
            connections: BTreeMap::new(),
            past: self.windows.iter().flatten().map(|window| window.past.clone()).collect(),
            promised: (0..self.points.len()).map(point).collect(),
        }
    }

    fn point(&self, nth: usize, recent: u64, predicted_ns: Option<u64>) -> PointStatus {
        let (point, lates) = (&self.points[nth], &self.lates[nth]);
        let past: Vec<StandingStatus> =
            self.windows.iter().flatten().map(|window| window.standings[nth].clone()).collect();
        PointStatus {
            percentile: point.percentile.percent(),
            within_ns: point.within.ns(),
            predicted_ns,
            late: lates.values().sum::<u64>() + recent,
            late_by: lates.clone(),
            left: past.last().map_or(1.0, |day| 1.0 - day.burn),
            past,
        }
    }
}

impl Window {
    fn look(second: u64, history: &Look<'_>, waits: &Look<'_>, points: &[Within]) -> Window {
        let past = PastStatus {
            seconds: history.length,
            requests: history.jobs,
            p50_ns: history.value(50.0),
            p99_ns: history.value(99.0),
            max_ns: history.longest(),
            wait_p50_ns: waits.value(50.0),
        };
        let standings = points.iter().map(|point| {
            let standing = history.standing(point);
            StandingStatus {
                seconds: history.length,
                now_ns: standing.now.value,
                low_ns: standing.now.low,
                high_ns: standing.now.high,
                late: standing.late,
                burn: standing.burn,
                verdict: standing.verdict(point),
            }
        });
        Window { second, past, standings: standings.collect() }
    }
}

pub(crate) fn answered(lengths: &[[u64; 2]]) -> u64 {
    lengths.iter().map(|[_, count]| count).sum()
}

/// What has come since; both ascending.
pub(crate) fn more(before: &[[u64; 2]], now: &[[u64; 2]]) -> Vec<[u64; 2]> {
    let before: BTreeMap<u64, u64> = before.iter().map(|[ns, count]| (*ns, *count)).collect();
    let new = now.iter().map(|[ns, count]| [*ns, count.saturating_sub(before.get(ns).copied().unwrap_or(0))]);
    new.filter(|[_, count]| *count > 0).collect()
}
