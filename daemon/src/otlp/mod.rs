//! Sends metrics, and late jobs and messages, to a collector of OpenTelemetry (`giusto run --otlp`), on a thread of its own.
//!
//! What cannot be sent waits, up to a bound; enforcement waits for nothing here.

mod address;
mod message;
mod post;

use crate::late::Late;
use crate::{Host, OtlpStatus};
pub use address::OtlpAddress;
use message::Teller;
use post::{post, Failed};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often metrics are sent, and late jobs if there are some.
const METRICS: Duration = Duration::from_secs(10);
const SPANS: Duration = Duration::from_secs(1);
/// After a failure it waits so long, and twice as long after the next, up to half a minute.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Late jobs that wait, and that are sent at once.
const WAITING: usize = 4096;
const AT_ONCE: usize = 512;

/// Late jobs on their way, and how that goes.
#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Late>,
    /// How many have left it so far: the number of the first one.
    first: u64,
    status: OtlpStatus,
    ends: bool,
}

impl Queue {
    fn leave(&mut self, many: usize) {
        self.jobs.drain(..many);
        self.first += many as u64;
    }
}

/// See the module. Dropping it ends it, and what waits is dropped.
#[derive(Debug)]
pub(crate) struct Otlp {
    queue: Arc<(Mutex<Queue>, Condvar)>,
}

impl Otlp {
    /// Sends from now on, what `host` tells. Errors: no thread is left.
    pub(crate) fn start(to: OtlpAddress, host: Arc<dyn Host>) -> std::io::Result<Otlp> {
        let status = OtlpStatus { to: to.to_string(), ..OtlpStatus::default() };
        let queue = Arc::new((Mutex::new(Queue { status, ..Queue::default() }), Condvar::new()));
        let shared = queue.clone();
        let send = move || Sender { to, host, again: AGAIN }.run(&shared);
        // A message under way takes some seconds at most: its end is not waited for.
        std::thread::Builder::new().name("giusto-otlp".into()).spawn(send)?;
        Ok(Otlp { queue })
    }

    /// Late jobs that are to be sent; the oldest ones go where there is no room.
    pub(crate) fn tell(&self, jobs: Vec<Late>) {
        let mut queue = locked(&self.queue.0);
        queue.jobs.extend(jobs);
        let surplus = queue.jobs.len().saturating_sub(WAITING);
        queue.leave(surplus);
        queue.status.dropped += surplus as u64;
    }

    /// How it goes.
    pub(crate) fn status(&self) -> OtlpStatus {
        locked(&self.queue.0).status.clone()
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        locked(&self.queue.0).ends = true;
        self.queue.1.notify_all();
    }
}

struct Sender {
    to: OtlpAddress,
    host: Arc<dyn Host>,
    /// How long to wait after the next failure.
    again: Duration,
}

impl Sender {
    fn run(mut self, (queue, ended): &(Mutex<Queue>, Condvar)) {
        let mut next_metrics = Instant::now();
        loop {
            let failed = match next_metrics <= Instant::now() {
                true => {
                    next_metrics = Instant::now() + METRICS;
                    self.send_metrics(queue).and_then(|()| self.send_jobs(queue))
                }
                false => self.send_jobs(queue),
            };
            let wait = match failed {
                Ok(()) => {
                    self.again = AGAIN;
                    SPANS
                }
                Err(why) => {
                    let mut queue = locked(queue);
                    if queue.status.problem.is_none() {
                        tracing::warn!("{why}; it is tried again, and late jobs wait");
                    }
                    queue.status.problem = Some(why);
                    let wait = self.again;
                    self.again = (wait * 2).min(LONGEST);
                    wait
                }
            };
            let ends = |queue: &mut Queue| !queue.ends;
            let waited = ended.wait_timeout_while(locked(queue), wait, ends);
            if waited.unwrap_or_else(PoisonError::into_inner).0.ends {
                return;
            }
        }
    }

    /// Errors: why not now. What the collector never takes is dropped.
    fn send_metrics(&self, queue: &Mutex<Queue>) -> Result<(), String> {
        let status = self.host.status();
        let message = self.teller().metrics(&crate::metrics::text(&status), status.since_ns, unix_ns());
        self.sent(queue, post(&self.to, "metrics", &message), 1)
    }

    fn send_jobs(&self, queue: &Mutex<Queue>) -> Result<(), String> {
        loop {
            let (first, jobs) = {
                let queue = locked(queue);
                (queue.first, queue.jobs.iter().take(AT_ONCE).cloned().collect::<Vec<Late>>())
            };
            if jobs.is_empty() {
                return Ok(());
            }
            let unix_ns = unix_ns().saturating_sub(crate::watchdog::clock(rustix::time::ClockId::Monotonic));
            let told: Vec<(Late, [u8; 24])> = jobs.iter().map(|job| (job.clone(), identity())).collect();
            let done = post(&self.to, "traces", &self.teller().spans(&told, unix_ns));
            if !matches!(done, Err(Failed::Later(_))) {
                let mut queue = locked(queue);
                // Some may have left meanwhile, as there was no room.
                let left = queue.first - first;
                queue.leave(jobs.len().saturating_sub(left as usize));
            }
            self.sent(queue, done, jobs.len() as u64)?;
        }
    }

    fn sent(&self, queue: &Mutex<Queue>, done: Result<u64, Failed>, many: u64) -> Result<(), String> {
        let status = &mut locked(queue).status;
        match done {
            Ok(rejected) => {
                status.sent += 1;
                status.dropped += rejected;
                status.problem = (rejected > 0).then(|| format!("{} rejected {rejected} of {many}", self.to));
                Ok(())
            }
            Err(Failed::Never(why)) => {
                status.dropped += many;
                status.problem = Some(why);
                Ok(())
            }
            Err(Failed::Later(why)) => Err(why),
        }
    }

    fn teller(&self) -> Teller {
        let status = self.host.status();
        Teller { version: status.version, host: status.host }
    }
}

/// By chance; where the kernel has none, by the clock.
fn identity() -> [u8; 24] {
    let mut identity = [0; 24];
    if rustix::rand::getrandom(&mut identity, rustix::rand::GetRandomFlags::NONBLOCK) != Ok(identity.len()) {
        identity[8..16].copy_from_slice(&unix_ns().to_be_bytes());
        identity[16..].copy_from_slice(&unix_ns().to_be_bytes());
    }
    identity
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
