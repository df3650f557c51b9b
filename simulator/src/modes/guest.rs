//! A virtual CPU: the tasks of its mode, and on the first of a machine the agent.

use giusto_model::Task;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a virtual CPU does. Smaller first: shorter period, then earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    period: u64,
    release: u64,
    task: usize,
    left: u64,
}

/// A virtual CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Vcpu {
    /// Work of the agent, before all tasks: what is left of each piece.
    agent: VecDeque<u64>,
    jobs: BinaryHeap<Reverse<Job>>,
    /// Next release of each task.
    next: Vec<u64>,
    tasks: Vec<(u64, u64)>,
    /// Jobs that were due, and late.
    pub(super) counted: (u64, u64),
    pub(super) ready: bool,
    /// The release that the event loop knows of.
    pub(super) known: u64,
}

/// What came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Nothing,
    Agent,
    Job,
}

impl Vcpu {
    /// Stops its tasks and starts these, with a first job each at once, or `offset` later.
    pub(super) fn switch(&mut self, tasks: &[Task], now: u64, mut offset: impl FnMut(u64) -> u64) {
        let late = self.jobs.drain().filter(|Reverse(job)| job.release + job.period < now).count() as u64;
        self.counted = (self.counted.0 + late, self.counted.1 + late);
        self.tasks = tasks.iter().map(|task| (task.wcet.ns(), task.period.ns())).collect();
        self.next = self.tasks.iter().map(|&(_, period)| now + offset(period)).collect();
    }

    /// Releases what is due.
    pub(super) fn release(&mut self, now: u64) {
        for (task, next) in self.next.iter_mut().enumerate() {
            while *next <= now {
                let (left, period) = self.tasks[task];
                self.jobs.push(Reverse(Job { period, release: *next, task, left }));
                *next += period;
            }
        }
    }

    /// When it releases the next job.
    pub(super) fn next_release(&self) -> Option<u64> {
        self.next.iter().copied().min()
    }

    /// The agent has something to do.
    pub(super) fn agent_wakes(&mut self, work: u64) {
        self.agent.push_back(work);
    }

    /// Whether it wants to run.
    pub(super) fn wants(&self) -> bool {
        !self.agent.is_empty() || !self.jobs.is_empty()
    }

    /// Until what runs is done.
    pub(super) fn left(&self) -> Option<u64> {
        self.agent.front().copied().or(self.jobs.peek().map(|Reverse(job)| job.left))
    }

    /// It ran for so long, until `now`.
    pub(super) fn run(&mut self, ran: u64, now: u64) -> Done {
        if let Some(left) = self.agent.front_mut() {
            *left -= ran;
            if *left > 0 {
                return Done::Nothing;
            }
            self.agent.pop_front();
            return Done::Agent;
        }
        let Some(mut first) = self.jobs.peek_mut() else { return Done::Nothing };
        first.0.left -= ran; // the last field: its place stays
        if first.0.left > 0 {
            return Done::Nothing;
        }
        let Reverse(job) = std::collections::binary_heap::PeekMut::pop(first);
        self.counted.0 += 1;
        self.counted.1 += u64::from(now > job.release + job.period);
        Done::Job
    }

    /// At the end: what is still there and late.
    pub(super) fn end(&mut self, now: u64) {
        self.switch(&[], now, |_| 0);
    }
}
