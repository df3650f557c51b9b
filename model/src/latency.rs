//! How late threads of the highest priority run on a host: what `giusto measure latency` writes and `giusto plan --latency`
//! reads (`formats/latency.md`), and what of it a plan rests on.

use crate::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the file's format (`formats/latency.schema.json`).
pub const LATENCY_VERSION: u32 = 1;

/// Latency L = t' − t: between the instant at which a periodic thread expects to run and that at which it does (Abe22,
/// "Latency"), by core, period and load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// [`LATENCY_VERSION`].
    pub giusto_latency: u32,
    /// SCHED_FIFO priority of the threads.
    pub priority: u8,
    /// How long each run was asked to be.
    #[serde(rename = "length_ns")]
    pub length: Duration,
    /// Each core at each period under each load, in the order in which they were measured.
    pub runs: Vec<LatencyRun>,
    /// What of the kernel and the machine matters to it.
    pub machine: LatencyMachine,
    /// What of L could be told apart, and what would have to be there to tell more.
    pub split: String,
    /// Why nothing follows from it: what was taken from the machine meanwhile. `None`: nothing above the limit was.
    pub void: Option<String>,
    /// Whether a promise of 1 ms can be kept.
    pub verdict: LatencyVerdict,
    /// What a guest measured of itself at the same time.
    pub guest: Option<Box<Guest>>,
    /// What Giusto's manager makes late and leaves out, under each load; empty: not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manager: Vec<ManagerRun>,
}

/// How far a supply is behind one that gives the budget at the beginning of each window: `loss` less of each, and all that is
/// left `late` later, at most. It says something of a server that has the highest priority on its core when its windows
/// begin; of others it says how long they wait, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behind {
    /// The mean that windows lacked of the budget, in the worst hundred in a row.
    #[serde(rename = "loss_ns")]
    pub loss: Duration,
    /// How long 99 of 100 windows' supplies were held up, at most: what belongs to each period.
    #[serde(rename = "usual_ns")]
    pub usual: Duration,
    /// Most that a window's supply was held up, and most that windows in a row lacked beyond `loss` each, together.
    #[serde(rename = "late_ns")]
    pub late: Duration,
}

/// What a server of Giusto's manager gave to a program that never rests, with the highest priority on its core and two other
/// servers beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerRun {
    /// The core.
    pub core: u32,
    /// What else ran there.
    pub load: Stress,
    /// Its budget.
    #[serde(rename = "budget_ns")]
    pub budget: Duration,
    /// Its period.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// How many periods.
    pub periods: u64,
    /// What the manager took of its core for each period of a server, on average; `None`: an earlier version measured.
    #[serde(rename = "cost_ns", default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Duration>,
    /// How far what it got is behind budgets that come when periods begin.
    pub behind: Behind,
    /// What a hypervisor took from the core meanwhile; `None`: it does not tell.
    #[serde(rename = "steal_ns")]
    pub steal: Option<Duration>,
}

/// A guest's own measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// The command that made it.
    pub command: String,
    /// What it printed.
    pub latency: Latency,
}

/// What else ran on the measured cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stress {
    /// Nothing of ours.
    Quiet,
    /// Processes without a real-time priority that compute, call the kernel, fork, fault pages in and send over the loopback.
    Stress,
}

impl fmt::Display for Stress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Stress::Quiet { "quiet" } else { "stress" })
    }
}

/// One core at one period under one load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyRun {
    /// The core.
    pub core: u32,
    /// Between two activations.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// What else ran.
    pub load: Stress,
    /// Activations, each with its latency; one that passed before the thread ran counts with how long ago that was.
    pub activations: u64,
    /// Of these, the ones that passed so.
    pub passed: u64,
    /// Least, percentiles and most.
    pub latency: LatencySpread,
    /// `[n, count]`: so many activations with a latency of n to n + 1 us, ascending; only counts above 0.
    pub histogram: Vec<(u64, u64)>,
    /// L¹ and below: from the instant that was asked for until the thread was ready. `None`: the kernel does not tell.
    pub until_ready: Option<LatencySpread>,
    /// From ready until it ran: sections that cannot be preempted (L²), and who has a higher priority still (I).
    pub until_run: Option<LatencySpread>,
    /// What a hypervisor took from the core meanwhile, in the kernel's ticks; `None`: it does not tell.
    #[serde(rename = "steal_ns")]
    pub steal: Option<Duration>,
}

/// Latencies, by nearest rank; percentiles rounded up to a us, but never above the most, which is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySpread {
    /// Least.
    #[serde(rename = "min_ns")]
    pub min: Duration,
    /// Median.
    #[serde(rename = "p50_ns")]
    pub p50: Duration,
    /// 99th percentile.
    #[serde(rename = "p99_ns")]
    pub p99: Duration,
    /// 99.9th percentile.
    #[serde(rename = "p99_9_ns")]
    pub p99_9: Duration,
    /// 99.99th percentile.
    #[serde(rename = "p99_99_ns")]
    pub p99_99: Duration,
    /// Most.
    #[serde(rename = "max_ns")]
    pub max: Duration,
}

/// What of the kernel and the machine matters to latency. `None`: this machine does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyMachine {
    /// Release of the kernel.
    pub kernel: String,
    /// `none`, `voluntary`, `full`, `lazy` or `rt`.
    pub preemption: Option<String>,
    /// Whether that can be chosen at boot (PREEMPT_DYNAMIC).
    pub dynamic: bool,
    /// Ticks in a second.
    pub hz: Option<u64>,
    /// Idle states of the first measured core.
    pub idle_states: Vec<IdleState>,
    /// Of [`LatencyMachine::rt_period`], what all real-time threads of a core may run; `None` also: they are not throttled.
    #[serde(rename = "rt_runtime_ns")]
    pub rt_runtime: Option<Duration>,
    /// Over which that is counted.
    #[serde(rename = "rt_period_ns")]
    pub rt_period: Option<Duration>,
    /// What the fair server of the first measured core takes from real-time threads in each of its periods.
    #[serde(rename = "fair_server_ns")]
    pub fair_server: Option<Duration>,
    /// `isolcpus=`, as the kernel lists it.
    pub isolated: String,
    /// `nohz_full=`, as the kernel lists it.
    pub nohz_full: String,
    /// Clock source.
    pub clocksource: Option<String>,
    /// Of the first measured core.
    pub governor: Option<String>,
    /// Whether this is a guest of a hypervisor.
    pub virtualised: bool,
    /// Timer slack of threads without a real-time priority; those with one have none.
    #[serde(rename = "timer_slack_ns")]
    pub timer_slack: Option<Duration>,
    /// Whether the memory of the threads was locked.
    pub locked: bool,
}

/// An idle state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// How long it takes to leave it, as the kernel says.
    #[serde(rename = "exit_ns")]
    pub exit: Duration,
}

/// Whether a host can keep a promise of 1 ms, and what it could keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyVerdict {
    /// Whether the worst latency is below 1 ms.
    pub one_ms: Answer,
    /// The worst of all runs.
    #[serde(rename = "worst_ns")]
    pub worst: Duration,
    /// The smallest whole number of ms that is above the worst; `None`: cannot tell.
    pub smallest_ms: Option<u64>,
    /// The same, in words.
    pub words: String,
    /// What to change on the machine, what should help most first.
    pub change: Vec<String>,
}

/// Yes, no, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// What was measured does not say.
    CannotTell,
}

/// The latency of a host that its plan rests on, and where it is from.
///
/// It is the most that any of its cores had at [`HostLatency::period`] or a longer period, under any load that was measured.
/// The period is the longest that was measured which is no longer than [`HostLatency::shortest`]: no timer of the plan is set
/// more often, and what a timer costs that is set more often does not matter. Longer periods do: cores sleep deeper in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLatency {
    /// L.
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// Allowed for in any case: the lateness that the enforcing mechanism itself causes. Certificates count on nothing in the
    /// first `latency` + `allowance` of a window.
    #[serde(rename = "allowance_ns")]
    pub allowance: Duration,
    /// The shortest period of the plan: of its tasks, of supplies that were promised, of servers.
    #[serde(rename = "shortest_ns")]
    pub shortest: Duration,
    /// The shortest period that was measured and counts.
    #[serde(rename = "period_ns")]
    pub period: Duration,
    /// Whether it was measured under stress, too.
    pub stressed: bool,
    /// The worst of each core of the host, in their order.
    pub cores: Vec<CoreLatency>,
    /// What was measured of the manager, which servers under it do without instead of what is assumed of any machine;
    /// `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerLatency>,
}

/// What servers under the manager do without, as it was measured on their host: the worst of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagerLatency {
    /// Of each budget.
    #[serde(rename = "loss_ns")]
    pub loss: Duration,
    /// Once in any window, on top of the host's latency: what is usual. What was rare is in that latency.
    #[serde(rename = "late_ns")]
    pub late: Duration,
    /// In how many periods of a server.
    pub periods: u64,
    /// What the manager takes of a core for each period of a server; `None`: not measured.
    #[serde(rename = "cost_ns", default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Duration>,
}

/// The worst of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreLatency {
    /// The core.
    pub core: u32,
    /// Its worst.
    #[serde(rename = "worst_ns")]
    pub worst: Duration,
}
