//! Services and virtual machines as cloud papers load them: key-value store, RPC server, CPU-bound work.

use crate::system::{Execution, Guest, Sporadic, Workload};
use giusto_model::{Duration, Release, Task};

/// Processor time of a Memcached request [Asy20, § 4.2].
pub const MEMCACHED_REQUEST: Duration = Duration::from_us(46);

/// A server of requests that come at random: `clients` Poisson streams, each with a request in `gap` on average and with
/// random numbers of its own, on one virtual CPU, first come first served.
///
/// That is Memcached, whose one thread takes events in their order; and an RPC server with a thread for each client, where a
/// call is shorter than the slice of the guest's scheduler, so that threads do not preempt each other. Refused by
/// [`simulate`](crate::simulate) if `execution` is longer than `gap`, or there is no client.
pub fn requests(clients: u32, gap: Duration, execution: Duration) -> Workload {
    one(Task { copies: clients, ..task(execution, gap, Duration::ZERO) }, Sporadic::Poisson)
}

/// CPU-bound work in a closed loop, as Lookbusy does it: runs for `work`, then sleeps so that alone it has a duty of `work` in
/// `cycle`, its sleeps varying by ± `percent`. Begins at `offset`.
pub fn duty(work: Duration, cycle: Duration, percent: u32, offset: Duration) -> Workload {
    one(task(work, cycle, offset), Sporadic::Thinking { percent })
}

/// Fixed pieces of CPU-bound work one after the other, as Sysbench: always ready, and each response time is an execution time.
pub fn batch(work: Duration) -> Workload {
    one(task(work, work, Duration::ZERO), Sporadic::Thinking { percent: 0 })
}

fn task(wcet: Duration, period: Duration, offset: Duration) -> Task {
    let release = Release::Sporadic;
    Task { name: String::new(), wcet, period, deadline: period, offset, release, copies: 1 }
}

fn one(task: Task, sporadic: Sporadic) -> Workload {
    Workload { tasks: vec![task], guest: Guest::Fifo, execution: Execution::Worst, sporadic }
}
