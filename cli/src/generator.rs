//! How the thread that sends a load runs.

use giusto_measure::Generator;

/// With a real-time priority where that is allowed: a generator that waits for its processor measures itself.
pub(crate) fn generator() -> Generator {
    let root = giusto_compute::sched::is_root();
    Generator { fifo_priority: root.then_some(50), ..Generator::default() }
}
