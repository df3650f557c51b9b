//! What is seen of services that share cores: response times, shares over time, cores without work.

use crate::stats::Stats;
use crate::system::Error;
use crate::trace::Observer;
use giusto_model::{Duration, JobRecord};

/// Watches from a time on. Its size grows with the number of windows only.
pub struct Watch {
    from: u64,
    window: u64,
    cores: usize,
    /// Processor time in ns, by window; in it by server, and last what no server had.
    windows: Vec<Vec<u64>>,
    responses: Vec<Stats>,
    idle: Vec<Stretch>,
}

/// A stretch in which a core idles, and what was seen of those before.
#[derive(Clone, Default)]
struct Stretch {
    from: u64,
    to: u64,
    ended: Idle,
}

/// How one core idled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Time in ns.
    pub ns: u64,
    /// That of it in stretches of [`Idle::DEEP`] and more.
    pub deep_ns: u64,
    /// Stretches.
    pub stretches: u64,
}

impl Idle {
    /// A stretch as long as this pays for a deep sleep state of a core: about the target residency of C6 on servers.
    pub const DEEP: Duration = Duration::from_us(600);
}

impl Stretch {
    fn end(&mut self) {
        let long = self.to - self.from;
        if long > 0 {
            self.ended.ns += long;
            self.ended.deep_ns += if long >= Idle::DEEP.ns() { long } else { 0 };
            self.ended.stretches += 1;
        }
        self.from = self.to;
    }
}

impl Watch {
    /// Watches `servers` on `cores` from `from` on, shares in windows of `window`, which is not 0 (else one ns).
    pub fn new(servers: usize, cores: u32, from: Duration, window: Duration) -> Watch {
        Watch {
            from: from.ns(),
            window: window.ns().max(1),
            cores: cores as usize,
            windows: Vec::new(),
            responses: vec![Stats::new(); servers],
            idle: vec![Stretch::default(); cores as usize],
        }
    }

    /// Response times of a server's jobs that were released since the watch began.
    pub fn responses(&self, server: usize) -> &Stats {
        &self.responses[server]
    }

    /// Shares of all cores' time by window: by server, and last what no server had. Each row adds up to 1 but the last, if it was
    /// cut short.
    pub fn shares(&self) -> impl Iterator<Item = Vec<f64>> + '_ {
        let all = (self.window * self.cores as u64) as f64;
        self.windows.iter().map(move |row| row.iter().map(|&ns| ns as f64 / all).collect())
    }

    /// The same in ns.
    pub fn windows(&self) -> &[Vec<u64>] {
        &self.windows
    }

    /// How each core idled.
    pub fn idled(&self) -> Vec<Idle> {
        let ended = |stretch: &Stretch| {
            let mut last = stretch.clone();
            last.end();
            last.ended
        };
        self.idle.iter().map(ended).collect()
    }

    /// Processor time of `who` between two times, by window.
    fn add(&mut self, who: usize, from: u64, to: u64) {
        let (mut at, to) = (from.max(self.from) - self.from, to.max(self.from) - self.from);
        while at < to {
            let window = (at / self.window) as usize;
            let end = to.min((window as u64 + 1) * self.window);
            let width = self.responses.len() + 1;
            if self.windows.len() <= window {
                self.windows.resize(window + 1, vec![0; width]);
            }
            self.windows[window][who] += end - at;
            at = end;
        }
    }
}

impl Observer for Watch {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if let Some(ns) = job.response_ns().filter(|_| job.release.ns() >= self.from) {
            self.responses[server].add(ns);
        }
        Ok(())
    }

    fn slice(&mut self, server: usize, _: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        self.add(server, from, to);
        Ok(())
    }

    fn idle(&mut self, core: u32, from: u64, to: u64) -> Result<(), Error> {
        self.add(self.responses.len(), from, to);
        let from = from.max(self.from);
        if from < to {
            let stretch = &mut self.idle[core as usize];
            if stretch.to != from {
                stretch.end();
                stretch.from = from;
            }
            stretch.to = to;
        }
        Ok(())
    }
}
