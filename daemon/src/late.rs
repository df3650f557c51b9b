//! Requests, jobs and messages of paths that took longer than promised, one by one: what is told of them beyond this host.

use crate::{ObservedBy, PathStatus, ServiceStatus};
use giusto_model::Duration;
use giusto_verify::Cause;
use std::collections::BTreeMap;
use std::time::Instant;

/// Events about one service are so far apart at least.
const APART: std::time::Duration = std::time::Duration::from_secs(10);

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Late {
    /// A request or a job of a service.
    Job(LateJob),
    /// A message of a path.
    Message(LateMessage),
}

/// A message of a path, by the spans of its services.
#[derive(Clone, Debug, PartialEq)]
pub struct LateMessage {
    /// Its path.
    pub path: String,
    /// Its trace, as its spans name it.
    pub trace: String,
    /// The service at which it took longest beyond what is planned.
    pub at: String,
    /// When it came, in ns of Unix time ...
    pub from_unix_ns: u64,
    /// ... and how long it took.
    pub took_ns: u64,
    /// The longest time of what was promised.
    pub within_ns: u64,
}

/// A request or a job. Times are CLOCK_MONOTONIC's.
#[derive(Clone, Debug, PartialEq)]
pub struct LateJob {
    /// Its service.
    pub service: String,
    /// Whether it was a request or a job.
    pub by: ObservedBy,
    /// The process of the thread that answered it, or whose job it was ...
    pub process: u32,
    /// ... and that thread.
    pub thread: u32,
    /// When it arrived, or its thread was woken ...
    pub from_ns: u64,
    /// ... and when it was answered, or its thread went to sleep.
    pub to_ns: u64,
    /// The longest time of what was promised.
    pub within_ns: u64,
    /// What was probably the cause, by what was wrong in the second in which it ended.
    pub cause: Cause,
}

/// Says as events which services had late jobs and missed periods, and which paths late messages, each now and then with what
/// has come since.
#[derive(Debug, Default)]
pub(crate) struct Events {
    services: BTreeMap<String, Said>,
    paths: BTreeMap<String, SaidOfPath>,
}

/// Of one path.
#[derive(Debug, Default)]
struct SaidOfPath {
    last: Option<Instant>,
    late: u64,
    longest: Option<LateMessage>,
    /// How many of them at which service.
    at: BTreeMap<String, u64>,
}

/// Of one service.
#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    late: u64,
    longest: Option<LateJob>,
    /// Periods that were missed so far, by virtual CPU or copy, and those that were told of.
    missed: BTreeMap<Option<u32>, (u64, u64)>,
}

impl Events {
    /// `late`: since the last call; how services and paths stand now.
    pub(crate) fn take(&mut self, late: &[Late], (services, paths): (&[ServiceStatus], &[PathStatus]), now: Instant) {
        self.paths.retain(|name, _| paths.iter().any(|path| path.name == *name));
        self.services.retain(|name, _| services.iter().any(|service| service.name == *name));
        for service in services {
            let said = self.services.entry(service.name.clone()).or_default();
            let missed = service.misses.unwrap_or(0);
            // One that counts anew has begun anew.
            let (before, told) = said.missed.get(&service.vcpu).copied().unwrap_or((missed, missed));
            said.missed.insert(service.vcpu, (missed, if missed < before { missed } else { told }));
        }
        for one in late {
            let job = match one {
                Late::Job(job) => job,
                Late::Message(message) => {
                    if paths.iter().any(|path| path.name == message.path) {
                        self.paths.entry(message.path.clone()).or_default().add(message);
                    }
                    continue;
                }
            };
            let Some(said) = self.services.get_mut(&job.service) else { continue };
            said.late += 1;
            let took = |job: &LateJob| job.to_ns - job.from_ns;
            if said.longest.as_ref().is_none_or(|longest| took(job) > took(longest)) {
                said.longest = Some(job.clone());
            }
        }
        for (name, said) in &mut self.services {
            if said.last.is_none_or(|last| now.duration_since(last) >= APART) && said.say(name) {
                said.last = Some(now);
            }
        }
        for (name, said) in &mut self.paths {
            if said.late > 0 && said.last.is_none_or(|last| now.duration_since(last) >= APART) {
                said.say(name);
                said.last = Some(now);
            }
        }
    }
}

impl SaidOfPath {
    fn add(&mut self, message: &LateMessage) {
        self.late += 1;
        *self.at.entry(message.at.clone()).or_default() += 1;
        if self.longest.as_ref().is_none_or(|longest| message.took_ns > longest.took_ns) {
            self.longest = Some(message.clone());
        }
    }

    fn say(&mut self, path: &str) {
        let (late, at) = (std::mem::take(&mut self.late), std::mem::take(&mut self.at));
        let most = at.into_iter().max_by_key(|(_, late)| *late);
        if let (Some(LateMessage { trace, took_ns, within_ns, .. }), Some((at, there))) = (self.longest.take(), most) {
            let (took, within) = (Duration::from_ns(took_ns), Duration::from_ns(within_ns));
            let what = if late == 1 { "message" } else { "messages" };
            tracing::info!(
                path,
                late,
                took_ns,
                within_ns,
                trace,
                at,
                "path {path}: {late} {what} took longer than {within}, the longest {took:.3}, {there} of them at {at}"
            );
        }
    }
}

impl Said {
    /// False: there was nothing to say.
    fn say(&mut self, name: &str) -> bool {
        let late = std::mem::take(&mut self.late);
        let longest = self.longest.take();
        if let Some(LateJob { by, process, thread, from_ns, to_ns, within_ns, cause, .. }) = &longest {
            let took_ns = to_ns - from_ns;
            let (took, within) = (Duration::from_ns(took_ns), Duration::from_ns(*within_ns));
            let what = if *by == ObservedBy::Requests { "requests" } else { "jobs" };
            let many = if late == 1 { &what[..what.len() - 1] } else { what };
            let (cause, says) = (cause.key(), cause);
            tracing::info!(
                service = name,
                late,
                what,
                took_ns,
                within_ns,
                process,
                thread,
                cause,
                "{name}: {late} {many} took longer than {within}, the longest {took:.3}, {says}"
            );
        }
        let mut is_missed = false;
        for (vcpu, (missed, told)) in &mut self.missed {
            let more = *missed - std::mem::replace(told, *missed);
            if more > 0 {
                is_missed = true;
                let periods = if more == 1 { "period" } else { "periods" };
                let of = vcpu.map_or(String::new(), |vcpu| format!(" {vcpu}"));
                tracing::warn!(
                    service = name, vcpu, missed = more,
                    "{name}{of}: {more} {periods} in which it wanted the core throughout and did not get its whole budget"
                );
            }
        }
        longest.is_some() || is_missed
    }
}

#[cfg(test)]
#[path = "late_tests.rs"]
mod tests;
