//! Undoing what is on record.

use crate::admission;
use crate::cpuset::{is_rest, rebuild_domains, Cpusets};
use crate::files::{Files, Real};
use crate::left::left;
use crate::manager::group;
use crate::record::Undo;
use crate::sched::{self, Thread};
use giusto_cgroup::{Asked, Cgroup};
use giusto_model::Bandwidth;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{io, thread, time};

/// What an undoing did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Changes undone or found undone.
    pub undone: usize,
    /// What is not exactly as before through no fault of this undoing, such as a cgroup that was removed meanwhile.
    pub notes: Vec<String>,
    /// What could not be undone, and why; empty is good. Worth another try.
    pub failed: Vec<String>,
}

/// After so many turns (5 ms each) in which members of a group could not be moved, more is done for that.
const RESTLESS: usize = 20;

/// Undoes all, the latest first (cores, bandwidth and started services last), and reads back what was changed: what is not as it
/// was before is a failure too. May be called again after having died in the middle; what has vanished is passed over.
///
/// Takes milliseconds; where a thread died with its reservation, up to the longest period (at most 4.2 s by default) more,
/// because cpusets must not change before the kernel has taken its bandwidth back.
pub fn undo(all: &[Undo]) -> Report {
    undo_in(&Real, all)
}

pub(crate) fn undo_in(files: &dyn Files, all: &[Undo]) -> Report {
    let mut undoing = Undoing { files, all, waited_ns: 0, kin: false, asked: None, report: Report::default() };
    for step in in_order(all) {
        match undoing.step(step) {
            Ok(()) => undoing.report.undone += 1,
            Err(error) => undoing.report.failed.push(format!("{step}: {error}")),
        }
    }
    if undoing.report.failed.is_empty() {
        undoing.report.failed = left(files, all);
    }
    undoing.report
}

/// The latest first; but a thread gets its cores back only when the cpusets that took them have gone (v2 partitions take
/// cores from all other cpusets), then the bandwidth is counted, and then what was started ends.
fn in_order(all: &[Undo]) -> Vec<&Undo> {
    let mut order: Vec<&Undo> = all.iter().rev().collect();
    order.sort_by_key(|step| match step {
        Undo::Affinity { .. } => 1,
        Undo::Bandwidth { .. } => 2,
        Undo::Group(_) | Undo::Contained { .. } => 3,
        _ => 0,
    });
    order
}

struct Undoing<'a> {
    files: &'a dyn Files,
    all: &'a [Undo],
    /// How long was waited for the bandwidth of dead threads.
    waited_ns: u64,
    /// Whether threads that were born under SCHED_EXT were looked for.
    kin: bool,
    /// When all that was started was asked to end, and who was, by cgroup.
    asked: Option<(time::Instant, HashMap<PathBuf, Asked>)>,
    report: Report,
}

impl Undoing<'_> {
    fn step(&mut self, step: &Undo) -> io::Result<()> {
        match step {
            Undo::Bandwidth { tree, cap, tenths } => self.settle(tree, *cap, *tenths),
            Undo::Folder(path) => self.remove(path),
            Undo::File { path, value } => match self.files.read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Ok(now) if now.trim() == value.trim() => Ok(()),
                _ => self.files.write(path, value),
            },
            Undo::Place { process, back_to, .. } => self.move_back(*process, back_to),
            Undo::Affinity { thread, cores } => {
                // A mask that is not all that its cpuset has was set by another program since.
                let forgotten =
                    |now: Vec<u32>| now != *cores && self.all_cores(thread.tid).is_none_or(|all| all == now);
                if !thread.alive() || !sched::affinity(thread.tid).is_ok_and(forgotten) {
                    return Ok(());
                }
                gone_is_fine(*thread, sched::set_affinity(thread.tid, cores))
            }
            Undo::Bound { thread, core, cores } => {
                // Its process was bound with all its threads; of a thread alone nothing follows for the others.
                if sched::is_process(thread.tid) {
                    self.unbind_kin(thread.tid);
                }
                // Another mask was set by another program since.
                if !thread.alive() || !sched::affinity(thread.tid).is_ok_and(|now| now == [*core]) {
                    return Ok(());
                }
                // Where it was bound more than once, the first record has what it had itself.
                let first = self.all.iter().find_map(|step| match step {
                    Undo::Bound { thread: same, cores, .. } if same == thread => Some(cores),
                    _ => None,
                });
                gone_is_fine(*thread, sched::set_affinity(thread.tid, first.unwrap_or(cores)))
            }
            Undo::Held { folder, home, before, core, cores } => {
                let Some((home, _)) = self.nearest(home) else { return Err(io::ErrorKind::NotFound.into()) };
                group::release(self.files, folder, &home, before, *core, cores)
            }
            Undo::Scheduling { thread, before, period_ns } => {
                let mut done = Ok(());
                self.reschedule_kin();
                if thread.alive() && sched::get(thread.tid).is_ok_and(|now| now != *before) {
                    done = gone_is_fine(*thread, sched::leave(thread.tid, before));
                }
                if !thread.alive() {
                    self.wait_for_the_dead(*period_ns);
                }
                done
            }
            Undo::Group(leader) => end_group(*leader),
            Undo::Contained { folder, limits, end_within_ns } => self.end(folder, limits, *end_within_ns),
            Undo::Stopped(process) => crate::stop::send(*process, libc::SIGCONT),
        }
    }

    /// Ends all that is in a cgroup. All services are asked to end at the same time.
    fn end(&mut self, folder: &Path, limits: &[PathBuf], within_ns: u64) -> io::Result<()> {
        let (asked, who) = self.asked.get_or_insert_with(|| {
            let who = contained(self.all).map(|group| (group.folder().to_path_buf(), group.ask_to_end())).collect();
            (time::Instant::now(), who)
        });
        let until = *asked + time::Duration::from_nanos(within_ns);
        Cgroup::at(folder).end_by(who.remove(folder).unwrap_or_default(), until)?;
        limits.iter().try_for_each(|folder| Cgroup::at(folder).remove())
    }

    /// Threads of a process that were born bound to a core, and are on no record themselves, get the cores that their nearest
    /// relative on record had.
    fn unbind_kin(&self, pid: u32) {
        let of = |tid: u32| {
            self.all.iter().find_map(|step| match step {
                Undo::Bound { thread, core, cores } if thread.tid == tid => Some((*core, cores)),
                _ => None,
            })
        };
        let Some((core, cores)) = sched::relatives(pid).into_iter().find_map(of) else { return };
        for tid in sched::threads(pid).into_iter().filter(|&tid| of(tid).is_none()) {
            if sched::affinity(tid).is_ok_and(|now| now == [core]) {
                let _ = sched::set_affinity(tid, cores); // it may have ended
            }
        }
    }

    /// Threads that were born under SCHED_EXT, and are on no record themselves, get the policy that their nearest relative on
    /// record had. Once.
    fn reschedule_kin(&mut self) {
        if std::mem::replace(&mut self.kin, true) {
            return;
        }
        let known = |tid: u32| {
            self.all.iter().find_map(|step| match step {
                Undo::Scheduling { thread, before, .. } if thread.tid == tid => Some(before),
                _ => None,
            })
        };
        let ext = |tid: u32| sched::get(tid).is_ok_and(|now| now.policy == crate::kernel::EXT);
        for pid in sched::processes() {
            for tid in sched::threads(pid).into_iter().filter(|&tid| known(tid).is_none() && ext(tid)) {
                if let Some(before) = sched::relatives(pid).into_iter().find_map(known) {
                    let _ = sched::set(tid, before); // it may have ended
                }
            }
        }
    }

    /// Cores of the cpuset that a thread is in.
    fn all_cores(&self, tid: u32) -> Option<Vec<u32>> {
        let cpusets = Cpusets::find_in(self.files)?;
        cpusets.effective(self.files, &cpusets.of_thread(self.files, tid)?)
    }

    /// A thread that died with its reservation is booked up to one period more; a root domain that changes meanwhile keeps
    /// a wrong sum. Once the cpusets have gone there is nothing to wait for.
    fn wait_for_the_dead(&mut self, period_ns: u64) {
        let domains = self.all.iter().any(|step| matches!(step, Undo::Folder(path) if self.files.is_folder(path)));
        if domains && period_ns > self.waited_ns {
            thread::sleep(time::Duration::from_nanos(period_ns - self.waited_ns));
            self.waited_ns = period_ns;
        }
    }

    fn move_back(&mut self, process: Thread, back_to: &Path) -> io::Result<()> {
        if !process.alive() {
            return Ok(());
        }
        let Some((target, same)) = self.nearest(back_to) else { return Err(io::ErrorKind::NotFound.into()) };
        gone_is_fine(process, self.files.write(&target, &process.tid.to_string()))?;
        if !same {
            let text =
                format!("process {} is in {} now; {} has gone", process.tid, target.display(), back_to.display());
            self.report.notes.push(text);
        }
        Ok(())
    }

    /// The membership file, or that of its nearest ancestor where its cgroup has been removed; and whether it is itself.
    fn nearest(&self, members: &Path) -> Option<(PathBuf, bool)> {
        let name = members.file_name()?;
        let home = members.parent()?;
        home.ancestors().find(|at| self.files.is_folder(at)).map(|at| (at.join(name), at == home))
    }

    /// Removes a cgroup; its members go home. Processes that die leave it a moment later, hence the patience.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut last = Ok(());
        for attempt in 0..400 {
            if !self.files.is_folder(path) {
                return Ok(());
            }
            // Members that fork all the time cannot be moved as fast as they come, unless they are stopped.
            if attempt == RESTLESS {
                contained(self.all).for_each(|group| _ = group.freeze(true));
            }
            // Nor can members that are within their end, which takes minutes at the idle class beside others.
            if attempt >= RESTLESS {
                giusto_cgroup::hasten_dying(path);
            }
            for pid in self.files.read(&path.join("cgroup.procs")).unwrap_or_default().lines() {
                // It may have died, or forked since: the removal tells, and the next turn finds it.
                let home = pid.parse().ok().and_then(|pid| {
                    self.unbind_kin(pid);
                    self.home(pid, path)
                });
                let _ = home.map(|home| self.files.write(&home, pid));
            }
            // On v2: removal alone gives the cores back only some time later. On v1 there is no such file.
            let _ = self.files.write(&path.join("cpuset.cpus.partition"), "member");
            // On v1: a removed group's real-time bandwidth stays counted for a while, so it is given back before.
            let _ = self.files.write(&path.join("cpu.rt_runtime_us"), "0");
            last = self.files.remove(path);
            if last.is_ok() {
                return last;
            }
            thread::sleep(time::Duration::from_millis(5));
        }
        last
    }

    /// Where a process in one of our cgroups belongs: where the nearest ancestor, or else the leader of its group or session,
    /// came from that was moved; or else what else was moved to this core; or else above.
    fn home(&self, pid: u32, path: &Path) -> Option<PathBuf> {
        // In this hierarchy: all groups of ours are directly below its root.
        let here = |to: &Path| path.parent().is_some_and(|root| to.starts_with(root));
        let moved: Vec<_> = self.all.iter().filter_map(Undo::as_move).filter(|(.., to)| here(to)).collect();
        let of = |pid: u32| moved.iter().find(|(process, ..)| process.tid == pid).map(|(_, home, _)| *home);
        let to_here = || moved.iter().find(|(.., to)| *to == path && !is_rest(path)).map(|(_, home, _)| *home);
        let above = path.parent()?.join("cgroup.procs");
        let relatives = sched::relatives(pid);
        let home = relatives.into_iter().find_map(of).or_else(to_here).unwrap_or(&above);
        self.nearest(home).map(|(home, _)| home)
    }

    /// Has the kernel taken all bandwidth back? Mends its sum if not. What dies without our knowledge is booked one period
    /// more at most, hence the patience.
    fn settle(&mut self, tree: &Path, cap: Bandwidth, before: u32) -> io::Result<()> {
        let mut free = None;
        for attempt in 0..24 {
            free = admission::free_tenths(tree, cap);
            if free.is_none_or(|free| free == before || (before..=admission::ALL).contains(&free)) {
                return Ok(());
            }
            let others = sched::under_deadline();
            if !others.is_empty() {
                let text =
                    format!("threads {others:?} reserve bandwidth, so what is free cannot be compared with before");
                self.report.notes.push(text);
                return Ok(());
            }
            // Only when all that is ours has left.
            if attempt % 8 == 7 && self.report.failed.is_empty() {
                rebuild_domains(self.files, tree)?;
            }
            thread::sleep(time::Duration::from_millis(25 << (attempt / 8)));
        }
        Err(io::Error::other(format!(
            "{} tenths are, {before} were: the kernel's sum is wrong; 'giusto restore' tries again, and a reboot clears it",
            free.unwrap_or(0)
        )))
    }
}

/// The groups of what was started, as far as they are there.
fn contained(all: &[Undo]) -> impl Iterator<Item = Cgroup> + '_ {
    let folders = all.iter().filter_map(|step| match step {
        Undo::Contained { folder, .. } => Some(Cgroup::at(folder)),
        _ => None,
    });
    folders.filter(Cgroup::exists)
}

fn gone_is_fine(thread: Thread, done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(_) if !thread.alive() => Ok(()),
        other => other,
    }
}

/// Ends the process group of a leader that Giusto started, also when only its children are left: SIGTERM, after two seconds
/// SIGKILL.
fn end_group(leader: Thread) -> io::Result<()> {
    if Thread::of(leader.tid).is_some_and(|now| now != leader) {
        return Ok(()); // the number is another process's now, so the group has ended
    }
    for (signals, patience) in [(&[libc::SIGTERM, libc::SIGCONT][..], 400), (&[libc::SIGKILL], 400)] {
        if sched::group(leader.tid).is_empty() {
            return Ok(());
        }
        for signal in signals {
            // SAFETY: plain system call; a group's number is not reused while it has members.
            unsafe { libc::kill(-(leader.tid as i32), *signal) };
        }
        for _ in 0..patience {
            if sched::group(leader.tid).is_empty() {
                return Ok(());
            }
            thread::sleep(time::Duration::from_millis(5));
        }
    }
    Err(io::Error::other("it does not end"))
}
