//! A machine, as far as the backends care.

use crate::cores::online;
use crate::cpuset::{Cpusets, RT_RUNTIME};
use crate::files::Real;
use crate::neighbours::{self, Held};
use crate::Lack;
use giusto_model::{Backend, Bandwidth, Duration};
use std::collections::BTreeMap;
use std::fs;

/// A machine, as far as the backends care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that are online.
    pub cores: Vec<u32>,
    /// The kernel's tick, at which budgets are enforced.
    pub tick: Duration,
    /// `sched_deadline_period_min_us`.
    pub period_min: Duration,
    /// `sched_deadline_period_max_us`.
    pub period_max: Duration,
    /// What the kernel admits of a core.
    pub cap: Bandwidth,
    /// Where cpusets are.
    pub cpusets: Option<Cpusets>,
    /// Cores that cannot be isolated, as tasks of other cpusets keep them.
    pub held: Vec<Held>,
    /// What each backend lacks; empty: it can work.
    pub lacks: BTreeMap<Backend, Vec<Lack>>,
}

impl Machine {
    /// What `backend` lacks; empty: it can work.
    pub fn lacks(&self, backend: Backend) -> &[Lack] {
        self.lacks.get(&backend).map_or(&[], Vec::as_slice)
    }
}

impl Machine {
    /// Reads what it is but for what backends lack.
    pub(crate) fn look() -> Machine {
        let micros = |name: &str, default: u64| {
            let us = number(&format!("/proc/sys/kernel/{name}")).and_then(|us| u64::try_from(us).ok());
            Duration::from_us(us.unwrap_or(default))
        };
        let cpusets = Cpusets::find();
        Machine {
            cores: online(),
            tick: tick(),
            period_min: micros("sched_deadline_period_min_us", 100),
            period_max: micros("sched_deadline_period_max_us", 4_194_304),
            cap: cap(),
            held: cpusets.as_ref().map_or_else(Vec::new, |cpusets| neighbours::held(&Real, cpusets)),
            cpusets,
            lacks: BTreeMap::new(),
        }
    }
}

/// The tick is the resolution of the kernel's coarse clock (kernel/time/posix-timers.c, KTIME_LOW_RES).
fn tick() -> Duration {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    Duration::from_ns(u64::try_from(resolution.tv_nsec).unwrap_or(4_000_000).max(1_000_000))
}

fn number(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// What the kernel admits of a core.
pub(crate) fn cap() -> Bandwidth {
    cap_of(number(RT_RUNTIME), number("/proc/sys/kernel/sched_rt_period_us"))
}

/// `sched_rt_runtime_us / sched_rt_period_us`, less 5 points for the fair server since 6.12.
fn cap_of(runtime: Option<i64>, period: Option<i64>) -> Bandwidth {
    let (runtime, period) = match (runtime, period) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => (runtime as u64, period as u64),
        (Some(_), Some(_)) => (1, 1), // -1: no limit
        _ => (95, 100),
    };
    let share = Bandwidth::new(runtime.min(period), period).unwrap_or(Bandwidth::ONE);
    let fair = if kernel_version() >= (6, 12) { Bandwidth::new(1, 20) } else { None };
    fair.and_then(|fair| share.checked_sub(fair)).unwrap_or(share)
}

/// The kernel's version and release, such as 6 and 12.
pub fn kernel_version() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_follows_the_throttle() {
        let points = |bandwidth: Bandwidth| (bandwidth.as_f64() * 100.0).round() as u32;
        let fair = if kernel_version() >= (6, 12) { 5 } else { 0 };
        assert_eq!(points(cap_of(Some(950_000), Some(1_000_000))), 95 - fair);
        assert_eq!(points(cap_of(Some(-1), Some(1_000_000))), 100 - fair);
        assert_eq!(points(cap_of(None, None)), 95 - fair);
    }
}
