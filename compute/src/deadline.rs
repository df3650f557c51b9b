//! The backend `deadline`: one SCHED_DEADLINE reservation a core, pinned.

use crate::cpuset::Cpusets;
use crate::files::Real;
use crate::sched::{self, Attr, Thread};
use crate::{Error, Recorder, Undo};
use giusto_model::{Server, ServerKind};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{io, thread};

/// A service that has used less processor time than this shows nothing yet about who does its work.
const HARDLY_RUN_NS: u64 = 1_000_000;
/// Less than this may be the start of its programs alone, some milliseconds each on a slow machine: no ground to refuse it.
const STARTING_NS: u64 = 100_000_000;
/// Part of a service's work that the reserved thread has to do, in percent.
const MOST: u32 = 95;

/// Cores, each isolated for its time-sensitive service and the services that use its leftovers.
#[derive(Debug)]
pub struct Isolated {
    cpusets: Cpusets,
    cores: Vec<u32>,
}

/// A reservation in force.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The thread that got it.
    pub thread: u32,
    /// Its part of the service's processor time so far, in percent; `None` if the service had not run yet.
    pub percent: Option<u32>,
    identity: Thread,
    /// The service's processes at that time. Children that it forks later, to save in the background for example, work
    /// outside the reservation, and may.
    processes: Vec<Thread>,
    /// What each of their threads had used at the last check.
    used: BTreeMap<u32, u64>,
}

impl Isolated {
    /// Gives each of `cores` a root domain of its own, and all other cores of the machine one together.
    ///
    /// Errors: an earlier Giusto's cpusets are there or another cpuset holds a core (nothing was changed then); the kernel
    /// refuses. Takes some milliseconds.
    pub fn new(cpusets: &Cpusets, cores: &[u32], record: &mut dyn Recorder<Undo>) -> Result<Self, Error> {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let online = crate::cores::online();
        if let Some(&core) = cores.iter().find(|core| !online.contains(core)) {
            return Err(Error::NoCore { core, online });
        }
        let tree = cpusets.root().to_path_buf();
        let cap = crate::machine::cap();
        if let Some(tenths) = crate::admission::free_tenths(&tree, cap) {
            record.intend(&Undo::Bandwidth { tree, cap, tenths }).map_err(Error::Journal)?;
        }
        cpusets.isolate(&Real, &cores, record)?;
        cpusets.make_room(&Real, record)?;
        Ok(Isolated { cpusets: cpusets.clone(), cores })
    }

    /// Whether a process has one cgroup for everything here.
    pub fn is_v2(&self) -> bool {
        matches!(self.cpusets, Cpusets::V2(_))
    }

    /// Whether `core` is one of them.
    pub fn has(&self, core: u32) -> bool {
        self.cores.contains(&core)
    }

    /// Moves processes to one of the isolated cores, with all their threads. Their later threads and children stay there too;
    /// to be called again for processes that have come from elsewhere since.
    ///
    /// Errors: a core that is not isolated; a thread with a reservation that Giusto did not make; the kernel refuses.
    pub fn confine(&self, processes: &[u32], core: u32, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        if !self.has(core) {
            return Err(Error::NoCore { core, online: self.cores.clone() });
        }
        self.place(processes, Some(core), record)
    }

    /// Moves processes off the isolated cores, to where the kernel balances load.
    pub fn keep_off(&self, processes: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        self.place(processes, None, record)
    }

    fn place(&self, processes: &[u32], core: Option<u32>, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        processes.iter().try_for_each(|&pid| self.cpusets.place(&Real, pid, core, record))
    }

    /// Reserves `server` for the thread of `processes` (already confined) that does the work. The others stay as they are,
    /// on the same core.
    ///
    /// The whole budget goes to one thread, so one has to do at least 95 % of the work; a service that has hardly run yet
    /// (less than 1 ms, or less than 100 ms without such a thread) gets it for its main thread, and [`Reserved::check`] tells
    /// if another does the work later. Errors: another kind of server than `constant_bandwidth`; no thread dominates; the
    /// kernel refuses, also after one period of patience (bandwidth that others freed returns only then). A
    /// thread that sleeps since before it was confined is woken for a moment (see README.md).
    pub fn reserve(
        &self,
        processes: &[u32],
        server: &Server,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Reserved, Error> {
        if server.kind != ServerKind::ConstantBandwidth {
            return Err(Error::Kind(server.kind));
        }
        let (tid, percent) = worker(processes)?;
        let thread = Thread::of(tid).ok_or(Error::Gone(tid))?;
        let before = sched::get(tid).map_err(|_| Error::Gone(tid))?;
        if before.policy == sched::DEADLINE {
            return Err(Error::Taken(tid));
        }
        let period_ns = server.period.ns();
        record.intend(&Undo::Scheduling { thread, before, period_ns }).map_err(Error::Journal)?;
        settle_forks(tid);
        let wanted = Attr::deadline(server.budget.ns(), period_ns);
        patiently(tid, &wanted, server.period.to_std()).map_err(|why| Error::Kernel {
            doing: format!("reserve {} every {} for thread {tid}", server.budget, server.period),
            why: explained(&why),
        })?;
        let processes: Vec<Thread> = processes.iter().filter_map(|&pid| Thread::of(pid)).collect();
        let used = usage(&processes);
        Ok(Reserved { thread: tid, percent, identity: thread, processes, used })
    }
}

/// Changes a reservation from any thread, as long as it stands.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    thread: Thread,
}

impl Reservation {
    /// Changes budget and period in place. A decrease is never refused. Where the thread has ended there is nothing to change:
    /// its number may be another one's.
    pub fn set(&self, server: &Server) -> Result<(), Error> {
        if !self.thread.alive() {
            return Ok(());
        }
        let wanted = Attr::deadline(server.budget.ns(), server.period.ns());
        patiently(self.thread.tid, &wanted, server.period.to_std()).map_err(|why| Error::Kernel {
            doing: format!("reserve {} every {} for thread {}", server.budget, server.period, self.thread.tid),
            why: explained(&why),
        })
    }
}

/// What is left (ns) of the budget of a thread under SCHED_DEADLINE; not above 0: it is throttled, or about to be. `None`: the
/// kernel does not tell (it is another policy's, it has ended, or CONFIG_SCHED_DEBUG is off).
pub fn budget_left(thread: u32) -> Option<i64> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/sched")).ok()?;
    let line = text.lines().find(|line| line.starts_with("dl.runtime"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

impl Reserved {
    /// [`Reservation::set`].
    pub fn set(&self, server: &Server) -> Result<(), Error> {
        self.reservation().set(server)
    }

    /// What changes it from another thread.
    pub fn reservation(&self) -> Reservation {
        Reservation { thread: self.identity }
    }

    /// Whether its thread is there.
    pub fn alive(&self) -> bool {
        self.identity.alive()
    }

    /// Whether the reservation has served its service since the last check. Errors: its thread has ended; it was taken out of
    /// SCHED_DEADLINE by another program; another thread did most of the work.
    pub fn check(&mut self) -> Result<(), Error> {
        if !self.identity.alive() {
            return Err(Error::Gone(self.thread));
        }
        if sched::get(self.thread).is_ok_and(|now| now.policy != sched::DEADLINE) {
            return Err(Error::Lost(self.thread));
        }
        let now = usage(&self.processes);
        let since = |tid: &u32| self.used.get(tid).copied().unwrap_or(0);
        let worked: Vec<(u64, u32)> = now.iter().map(|(tid, used)| (used.saturating_sub(since(tid)), *tid)).collect();
        self.used = now;
        match took_over(self.thread, &worked) {
            Some(worker) => Err(Error::NotTheWorker { reserved: self.thread, worker }),
            None => Ok(()),
        }
    }
}

/// Processor time of each thread of `processes`.
fn usage(processes: &[Thread]) -> BTreeMap<u32, u64> {
    let alive = processes.iter().filter(|process| process.alive());
    alive.flat_map(|process| sched::threads(process.tid)).map(|tid| (tid, sched::cpu_time_ns(tid))).collect()
}

/// The thread that did more than half of what all did, unless it is the reserved one; of (time used in ns, thread).
fn took_over(reserved: u32, worked: &[(u64, u32)]) -> Option<u32> {
    let total: u64 = worked.iter().map(|(time, _)| time).sum();
    let &(most, tid) = worked.iter().max()?;
    (total >= HARDLY_RUN_NS && tid != reserved && most > total / 2).then_some(tid)
}

/// Gives a thread another policy, its old one recorded.
pub fn reschedule(tid: u32, attr: &Attr, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    let thread = Thread::of(tid).ok_or(Error::Gone(tid))?;
    let kernel = |why: io::Error| Error::Kernel { doing: format!("reschedule thread {tid}"), why: why.to_string() };
    let before = sched::get(tid).map_err(kernel)?;
    if before.policy == sched::DEADLINE {
        return Err(Error::Taken(tid));
    }
    record.intend(&Undo::Scheduling { thread, before, period_ns: 0 }).map_err(Error::Journal)?;
    sched::set(tid, attr).map_err(kernel)
}

/// Gives a thread of its own right a little of its core, and soon: `budget` in every `period`, done within `deadline`, if the core's deadlines
/// allow. What the kernel has instead of a boost: the thread waits for no other reservation's budget, and has no precedence
/// over other reservations.
///
/// Errors: the thread has gone or has a reservation already; the kernel refuses.
pub fn prompt(
    tid: u32,
    budget: giusto_model::Duration,
    deadline: giusto_model::Duration,
    period: giusto_model::Duration,
    record: &mut dyn Recorder<Undo>,
) -> Result<(), Error> {
    let thread = Thread::of(tid).ok_or(Error::Gone(tid))?;
    let before = sched::get(tid).map_err(|_| Error::Gone(tid))?;
    if before.policy == sched::DEADLINE {
        return Err(Error::Taken(tid));
    }
    record.intend(&Undo::Scheduling { thread, before, period_ns: period.ns() }).map_err(Error::Journal)?;
    settle_forks(tid);
    let mut wanted = Attr::deadline(budget.ns(), period.ns());
    wanted.deadline = deadline.ns();
    patiently(tid, &wanted, std::time::Duration::ZERO).map_err(|why| Error::Kernel {
        doing: format!("reserve {budget} every {period} for thread {tid}"),
        why: explained(&why),
    })
}

/// Binds a process with all its threads to one core by plain affinity; its later threads and children stay there too. One that
/// has gone is passed over.
pub fn bind(pid: u32, core: u32, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    for tid in sched::threads(pid) {
        let (Some(thread), Ok(cores)) = (Thread::of(tid), sched::allowed(tid)) else { continue };
        if cores == [core] {
            continue;
        }
        record.intend(&Undo::Bound { thread, core, cores }).map_err(Error::Journal)?;
        sched::set_affinity(tid, &[core]).or_else(|why| if thread.alive() { Err(why) } else { Ok(()) }).map_err(
            |why| {
                let why = format!("{why}; is the core in its cpuset?");
                Error::Kernel { doing: format!("bind thread {tid} to core {core}"), why }
            },
        )?;
    }
    Ok(())
}

/// Children of `tid` start as fair threads from now on, and a fork that began before is over.
///
/// In a fork the kernel copies that flag first and looks at the parent's priority later. If the parent gets SCHED_DEADLINE in
/// between, the fork is refused (EAGAIN), which few programs survive. A stop for a tracer is never within a fork. A thread that
/// sleeps is in none, or past that point. Where the thread cannot be traced, that one fork may be refused.
fn settle_forks(tid: u32) {
    let Ok(before) = sched::get(tid) else { return };
    if !before.resets_on_fork() && sched::set(tid, &before.reset_on_fork()).is_ok() && sched::is_running(tid) {
        let _ = crate::nudge::nudge(tid);
    }
}

/// Sets a reservation; EBUSY and EPERM may pass within one period.
fn patiently(tid: u32, wanted: &Attr, period: Duration) -> io::Result<()> {
    let begin = Instant::now();
    let mut nudged = false;
    loop {
        let Err(why) = sched::set(tid, wanted) else { return Ok(()) };
        let waited = begin.elapsed();
        match why.raw_os_error() {
            // Bandwidth that was freed just now returns at its zero-lag time.
            Some(libc::EBUSY) if waited < period + Duration::from_millis(100) => {}
            // It fell asleep on another core and has not woken since: the kernel judges it by that core's root domain.
            Some(libc::EPERM) if waited < Duration::from_millis(500) => {
                if waited > Duration::from_millis(150) && !nudged && sleeps_elsewhere(tid) {
                    nudged = true;
                    crate::nudge::nudge(tid)?;
                }
            }
            _ => return Err(why),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn sleeps_elsewhere(tid: u32) -> bool {
    let (Some(core), Ok(allowed)) = (sched::core(tid), sched::affinity(tid)) else { return false };
    !allowed.contains(&core)
}

fn explained(why: &io::Error) -> String {
    let hint = match why.raw_os_error() {
        Some(libc::EBUSY) => {
            "the core's deadline bandwidth is taken; see who else uses SCHED_DEADLINE, or try 'giusto restore'"
        }
        Some(libc::EPERM) => {
            "CAP_SYS_NICE is missing, or the core did not become a root domain of its own (in a container it cannot)"
        }
        Some(libc::EINVAL) => {
            "the budget must be at least 1.024 us, and the period between sched_deadline_period_min_us and _max_us"
        }
        _ => return why.to_string(),
    };
    format!("{why}; {hint}")
}

/// The thread that does the work, and its percentage of it.
fn worker(processes: &[u32]) -> Result<(u32, Option<u32>), Error> {
    let all = processes.iter().flat_map(|&pid| sched::threads(pid));
    let times: Vec<(u64, u32)> = all.map(|tid| (sched::cpu_time_ns(tid), tid)).collect();
    choose(&times)
}

/// Among (time used in ns, thread), the first process's main thread first.
fn choose(times: &[(u64, u32)]) -> Result<(u32, Option<u32>), Error> {
    let &(_, main) = times.first().ok_or(Error::NoThread)?;
    let total: u64 = times.iter().map(|(time, _)| time).sum();
    if total < HARDLY_RUN_NS {
        return Ok((main, None));
    }
    let mut order = times.to_vec();
    order.sort_by_key(|&(time, tid)| (std::cmp::Reverse(time), tid));
    let percent = |time: u64| u32::try_from(u128::from(time) * 100 / u128::from(total)).unwrap_or(100);
    let (most, tid) = order[0];
    if percent(most) < MOST {
        if total < STARTING_NS {
            return Ok((main, None));
        }
        let shares = order.iter().take(4).map(|&(time, tid)| format!("{tid} {} %", percent(time)));
        return Err(Error::NoWorker { shares: shares.collect::<Vec<_>>().join(", "), threads: times.len() });
    }
    Ok((tid, Some(percent(most))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_does_95_percent_is_chosen_or_the_service_refused_with_shares() {
        const MS: u64 = 1_000_000;
        assert!(matches!(choose(&[(0, 7), (MS / 2, 8)]), Ok((7, None))), "hardly run: the main thread");
        assert!(matches!(choose(&[(MS, 7), (99 * MS, 8)]), Ok((8, Some(99)))));
        assert!(matches!(choose(&[(5 * MS, 7), (95 * MS, 8)]), Ok((8, Some(95)))));
        assert!(matches!(choose(&[(2 * MS, 7), (3 * MS, 8)]), Ok((7, None))), "two programs that have just started");
        let refused = choose(&[(10 * MS, 7), (90 * MS, 8)]).unwrap_err().to_string();
        assert!(refused.contains("8 90 %, 7 10 %"), "{refused}");
        assert!(matches!(choose(&[]), Err(Error::NoThread)));
    }

    #[test]
    fn a_thread_has_taken_over_when_it_does_more_than_half_of_the_work() {
        const MS: u64 = 1_000_000;
        assert_eq!(took_over(7, &[(10 * MS, 7), (9 * MS, 8)]), None);
        assert_eq!(took_over(7, &[(9 * MS, 7), (10 * MS, 8)]), Some(8));
        assert_eq!(took_over(7, &[(0, 7), (MS / 2, 8)]), None, "hardly anything was done");
        assert_eq!(took_over(7, &[]), None);
    }

    #[test]
    fn a_number_that_is_another_threads_by_now_is_left_alone() {
        thread::spawn(|| {
            // SAFETY: no arguments, cannot fail.
            let own = Thread::of(unsafe { libc::gettid() } as u32).unwrap();
            let before = Thread { started: own.started.wrapping_sub(1), ..own };
            let server = Server {
                kind: ServerKind::ConstantBandwidth,
                budget: giusto_model::Duration::from_ms(1),
                period: giusto_model::Duration::from_ms(100),
            };
            Reservation { thread: before }.set(&server).unwrap();
            assert_eq!(sched::get(0).unwrap().policy, sched::OTHER);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_was_bound_twice_gets_its_own_cores_back() {
        let online = crate::cores::online();
        let &[one, other, ..] = online.as_slice() else { return };
        thread::spawn(move || {
            // SAFETY: no arguments, cannot fail.
            let thread = Thread::of(unsafe { libc::gettid() } as u32).unwrap();
            // Its own was `other`; the second record has what its service had.
            let twice = [(one, vec![other]), (other, online)];
            let record = twice.map(|(core, cores)| Undo::Bound { thread, core, cores });
            sched::set_affinity(0, &[other]).unwrap();
            assert!(crate::undo(&record).failed.is_empty());
            assert_eq!(sched::affinity(0).unwrap(), [other]);
        })
        .join()
        .unwrap();
    }
}
