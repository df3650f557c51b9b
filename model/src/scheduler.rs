//! Who goes first among the tasks of a component.

use crate::Task;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The scheduler inside a component, on one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Rate monotonic: shorter period first; ties in the order of the list.
    Rm,
    /// Deadline monotonic: shorter relative deadline first; ties in the order of the list.
    Dm,
    /// Earliest deadline first.
    Edf,
}

impl Scheduler {
    /// The places of `tasks` from the highest to the lowest priority; `None` under EDF.
    pub fn order(self, tasks: &[Task]) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        match self {
            Scheduler::Rm => order.sort_by_key(|&i| tasks[i].period), // stable
            Scheduler::Dm => order.sort_by_key(|&i| tasks[i].deadline),
            Scheduler::Edf => return None,
        }
        Some(order)
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Scheduler::Rm => "rm",
            Scheduler::Dm => "dm",
            Scheduler::Edf => "edf",
        })
    }
}

impl FromStr for Scheduler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Scheduler::Rm, Scheduler::Dm, Scheduler::Edf];
        let found = all.into_iter().find(|scheduler| scheduler.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is not a scheduler; expected one of rm, dm, edf"))
    }
}

/// What is known of the order in which a service or virtual machine runs its own jobs. In files a text such as `"edf"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum GuestScheduler {
    /// Nothing, but that it does not rest while a job is pending: first come first served, threads that take turns, anything.
    Any,
    /// This one, preemptive; on each virtual CPU by itself.
    Own(Scheduler),
}

impl GuestScheduler {
    /// All of them.
    pub const ALL: [GuestScheduler; 4] = [
        GuestScheduler::Any,
        GuestScheduler::Own(Scheduler::Rm),
        GuestScheduler::Own(Scheduler::Dm),
        GuestScheduler::Own(Scheduler::Edf),
    ];
}

impl fmt::Display for GuestScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestScheduler::Any => f.pad("any"),
            GuestScheduler::Own(scheduler) => scheduler.fmt(f),
        }
    }
}

impl FromStr for GuestScheduler {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = GuestScheduler::ALL.map(|scheduler| scheduler.to_string()).join(", ");
        let found = GuestScheduler::ALL.into_iter().find(|scheduler| scheduler.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is not a scheduler; expected one of {names}"))
    }
}

impl TryFrom<String> for GuestScheduler {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<GuestScheduler> for String {
    fn from(scheduler: GuestScheduler) -> String {
        scheduler.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_have_one_name_for_people_and_files() {
        for scheduler in GuestScheduler::ALL {
            assert_eq!(scheduler.to_string().parse(), Ok(scheduler));
        }
        assert!("cfs".parse::<GuestScheduler>().unwrap_err().contains("any, rm, dm, edf"));
    }

    #[test]
    fn shorter_goes_first_and_ties_stay_in_the_order_of_the_list() {
        let tasks: Vec<Task> =
            ["1ms/9ms@3ms", "1ms/5ms", "1ms/9ms@2ms", "1ms/5ms@3ms"].map(|t| t.parse().unwrap()).into();
        assert_eq!(Scheduler::Rm.order(&tasks), Some(vec![1, 3, 0, 2]));
        assert_eq!(Scheduler::Dm.order(&tasks), Some(vec![2, 0, 3, 1]));
        assert_eq!(Scheduler::Edf.order(&tasks), None);
    }
}
