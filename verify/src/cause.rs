//! Why requests were late, second by second: by what is known of the service, of its core and of the machine in the second in
//! which they were answered and those before and after it. Rough, since a second is long beside a request; it names what to look
//! at first.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is known of three seconds, or of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// Requests answered.
    pub requests: u64,
    /// What was planned for: requests in so long, ...
    pub planned_requests: Option<f64>,
    /// ... and the processor time of one, on average, in ns.
    pub planned_ns: Option<f64>,
    /// Processor time that the service had, in ns.
    pub used_ns: u64,
    /// The longest response, in ns.
    pub longest_ns: u64,
    /// Its server's period, in ns.
    pub period_ns: u64,
    /// How often its budget was used up; `None`: its backend does not tell.
    pub throttled: Option<u64>,
    /// Periods throughout which it wanted the core and did not get its budget.
    pub missed: u64,
    /// How late its core's manager was at most, in ns ...
    pub manager_late_ns: u64,
    /// ... and how late it may be: what the promise leaves room for.
    pub allowed_late_ns: u64,
    /// What a hypervisor took of the machine, in ns.
    pub stolen_ns: u64,
}

/// The first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A hypervisor took the machine away.
    Stolen,
    /// Giusto's own manager of the core was late.
    Manager,
    /// It wanted the core and did not get its budget: a thread above Giusto's priority, or the kernel, had it.
    Kept,
    /// Budgets do not explain it: it waited for something else (a disk, a lock, another service), or was stopped.
    Itself,
    /// More requests came than planned.
    Requests,
    /// Requests took more processor time than planned.
    Execution,
    /// Its budget was used up though all was as planned: requests happened to come close together.
    Chance,
    /// Its backend does not tell.
    Unknown,
}

/// What a hypervisor may take of three seconds without being a cause.
const STOLEN_NS: u64 = 30_000_000;
/// The length of what is looked at, in ns.
const LENGTH_NS: u64 = 3_000_000_000;
/// Requests may take so many times as long as planned.
const LONGER: f64 = 1.2;
/// Of so few requests a mean says nothing.
const FEW: u64 = 10;

impl Circumstances {
    /// Those of both, one after the other.
    pub fn and(&self, next: &Circumstances) -> Circumstances {
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b).or(b);
        Circumstances {
            requests: self.requests + next.requests,
            planned_requests: both(self.planned_requests, next.planned_requests),
            planned_ns: next.planned_ns,
            used_ns: self.used_ns + next.used_ns,
            longest_ns: self.longest_ns.max(next.longest_ns),
            period_ns: next.period_ns,
            throttled: next.throttled.map(|now| now + self.throttled.unwrap_or(0)),
            missed: self.missed + next.missed,
            manager_late_ns: self.manager_late_ns.max(next.manager_late_ns),
            allowed_late_ns: next.allowed_late_ns,
            stolen_ns: self.stolen_ns + next.stolen_ns,
        }
    }

    /// Why requests were late. O(1).
    pub fn cause(&self) -> Cause {
        let mean = self.used_ns as f64 / self.requests.max(1) as f64;
        // Requests at random: 4 standard deviations above what is planned, once in 30,000 looks.
        let most = |planned: f64| planned + 4.0 * planned.sqrt() + 2.0;
        match self.throttled {
            _ if self.stolen_ns > STOLEN_NS => Cause::Stolen,
            _ if self.manager_late_ns > self.allowed_late_ns => Cause::Manager,
            _ if self.missed > 0 => Cause::Kept,
            None => Cause::Unknown,
            Some(times) if !self.is_explained(times) => Cause::Itself,
            Some(_) if self.planned_requests.is_some_and(|planned| self.requests as f64 > most(planned)) => {
                Cause::Requests
            }
            Some(_) if self.requests >= FEW && self.planned_ns.is_some_and(|planned| mean > planned * LONGER) => {
                Cause::Execution
            }
            Some(_) => Cause::Chance,
        }
    }
}

impl Circumstances {
    /// Whether waiting for the next budget, so many times, explains the longest response: each takes a period at most. What
    /// waits for something else for long has more to do than a budget afterwards, and uses some up. Where most are used
    /// up, older ones explain it.
    fn is_explained(&self, throttled: u64) -> bool {
        let most = (throttled + 1).saturating_mul(self.period_ns);
        throttled > 0 && (self.longest_ns <= most || throttled * self.period_ns >= LENGTH_NS / 2)
    }
}

/// Seconds after each other in which a service had more to do than it got through: what began that is why those that had to
/// wait behind it are late, long after it is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog(Option<Cause>);

impl Backlog {
    /// The cause of what was late in a second of which `now` is told by itself; `waits`: its budget was used up for most of it,
    /// and something was late.
    pub fn cause(&mut self, now: Cause, waits: bool) -> Cause {
        // Both are what is left when nothing is wrong in that second.
        let cause = match (now, self.0) {
            (Cause::Chance | Cause::Itself, Some(first)) => first,
            _ => now,
        };
        self.0 = waits.then_some(cause);
        cause
    }
}

impl Circumstances {
    /// Whether the budget was used up for most of `length_ns`.
    pub fn is_busy(&self, length_ns: u64) -> bool {
        self.throttled.is_some_and(|times| times * self.period_ns >= length_ns / 2)
    }
}

impl Cause {
    /// All.
    pub const ALL: [Cause; 8] = [
        Cause::Stolen,
        Cause::Manager,
        Cause::Kept,
        Cause::Itself,
        Cause::Requests,
        Cause::Execution,
        Cause::Chance,
        Cause::Unknown,
    ];

    /// As a key of JSON and a label of metrics.
    pub fn key(self) -> &'static str {
        match self {
            Cause::Stolen => "stolen",
            Cause::Manager => "manager",
            Cause::Kept => "kept",
            Cause::Itself => "itself",
            Cause::Requests => "requests",
            Cause::Execution => "execution",
            Cause::Chance => "chance",
            Cause::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Stolen => "a hypervisor took the machine away",
            Cause::Manager => "giusto's manager of its core was late",
            Cause::Kept => "a thread above giusto's priority, or the kernel, had its core",
            Cause::Itself => "it waited for something else (a disk, a lock, another service), or was stopped",
            Cause::Requests => "more requests came than planned",
            Cause::Execution => "requests took more processor time than planned",
            Cause::Chance => "its budget was used up though all was as planned: requests came close together",
            Cause::Unknown => "its backend does not tell why",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_a_backlog_is_the_cause_until_it_is_gone() {
        let mut backlog = Backlog::default();
        let seconds = [
            (Cause::Chance, true, Cause::Chance),
            (Cause::Requests, true, Cause::Requests),
            (Cause::Chance, true, Cause::Requests),
            (Cause::Itself, true, Cause::Requests),
            (Cause::Execution, true, Cause::Execution),
            (Cause::Chance, false, Cause::Execution),
            (Cause::Chance, true, Cause::Chance),
            (Cause::Itself, true, Cause::Chance),
        ];
        for (nth, (now, waits, expected)) in seconds.into_iter().enumerate() {
            assert_eq!(backlog.cause(now, waits), expected, "{nth}");
        }
        let second = |throttled| Circumstances { throttled, period_ns: 10_000_000, ..Circumstances::default() };
        assert!(second(Some(50)).is_busy(1_000_000_000));
        assert!(!second(Some(49)).is_busy(1_000_000_000) && !second(None).is_busy(1_000_000_000));
    }

    #[test]
    fn the_first_thing_that_is_wrong_is_named() {
        let mut all = Circumstances {
            requests: 200,
            planned_requests: Some(100.0),
            planned_ns: Some(1e6),
            used_ns: 400_000_000,
            longest_ns: 50_000_000,
            period_ns: 10_000_000,
            throttled: Some(0),
            missed: 3,
            manager_late_ns: 5_000_000,
            allowed_late_ns: 1_000_000,
            stolen_ns: 40_000_000,
        };
        assert_eq!(all.cause(), Cause::Stolen);
        all.stolen_ns = 10_000_000;
        assert_eq!(all.cause(), Cause::Manager);
        all.manager_late_ns = 900_000;
        assert_eq!(all.cause(), Cause::Kept);
        all.missed = 0;
        assert_eq!(all.cause(), Cause::Itself);
        all.throttled = Some(3);
        assert_eq!(all.cause(), Cause::Itself, "50 ms, of which budgets explain 40");
        all.throttled = Some(7);
        assert_eq!(all.cause(), Cause::Requests);
        all.requests = 142; // 100 and 4.2 standard deviations, of which 2 count as none
        assert_eq!(all.cause(), Cause::Execution);
        all.used_ns = 142_000_000;
        assert_eq!(all.cause(), Cause::Chance);
        all.throttled = None;
        assert_eq!(all.cause(), Cause::Unknown);
    }
}
