//! `every-deadline` by a server whose period begins when work comes, of tasks whose releases are whole periods apart.
//!
//! Let all releases come at g, g + P, g + 2P, …, each seen at most L late, and let no job wait for something else in its midst.
//! Then each period of the server begins at most L after one of these instants. One that begins with work does so; one that
//! follows another does as that one did. A server that wakes before its deadline d goes on with what it has left until d, no
//! more than L later, and has B in the period from there on; or it begins anew. So, from a release that finds nothing of a
//! task's work or what goes before it pending, at least ⌊t/P⌋ B + (t mod P − (P − B))⁺ comes within L + t: the supply of
//! windows that begin with a period.

use super::broken::Broken;
use super::demand::Counted;
use giusto_model::{Duration, Release, Server, Task};

/// What is counted on, where the period divides the time between any two releases and is not below the latency.
pub(super) fn supply(tasks: &[Task], server: Server, budget: Duration, latency: Duration) -> Result<Counted, Broken> {
    let period = server.period.ns();
    if let Some(task) = tasks.iter().find(|task| task.release != Release::KeptOffset) {
        return Err(Broken::new(format!("when task '{}' is released", task.name), "at a kept offset", "sporadic"));
    }
    let first = tasks.first().map_or(0, |task| task.offset.ns());
    for task in tasks {
        let apart = [task.period.ns(), task.offset.ns().abs_diff(first)];
        if let Some(apart) = apart.into_iter().find(|apart| period == 0 || apart % period != 0) {
            let what = format!("releases of task '{}' whole periods of its server from all others", task.name);
            return Err(Broken::new(what, format!("a multiple of {}", server.period), Duration::from_ns(apart)));
        }
    }
    if latency > server.period {
        return Err(Broken::new("a latency within a period of its server", server.period, latency));
    }
    Ok(Counted { gaps: 1, ..Counted::new(server, budget, latency) })
}
