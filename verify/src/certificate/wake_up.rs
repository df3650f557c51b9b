//! `every-deadline` by a server whose period begins when work comes: what may come in one is done by its end.
//!
//! A constant_bandwidth server that wakes at t with q left until d goes on with them only if q/(d − t) ≤ B/P; else it has B
//! until t + P. Let B be at least what may come in any P. In a period that begins with work nothing is left from before: what
//! comes in it is at most B, and EDF supplies B by its end to a server that has work; so all that comes is done by then, or
//! the server sleeps. What wakes it meanwhile finds B less what was used, which came in the same P; so it is enough, too.

use super::broken::Broken;
use super::exact::work;
use giusto_model::{Duration, Point, Server, Task};

/// Whether `budget` is enough for all that may come in a period and the `latency`, and these end before each deadline.
pub(super) fn check(
    tasks: &[Task],
    server: Server,
    budget: Duration,
    latency: Duration,
    points: &[Point],
    until: Option<Duration>,
) -> Result<usize, Broken> {
    let ([point], None) = (points, until) else {
        return Err(Broken::new("one window, a period and the latency", 1, points.len()));
    };
    let window = server.period.checked_add(latency).unwrap_or(Duration::from_ns(u64::MAX));
    if point.at != window || point.supply != budget {
        let expected = format!("{window} with {budget}");
        return Err(Broken::new("a window of a period and the latency, with what is counted on", expected, point.at));
    }
    if let Some(task) = tasks.iter().find(|task| task.deadline < window) {
        return Err(Broken::new(
            format!("a deadline of task '{}' after its work is done", task.name),
            window,
            task.deadline,
        ));
    }
    let asked: u128 = tasks.iter().map(|task| u128::from(window.ns().div_ceil(task.period.ns())) * work(task)).sum();
    if asked != u128::from(point.demand.ns()) {
        return Err(Broken::new("work asked for", format!("{asked} ns"), point.demand).at(window.ns()));
    }
    if asked > u128::from(budget.ns()) {
        return Err(Broken::new("processor time for its work", format!("{asked} ns"), budget).at(window.ns()));
    }
    Ok(1)
}
