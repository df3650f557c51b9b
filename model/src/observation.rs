//! What a service's requests cost on one host, as observed under its own load on a whole core: a profile, and its file
//! (`formats/profile.md`).
//!
//! It replaces guesses in a site file (`wcet: measured`). What follows from it is observed, not proven: it holds as
//! long as requests
//! cost no more than they did.

use crate::{Arrivals, Duration, Load, Task};
use serde::{Deserialize, Serialize};

/// The version of the file that this program reads and writes.
pub const OBSERVATION_VERSION: u32 = 1;

/// One service on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// [`OBSERVATION_VERSION`].
    pub giusto_profile: u32,
    /// Its name in the site file.
    pub service: String,
    /// Where.
    pub host: ObservedHost,
    /// The command that started it, or what was adopted, in words.
    pub origin: String,
    /// Seconds since 1970.
    pub taken: u64,
    /// What drove it.
    pub load: Load,
    /// How often, where that is by tasks: with the period at which they were sent.
    pub tasks: Vec<Task>,
    /// How often, where that is at random.
    pub arrivals: Option<Arrivals>,
    /// How long it was observed.
    #[serde(rename = "length_ns")]
    pub length: Duration,
    /// Requests in that time.
    pub requests: u64,
    /// Processor time of all of them over their number.
    #[serde(rename = "mean_ns")]
    pub mean: Duration,
    /// Processor time of a request, averaged over the busy period that it was part of: ns, and how many requests; ascending.
    pub execution: Vec<[u64; 2]>,
    /// What single requests took beyond their processor time (network stack, wake-up): ns, and how many; ascending.
    pub transport: Vec<[u64; 2]>,
    /// The greatest mean processor time of a request in any stretch at least so long: window and mean, in ns; windows
    /// ascend, means
    /// descend.
    pub windows: Vec<[u64; 2]>,
}

/// The machine on which requests were observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservedHost {
    /// Its hostname.
    pub name: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Model of its processor.
    pub cpu: String,
}

/// How far an observation is from what a plan needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Another processor, command or load: the numbers say nothing of this one.
    Other(String),
    /// Old, of another kernel or of a host with another name: to be told.
    Doubtful(String),
}

/// An observation older than this is doubtful, in seconds: 30 days.
const OLD: u64 = 30 * 86_400;

impl Observation {
    /// The greatest mean processor time of a request in any stretch of at least `window`: that of the longest window
    /// known that is
    /// not longer, so never less than what was observed.
    pub fn greatest_mean(&self, window: Duration) -> Duration {
        let known = self.windows.iter().take_while(|[length, _]| *length <= window.ns()).last();
        let ns = known.or(self.windows.first()).map_or(self.mean.ns(), |[_, mean]| *mean);
        Duration::from_ns(ns.max(self.mean.ns()))
    }

    /// Whether it can be computed with.
    ///
    /// # Errors
    /// The first number that cannot be, in words.
    pub fn validate(&self) -> Result<(), String> {
        let longest = 3_600_000_000_000; // an hour
        let times = |what: &str, pairs: &[[u64; 2]]| match pairs.iter().find(|[ns, _]| *ns == 0 || *ns > longest) {
            Some([ns, _]) => Err(format!("{what} has {ns} ns, expected more than 0 and an hour at most")),
            None if pairs.windows(2).any(|pair| pair[0][0] >= pair[1][0]) => {
                Err(format!("{what} is not in ascending order"))
            }
            None => Ok(()),
        };
        times("'execution'", &self.execution)?;
        times("'windows'", &self.windows)?;
        let means = self.windows.iter().map(|[_, mean]| *mean).chain([self.mean.ns()]);
        match (self.execution.is_empty(), means.max()) {
            (true, _) => Err("'execution' is empty".into()),
            (false, Some(1..=3_600_000_000_000)) if !self.mean.is_zero() => Ok(()),
            _ => Err("a mean is 0 or longer than an hour".into()),
        }
    }

    /// Adds what windows of the same lengths were seen to take elsewhere.
    pub fn widen(&mut self, windows: &[[u64; 2]]) {
        for [length, mean] in &mut self.windows {
            let more = windows.iter().filter(|[other, _]| other == length).map(|[_, mean]| *mean);
            *mean = more.fold(*mean, u64::max);
        }
    }

    /// Processor time asked for, as a share of a core.
    pub fn utilization(&self) -> f64 {
        self.mean.ns() as f64 * self.per_ns()
    }

    /// Processor time asked for in the busiest `window`.
    pub fn greatest(&self, window: Duration) -> Duration {
        Duration::from_ns((self.greatest_mean(window).ns() as f64 * self.per_ns() * window.ns() as f64) as u64)
    }

    /// Requests in a nanosecond.
    fn per_ns(&self) -> f64 {
        match self.arrivals {
            Some(arrivals) => arrivals.rate.per_ns() * f64::from(arrivals.batch),
            None => self.tasks.iter().map(|task| f64::from(task.copies) / task.period.ns().max(1) as f64).sum(),
        }
    }

    /// Differences to what is to be planned: a service with this origin and load on this host at this time.
    pub fn foreign(&self, host: &ObservedHost, origin: &str, load: Option<&Load>, now: u64) -> Vec<Foreign> {
        let mut found = Vec::new();
        let mut differs = |foreign: fn(String) -> Foreign, what: &str, then: &str, now: &str| {
            if then != now {
                found.push(foreign(format!("{what} was '{then}', now it is '{now}'")));
            }
        };
        differs(Foreign::Other, "the processor", &self.host.cpu, &host.cpu);
        differs(Foreign::Other, "the service", &self.origin, origin);
        differs(Foreign::Doubtful, "the host", &self.host.name, &host.name);
        differs(Foreign::Doubtful, "the kernel", &self.host.kernel, &host.kernel);
        if load != Some(&self.load) {
            found.push(Foreign::Other("the load was another one".into()));
        }
        if now.saturating_sub(self.taken) > OLD {
            found.push(Foreign::Doubtful(format!("it is {} days old", (now - self.taken) / 86_400)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation() -> Observation {
        Observation {
            giusto_profile: OBSERVATION_VERSION,
            service: "cache".into(),
            host: ObservedHost { name: "edge-1".into(), kernel: "6.1".into(), cpu: "A".into() },
            origin: "redis-server".into(),
            taken: 1_000_000,
            load: Load::Echo { address: ([127, 0, 0, 1], 7).into(), value: 1 },
            tasks: vec![Task { copies: 6, ..crate::Task { name: "t".into(), ..("50us/1ms".parse().unwrap()) } }],
            arrivals: None,
            length: Duration::from_secs(4),
            requests: 24_000,
            mean: Duration::from_us(50),
            execution: vec![[50_000, 24_000]],
            transport: vec![[20_000, 200]],
            windows: vec![[10_000_000, 60_000], [40_000_000, 55_000]],
        }
    }

    #[test]
    fn between_two_windows_the_shorter_one_counts_as_it_is_the_worse_one() {
        let (one, ms) = (observation(), Duration::from_ms);
        for (window, mean) in [(ms(1), 60), (ms(10), 60), (ms(39), 60), (ms(40), 55), (ms(4000), 55)] {
            assert_eq!(one.greatest_mean(window), Duration::from_us(mean), "{window}");
        }
        assert!((one.utilization() - 0.3).abs() < 1e-9);
        assert_eq!(one.greatest(ms(40)), Duration::from_us(13_200)); // 240 requests of 55 us
    }

    #[test]
    fn what_makes_it_useless_is_told_apart_from_what_makes_it_doubtful() {
        let one = observation();
        let load = one.load.clone();
        let same = |host: &ObservedHost, origin: &str, now| one.foreign(host, origin, Some(&load), now);
        assert!(same(&one.host, "redis-server", 1_000_000).is_empty());
        let other = ObservedHost { cpu: "B".into(), kernel: "6.2".into(), ..one.host.clone() };
        let found = same(&other, "redis-server --io-threads 4", 1_000_000 + OLD + 1);
        let useless = found.iter().filter(|one| matches!(one, Foreign::Other(_))).count();
        assert_eq!((useless, found.len()), (2, 4), "{found:?}");
        assert_eq!(one.foreign(&one.host, "redis-server", None, 0).len(), 1);
    }
}
