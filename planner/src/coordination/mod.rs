//! The ensemble of a site: a file an engine.

mod etcd;
mod latency;
mod refusal;
mod ticks;
mod zookeeper;

pub use refusal::{Faster, How, SlowRecovery};
pub use zookeeper::slow_to_see;

use crate::refusal::Refusal;
use giusto_model::{Coordination, CoordinationPlan, Duration, Engine};

/// Decides every parameter of the ensemble, or says what would keep its promise. `here`: the latency that was measured of one of
/// its hosts.
pub(crate) fn plan(ensemble: &Coordination, here: Option<(&str, Duration)>) -> Result<CoordinationPlan, Refusal> {
    match &ensemble.engine {
        Engine::ZooKeeper(own) => zookeeper::plan(ensemble, own, here).map(CoordinationPlan::ZooKeeper),
        Engine::Etcd(own) => etcd::plan(ensemble, own, here).map(CoordinationPlan::Etcd),
    }
}
