//! What a manager tells.

use crate::sched::Thread;
use giusto_model::Server;

/// How a manager and its servers stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Its core.
    pub core: u32,
    /// Its servers, in the order in which they were added.
    pub servers: Vec<ServerReport>,
    /// Since it began, in ns.
    pub for_ns: u64,
    /// Processor time that it used itself, in ns.
    pub own_ns: u64,
    /// How often it woke.
    pub wakeups: u64,
    /// How late its timers were on average since the last report, in ns.
    pub late_mean_ns: u64,
    /// The latest since then, in ns.
    pub late_max_ns: u64,
    /// How often its servers were stopped because it was late ([`guard`](super::guard())).
    pub guarded: u64,
    /// Whether the kernel tells when a thread is put into another cgroup. If not, it is noticed when it runs without a budget, at
    /// the manager's next wake-up, within 100 ms.
    pub tells_moves: bool,
    /// Under [`Order::MixedCriticality`](super::Order::MixedCriticality).
    pub core_mode: Option<ModeReport>,
    /// What went wrong since the last report.
    pub warnings: Vec<String>,
}

/// The mode of a core with mixed criticality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeReport {
    /// HI: high servers have their worst budgets, and low ones what is left.
    pub is_hi: bool,
    /// How long it has been in HI since the manager began, in ns.
    pub hi_ns: u64,
    /// How often it went there.
    pub switches: u64,
}

/// How a managed server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// Its number on its core.
    pub server: usize,
    /// The service.
    pub name: String,
    /// Its reservation, or the one that begins with its next period.
    pub reservation: Server,
    /// Its threads, also those that have left their cgroup.
    pub threads: Vec<u32>,
    /// Processor time that its threads have had since it was added, in ns.
    pub supplied_ns: u64,
    /// Budget left, in ns; below 0 is debt, which is repaid.
    pub left_ns: i64,
    /// Consumed boosted beyond its budget, in ns.
    pub boost_ns: u64,
    /// Whether a thread of it runs or waits for the core.
    pub is_ready: bool,
    /// Whether it is kept off the core.
    pub is_throttled: bool,
    /// How often it had used its budget up.
    pub throttled: u64,
    /// The largest consumption beyond a budget, in ns.
    pub overrun_max_ns: u64,
    /// How often it had more than 10 ms and more than a budget beyond its own.
    pub late_stops: u64,
    /// Budgets given.
    pub replenished: u64,
    /// Periods in which it got its whole budget.
    pub full: u64,
    /// Periods throughout which it wanted the core and did not get its budget.
    pub missed: u64,
    /// Events of it that found no room in the buffer (its readiness was then counted anew).
    pub lost: u64,
    /// Its processes that were put into another cgroup since the last report, as far as they are known. Those outside its
    /// own are stopped, if it is to be capped and Giusto started it, until [`Manager::take_in`](super::Manager::take_in) has
    /// brought them back.
    pub moved: Vec<Thread>,
}
