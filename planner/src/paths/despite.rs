//! What one failure costs a path (docs/decisions/0068).
//!
//! A stage that stands still for a time and then goes on is, from there on, no later than one that began so much later, in whole
//! periods of its grid. All stages are monotone, so messages behind it are later by that at most, too.

use super::course::{Asked, Course, Gap, Spot};
use super::refusal::PathCause;
use crate::words::{reason, time};
use giusto_model::{Bucket, DespitePlan, Duration, Fails, Interface, PathSource, Reason};

/// The chance that more messages are touched by a failure than are told.
const MORE: f64 = 1e-4;
const FOR_EVER: Duration = Duration::from_ns(u64::MAX);

/// In whole periods.
fn whole(time: Duration, period: Duration) -> Duration {
    period.checked_mul(time.ns().div_ceil(period.ns().max(1))).unwrap_or(FOR_EVER)
}

/// Until it is full, from empty; and one token more, which may be on its way with a message.
fn filled(bucket: Bucket) -> Duration {
    let (parts, in_one) = bucket.depth.fraction();
    let tokens = u128::from(parts) + u128::from(in_one);
    let (count, each) = bucket.rate.fraction();
    let ns = (tokens * u128::from(each)).div_ceil((u128::from(in_one) * u128::from(count)).max(1));
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

impl Asked {
    /// By how much messages are later at most, whichever of the failures it is, and which costs most.
    pub(super) fn later<'a>(&self, course: &'a Course, servers: &[Interface]) -> Option<(&'a Fails, Duration)> {
        let each = course.despite.iter().map(|gap| (&gap.fails, self.later_by(course, gap, servers)));
        each.max_by_key(|(_, later)| *later)
    }

    /// By how much they are later at most when what is borne has failed.
    pub(super) fn more(&self, course: &Course, servers: &[Interface]) -> Duration {
        self.later(course, servers).map_or(Duration::ZERO, |(_, later)| later)
    }

    pub(super) fn later_by(&self, course: &Course, gap: &Gap, servers: &[Interface]) -> Duration {
        let Some(nth) = gap.at else { return self.later_anywhere(course, gap.gap, servers) };
        let more = match &course.route[nth] {
            Spot::Served(stage) => {
                // What it was at is done once more, from the beginning.
                let (server, longest) = (servers[*stage], self.stages[*stage].service.longest());
                let again = longest.ns().div_ceil(server.budget.ns().max(1));
                return whole(gap.gap, server.period)
                    .checked_add(server.period.checked_mul(again).unwrap_or(FOR_EVER))
                    .unwrap_or(FOR_EVER);
            }
            // How many tokens there were is not known when it comes back.
            Spot::Tokens(bucket, _) => filled(*bucket),
            Spot::Measured(..) | Spot::Packets(..) => Duration::ZERO,
        };
        gap.gap.checked_add(more).unwrap_or(FOR_EVER)
    }

    /// All stages may stand still at once, which is no more than one of them does; but where messages of others come in, theirs
    /// are not late, and stand before it.
    fn later_anywhere(&self, course: &Course, gap: Duration, servers: &[Interface]) -> Duration {
        let mut later: Vec<Duration> = Vec::new();
        for (nth, spot) in course.route.iter().enumerate() {
            let before = course.steps.before(nth).into_iter().map(|before| later[before]).max().unwrap_or_default();
            later.push(match spot {
                Spot::Served(stage) => whole(before.max(gap), servers[*stage].period),
                Spot::Tokens(_, Some(_)) => before.checked_add(gap).unwrap_or(FOR_EVER),
                Spot::Tokens(_, None) | Spot::Measured(..) | Spot::Packets(..) => before.max(gap),
            });
        }
        let ends = (0..course.route.len()).filter(|nth| course.steps.after(*nth).is_empty());
        ends.map(|nth| later[nth]).max().unwrap_or(gap)
    }

    /// What each failure costs, where the path takes `at` without it.
    pub(super) fn despite(&self, course: &Course, servers: &[Interface], at: Duration) -> Vec<DespitePlan> {
        let one = |gap: &Gap| DespitePlan {
            fails: gap.fails.clone(),
            gap: gap.gap,
            later: self.later_by(course, gap, servers),
            touched: touched(course.source, at.checked_add(gap.gap).unwrap_or(FOR_EVER)),
        };
        course.despite.iter().map(one).collect()
    }
}

/// Messages that come within a time: no more, but for a chance of [`MORE`] where they come at random. With m of them on average,
/// more than m + t come with a chance of exp(−t²/2(m + t/3)) at most (Bernstein).
fn touched(source: PathSource, within: Duration) -> u64 {
    match source {
        PathSource::Poisson(rate) => {
            let (mean, chance) = (rate.per_ns() * within.ns() as f64, -MORE.ln());
            (mean + chance / 3.0 + (chance * chance / 9.0 + 2.0 * mean * chance).sqrt()).ceil() as u64
        }
        PathSource::Periodic { period, jitter, burst } => {
            let periods = within.ns().saturating_add(jitter.ns()) / period.ns().max(1) + 1;
            periods.saturating_mul(burst.into())
        }
    }
}

/// Why what is borne cannot be said of a path.
pub(super) fn refused(course: &Course, shares: bool) -> Option<PathCause> {
    course.despite.iter().find_map(|gap| {
        let drops = |(nth, spot): (usize, &Spot)| matches!(spot, Spot::Packets(..)) && gap.at.is_none_or(|at| nth > at);
        let why = match gap.at {
            None if shares => "it shares services with others, whose messages may be late as well: that is planned for a service \
                               that fails only, or for a path by itself",
            Some(_) if shares && matches!(gap.fails, Fails::Topic(_)) => {
                "it shares services with others, of which some may be late by it as well: that is planned for a service that \
                 fails only, or for a path by itself"
            }
            _ if course.every.is_none() && course.route.iter().enumerate().any(drops) => {
                "messages that come at once afterwards go over an interface, which may drop them; expected no interface of the \
                 high class behind what fails"
            }
            _ => return None,
        };
        Some(PathCause::Fails { fails: gap.fails.clone(), why })
    })
}

/// Where these numbers come from.
pub(super) fn reasons(despite: &[DespitePlan]) -> impl Iterator<Item = Reason> + '_ {
    despite.iter().map(|DespitePlan { fails, gap, later, touched }| {
        let how = match fails {
            Fails::Leader => "until another leader has written (coordination, first write): any stage may stand still, none \
                              loses anything. In whole periods of the stages",
            Fails::Service(_) => "as the site says: assumed. In whole periods of its server; what it had not passed on is done \
                                  once more, which is counted, or lost unless it is sent again",
            Fails::Topic(_) => "as the site says: assumed, as that its broker keeps what it accepted, and that hardly a message \
                                is sent twice. And until its bucket is full again",
        };
        let why = format!(
            "later at most, also messages behind it: it stands still for up to {}, {how}. {touched} messages are on their way or \
             come meanwhile, more in one failure of 10,000 (decision 0068)",
            time(*gap)
        );
        reason(&format!("despite {fails}"), time(*later), why)
    })
}
