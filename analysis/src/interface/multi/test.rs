//! Global EDF on a supply of several processors (Shin, Easwaran, Lee 2008; after Baruah 2007).

use super::super::exact::{as_share, Load};
use super::super::{Point, Shortfall};
use super::Total;
use crate::gallop::first;
use crate::Error;
use giusto_model::{Duration, Task};
use std::cmp::Reverse;

/// Steps of one test; some seconds.
const MOST_STEPS: u64 = 1_000_000;

/// Whether, for every task k and every length L ≥ D_k of a window that ends with its deadline,
///
/// Σ Î_i + Σ of the m − 1 largest (Ī_i − Î_i) + m(C_k − 1) < sbf(L).
///
/// Let a job of k miss, as the first one, and let the window begin at the last instant before its release at which a processor
/// that was supplied was idle. At most m − 1 jobs are left over from before; and all that is supplied is used, but while the
/// job itself runs, for C_k − 1 at most. Of the other ns, take L − C_k + 1. Task i runs in them for at most
/// Î_i = min(W_i, L − C_k + 1), or Ī_i with what is left over of it; k's earlier jobs run before its release, for L − D_k at
/// most. All of that is at least what is supplied in them. Here W_i is the work released and due in the window.
///
/// The paper takes L − C_k, and allows equality: then one processor "does" two jobs of 2 and 1 that are both due in 2.
pub(super) fn test(tasks: &[Task], total: &Total, latency: Duration) -> Result<Result<Duration, Shortfall>, Error> {
    let mut until = Duration::ZERO;
    let (corners, load) = (total.corners(), Load::new(tasks));
    let mut left = MOST_STEPS;
    for index in 0..tasks.len() {
        let window = Window { tasks, total, corners: &corners, index, latency: latency.ns() };
        let last = window.bound(&load)?;
        until = until.max(Duration::from_ns(last));
        let mut from = tasks[index].deadline.ns();
        loop {
            // To the end of the piece on which both sides are lines, or demand the largest of some.
            let end = window.next_corner(from).map_or(last, |corner| (corner - 1).min(last)).max(from);
            if let Some(at) = [from, end].into_iter().find(|&at| window.demand(at) > window.supply(at)) {
                return window.shortfall(at).map(Err);
            }
            left = left.checked_sub(1).ok_or(Error::TooClose)?;
            let supply = window.supply(end);
            match first(end, last, |t| window.demand(t) > supply) {
                Some(next) => from = next,
                None => break,
            }
        }
    }
    Ok(Ok(until))
}

/// Windows that end with the deadline of one task.
struct Window<'a> {
    tasks: &'a [Task],
    total: &'a Total,
    corners: &'a [u64],
    /// k
    index: usize,
    latency: u64,
}

/// What one job more or less of a task is in a window of a length.
struct Part {
    /// Î, Ī.
    without: u128,
    with: u128,
    /// So many of them.
    count: u32,
}

impl Window<'_> {
    fn own(&self) -> &Task {
        &self.tasks[self.index]
    }

    fn supply(&self, t: u64) -> u128 {
        t.checked_sub(self.latency).map_or(0, |t| self.total.supply(Duration::from_ns(t)))
    }

    /// What a supply must be at least: the left side and one more. Never falls with t ≥ D_k. O(n log n).
    fn demand(&self, t: u64) -> u128 {
        let mut parts: Vec<Part> = (0..self.tasks.len()).flat_map(|i| self.parts(i, t)).collect();
        let without: u128 = parts.iter().map(|part| part.without * u128::from(part.count)).sum();
        parts.sort_unstable_by_key(|part| Reverse(part.with - part.without));
        let mut cores = self.total.budgets.len() as u64 - 1;
        let mut over = 0;
        for part in &parts {
            let count = cores.min(part.count.into());
            over += (part.with - part.without) * u128::from(count);
            cores -= count;
        }
        let aside = u128::from(self.own().wcet.ns() - 1) * self.total.budgets.len() as u128;
        without + over + aside + 1
    }

    /// Of task i; of k its other copies, and its own earlier jobs.
    fn parts(&self, i: usize, t: u64) -> impl Iterator<Item = Part> {
        let (task, own) = (&self.tasks[i], self.own());
        let wcet = u128::from(task.wcet.ns());
        let (work, over) = runs(task, t);
        let within = |work: u128, most: u64, count: u32| {
            let most = u128::from(most);
            Part { without: work.min(most), with: (work + over).min(most), count }
        };
        let room = t - own.wcet.ns() + 1;
        let itself = (i == self.index).then(|| within(work.saturating_sub(wcet), t - own.deadline.ns(), 1));
        let others = within(work, room, task.copies - u32::from(i == self.index));
        itself.into_iter().chain([others])
    }

    /// No longer window can be the first in which too much is asked for: W_i ≤ U_i(L + T_i − D_i), what is left over is at
    /// most the m − 1 largest C, and the supply is at least Θ/Π · (L − Δ).
    fn bound(&self, load: &Load) -> Result<u64, Error> {
        let (cores, share) = (self.total.budgets.len() as u128, self.total.bandwidth());
        let mut left: Vec<(u64, u32)> = self.tasks.iter().map(|task| (task.wcet.ns(), task.copies)).collect();
        left.sort_unstable_by_key(|one| Reverse(*one));
        let (mut fixed, mut more) = (u128::from(self.own().wcet.ns() - 1) * cores, cores - 1);
        for (wcet, copies) in left {
            let count = more.min(copies.into());
            fixed += u128::from(wcet) * count;
            more -= count;
        }
        // As a delay: fixed ≤ Θ/Π · delay.
        let delay = (fixed + 1) * u128::from(share.denom());
        let delay = delay.div_ceil(u128::from(share.numer())) + self.total.delay() + u128::from(self.latency);
        let crossing = load.crossing(as_share(share), delay).ok_or(Error::TooClose)?;
        Ok(crossing.max(self.own().deadline.ns()))
    }

    /// The first instant after `from` at which a side may change its slope or jump.
    fn next_corner(&self, from: u64) -> Option<u64> {
        let tasks = self.tasks.iter().enumerate().flat_map(|(i, task)| self.task_corners(i, task, from));
        let period = self.total.period.ns();
        let supply = self.corners.iter().filter_map(|corner| next_on(corner.checked_add(self.latency)?, period, from));
        tasks.chain(supply).filter(|corner| *corner > from).min()
    }

    /// Where W_i jumps, what is left over grows or is all, and either passes what is counted of it at most.
    fn task_corners(&self, i: usize, task: &Task, from: u64) -> impl Iterator<Item = u64> {
        let (period, wcet, own) = (task.period.ns(), task.wcet.ns(), self.own());
        let steps = [task.deadline.ns(), 0, wcet].map(|phase| next_on(phase, period, from));
        let (work, over) = runs(task, from);
        let within = |work: u128, less: u64| u64::try_from(work + u128::from(less)).ok();
        let others = [work, work + over].map(|work| within(work, own.wcet.ns() - 1));
        let rest = work.saturating_sub(wcet.into());
        let own = [rest, rest + over].map(|work| within(work, own.deadline.ns()).filter(|_| i == self.index));
        steps.into_iter().chain(others).chain(own).flatten()
    }

    fn shortfall(&self, at: u64) -> Result<Shortfall, Error> {
        let length = |work: u128| u64::try_from(work).map(Duration::from_ns).map_err(|_| Error::Demand);
        let (demand, supply) = (length(self.demand(at))?, length(self.supply(at))?);
        let point = Point { task: Some(self.index), at: Duration::from_ns(at), demand, supply };
        Ok(Shortfall { point, task: self.index })
    }
}

/// W_i(t), and what a job that was released before can run besides.
fn runs(task: &Task, t: u64) -> (u128, u128) {
    let (wcet, period) = (u128::from(task.wcet.ns()), u128::from(task.period.ns()));
    let t = u128::from(t);
    let jobs = (t + period - u128::from(task.deadline.ns())) / period;
    (jobs * wcet, t.saturating_sub(jobs * period).min(wcet))
}

/// The first phase + k·period after `from`.
fn next_on(phase: u64, period: u64, from: u64) -> Option<u64> {
    let Some(past) = from.checked_sub(phase) else { return Some(phase) };
    (past / period + 1).checked_mul(period)?.checked_add(phase)
}
