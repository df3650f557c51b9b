//! An ensemble's promise: the longest recovery, added up vote by vote and write by write.

use super::broken::{long_enough, Broken};
use super::raft;
use super::silence;
use giusto_model::{CoordinationPlan, Duration, Epochs, Member, RecoveryTimes, ZooKeeperPlan};
use serde::Serialize;

/// An ensemble that keeps its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedEnsemble {
    /// Its servers.
    pub servers: usize,
    /// The longest recovery.
    #[serde(rename = "bound_ns")]
    pub bound: Duration,
}

pub(super) fn check(plan: &CoordinationPlan) -> Result<CheckedEnsemble, Broken> {
    apart(plan.servers())?;
    match plan {
        CoordinationPlan::ZooKeeper(own) => zookeeper(own)?,
        CoordinationPlan::Etcd(own) => raft::check(own)?,
    }
    if plan.bound() > plan.recovery() {
        return Err(Broken::new("the promised recovery of the ensemble", plan.bound(), plan.recovery()));
    }
    Ok(CheckedEnsemble { servers: plan.servers().len(), bound: plan.bound() })
}

fn apart(servers: &[Member]) -> Result<(), Broken> {
    let hosts: std::collections::BTreeSet<&str> = servers.iter().map(|member| member.host.as_str()).collect();
    if hosts.len() < 3 || hosts.len() != servers.len() {
        return Err(Broken::new(
            "hosts of the ensemble, one for each of three servers or more",
            servers.len().max(3),
            hosts.len(),
        ));
    }
    Ok(())
}

fn zookeeper(plan: &ZooKeeperPlan) -> Result<(), Broken> {
    let RecoveryTimes { leave, jitter, delay, message, recover, learner, write } = plan.times;
    let ns = |time: Duration| u128::from(time.ns());
    let (wait, spread) = (ns(plan.wait), ns(jitter) + ns(delay));
    if wait <= spread || plan.wait > Duration::from_ms(200) {
        let needed = format!("more than {spread} ns, at most 200 ms");
        return Err(Broken::new("a wait in which all votes come (5.2)", needed, plan.wait));
    }
    let left = plan.servers.len() - 1;
    // A server with the i-th largest vote tells i votes; the server that is last handles them, then the leader does.
    let votes = (1..=left as u128).map(|place| 2 * place * ns(message)).sum::<u128>();
    // Its vote comes too early for who is last (d), whose vote comes back (j, d), to be answered.
    let election = ns(jitter) + ns(delay) + ns(delay) + votes + wait;
    let writes = match plan.epochs {
        Epochs::Strict => ns(write) + ns(write) + ns(write),
        Epochs::Reserve => ns(write),
        Epochs::Overlap => 0,
    };
    let learners = (0..left).map(|_| ns(learner)).sum::<u128>();
    let bound = ns(delay) + ns(leave) + election + ns(recover) + learners + writes;
    let first_write = bound + 2 * (2 * ns(delay) + ns(learner) + ns(write));
    let silence = ns(plan.tick) * u128::from(plan.sync_limit);
    let lost = match &plan.silence {
        None => bound + silence,
        // Known to all by then, instead of by the first one that sees a closed connection, and the last.
        Some(own) => bound - ns(delay) - ns(jitter) + silence::check(plan, own, silence)?,
    };
    long_enough([
        ("longest recovery of the ensemble", plan.bound, bound),
        ("longest time to its first write", plan.first_write, first_write),
        ("longest recovery where a machine is lost", plan.machine_loss, lost),
    ])?;
    let promised = plan.silence.and_then(|own| own.asked.machine_loss);
    match promised.filter(|promised| plan.machine_loss > *promised) {
        None => Ok(()),
        Some(promised) => {
            Err(Broken::new("the promised recovery where a machine is lost", plan.machine_loss, promised))
        }
    }
}
