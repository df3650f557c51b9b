//! A task set that is tested on many resources, for the answer alone.

use super::exact::Load;
use super::lines::{due_lines, Line};
use super::{check, edf, fixed, most_steps, prove, Resource, ResourceError, Scheduler};
use crate::Error;
use giusto_model::{Duration, Task};

/// Checked tasks, with all that a test needs of them and not of the resource.
pub struct Prepared {
    tasks: Vec<Task>,
    scheduler: Scheduler,
    latency: Duration,
    demand: Demand,
}

enum Demand {
    Edf(Vec<Line>, Load),
    /// By priority.
    Fixed(Vec<usize>, Vec<Line>),
}

impl Prepared {
    /// Errors: an impossible task, a period or an execution time that is too long. O(n log n).
    pub fn new(tasks: Vec<Task>, scheduler: Scheduler, latency: Duration) -> Result<Self, Error> {
        check(&tasks)?;
        let demand = match scheduler.order(&tasks) {
            None => Demand::Edf(due_lines(&tasks)?, Load::new(&tasks)),
            Some(order) => {
                let lines = fixed::in_order(&tasks, &order)?;
                Demand::Fixed(order, lines)
            }
        };
        Ok(Prepared { tasks, scheduler, latency, demand })
    }

    /// Whether [`schedulable`](super::schedulable) finds a certificate for it. No witness is looked for and no point is
    /// kept, which takes several times less. Errors: the same.
    pub fn kept_by(&self, resource: &Resource) -> Result<bool, Error> {
        resource.validate_for(&self.tasks)?;
        if matches!(resource, Resource::Multi { .. }) {
            return Err(ResourceError::Cores.into());
        }
        let answer = match &self.demand {
            Demand::Edf(lines, load) => edf::keeps(&self.tasks, (lines, load), resource, self.latency)?,
            Demand::Fixed(order, lines) => Some(fixed::keeps(&self.tasks, order, lines, resource, self.latency)?),
        };
        match answer {
            Some(answer) => Ok(answer),
            None => {
                let left = &mut most_steps(self.scheduler);
                Ok(prove(&self.tasks, self.scheduler, resource, self.latency, left)?.is_ok())
            }
        }
    }
}
