//! Mode changes in virtual time: the manager and the agents that hosts run, over the policy core. What waits for what
//! comes out of servers, budgets and queues; only the costs of messages, switches and changes are given. Called by
//! studies and tests.

mod guest;
mod host;
mod manager;
mod scene;

pub use scene::{Costs, Scene, Seen, VmMode};

use crate::system::Error;
use giusto_model::{Duration, Task};

/// Plays a host until its changes are done or `length` is over. The same seed gives the same numbers. O(log n) an
/// event.
///
/// # Errors
/// Virtual machines, tasks or costs that make no sense.
pub fn play_modes(scene: &Scene, length: Duration, seed: u64) -> Result<Seen, Error> {
    let Costs { post_ns, send_ns, receive_ns, set_ns, switch_ns } = &scene.costs;
    for (what, times) in
        [("post", post_ns), ("send", send_ns), ("receive", receive_ns), ("set", set_ns), ("switch", switch_ns)]
    {
        if let Some(&ns) = times.iter().find(|&&ns| ns == 0 || ns > crate::guest::LONGEST) {
            return Err(Error::Sample { index: 0, what, ns, least: 1 });
        }
        if times.is_empty() {
            return Err(Error::NoSamples { index: 0 });
        }
    }
    for (index, vm) in scene.vms.iter().enumerate() {
        let mut tasks = vm.iter().flat_map(|mode| mode.tasks.iter().flatten());
        tasks.try_for_each(Task::validate).map_err(|why| Error::Task { index, why })?;
    }
    if length.is_zero() || length.ns() > crate::guest::LONGEST || scene.vms.is_empty() {
        return Err(Error::Horizon);
    }
    host::Host::new(scene, seed)?.play(length.ns())
}
