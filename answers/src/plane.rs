//! `giusto analyze plane`: the pairs of a bandwidth α and a delay Δ that are enough for tasks.

use crate::{falls_short, named, Error};
use giusto_analysis::interface::plane::{plane, Plane};
use giusto_analysis::interface::Scheduler;
use giusto_model::{Bandwidth, Duration, Interface, Task};
use serde::Serialize;

/// Which plane is asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The tasks; their names do not count.
    pub tasks: Vec<Task>,
    /// Inside.
    pub scheduler: Scheduler,
    /// Least bandwidth to begin with; `None`: the least that can be enough.
    pub from: Option<Bandwidth>,
    /// Of a server whose least budget is asked for.
    pub period: Option<Duration>,
    /// Its budget is a multiple of this.
    pub quantum: Duration,
}

/// What was found; `formats/plane.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The boundary.
    #[serde(flatten)]
    pub plane: Plane,
    /// Where its period was given.
    pub server: Option<Server>,
}

/// The server of the period that was asked for.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Server {
    /// Π and Θ
    #[serde(flatten)]
    pub interface: Interface,
    /// Θ/Π
    pub bandwidth: Bandwidth,
    /// Δ = 2(Π − Θ)
    pub delay_ns: u128,
}

impl Question {
    /// The plane.
    ///
    /// # Errors
    /// Tasks that do not fit on a core, with the shortfall as witness; no budget of that quantum; what makes no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let tasks = named(&self.tasks);
        let plane = plane(&tasks, self.scheduler, self.from)
            .map_err(Error::input)?
            .map_err(|shortfall| falls_short(&tasks, "a whole core", &shortfall))?;
        let server = self.period.map(|period| server(&plane, period, self.quantum)).transpose()?;
        Ok(Answer { plane, server })
    }
}

fn server(plane: &Plane, period: Duration, quantum: Duration) -> Result<Server, Error> {
    let budget = plane.least_budget(period, quantum).map_err(Error::input)?.ok_or_else(|| {
        let fit = "a whole core is: take a period that is a multiple of it";
        Error::does_not_fit(format!("no whole number of {quantum} within {period} is enough, and {fit}"))
    })?;
    let interface = Interface { budget, period };
    let delay_ns = 2 * u128::from(period.ns() - budget.ns());
    Ok(Server { interface, bandwidth: interface.bandwidth(), delay_ns })
}
