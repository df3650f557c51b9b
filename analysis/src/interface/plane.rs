//! The (α, Δ) plane: which lines α(t − Δ)⁺ are enough for a task set (Abe22, "Simplified Design").
//!
//! A point (t, W) of its demand allows Δ ≤ t − W/α. Under EDF all points must be allowed, under fixed priority one of each
//! task. So the largest Δ for each α is made of pieces t − W/α, and the points they belong to are corners of the convex
//! hull of all points: where one line takes over from another, α is the slope between their points, an exact fraction.

use super::demand::{deadline_from, demand, request};
use super::exact::{as_share, Load};
use super::{schedulable, Resource, Scheduler, Shortfall};
use crate::Error;
use giusto_model::{Bandwidth, Duration, Task};
use num_rational::Ratio;
use serde::{Deserialize, Serialize};

/// Most points of the demand that are looked at; some seconds.
const MOST_POINTS: u64 = 1_000_000;

/// The boundary Δ_max(α): a linear resource (α, Δ) is enough for the tasks if, and for α ≥ the first piece's `from` only if,
/// Δ ≤ Δ_max(α).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plane {
    /// Of the tasks.
    pub scheduler: Scheduler,
    /// Ascending, each from where the one before ends, the last to 1. The first is from where Δ_max is 0, or from where it was
    /// asked for.
    pub pieces: Vec<Piece>,
}

/// Δ_max(α) = t − W/α for the α from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Least α.
    pub from: Bandwidth,
    /// Greatest α.
    pub to: Bandwidth,
    /// Fixed priority: the task that needs it, by its place in the list.
    pub task: Option<usize>,
    /// t
    #[serde(rename = "at_ns")]
    pub at: Duration,
    /// W, at most t: rbf of the task there, or dbf.
    #[serde(rename = "demand_ns")]
    pub demand: Duration,
}

/// The boundary for `tasks` under `scheduler`, from `least` on where it is given.
///
/// EDF without `least`: from the least α that can be enough; that is U, which takes all deadlines of a hyperperiod to see,
/// or more where deadlines are shorter than periods. Fixed priority: O(n) for each multiple of a period up to a deadline.
/// Ok(Err): not even a whole core is enough. Errors: impossible tasks, a `least` above 1, more than a million points.
pub fn plane(
    tasks: &[Task],
    scheduler: Scheduler,
    least: Option<Bandwidth>,
) -> Result<Result<Plane, Shortfall>, Error> {
    let least = least.unwrap_or(Bandwidth::ZERO);
    if least > Bandwidth::ONE {
        return Err(Error::Share { what: "the least bandwidth", value: least });
    }
    let core = Resource::Linear { bandwidth: Bandwidth::ONE, delay: Duration::ZERO };
    if let Err(shortfall) = schedulable(tasks, scheduler, &core, Duration::ZERO)? {
        return Ok(Err(shortfall));
    }
    let pieces = match scheduler.order(tasks) {
        None => edf(tasks, least)?,
        Some(order) => {
            let mut left = MOST_POINTS;
            let each = (0..order.len()).map(|rank| fixed(tasks, &order, rank, &mut left));
            each.reduce(|a, b| Ok(lower(&a?, &b?))).unwrap_or(Err(Error::NoTasks))?
        }
    };
    Ok(Ok(Plane { scheduler, pieces: cut(pieces, least) }))
}

impl Plane {
    /// Δ_max(α) in ns, exactly; `None` outside of the curve. O(log pieces).
    pub fn delay(&self, share: Bandwidth) -> Option<Ratio<u128>> {
        let piece = self.pieces.get(self.pieces.partition_point(|piece| piece.to < share))?;
        (piece.from <= share).then(|| piece.delay(share))
    }

    /// The least budget Θ, a whole number of `quantum`, with which a server of `period` is on or below the curve: α = Θ/Π,
    /// Δ = 2(Π − Θ). `None` if not even as many quanta as fit into the period are enough.
    ///
    /// Enough for the tasks, and never less than [`least_budget`](super::least_budget), since the line is nowhere above the
    /// supply. O(log(Π/quantum) · log pieces). Errors: a period or a quantum of 0; a curve that begins too late to tell.
    pub fn least_budget(&self, period: Duration, quantum: Duration) -> Result<Option<Duration>, Error> {
        if period.is_zero() {
            return Err(Error::Period);
        }
        if quantum.is_zero() {
            return Err(Error::Quantum);
        }
        let gap = |budget: u64| 2 * u128::from(period.ns() - budget);
        let below = |delay: Option<Ratio<u128>>, budget| delay.is_some_and(|delay| delay.to_integer() >= gap(budget));
        let share = |count: u64| Bandwidth::new(count * quantum.ns(), period.ns()).unwrap_or(Bandwidth::ZERO);
        let enough = |count: u64| below(self.delay(share(count)), count * quantum.ns());
        // What is cut off is no higher than where the curve begins.
        let from = self.pieces.first().map_or(Bandwidth::ZERO, |piece| piece.from);
        let untold = |count: u64| share(count) < from && below(self.delay(from), count * quantum.ns());
        let whole = period.ns() / quantum.ns();
        if whole == 0 {
            return Ok(None);
        }
        if !enough(whole) {
            return if untold(whole) { Err(Error::Curve { from }) } else { Ok(None) };
        }
        // Less budget is a longer gap and, as all pieces rise, a shorter Δ_max.
        let (mut low, mut high) = (0, whole);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        if low > 0 && untold(low) {
            return Err(Error::Curve { from });
        }
        Ok(Some(Duration::from_ns(high * quantum.ns())))
    }
}

impl Piece {
    /// t − W/α, which is not negative on the curve.
    fn delay(&self, share: Bandwidth) -> Ratio<u128> {
        let [n, d, t, w] = [share.numer(), share.denom(), self.at.ns(), self.demand.ns()].map(u128::from);
        Ratio::new(t * n - w * d, n)
    }
}

/// A point of the demand: (t, W) in ns, W ≤ t.
type Corner = (u64, u64);

/// (W₂ − W₁) / (t₂ − t₁): below it the first of two points allows more.
fn slope(first: Corner, second: Corner) -> Bandwidth {
    Bandwidth::new(second.1 - first.1, second.0 - first.0).unwrap_or(Bandwidth::ZERO)
}

/// The convex hull of points with ascending t and W, from above or from below.
struct Hull {
    upper: bool,
    corners: Vec<Corner>,
}

impl Hull {
    fn push(&mut self, point: Corner) {
        let flat = |a: Corner, b: Corner| {
            let rise = |first: Corner, second: Corner| (u128::from(second.1 - first.1), u128::from(second.0 - first.0));
            let ((w1, t1), (w2, t2)) = (rise(a, b), rise(b, point));
            if self.upper {
                w1 * t2 <= w2 * t1
            } else {
                w1 * t2 >= w2 * t1
            }
        };
        while let [.., a, b] = self.corners[..] {
            if !flat(a, b) {
                break;
            }
            self.corners.pop();
        }
        self.corners.push(point);
    }

    /// The pieces of its corners for all α up to 1. From above early points rule where α is great, from below where it is small.
    fn pieces(mut self, task: Option<usize>) -> Vec<Piece> {
        if self.upper {
            self.corners.reverse();
        }
        let corners = &self.corners;
        let ends = corners.windows(2).map(|two| match self.upper {
            true => slope(two[1], two[0]),
            false => slope(two[0], two[1]),
        });
        let mut from = Bandwidth::ZERO;
        let piece = |(&(t, w), to): (&Corner, Bandwidth)| {
            let to = to.min(Bandwidth::ONE);
            let piece = Piece { from, to, task, at: Duration::from_ns(t), demand: Duration::from_ns(w) };
            from = to;
            piece
        };
        let pieces = corners.iter().zip(ends.chain([Bandwidth::ONE])).map(piece);
        pieces.filter(|piece| piece.from < piece.to).collect()
    }
}

/// All deadlines must be allowed.
///
/// The corner that rules at α is the last of greatest W − αt; a later one never rules at a greater α, since W and t rise
/// together. So for all α ≥ `low` it is enough to know the points up to where dbf(t) ≤ `low`·(t − D) for good, D the first
/// deadline, whose own line allows less than D. `low` is the greatest W/t so far, since less is not enough anyway. For α ≥ U
/// a hyperperiod H is enough too: dbf(t + H) = dbf(t) + UH.
fn edf(tasks: &[Task], least: Bandwidth) -> Result<Vec<Piece>, Error> {
    let load = Load::new(tasks);
    let hyperperiod = load.hyperperiod();
    let first = deadline_from(tasks, 0).ok_or(Error::Demand)?;
    let until = |low| [load.crossing(as_share(low), u128::from(first)), hyperperiod].into_iter().flatten().min();
    let (mut low, mut last) = (least, until(least));
    let mut hull = Hull { upper: true, corners: Vec::new() };
    let mut next = Some(first);
    for _ in 0..MOST_POINTS {
        let Some(at) = next.filter(|at| last.is_none_or(|last| *at <= last)) else {
            return Ok(hull.pieces(None));
        };
        let asked = demand(tasks, Duration::from_ns(at));
        hull.push((at, u64::try_from(asked).map_err(|_| Error::Demand)?));
        if asked * u128::from(low.denom()) > u128::from(at) * u128::from(low.numer()) {
            low = Bandwidth::new(asked as u64, at).unwrap_or(low);
            last = until(low);
        }
        next = at.checked_add(1).and_then(|from| deadline_from(tasks, from));
    }
    Err(Error::Points { limit: MOST_POINTS })
}

/// One point of the task at `order[rank]` must be allowed: only those where a step of rbf ends, and the deadline.
fn fixed(tasks: &[Task], order: &[usize], rank: usize, left: &mut u64) -> Result<Vec<Piece>, Error> {
    let deadline = tasks[order[rank]].deadline.ns();
    let mut hull = Hull { upper: false, corners: Vec::new() };
    let mut at = 0;
    while at < deadline {
        *left = left.checked_sub(1).ok_or(Error::Points { limit: MOST_POINTS })?;
        let ends = order[..=rank].iter().filter_map(|&k| {
            let period = tasks[k].period.ns();
            at.checked_add(period - at % period)
        });
        at = ends.fold(deadline, u64::min);
        let asked = request(tasks, order, rank, Duration::from_ns(at));
        // A point above the diagonal is allowed by no α ≤ 1.
        if asked <= u128::from(at) {
            hull.push((at, asked as u64));
        }
    }
    Ok(hull.pieces(Some(order[rank])))
}

/// The lower of two curves over (0, 1].
fn lower(a: &[Piece], b: &[Piece]) -> Vec<Piece> {
    let mut least: Vec<Piece> = Vec::new();
    let mut push = |piece: Piece| match least.last_mut() {
        _ if piece.from >= piece.to => {}
        Some(last) if (last.task, last.at, last.demand) == (piece.task, piece.at, piece.demand) => last.to = piece.to,
        _ => least.push(piece),
    };
    let (mut i, mut j, mut from) = (0, 0, Bandwidth::ZERO);
    while let (Some(&p), Some(&q)) = (a.get(i), b.get(j)) {
        let to = p.to.min(q.to);
        // The one of the earlier point, of equal t of more work, is lower from `meet` on; before it the other is.
        let (early, late) = if (p.at, q.demand) <= (q.at, p.demand) { (p, q) } else { (q, p) };
        let meet = match late.demand > early.demand {
            true => slope((early.at.ns(), early.demand.ns()), (late.at.ns(), late.demand.ns())).clamp(from, to),
            false => from,
        };
        push(Piece { from, to: meet, ..late });
        push(Piece { from: meet, to, ..early });
        from = to;
        i += usize::from(p.to == to);
        j += usize::from(q.to == to);
    }
    least
}

/// What is left of a curve that rises, from where it is not negative, and from `least` on.
fn cut(pieces: Vec<Piece>, least: Bandwidth) -> Vec<Piece> {
    let zero = |piece: &Piece| Bandwidth::of(piece.demand, piece.at).unwrap_or(Bandwidth::ZERO);
    let cut = |piece: Piece| Piece { from: piece.from.max(zero(&piece)).max(least), ..piece };
    let last = pieces.len() - 1;
    let left = pieces.into_iter().map(cut).enumerate();
    // The last one may be left with the single point 1.
    left.filter(|(place, piece)| piece.from < piece.to || *place == last).map(|(_, piece)| piece).collect()
}
