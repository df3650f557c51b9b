//! Earliest deadline first on a resource (Abe22, "Schedulability Analysis").

use super::certificate::Shortfall;
use super::demand::{deadline_from, deadline_until, demand, due_at};
use super::exact::Load;
use super::lines::{due, due_and_next, due_lines, Line, LONGEST};
use super::supply::{supplied, Resource};
use crate::gallop::first;
use crate::Error;
use giusto_model::Point;
use giusto_model::{Duration, Task};
use std::cmp::Ordering;

/// Steps of one test, some tens of milliseconds for ten tasks; a certificate has as many points at most.
pub(super) const MOST_STEPS: u64 = 1_000_000;

/// What [`test`] finds: points that cover all windows up to the bound, and the bound.
pub(super) type Covered = (Vec<Point>, Duration);

/// Whether dbf(t) ≤ sbf(t − L) for all t.
///
/// Goes down from the bound (QPA, Zhang and Burns 2009): where dbf(t) is supplied by some x ≤ t, nothing is missed from x to t,
/// since dbf never falls. So the next time to look at is just before x. In the steps that are `left`.
pub(super) fn test(
    tasks: &[Task],
    resource: &Resource,
    latency: Duration,
    left: &mut u64,
) -> Result<Result<Covered, Shortfall>, Error> {
    let Bound { until, miss } = bound(&Load::new(tasks), tasks, resource, latency);
    let Some(until) = until else {
        return first_miss(tasks, resource, latency, miss, left).map(Err);
    };
    let mut points = Vec::new();
    let missed = walk(&due_lines(tasks)?, until, resource, latency, left, |next, asked| {
        let at = ns(next);
        points.push(Point { task: None, at, demand: ns(asked), supply: supplied(resource, latency, at) });
    })?;
    if missed.is_some() {
        return first_miss(tasks, resource, latency, missed, left).map(Err);
    }
    points.reverse();
    Ok(Ok((points, ns(until))))
}

/// Whether [`test`] finds no miss, given the lines and the load of the tasks, without looking for the first; `None`: the bound
/// is too far to say.
pub(super) fn keeps(
    tasks: &[Task],
    (lines, load): (&[Line], &Load),
    resource: &Resource,
    latency: Duration,
) -> Result<Option<bool>, Error> {
    match bound(load, tasks, resource, latency) {
        Bound { miss: Some(_), .. } => Ok(Some(false)),
        Bound { until: None, miss: None } => Ok(None),
        Bound { until: Some(until), .. } => {
            Ok(Some(walk(lines, until, resource, latency, &mut { MOST_STEPS }, |_, _| ())?.is_none()))
        }
    }
}

/// Goes down from `until` and shows the points that cover all windows up to it; a time by which a deadline is missed, if one is.
fn walk(
    lines: &[Line],
    until: u64,
    resource: &Resource,
    latency: Duration,
    left: &mut u64,
    mut covered: impl FnMut(u64, u64),
) -> Result<Option<u64>, Error> {
    let (mut end, mut asked) = (until, due(lines, until));
    while asked > 0 {
        let met = resource.inverse(asked.into()).and_then(|t| t.checked_add(latency)).map(Duration::ns);
        let rest = met.filter(|met| *met <= end).map(|met| (met, due_and_next(lines, met - 1)));
        // Nothing due from `met` to `end`: what is due was so before `met`, and missed.
        let Some((met, (rest, next))) = rest.filter(|(_, (rest, _))| *rest < asked) else { return Ok(Some(end)) };
        covered(next, asked);
        (end, asked) = (met - 1, rest);
        *left = left.checked_sub(1).ok_or(Error::TooClose)?;
    }
    Ok(None)
}

/// How far to look.
struct Bound {
    /// No deadline after this one can be the first to be missed; `None`: there is a miss, or it is too far to say.
    until: Option<u64>,
    /// A time by which one is missed for sure, if known.
    miss: Option<u64>,
}

/// α > U: where the lines below sbf and above dbf cross ([`Load::crossing`]), or the next if that is nearer. α ≥ U: with H
/// the hyperperiod of tasks and resource, dbf(t + H) = dbf(t) + UH (as D ≤ T) and, once the first gaps are over,
/// sbf(t + H) = sbf(t) + αH, so that H and those gaps are enough. α = U: dbf(H) ≥ UH is missed where sbf(H − L) < αH. α < U: a
/// miss is certain ([`Load::overtaken`]).
fn bound(load: &Load, tasks: &[Task], resource: &Resource, latency: Duration) -> Bound {
    let share = resource.bandwidth();
    let share = (u128::from(share.numer()), u128::from(share.denom()));
    let lag = resource.delay() + u128::from(latency.ns());
    let both = |h| u64::try_from(num_integer::lcm(u128::from(h), u128::from(resource.repeats()))).ok();
    let hyperperiod = load.hyperperiod().and_then(both);
    let whole = hyperperiod.and_then(|h| u64::try_from(u128::from(h) + lag).ok());
    let crossing = load.crossing(share, lag);
    let until = [crossing, whole].into_iter().flatten().min().filter(|t| *t < LONGEST);
    match load.compare(share) {
        Ordering::Less => Bound { until: None, miss: load.overtaken(share, tasks) },
        Ordering::Equal => {
            let short = |h: &u64| u128::from(supplied(resource, latency, ns(*h)).ns()) < demand(tasks, ns(*h));
            Bound { until, miss: hyperperiod.filter(short) }
        }
        Ordering::Greater => Bound { until, miss: None },
    }
}

/// The first deadline that is missed, if there is one by `miss`.
///
/// Goes from one deadline to the next at which more is asked for than is supplied at this one: until then nothing can be
/// missed, since supply never falls.
fn first_miss(
    tasks: &[Task],
    resource: &Resource,
    latency: Duration,
    miss: Option<u64>,
    left: &mut u64,
) -> Result<Shortfall, Error> {
    let last = miss.unwrap_or(u64::MAX);
    let mut next = deadline_from(tasks, 0);
    while let Some(at) = next {
        let supply = supplied(resource, latency, ns(at));
        if demand(tasks, ns(at)) > u128::from(supply.ns()) {
            return shortfall(tasks, at, supply);
        }
        // The next is looked for by trials, which takes as long as a step for each task.
        let Some(rest) = left.checked_sub(tasks.len() as u64) else { break };
        *left = rest;
        next = first(at, last, |t| demand(tasks, ns(t)) > u128::from(supply.ns()));
    }
    // The first miss is too far away to be found; there may be one that is known.
    let at = miss.and_then(|at| deadline_until(tasks, at)).ok_or(Error::TooClose)?;
    shortfall(tasks, at, supplied(resource, latency, ns(at)))
}

fn shortfall(tasks: &[Task], at: u64, supply: Duration) -> Result<Shortfall, Error> {
    let demand = length(demand(tasks, ns(at)))?;
    let task = due_at(tasks, at).ok_or(Error::NoTasks)?;
    Ok(Shortfall { point: Point { task: None, at: ns(at), demand, supply }, task })
}

fn length(work: u128) -> Result<Duration, Error> {
    u64::try_from(work).map(ns).map_err(|_| Error::Demand)
}

fn ns(t: u64) -> Duration {
    Duration::from_ns(t)
}
