//! What a simulation tells, kept for Python.

use crate::columns::{Job, Slice};
use crate::run::Stop;
use giusto_model::JobRecord;
use giusto_simulator::{Error, Observer};
use std::collections::HashMap;

/// Whose jobs are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Of all servers.
    All,
    /// Of the first.
    First,
    /// Of none.
    None,
}

/// Keeps jobs, and the schedule where it is asked for; ends a simulation whose caller was interrupted.
pub(crate) struct Recorder {
    pub(crate) jobs: Vec<Job>,
    pub(crate) slices: Vec<Slice>,
    /// The last slice of each task of each server.
    last: HashMap<(usize, Option<u32>), usize>,
    of: Of,
    keeps_slices: bool,
    stop: Stop,
}

impl Recorder {
    /// `keeps_slices`: the schedule, too.
    pub(crate) fn new(of: Of, keeps_slices: bool, stop: Stop) -> Recorder {
        Recorder { jobs: Vec::new(), slices: Vec::new(), last: HashMap::new(), of, keeps_slices, stop }
    }
}

impl Observer for Recorder {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if self.of == Of::All || self.of == Of::First && server == 0 {
            self.jobs.push(Job::new(server, job));
        }
        self.stop.go_on()
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        if self.keeps_slices {
            // The simulator stops at each of its events; a job that goes on has one slice.
            let task = (server, job.map(|(task, _)| task));
            let slice = Slice::new(server, job, from, to);
            match self.last.get(&task).map(|at| &mut self.slices[*at]).filter(|last| last.goes_on_as(&slice)) {
                Some(last) => last.join(&slice),
                None => {
                    self.last.insert(task, self.slices.len());
                    self.slices.push(slice);
                }
            }
        }
        self.stop.go_on()
    }
    fn release(&mut self, _server: usize, _task: u32, _at: u64) -> Result<(), Error> {
        self.stop.go_on()
    }
}

/// Keeps nothing, and ends a simulation whose caller was interrupted.
pub(crate) struct Watcher(pub(crate) Stop);

impl Observer for Watcher {
    fn slice(&mut self, _server: usize, _job: Option<(u32, u64)>, _from: u64, _to: u64) -> Result<(), Error> {
        self.0.go_on()
    }
}
