//! What one service takes, second by second, beside what was promised.

use crate::late::LateJob;
use crate::live::{answered, more, Live, Second};
use crate::response_status::{ObservedBy, ResponseStatus};
use crate::{Deployment, Running};
use giusto_measure::passive;
use giusto_model::{About, Certificate, Percentile, Promise, ServicePlan, Within};
use giusto_verify::{Backlog, Cause, Circumstances};
use std::collections::BTreeMap;

/// A manager may always be so late.
const LATE_NS: u64 = 1_000_000;
/// How far apart looks are.
const SECOND_NS: u64 = 1_000_000_000;
/// Jobs that one job may stand for: those that were due while it went on.
const STANDS_FOR: u64 = 10_000;

/// See the module.
pub(crate) struct Watched {
    /// Where its response times come from.
    pub(crate) by: ObservedBy,
    seen: passive::Responses,
    live: Live,
    /// Of each point that was promised, late requests of the last second, whose cause is told when the next one is known.
    recent: Vec<u64>,
    /// The same one by one, as far as they are told.
    recent_jobs: Vec<passive::Job>,
    counts: Option<Counts>,
    /// The two seconds before.
    before: [Circumstances; 2],
    backlog: Backlog,
    pub(crate) status: Option<ResponseStatus>,
}

/// What a backend has counted.
#[derive(Clone, Copy)]
struct Counts {
    used_ns: u64,
    throttled: Option<u64>,
    missed: u64,
}

impl Watched {
    pub(crate) fn new(by: ObservedBy, seen: passive::Responses) -> Watched {
        Watched {
            by,
            seen,
            live: Live::default(),
            recent: Vec::new(),
            recent_jobs: Vec::new(),
            counts: None,
            before: Default::default(),
            backlog: Backlog::default(),
            status: None,
        }
    }

    /// What the last second was like, but for its requests and the machine.
    pub(crate) fn circumstances(
        &mut self,
        deployment: &Deployment,
        plan: Option<&ServicePlan>,
        running: &Running,
    ) -> Circumstances {
        let mut here = Circumstances::default();
        let mut now = Counts { used_ns: running.usage_ns().unwrap_or(0), throttled: None, missed: 0 };
        if let Some((part, backend)) = plan.and_then(|part| Some((part, deployment.backends.used(part.backend)?))) {
            if let Some((_, server)) = backend.observe(part).counted {
                let (throttled, missed) = (Some(server.throttled), server.missed);
                now = Counts { used_ns: server.supplied_ns, throttled, missed };
            }
            here.period_ns = part.server.period.ns();
            here.manager_late_ns = backend.report(part.core).map_or(0, |report| report.late_max_ns);
            if let Some((jobs, mean_ns)) = planned(part) {
                (here.planned_requests, here.planned_ns) = (Some(jobs), Some(mean_ns));
            }
            let tightest = points(plan, self.by).iter().map(|point| point.within.ns()).min();
            here.allowed_late_ns = tightest.map_or(0, |tightest| (tightest / 10).max(LATE_NS));
        }
        let before = self.counts.replace(now).unwrap_or(now);
        here.throttled = now.throttled.map(|times| times.saturating_sub(before.throttled.unwrap_or(times)));
        here.missed = now.missed.saturating_sub(before.missed);
        here.used_ns = now.used_ns.saturating_sub(before.used_ns);
        here
    }

    /// A second has passed, and these are the counts, and late jobs one by one. Returns those of the second before, whose cause
    /// is known now.
    pub(crate) fn look(
        &mut self,
        second: u64,
        (now, late): (passive::Responses, Vec<passive::Job>),
        plan: Option<&ServicePlan>,
        here: Circumstances,
    ) -> Vec<LateJob> {
        if self.live.promise(&points(plan, self.by)) {
            self.recent = vec![0; self.live.points().len()];
        }
        let jobs = more(&self.seen.responses, &now.responses);
        let new = own_period(plan, self.by).map_or_else(|| jobs.clone(), |period| each_due(&jobs, period));
        let total_ns = now.total_ns.saturating_sub(self.seen.total_ns) + sum(&new).saturating_sub(sum(&jobs));
        let cause = self.blame(&new, here);
        let (waits, unseen) = (more(&self.seen.waits, &now.waits), now.unseen.saturating_sub(self.seen.unseen));
        self.live.add(second, Second { lengths: new, total_ns, waits, unseen });
        let connections = now.connections.iter().map(|(protocol, count)| (protocol.to_string(), *count));
        let status = self.live.status(&self.recent, |nth| predicted(plan, nth));
        let status = ResponseStatus { connections: connections.collect(), ..status };
        let is_seen = !status.connections.is_empty() || status.answered + status.unseen > 0;
        self.status = is_seen.then_some(status);
        self.seen = now;
        let told = std::mem::replace(&mut self.recent_jobs, late);
        let (Some(plan), Some(within_ns)) = (plan, longest_ns(plan, self.by)) else { return Vec::new() };
        let late = |job: passive::Job| LateJob {
            service: plan.name.clone(),
            by: self.by,
            process: job.process,
            thread: job.thread,
            from_ns: job.from_ns,
            to_ns: job.to_ns,
            within_ns,
            cause,
        };
        told.into_iter().map(late).collect()
    }

    /// Tells why requests of the second before were late, and takes those of this one.
    fn blame(&mut self, new: &[[u64; 2]], here: Circumstances) -> Cause {
        let (requests, longest_ns) = (answered(new), new.last().map_or(0, |[ns, _]| *ns));
        let here = Circumstances { requests, longest_ns, ..here };
        let [older, last] = self.before;
        self.before = [last, here];
        let waits = last.is_busy(SECOND_NS) && self.recent.iter().any(|late| *late > 0);
        let cause = self.backlog.cause(older.and(&last).and(&here).cause(), waits);
        for (nth, recent) in self.recent.iter_mut().enumerate() {
            let within = self.live.points()[nth].within.ns();
            let late = new.iter().filter(|[ns, _]| *ns > within).map(|[_, count]| count).sum();
            self.live.late(nth, cause.key(), std::mem::replace(recent, late));
        }
        cause
    }
}

/// What was promised of the response times of a service, of which so much is seen. A job that takes longer than the longest
/// deadline of its service is late, whichever of its tasks it is of.
fn points(plan: Option<&ServicePlan>, by: ObservedBy) -> Vec<Within> {
    let Some(plan) = plan else { return Vec::new() };
    let deadline = plan.tasks.iter().map(|task| task.deadline).max();
    match (&plan.promise, by, deadline) {
        (Promise::Percentiles { points, .. }, ..) => points.clone(),
        (Promise::EveryDeadline { .. }, ObservedBy::WakeUps | ObservedBy::Reported, Some(within)) => {
            vec![Within { percentile: Percentile::EVERY, within }]
        }
        _ => Vec::new(),
    }
}

/// The longest time of what was promised of the response times of a service, in ns: what takes longer is late.
pub(crate) fn longest_ns(plan: Option<&ServicePlan>, by: ObservedBy) -> Option<u64> {
    points(plan, by).iter().map(|point| point.within.ns()).max()
}

/// How many requests or jobs a second are planned for, and what one takes on average, in ns.
fn planned(plan: &ServicePlan) -> Option<(f64, f64)> {
    match &plan.promise {
        Promise::Percentiles { arrivals, service, .. } => {
            let mean: f64 = service.bound().iter().map(|(time, p)| time.ns() as f64 * p).sum();
            Some((arrivals.rate.per_ns() * 1e9 * f64::from(arrivals.batch), mean))
        }
        Promise::EveryDeadline { .. } => {
            let jobs = |task: &giusto_model::Task| f64::from(task.copies) * 1e9 / task.period.ns() as f64;
            let rate: f64 = plan.tasks.iter().map(jobs).sum();
            let used: f64 = plan.tasks.iter().map(|task| jobs(task) * task.wcet.ns() as f64).sum();
            (rate > 0.0).then(|| (rate, used / rate))
        }
        _ => None,
    }
}

/// The period, in ns, of a service all of whose tasks have the same one, where each is told by its wake-ups.
fn own_period(plan: Option<&ServicePlan>, by: ObservedBy) -> Option<u64> {
    let plan = plan.filter(|plan| by == ObservedBy::WakeUps && plan.vcpu.is_none())?;
    let is_timed = plan.promise.about() == About::Deadlines;
    let period = plan.tasks.first().filter(|_| is_timed)?.period.ns().max(1);
    plan.tasks.iter().all(|task| task.period.ns() == period).then_some(period)
}

/// A thread that is woken every `period` ns and has been kept for longer was due again meanwhile: what it did then without
/// sleeping in between stands for a job from each of these times on.
fn each_due(jobs: &[[u64; 2]], period: u64) -> Vec<[u64; 2]> {
    let mut all: BTreeMap<u64, u64> = BTreeMap::new();
    for &[ns, count] in jobs {
        let due = (ns.saturating_sub(1) / period).min(STANDS_FOR);
        (0..=due).for_each(|nth| *all.entry(ns - nth * period).or_default() += count);
    }
    all.into_iter().map(|(ns, count)| [ns, count]).collect()
}

fn sum(jobs: &[[u64; 2]]) -> u64 {
    jobs.iter().map(|[ns, count]| ns.saturating_mul(*count)).fold(0, u64::saturating_add)
}

/// What the plan predicts of the `nth` point of a promise.
fn predicted(plan: Option<&ServicePlan>, nth: usize) -> Option<u64> {
    match &plan?.certificate {
        Certificate::Percentiles { predicted, .. } => predicted.get(nth).map(|one| one.at.ns()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_kept_stands_for_all_that_were_due_meanwhile() {
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(each_due(&[[ms(1), 7], [ms(5), 2]], ms(5)), [[ms(1), 7], [ms(5), 2]]);
        let kept = each_due(&[[ms(1), 7], [ms(201), 1]], ms(5));
        assert_eq!((kept[0], answered(&kept)), ([ms(1), 8], 7 + 41), "one due every 5 ms");
        assert_eq!(kept.iter().filter(|[ns, _]| *ns > ms(100)).count(), 21);
        assert_eq!(answered(&each_due(&[[1 << 38, 1]], 1)), STANDS_FOR + 1, "bounded");
    }
}
