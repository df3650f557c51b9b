//! What a simulation tells, kept for Python.

use crate::columns::{Job, Slice};
use crate::run::Stop;
use giusto_model::JobRecord;
use giusto_simulator::{Error, Observer};

/// Keeps jobs, and the schedule where it is asked for; ends a simulation whose caller was interrupted.
pub(crate) struct Recorder {
    pub(crate) jobs: Vec<Job>,
    pub(crate) slices: Vec<Slice>,
    /// Jobs of which servers.
    only_first: bool,
    keeps_slices: bool,
    stop: Stop,
}

impl Recorder {
    /// `only_first`: no jobs of any server but the first; `keeps_slices`: the schedule, too.
    pub(crate) fn new(only_first: bool, keeps_slices: bool, stop: Stop) -> Recorder {
        Recorder { jobs: Vec::new(), slices: Vec::new(), only_first, keeps_slices, stop }
    }

    fn go_on(&self) -> Result<(), Error> {
        match self.stop.is_set() {
            true => Err(Error::Write("the simulation was interrupted".into())),
            false => Ok(()),
        }
    }
}

impl Observer for Recorder {
    fn job(&mut self, server: usize, job: &JobRecord) -> Result<(), Error> {
        if server == 0 || !self.only_first {
            self.jobs.push(Job::new(server, job));
        }
        self.go_on()
    }
    fn slice(&mut self, server: usize, job: Option<(u32, u64)>, from: u64, to: u64) -> Result<(), Error> {
        if self.keeps_slices {
            self.slices.push(Slice::new(server, job, from, to));
        }
        self.go_on()
    }
    fn release(&mut self, _server: usize, _task: u32, _at: u64) -> Result<(), Error> {
        self.go_on()
    }
}

/// Keeps nothing, and ends a simulation whose caller was interrupted.
pub(crate) struct Watcher(pub(crate) Stop);

impl Observer for Watcher {
    fn slice(&mut self, _server: usize, _job: Option<(u32, u64)>, _from: u64, _to: u64) -> Result<(), Error> {
        Recorder::new(true, false, self.0.clone()).go_on()
    }
}
