//! What can be recorded of the services of a running giusto.

use crate::ObservedBy;
use giusto_compute::BudgetSource;
use giusto_measure::passive::Jobs;
use std::collections::BTreeMap;

/// Everything that is told one by one while it is recorded.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Requests and jobs.
    pub jobs: Vec<JobSource>,
    /// Budgets of managers.
    pub budgets: Vec<BudgetSource>,
}

/// Requests, or jobs.
#[derive(Clone, Debug)]
pub struct JobSource {
    /// Where they are read.
    pub jobs: Jobs,
    /// Requests or wake-ups.
    pub by: ObservedBy,
    /// The services that are observed so, by their number there; and how long their jobs may take, in ns, where that was
    /// promised.
    pub services: BTreeMap<usize, (String, Option<u64>)>,
}
