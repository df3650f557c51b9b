//! Fixed priority on a resource [Lee11, Lemma 1].

use super::certificate::Shortfall;
use super::lines::{request, Line};
use super::supply::{supplied, Resource};
use crate::Error;
use giusto_model::Point;
use giusto_model::{Duration, Task};

/// Steps of one test; some seconds.
pub(super) const MOST_STEPS: u64 = 5_000_000;

/// For each task the first instant at which the work of it and all above it is done at the latest; or the first task, from
/// the highest priority on, for which there is none up to its deadline.
///
/// The first instant t > 0 with sbf(t − L) ≥ rbf(t) is the least fixed point of t = sbf⁻¹(rbf(t)) + L, reached from below;
/// it never falls from one priority to the next. Each step takes in one more job at least, and is one of those `left`.
pub(super) fn test(
    tasks: &[Task],
    order: &[usize],
    resource: &Resource,
    latency: Duration,
    left: &mut u64,
) -> Result<Result<Vec<Point>, Shortfall>, Error> {
    let lines = in_order(tasks, order)?;
    let mut points = Vec::with_capacity(tasks.len());
    let late = walk(tasks, order, &lines, (resource, latency), left, |place, at, demand| {
        points.push(point(place, at, demand, resource, latency)?);
        Ok(())
    })?;
    match late {
        Some(rank) => shortfall(order[rank], &lines[..=rank], resource, latency, left).map(Err),
        None => Ok(Ok(points)),
    }
}

/// The lines of `tasks` in this order of priorities.
pub(super) fn in_order(tasks: &[Task], order: &[usize]) -> Result<Vec<Line>, Error> {
    order.iter().map(|&k| Line::new(&tasks[k])).collect()
}

/// Whether [`test`] finds all done in time, given the lines of the tasks in order; no point and no witness is looked for.
pub(super) fn keeps(
    tasks: &[Task],
    order: &[usize],
    lines: &[Line],
    resource: &Resource,
    latency: Duration,
) -> Result<bool, Error> {
    Ok(walk(tasks, order, lines, (resource, latency), &mut { MOST_STEPS }, |_, _, _| Ok(()))?.is_none())
}

/// Shows for each task, by rank, the first instant at which enough is supplied; the rank of the first that has none.
fn walk(
    tasks: &[Task],
    order: &[usize],
    lines: &[Line],
    (resource, latency): (&Resource, Duration),
    left: &mut u64,
    mut done_at: impl FnMut(usize, Duration, u128) -> Result<(), Error>,
) -> Result<Option<usize>, Error> {
    let done = |demand: u128| resource.inverse(demand)?.checked_add(latency);
    let mut at = Duration::from_ns(1);
    for (rank, &place) in order.iter().enumerate() {
        let deadline = tasks[place].deadline;
        loop {
            let demand = request(&lines[..=rank], at.ns());
            let Some(next) = done(demand).filter(|t| *t <= deadline) else { return Ok(Some(rank)) };
            if next <= at {
                done_at(place, at, demand)?;
                break;
            }
            at = next;
            *left = left.checked_sub(1).ok_or(Error::TooClose)?;
        }
    }
    Ok(None)
}

/// Of all points of the task at `place`, the last of `lines`, none of which has enough, the one that lacks least; of several the first.
///
/// Only the ends of the steps of rbf count: multiples of the periods, and the deadline. With the least lack so far, the next
/// point that could lack less is where supply has caught up so far with what is asked for now.
fn shortfall(
    place: usize,
    lines: &[Line],
    resource: &Resource,
    latency: Duration,
    left: &mut u64,
) -> Result<Shortfall, Error> {
    let deadline = lines.last().map_or(0, |line| line.deadline);
    let step = |t: u64| {
        let ends = lines.iter().map(|line| t.div_ceil(line.period).saturating_mul(line.period));
        ends.fold(deadline, u64::min)
    };
    let mut best: Option<(u128, Point)> = None;
    let mut at = step(1);
    loop {
        let t = Duration::from_ns(at);
        let demand = request(lines, at);
        let here = point(place, t, demand, resource, latency)?;
        let lack = demand.saturating_sub(u128::from(here.supply.ns()));
        if best.as_ref().is_none_or(|(least, _)| lack < *least) {
            best = Some((lack, here));
        }
        let least = best.as_ref().map_or(lack, |(least, _)| *least);
        if at >= deadline {
            break;
        }
        // Whatever comes after `at` asks for a job more at least.
        let after = request(lines, at + 1);
        let needed = (after + 1).saturating_sub(least);
        let caught_up = resource.inverse(needed).and_then(|t| t.checked_add(latency)).map_or(u64::MAX, Duration::ns);
        if caught_up > deadline {
            break;
        }
        at = step(caught_up.max(at + 1));
        *left = left.checked_sub(1).ok_or(Error::TooClose)?;
    }
    match best {
        Some((_, point)) => Ok(Shortfall { point, task: place }),
        None => Err(Error::NoTasks),
    }
}

fn point(place: usize, at: Duration, demand: u128, resource: &Resource, latency: Duration) -> Result<Point, Error> {
    let demand = u64::try_from(demand).map(Duration::from_ns).map_err(|_| Error::Demand)?;
    Ok(Point { task: Some(place), at, demand, supply: supplied(resource, latency, at) })
}
