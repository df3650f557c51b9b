//! What this machine can do, without changing it.

use crate::backends::backend;
use crate::machine::Machine;
use crate::rights::host_rights;
use giusto_model::Backend;

/// Looks at the machine. Reads only; works without privilege.
///
/// Not to be called while a thread may just have died under SCHED_DEADLINE: since 6.15 the kernel counts its deadline
/// bandwidth anew when `sched_rt_runtime_us` is read, and forgets what the dead thread gives back later. Undoing mends that.
pub fn probe() -> Machine {
    let mut machine = Machine::look();
    // In a user namespace nothing else counts, and comes first.
    let lacks = |name| host_rights().into_iter().chain(backend(name).lacks(&machine)).collect();
    machine.lacks = Backend::ALL.map(|name| (name, lacks(name))).into();
    machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Duration;

    #[test]
    fn what_a_backend_lacks_comes_with_what_to_do() {
        let machine = probe();
        for backend in Backend::ALL {
            for lack in machine.lacks(backend) {
                assert!(!lack.what.is_empty() && !lack.how.is_empty(), "{backend}: {lack:?}");
            }
        }
    }

    #[test]
    fn probing_finds_cores_and_a_plausible_tick() {
        let machine = probe();
        assert!(!machine.cores.is_empty());
        assert!(
            [1, 2, 3, 4, 10].map(Duration::from_ms).contains(&machine.tick) || machine.tick < Duration::from_ms(11)
        );
    }
}
