//! What the studies of M2-Xen share: virtual machines with two modes [LiH21, § 2.5.1].

pub(crate) mod deadline_misses;
pub(crate) mod latency;
pub(crate) mod static_cost;

use crate::Error;
use giusto_model::{Duration, Release, Server, ServerKind, Task};
use giusto_modes::{OnTimeout, Policy, Requests, Settings, Transition};
use giusto_simulator::modes::{Costs, Scene, VmMode};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Cores for virtual machines, virtual CPUs of each, and the period of all of them.
pub(crate) const CORES: u32 = 15;
pub(crate) const VCPUS: usize = 3;
pub(crate) const PERIOD: Duration = Duration::from_ms(5);

/// What messages, switches and changes of reservations take.
pub(crate) fn costs() -> Result<Costs, Error> {
    serde_json::from_str(include_str!("../../m2-latency/costs.json")).map_err(Error::machine)
}

/// The virtual CPUs of `vms` machines in one mode: the share of a core of each, the same in a machine, all of them
/// `total` cores. A machine gets 0.3 to 1 part, uniform, and none more than 95 % of a core for each of its virtual
/// CPUs; then shares are drawn anew.
pub(crate) fn shares(vms: usize, total: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    loop {
        let parts: Vec<f64> = (0..vms).map(|_| rng.random_range(0.3..1.0)).collect();
        let unit = total / VCPUS as f64 / parts.iter().sum::<f64>();
        let shares: Vec<f64> = parts.iter().map(|part| part * unit).collect();
        if shares.iter().all(|&share| share <= 0.95) {
            return shares;
        }
    }
}

/// A machine in a mode: its share of a core, whole us of budget, and for each virtual CPU one to three tasks of 100 to
/// 1000 ms, uniform, that need `of` of it together.
pub(crate) fn mode(share: f64, of: f64, rng: &mut ChaCha8Rng) -> VmMode {
    let budget = Duration::from_us((share * PERIOD.ns() as f64 / 1e3) as u64);
    let server = Server { kind: ServerKind::Deferrable, budget, period: PERIOD };
    let mut vcpu = || {
        let parts: Vec<f64> = (0..rng.random_range(1..=3)).map(|_| rng.random_range(0.2..1.0)).collect();
        let all: f64 = parts.iter().sum();
        let task = |part: &f64| {
            let period = Duration::from_ms(rng.random_range(100..=1000));
            let wcet = (period.ns() as f64 * share * of * part / all / 1e3) as u64;
            task(Duration::from_us(wcet.max(1)), period)
        };
        parts.iter().map(task).collect()
    };
    VmMode { server, tasks: (0..VCPUS).map(|_| vcpu()).collect() }
}

pub(crate) fn task(wcet: Duration, period: Duration) -> Task {
    let (offset, release) = (Duration::ZERO, Release::Sporadic);
    Task { name: String::new(), wcet, period, deadline: period, offset, release, copies: 1 }
}

/// A host with these machines, whose modes change at once.
pub(crate) fn scene(vms: Vec<Vec<VmMode>>, policy: Policy) -> Result<Scene, Error> {
    let settings = Settings {
        policy,
        requests: Requests::Reject,
        on_timeout: OnTimeout::RollBack,
        transition: Transition::Fast,
        timeout: Duration::from_ms(50),
        spacing: Duration::from_ms(10),
        boost: Duration::from_us(500),
    };
    let between = (Duration::from_ms(20), Duration::from_ms(30));
    let (reservations, ends) = (true, false);
    Ok(Scene {
        cores: CORES,
        vms,
        settings,
        reservations,
        costs: costs()?,
        between,
        urgent: None,
        changes: usize::MAX,
        ends,
    })
}
