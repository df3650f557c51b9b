//! The backend `deadline`: one SCHED_DEADLINE reservation a core, pinned.

use crate::cpuset::Cpusets;
use crate::probe::reservable_cores;
use crate::sched::{self, Attr, Thread};
use crate::{Error, Recorder, Undo};
use giusto_model::Server;
use std::{io, thread, time};

/// A core, isolated for its time-sensitive service and whoever gets what that leaves.
#[derive(Debug)]
pub struct Isolated {
    cpusets: Cpusets,
    cores: Vec<u32>,
}

/// A reservation in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The thread that got it.
    pub thread: u32,
    /// Its part of the service's processor time so far, in percent; `None` if the service had not run yet.
    pub percent: Option<u32>,
}

impl Isolated {
    /// Gives each of `cores` a root domain of its own ([`Cpusets::isolate`]).
    pub fn new(cpusets: &Cpusets, cores: &[u32], record: &mut dyn Recorder) -> Result<Self, Error> {
        cpusets.isolate(cores, record)?;
        Ok(Isolated { cpusets: cpusets.clone(), cores: cores.to_vec() })
    }

    /// Moves processes to one of the isolated cores. Their later children stay there too.
    pub fn confine(&self, processes: &[u32], core: u32, record: &mut dyn Recorder) -> Result<(), Error> {
        debug_assert!(self.cores.contains(&core));
        processes.iter().try_for_each(|&pid| self.cpusets.place(pid, Some(core), record))
    }

    /// Moves processes off the isolated cores.
    pub fn keep_off(&self, processes: &[u32], record: &mut dyn Recorder) -> Result<(), Error> {
        processes.iter().try_for_each(|&pid| self.cpusets.place(pid, None, record))
    }

    /// Reserves `server` for the thread of `processes` (already confined) that does the work. The others stay as they are,
    /// on the same core.
    ///
    /// The whole budget goes to one thread, so one has to do at least 95 % of the work; a service that has hardly run yet
    /// (less than 1 ms) gets it for its main thread. Errors: no thread dominates; the kernel refuses, also after one period
    /// of patience (bandwidth that others freed returns only then).
    pub fn reserve(&self, processes: &[u32], server: &Server, record: &mut dyn Recorder) -> Result<Reserved, Error> {
        let (tid, percent) = worker(processes)?;
        let thread = Thread::of(tid).ok_or(Error::Gone(tid))?;
        let kernel = |why: io::Error| Error::Kernel {
            doing: format!("reserve {} every {} for thread {tid}", server.budget, server.period),
            why: why.to_string(),
        };
        let before = sched::get(tid).map_err(kernel)?;
        let period_ns = server.period.ns();
        record.intend(&Undo::Scheduling { thread, before, period_ns }).map_err(Error::Journal)?;
        let attr = Attr::deadline(server.budget.ns(), period_ns);
        let limit = time::Instant::now() + server.period.to_std() + time::Duration::from_millis(100);
        loop {
            match sched::set(tid, &attr) {
                Ok(()) => return Ok(Reserved { thread: tid, percent }),
                Err(why) if why.raw_os_error() == Some(libc::EBUSY) && time::Instant::now() < limit => {
                    thread::sleep(time::Duration::from_millis(5));
                }
                Err(why) if why.raw_os_error() == Some(libc::EBUSY) => {
                    return Err(kernel(io::Error::other(
                        "the core's deadline bandwidth is taken (EBUSY); see who else uses SCHED_DEADLINE, or try 'giusto restore'",
                    )))
                }
                Err(why) => return Err(kernel(why)),
            }
        }
    }
}

/// Gives a thread another policy, its old one recorded.
pub fn reschedule(tid: u32, attr: &Attr, record: &mut dyn Recorder) -> Result<(), Error> {
    let thread = Thread::of(tid).ok_or(Error::Gone(tid))?;
    let kernel =
        |why: io::Error| Error::Kernel { doing: format!("set the policy of thread {tid}"), why: why.to_string() };
    let before = sched::get(tid).map_err(kernel)?;
    record.intend(&Undo::Scheduling { thread, before, period_ns: 0 }).map_err(Error::Journal)?;
    sched::leave(tid, attr).map_err(kernel)
}

/// The thread that does the work, and its percentage of it.
fn worker(processes: &[u32]) -> Result<(u32, Option<u32>), Error> {
    let all = processes.iter().flat_map(|&pid| sched::threads(pid));
    let times: Vec<(u64, u32)> = all.map(|tid| (sched::cpu_time_ns(tid), tid)).collect();
    let total: u64 = times.iter().map(|(time, _)| time).sum();
    let &(most, tid) =
        times.iter().max_by_key(|(time, tid)| (*time, std::cmp::Reverse(*tid))).ok_or(Error::NoThread)?;
    if total < 1_000_000 {
        return Ok((processes[0], None));
    }
    let percent = u32::try_from(u128::from(most) * 100 / u128::from(total)).unwrap_or(100);
    if percent < 95 {
        return Err(Error::NoWorker { tid, percent, threads: times.len() });
    }
    Ok((tid, Some(percent)))
}

/// After everything is undone: has the kernel taken all bandwidth back? Mends its count if not.
///
/// `before` is what [`reservable_cores`] said before anything was changed. Errors: a text for people when it stays wrong.
pub fn settle(cpusets: Option<&Cpusets>, before: usize, cores: usize) -> Result<(), String> {
    // A killed thread's bandwidth returns at its zero-lag time: at most one period, which is seconds at most.
    for attempt in 0..20 {
        if reservable_cores(cores) >= before {
            return Ok(());
        }
        if attempt == 2 {
            if let Some(cpusets) = cpusets {
                let _ = cpusets.rebuild_domains(); // whether it helped is seen at once
            }
        }
        thread::sleep(time::Duration::from_millis(20 * attempt));
    }
    Err(format!(
        "the kernel still books deadline bandwidth that nobody uses: {} of {before} cores can be reserved; a reboot, or \
         switching cpuset.sched_load_balance of the root cpuset off and on, clears it",
        reservable_cores(cores)
    ))
}
