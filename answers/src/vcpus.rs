//! `giusto analyze interface --scheduler global-edf`: virtual CPUs that share the tasks.

use crate::{falls_short, named, Error};
use giusto_analysis::admission::Grids;
use giusto_analysis::interface::default_quantum;
use giusto_analysis::interface::multi::{least_budget, least_cores, optimum, schedulable, Short, Total, Vcpus, Wanted};
use giusto_model::{Duration, Task};
use giusto_planner::share as percent;
use serde::Serialize;

/// What `--scheduler` calls it.
pub const GLOBAL_EDF: &str = "global-edf";

/// Which virtual CPUs are asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The tasks; their names do not count.
    pub tasks: Vec<Task>,
    /// How many; `None`: the fewest of the period.
    pub vcpus: Option<u32>,
    /// `None`: the one that needs least bandwidth.
    pub period: Option<Duration>,
    /// `None`: [`default_quantum`].
    pub quantum: Option<Duration>,
    /// How late the host's supply may come once in any window.
    pub latency: Duration,
}

/// What was found; `formats/interface.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    scheduler: &'static str,
    /// The virtual CPUs.
    #[serde(flatten)]
    pub found: Vcpus,
    /// In steps of which their budgets are.
    pub quantum_ns: Duration,
    latency_ns: Duration,
}

impl Question {
    /// The least bandwidth of the virtual CPUs that were asked for, or the fewest of a given period.
    ///
    /// # Errors
    /// Tasks that do not fit on so many; neither a number nor a period; tasks and times that make no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let tasks = named(&self.tasks);
        let quantum = self.quantum.unwrap_or_else(|| default_quantum(&tasks));
        // Apart holds for grids that are aligned too.
        let wanted = Wanted { cores: self.vcpus.unwrap_or(1), quantum, grids: Grids::Apart, latency: self.latency };
        let found = match (self.vcpus, self.period) {
            (Some(_), Some(period)) => least_budget(&tasks, period, &wanted),
            (Some(_), None) => {
                let longest = tasks.iter().map(|task| task.period).max().unwrap_or(quantum);
                optimum(&tasks, quantum, longest.max(quantum), &wanted)
            }
            (None, Some(period)) => least_cores(&tasks, period, &wanted),
            (None, None) => {
                let why = "expected --vcpus N, or --period TIME for the fewest virtual CPUs of that period";
                return Err(Error::input(why));
            }
        };
        let found = found.map_err(Error::input)?;
        let Some(found) = found else { return Err(refused(&tasks, &wanted, self.vcpus)) };
        Ok(Answer { scheduler: GLOBAL_EDF, found, quantum_ns: quantum, latency_ns: self.latency })
    }
}

/// Why not even whole cores are enough.
fn refused(tasks: &[Task], wanted: &Wanted, asked: Option<u32>) -> Error {
    let copies: u32 = tasks.iter().fold(0, |all, task| all.saturating_add(task.copies));
    let cores = asked.unwrap_or(copies).max(1);
    let budgets = vec![wanted.quantum; cores as usize];
    let whole = Total { period: wanted.quantum, budgets, grids: wanted.grids };
    let resource = format!("{cores} whole virtual {}", if cores == 1 { "CPU" } else { "CPUs" });
    match schedulable(tasks, &whole, wanted.latency) {
        Err(error) => Error::input(error),
        Ok(Err(Short::Bandwidth { demand, .. })) => Error::does_not_fit(format!(
            "the tasks need {} of a core and {cores} virtual {} give less or just that: give more with --vcpus",
            percent(demand),
            if cores == 1 { "CPU" } else { "CPUs" }
        )),
        Ok(Err(Short::Window(shortfall))) => falls_short(tasks, &resource, &shortfall),
        Ok(Ok(_)) => Error::does_not_fit(format!(
            "no budget in whole steps of {} is enough for that period: take a shorter --period or a finer --quantum",
            wanted.quantum
        )),
    }
}
