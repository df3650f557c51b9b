//! What threads did between readings, as bursts of work.

/// What one thread did between two readings, which are instants of CLOCK_MONOTONIC in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The reading before ...
    pub from: u64,
    /// ... and this one.
    pub at: u64,
    /// Which thread, by its place.
    pub thread: usize,
    /// Processor time.
    pub ran: u64,
    /// How often it began to work.
    pub begun: u64,
}

/// Activations between two readings, and what they took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// They began after this instant, in ns ...
    pub from: u64,
    /// ... and by this one.
    pub until: u64,
    /// How many; where more than one, they cannot be told apart.
    pub count: u64,
    /// Processor time of all of them together, in ns.
    pub cpu: u64,
}

/// What a thread that serves does at least for an activation, as a part of what the busiest one does for its own: less
/// is a timer, or a thread that only hands over.
const SERVING: f64 = 1.0 / 3.0;
/// ... and of all processor time.
const SHARE: f64 = 0.01;

/// The threads that do the work, by their places; at least the busiest one, if any ran. `timers` are those that sleep
/// by the clock: they keep house where others serve, and do the work where they are the only ones. O(changes).
pub fn workers(changes: &[Change], timers: &[usize]) -> Vec<usize> {
    let many = changes.iter().map(|one| one.thread + 1).max().unwrap_or(0);
    let mut sums = vec![(0u64, 0u64); many];
    for change in changes {
        sums[change.thread].0 += change.ran;
        sums[change.thread].1 += change.begun;
    }
    let all: u64 = sums.iter().map(|(ran, _)| ran).sum();
    let cost = |(ran, begun): (u64, u64)| ran as f64 / begun.max(1) as f64;
    let matters = |thread: &usize| sums[*thread].0 as f64 > all as f64 * SHARE;
    let (clocked, woken): (Vec<usize>, Vec<usize>) = (0..many).filter(matters).partition(|one| timers.contains(one));
    let serving = if woken.is_empty() { clocked } else { woken };
    let Some(busiest) = serving.iter().map(|thread| sums[*thread]).max().map(cost) else { return Vec::new() };
    serving.into_iter().filter(|thread| cost(sums[*thread]) >= busiest * SERVING).collect()
}

/// Bursts of work of these threads together, in order; `changes` are in the order of their readings. The kernel counts
/// processor time when a thread leaves its processor or at a tick, so that what comes after the reading that saw an
/// activation is still its own, up to the next one. O(changes · threads).
pub fn bursts(changes: &[Change], threads: &[usize]) -> Vec<Burst> {
    let mut found: Vec<Burst> = Vec::new();
    let ours: Vec<&Change> = changes.iter().filter(|one| threads.contains(&one.thread)).collect();
    for reading in ours.chunk_by(|one, other| one.at == other.at) {
        let (from, until) = (reading[0].from, reading[0].at);
        let count = reading.iter().map(|one| one.begun).sum();
        let cpu = reading.iter().map(|one| one.ran).sum();
        match found.last_mut() {
            Some(last) if count == 0 => last.cpu += cpu,
            _ if count > 0 => found.push(Burst { from, until, count, cpu }),
            _ => {} // the rest of what began before the first reading
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at: u64, thread: usize, ran: u64, begun: u64) -> Change {
        Change { from: at - 1, at, thread, ran, begun }
    }

    #[test]
    fn what_is_counted_late_belongs_to_the_activation_before() {
        let changes = [
            change(1, 0, 7, 0), // of one that works already
            change(2, 0, 0, 1),
            change(3, 0, 50, 0),
            change(4, 0, 40, 1),
            change(4, 1, 60, 2),
            change(4, 2, 900, 9),
        ];
        let burst = |from, until, count, cpu| Burst { from, until, count, cpu };
        assert_eq!(bursts(&changes, &[0, 1]), [burst(1, 2, 1, 50), burst(3, 4, 3, 100)]);
        assert!(bursts(&changes[..1], &[0]).is_empty());
    }

    #[test]
    fn timers_and_threads_that_hand_over_do_not_work() {
        // Two that serve, one that wakes up often for next to nothing, one that hardly ever does anything.
        let mut changes = Vec::new();
        for at in 1..1_000 {
            changes.extend([change(at, 0, 40_000, 1), change(at, 2, 35_000, 1), change(at, 1, 5_000, 3)]);
        }
        changes.push(change(1_000, 3, 90_000, 1));
        assert_eq!(workers(&changes, &[]), [0, 2]);
        assert_eq!(workers(&changes, &[0]), [2], "it sleeps by the clock, beside one that serves");
        assert_eq!(workers(&changes, &[0, 1, 2]), [0, 2], "nothing but timers");
        assert!(workers(&[], &[]).is_empty());
    }
}
