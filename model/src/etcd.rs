//! An ensemble of etcd servers: what of its elections is known, and what was decided for it.

use crate::{Duration, Member, Reason};
use serde::{Deserialize, Serialize};

/// What of an ensemble of etcd servers is known and wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// What elections are made of.
    pub times: EtcdTimes,
    /// Where servers keep their data and reach each other.
    pub places: EtcdPlaces,
}

/// What is known of hosts, links and disks, each at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdTimes {
    /// L: by how much a server that is due runs late, on whatever host.
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// d: how long a message is on its way.
    #[serde(rename = "delay_ns")]
    pub delay: Duration,
    /// b: a forced write.
    #[serde(rename = "write_ns")]
    pub write: Duration,
}

impl Default for EtcdTimes {
    /// d and b as ZooKeeper's; L is a guess for hosts whose cores are shared.
    fn default() -> Self {
        EtcdTimes { latency: Duration::from_ms(5), delay: Duration::from_ms(3), write: Duration::from_ms(5) }
    }
}

/// Where each server keeps its data, and reaches the others: the same on every host of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdPlaces {
    /// `data-dir`, a full path.
    pub data: String,
    /// Servers reach each other there.
    pub peer_port: u16,
}

impl Default for EtcdPlaces {
    /// As in Debian's package, and etcd's own port.
    fn default() -> Self {
        EtcdPlaces { data: "/var/lib/etcd/default".into(), peer_port: 2380 }
    }
}

/// What was decided for an ensemble of etcd servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdPlan {
    /// Its servers.
    pub servers: Vec<Member>,
    /// What was promised.
    #[serde(rename = "recovery_ns")]
    pub recovery: Duration,
    /// H: `heartbeat-interval`, whole milliseconds.
    #[serde(rename = "heartbeat_ns")]
    pub heartbeat: Duration,
    /// E: `election-timeout`, a multiple of H.
    #[serde(rename = "election_ns")]
    pub election: Duration,
    /// r: elections within the bound, all but the last of which are split.
    pub rounds: u32,
    /// Of a million recoveries at most so many have more, where d and b are as above.
    pub more_rounds_ppm: u32,
    /// What the bound rests on.
    pub times: EtcdTimes,
    /// Where servers keep their data and reach each other.
    pub places: EtcdPlaces,
    /// T: from the loss of the leader, by whatever cause, to another that serves.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
    /// The same to the first write that is acknowledged.
    #[serde(rename = "first_write_ns")]
    pub first_write: Duration,
    /// Where each number comes from.
    pub reasons: Vec<Reason>,
}
