//! An ensemble of coordination servers, what it was promised, and what of its recovery is known; here ZooKeeper's, etcd's
//! beside it.

use crate::{Duration, Etcd, EtcdPlan, Member, Reason};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest that any server waits for votes: stock ZooKeeper's `finalizeWait`.
pub const STOCK_WAIT: Duration = Duration::from_ms(200);
/// Added to j + d where servers measure both: `giusto.margin` when it is not written.
pub const WAIT_MARGIN: Duration = Duration::from_ms(4);

/// `coordination:` of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordination {
    /// At least three, each on a host of its own.
    pub servers: Vec<Member>,
    /// From the loss of the leader to another that serves, at most: with ZooKeeper of its process, with etcd of whatever.
    pub recovery: Duration,
    /// What they run.
    pub engine: Engine,
}

/// Which servers, with what only they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Giusto's ZooKeeper.
    ZooKeeper(ZooKeeper),
    /// Stock etcd.
    Etcd(Etcd),
}

/// What of an ensemble of ZooKeeper servers is known and wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZooKeeper {
    /// How epochs reach the disk; `None`: the planner chooses.
    pub epochs: Option<Epochs>,
    /// w, fixed, more than j + d and at most [`STOCK_WAIT`]; `None`: servers measure j and d.
    pub wait: Option<Duration>,
    /// What a recovery consists of, measured or the paper's.
    pub times: RecoveryTimes,
    /// When a silent leader is missed.
    pub ticks: Ticks,
    /// Where servers keep their data and reach each other.
    pub places: Places,
}

/// When a silent leader is missed: as the site says, or as its hosts allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// In the site.
    Written {
        /// `tickTime`, whole milliseconds.
        tick: Duration,
        /// `syncLimit`: ticks without a word before a follower or leader counts as lost.
        sync_limit: u32,
    },
    /// The planner chooses them.
    Planned(SilenceAsked),
}

/// Of what ticks are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SilenceAsked {
    /// L: by how much a server that is due runs late, on whatever host.
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// From the loss of the leader, by whatever cause, to another that serves, at most; `None`: nothing is promised, and the
    /// planner takes what is almost the soonest.
    #[serde(rename = "machine_loss_ns")]
    pub machine_loss: Option<Duration>,
}

impl ZooKeeper {
    /// w in a recovery.
    pub fn wait(&self) -> Duration {
        self.times.wait(self.wait)
    }
}

/// Where each server keeps its data, and reaches the others: the same on every host of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// `dataDir`, a full path.
    pub data: String,
    /// Followers reach the leader there.
    pub quorum_port: u16,
    /// Servers elect there.
    pub election_port: u16,
}

impl Default for Places {
    /// As in ZooKeeper's own documentation.
    fn default() -> Self {
        Places { data: "/var/lib/zookeeper".into(), quorum_port: 2888, election_port: 3888 }
    }
}

/// When an epoch is on disk (docs/coordination.md, "Epochs"); all three lose nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Epochs {
    /// Forced when it changes, as stock does.
    Strict,
    /// The next promise is written while the election runs.
    Reserve,
    /// Moreover the epoch that is entered is written while history is transferred.
    Overlap,
}

impl Epochs {
    /// From the slowest recovery to the fastest.
    pub const ALL: [Epochs; 3] = [Epochs::Strict, Epochs::Reserve, Epochs::Overlap];

    /// k: how many forced writes of an epoch a recovery waits for.
    pub fn forced_writes(self) -> u64 {
        match self {
            Epochs::Strict => 3,
            Epochs::Reserve => 1,
            Epochs::Overlap => 0,
        }
    }
}

impl fmt::Display for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Epochs::Strict => "strict",
            Epochs::Reserve => "reserve",
            Epochs::Overlap => "overlap",
        })
    }
}

impl FromStr for Epochs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Epochs::ALL.into_iter().find(|epochs| epochs.to_string() == text);
        found.ok_or_else(|| format!("'{text}' is no way to keep epochs; expected one of strict, reserve, overlap"))
    }
}

/// What a recovery consists of [LiH21, Table 5.1]. The default is the paper's measurement, Table 5.3 and section 5.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryTimes {
    /// s_e: from a broken connection to the first vote.
    #[serde(rename = "leave_ns")]
    pub leave: Duration,
    /// j: how far apart servers notice a dead leader.
    #[serde(rename = "jitter_ns")]
    pub jitter: Duration,
    /// d: how long a message takes at most.
    #[serde(rename = "delay_ns")]
    pub delay: Duration,
    /// h: to handle one vote, with what it makes others answer.
    #[serde(rename = "message_ns")]
    pub message: Duration,
    /// s_r: of the recovery after the election, whatever the number of servers.
    #[serde(rename = "recover_ns")]
    pub recover: Duration,
    /// h_r: of the recovery, for each server left.
    #[serde(rename = "learner_ns")]
    pub learner: Duration,
    /// b: a forced write of an epoch.
    #[serde(rename = "write_ns")]
    pub write: Duration,
}

impl RecoveryTimes {
    /// w: as it was fixed, else j + d and the margin, at most stock's.
    pub fn wait(&self, fixed: Option<Duration>) -> Duration {
        let measured = || self.jitter.checked_add(self.delay)?.checked_add(WAIT_MARGIN);
        fixed.unwrap_or_else(|| measured().map_or(STOCK_WAIT, |wait| wait.min(STOCK_WAIT)))
    }
}

impl Default for RecoveryTimes {
    fn default() -> Self {
        RecoveryTimes {
            leave: Duration::from_ms(35),
            jitter: Duration::from_ms(13),
            delay: Duration::from_ms(3),
            message: Duration::from_ms(3),
            recover: Duration::from_ms(55),
            learner: Duration::from_ms(25),
            // The paper gives no number for b.
            write: Duration::from_ms(5),
        }
    }
}

/// What was decided for an ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
pub enum CoordinationPlan {
    /// Giusto's ZooKeeper.
    ZooKeeper(ZooKeeperPlan),
    /// Stock etcd.
    Etcd(EtcdPlan),
}

impl CoordinationPlan {
    /// Its servers.
    pub fn servers(&self) -> &[Member] {
        match self {
            CoordinationPlan::ZooKeeper(plan) => &plan.servers,
            CoordinationPlan::Etcd(plan) => &plan.servers,
        }
    }

    /// What was promised.
    pub fn recovery(&self) -> Duration {
        match self {
            CoordinationPlan::ZooKeeper(plan) => plan.recovery,
            CoordinationPlan::Etcd(plan) => plan.recovery,
        }
    }

    /// The longest recovery.
    pub fn bound(&self) -> Duration {
        match self {
            CoordinationPlan::ZooKeeper(plan) => plan.bound,
            CoordinationPlan::Etcd(plan) => plan.bound,
        }
    }

    /// Where each number comes from.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            CoordinationPlan::ZooKeeper(plan) => &plan.reasons,
            CoordinationPlan::Etcd(plan) => &plan.reasons,
        }
    }
}

/// What was decided for an ensemble of ZooKeeper servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZooKeeperPlan {
    /// Its servers; the i-th has the id i, from 1.
    pub servers: Vec<Member>,
    /// What was promised.
    #[serde(rename = "recovery_ns")]
    pub recovery: Duration,
    /// How epochs reach the disk.
    pub epochs: Epochs,
    /// w.
    #[serde(rename = "wait_ns")]
    pub wait: Duration,
    /// Whether servers replace w by what they measure of j and d.
    pub adaptive: bool,
    /// What the bound rests on.
    pub times: RecoveryTimes,
    /// `tickTime`.
    #[serde(rename = "tick_ns")]
    pub tick: Duration,
    /// `syncLimit`.
    pub sync_limit: u32,
    /// What tick and sync-limit were planned from, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<SilencePlan>,
    /// Where servers keep their data and reach each other.
    pub places: Places,
    /// T: the death of the leader's process to a leader that serves, at most.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
    /// The same to the first write that is acknowledged to a new session.
    #[serde(rename = "first_write_ns")]
    pub first_write: Duration,
    /// T where the leader's machine dies, or its wire is cut.
    #[serde(rename = "machine_loss_ns")]
    pub machine_loss: Duration,
    /// Where each number comes from.
    pub reasons: Vec<Reason>,
}

/// How a silent leader is missed, where ticks were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SilencePlan {
    /// From what.
    pub asked: SilenceAsked,
    /// A leader steps down where no quorum has answered for so long, before another can be elected.
    #[serde(rename = "step_down_ns")]
    pub step_down: Duration,
}
