//! What a running giusto tells about itself: `giusto status --json`, the control socket and the metrics are all this.
//!
//! Filled in by the stage ([`crate::Stage::report`]). What a backend cannot know is `None`: the kernel does not
//! count how often it throttled a SCHED_DEADLINE task, the user-space manager does. Form: formats/status.schema.json.

use crate::{LinkStatus, ModesStatus, ObservedStatus, PathStatus, ResponseStatus, SupplyStatus};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of this form.
pub const STATUS_VERSION: u32 = 1;

/// One look at a running giusto.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// [`STATUS_VERSION`].
    pub giusto: u32,
    /// Its release.
    pub version: String,
    /// The host of the plan in force.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When it started, in Unix time.
    pub since_ns: u64,
    /// What it is doing.
    pub state: State,
    /// Processor time that giusto itself took since it started: all its threads and its watchdog.
    #[serde(default)]
    pub cpu_ns: u64,
    /// Part of a core that it took in the last second.
    #[serde(default)]
    pub cpu_recent: f64,
    /// Which backend enforces and why, a line each.
    pub notes: Vec<String>,
    /// Services and their vCPUs, in the order of the plan.
    pub services: Vec<ServiceStatus>,
    /// Promises over several services, in the order of the plan; not written where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathStatus>,
    /// Cores with a reservation.
    pub cores: Vec<CoreStatus>,
    /// Interfaces whose packets are looked after, uplinks first; not written where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<LinkStatus>,
    /// The modes of this host; not written where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<ModesStatus>,
    /// Services that were planned anew since they asked for more, the last ones; not written where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adaptations: Vec<Adaptation>,
    /// How sending to a collector of OpenTelemetry goes; not written where that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpStatus>,
    /// What is wrong now, each with what to do; not empty: [`State::Degraded`].
    pub warnings: Vec<String>,
}

/// How sending to a collector of OpenTelemetry goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtlpStatus {
    /// Where.
    pub to: String,
    /// Messages that it took: metrics, and late jobs.
    pub sent: u64,
    /// Late jobs and messages of metrics that were dropped: there was no room for them, or it refused them.
    pub dropped: u64,
    /// Why the last message was not taken; `None`: it was.
    pub problem: Option<String>,
}

/// Where a giusto is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not everything is in its place yet.
    Starting,
    /// The plan is in force.
    Enforcing,
    /// Something of the plan is not in force; the warnings say what.
    Degraded,
    /// It is leaving the host as it was.
    Stopping,
}

/// A service, or one vCPU of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceStatus {
    /// Its name in the site file.
    pub name: String,
    /// Which of its vCPUs, where it is a virtual machine.
    pub vcpu: Option<u32>,
    /// What it was promised, as the site file calls it.
    pub promise: String,
    /// Its core; `None` if it has several.
    pub core: Option<u32>,
    /// Who enforces its server; `None` if it has none and gets what is left.
    pub backend: Option<String>,
    /// Its server's algorithm.
    pub kind: Option<String>,
    /// B.
    pub budget_ns: Option<u64>,
    /// P.
    pub period_ns: Option<u64>,
    /// Its threads now.
    pub threads: u32,
    /// What is left of the budget; negative where it overran.
    pub left_ns: Option<i64>,
    /// Processor time that it got since giusto started.
    pub supplied_ns: u64,
    /// Part of a core that it got in the last second.
    pub supplied_recent: f64,
    /// Budgets given so far.
    pub replenishments: Option<u64>,
    /// How often it was throttled so far.
    pub depletions: Option<u64>,
    /// The most it ever had beyond a budget.
    pub overrun_max_ns: Option<u64>,
    /// How often it was not stopped in time: it had 10 ms and a budget more than its budget.
    #[serde(default)]
    pub late_stops: Option<u64>,
    /// Processor time that it got above its server, because a mode or an agent asked for it.
    pub boosted_ns: Option<u64>,
    /// What it is doing.
    pub state: ServiceState,
    /// Periods throughout which it wanted the core and did not get its budget.
    pub misses: Option<u64>,
    /// Its mode.
    pub mode: Option<String>,
    /// How often it was started again; not written where giusto did not start it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u64>,
    /// How it ended the last time; not written where it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// Processes of it that had left its cgroup and were brought back; not written where giusto did not start it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escaped: Option<u64>,
    /// What it asks for beside what was planned for; not written where no demand is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<DemandStatus>,
    /// What is observed of it, and why; not written before the first look, and of virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedStatus>,
    /// What it got in each period; not written where its backend does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply: Option<SupplyStatus>,
    /// What its requests or jobs took; not written where there were none, or nothing is seen of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses: Option<ResponseStatus>,
}

/// What a service asks for beside what was planned for it; both are shares of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemandStatus {
    /// What was planned for.
    pub planned: f64,
    /// What it took lately: about two seconds.
    pub recent: f64,
    /// Since when it has asked for more than planned, in Unix time; `None`: it does not.
    pub drifted_since_ns: Option<u64>,
    /// How often it began to under this plan.
    pub alarms: u64,
}

/// A service that was planned anew since it asked for more, or less again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptation {
    /// When, in Unix time.
    pub at_ns: u64,
    /// Which.
    pub service: String,
    /// Its share of a core before ...
    pub from: f64,
    /// ... and since.
    pub to: f64,
    /// Why, in words.
    pub why: String,
}

/// What a service is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    /// It has its core, or wants it: what cannot tell the two apart says this.
    Running,
    /// It wants its core, and another that precedes it has it.
    Ready,
    /// It wants nothing.
    #[default]
    Idle,
    /// It wants its core and its budget is used up.
    Throttled,
    /// It has ended, and is started again soon.
    Restarting,
    /// Giusto did not start it, it has ended, and it is looked for.
    Awaited,
    /// It has ended, and does not come back.
    Ended,
}

/// A core with a reservation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreStatus {
    /// Which.
    pub core: u32,
    /// Who enforces on it.
    pub backend: Option<String>,
    /// Part of it that the manager itself took in the last second.
    pub manager_cost: Option<f64>,
    /// Processor time that the manager took since giusto started.
    pub manager_cpu_ns: Option<u64>,
    /// The manager's wake-ups a second.
    pub wakeups_per_s: Option<f64>,
    /// How late it woke up in the last second, mean.
    pub lateness_mean_ns: Option<u64>,
    /// ... and at most.
    pub lateness_max_ns: Option<u64>,
    /// How often its servers were stopped because the manager was late.
    #[serde(default)]
    pub guarded: Option<u64>,
    /// Where services have criticality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criticality: Option<CoreCriticality>,
}

/// The mode of a core whose services have criticality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreCriticality {
    /// It is in HI now: a service of high criticality needs more than usual, and those of low criticality get what is left.
    pub is_hi: bool,
    /// How long it has been in HI since giusto took the core over.
    pub hi_ns: u64,
    /// How often it went there.
    pub switches: u64,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Starting => "starting",
            State::Enforcing => "enforcing",
            State::Degraded => "degraded",
            State::Stopping => "stopping",
        })
    }
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ServiceState::Running => "running",
            ServiceState::Ready => "ready",
            ServiceState::Idle => "idle",
            ServiceState::Throttled => "throttled",
            ServiceState::Restarting => "restarting",
            ServiceState::Awaited => "awaited",
            ServiceState::Ended => "ended",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_is_read_and_written_back_as_it_stands() {
        let golden = include_str!("../../formats/goldens/status.json");
        let status: Status = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_string_pretty(&status).unwrap(), golden.trim_end());
        assert!(serde_json::from_str::<Status>(&golden.replacen("\"pid\"", "\"pit\"", 1)).is_err());
    }
}
