//! The backend `rt-group`: one real-time group a server, with threads under SCHED_FIFO, pinned by plain affinity. cgroup v1.
//!
//! The kernel gives the whole group its runtime in every period, on each core by itself; pinned to one core that is one
//! budget for the set. To others they behave as `constant_bandwidth` does. A group that was idle and has used none of its budget
//! starts a new period when it wakes; else its timer goes on. Enforced at the tick, what was overrun is paid back.

use crate::cpu_group::{CpuGroup, CpuTree};
use crate::files::{Files, Real};
use crate::record::intend;
use crate::sched::{self, Attr, Thread};
use crate::{Error, Lack, Recorder, Undo};
use giusto_model::{Server, ServerKind};
use std::collections::BTreeMap;

/// Priority of all threads in all groups: first come, first served, within a group and among those on one core.
const PRIORITY: u32 = 1;

const PERIOD: &str = "cpu.rt_period_us";
const RUNTIME: &str = "cpu.rt_runtime_us";
/// What EINVAL means of the two.
const TOO_MUCH: &str = "all real-time groups of this machine, on whatever cores, may have sched_rt_runtime_us of \
                        sched_rt_period_us together (95 % by default): shrink or end another one first";

/// A server in force: a group, and who is in it.
#[derive(Debug)]
pub struct RtGroup {
    group: CpuGroup,
    core: u32,
    /// Period and budget in force.
    in_force_us: (u64, u64),
    members: BTreeMap<u32, Member>,
    /// What threads had that have ended.
    ended_ns: u64,
}

/// A thread that is or was in the group.
#[derive(Debug)]
struct Member {
    thread: Thread,
    /// Processor time before it came.
    before_ns: u64,
    /// When last looked at.
    now_ns: u64,
    /// Whether it was given SCHED_FIFO.
    taken_in: bool,
}

impl RtGroup {
    /// What the machine lacks for this backend; `None`: it has it.
    pub fn lack() -> Option<Lack> {
        tree(&Real).err()
    }

    /// Makes the group `giusto.NAME` with the server's budget in every period, moves `processes` in with all their threads,
    /// pins these to `core` and makes them real-time. In whole µs: the budget rounded up, the period down.
    ///
    /// Errors: another kind than `constant_bandwidth`, no such core, a kernel without real-time groups, an earlier Giusto's
    /// group (nothing was changed then); a thread under SCHED_DEADLINE; the kernel refuses, as when all groups together have
    /// more than it gives.
    pub fn new(
        name: &str,
        core: u32,
        server: &Server,
        processes: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Self, Error> {
        let online = crate::cores::online();
        if !online.contains(&core) {
            return Err(Error::NoCore { core, online });
        }
        let tree = tree(&Real).map_err(Error::Lacks)?;
        let mut group = RtGroup::make(&Real, &tree, name, core, server, record)?;
        group.take_in(processes, record)?;
        Ok(group)
    }

    fn make(
        files: &dyn Files,
        tree: &CpuTree,
        name: &str,
        core: u32,
        server: &Server,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<Self, Error> {
        accepts(server)?;
        let group = CpuGroup::make(files, tree, name, record)?;
        let (period, runtime) = RtGroup::whole_us(server);
        // A fresh group has a runtime of 0, which fits into any period.
        group.write_pair(files, None, (PERIOD, period), (RUNTIME, runtime), TOO_MUCH)?;
        Ok(RtGroup { group, core, in_force_us: (period, runtime), members: BTreeMap::new(), ended_ns: 0 })
    }

    /// Gives the group another budget and period, of the same kind, at once. Of several groups those that shrink come first,
    /// or the kernel may refuse; on the way this one never has more than the larger share of before and after.
    ///
    /// What was used of the old budget counts against the new one: after shrinking from B to the share β the group may get
    /// nothing for up to B/β (2 s from 200 ms in 400 ms to 5 ms in 50 ms).
    ///
    /// Errors: another kind; the kernel refuses (what was in force stays).
    pub fn set(&mut self, server: &Server) -> Result<(), Error> {
        self.set_in(&Real, server)
    }

    fn set_in(&mut self, files: &dyn Files, server: &Server) -> Result<(), Error> {
        accepts(server)?;
        let (period, runtime) = RtGroup::whole_us(server);
        let was = Some(self.in_force_us);
        self.group.write_pair(files, was, (PERIOD, period), (RUNTIME, runtime), TOO_MUCH)?;
        self.in_force_us = (period, runtime);
        Ok(())
    }

    /// Moves processes in with all their threads; of those that are here already, takes in the threads that were born since.
    /// To be called again from time to time: what a thread of the group forks or starts is in the group and on its core, but
    /// not real-time until then.
    ///
    /// Errors: a thread under SCHED_DEADLINE; the kernel refuses.
    pub fn take_in(&mut self, processes: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        for &pid in processes {
            let reserved = |tid: &u32| sched::get(*tid).is_ok_and(|attr| attr.policy == sched::DEADLINE);
            if let Some(tid) = sched::threads(pid).into_iter().find(reserved) {
                return Err(Error::Taken(tid));
            }
            let came = self.group.take_in(&Real, pid, record)?;
            // Twice, for those that were born meanwhile.
            for tid in sched::threads(pid).into_iter().chain(sched::threads(pid)) {
                self.take_in_thread(tid, came, record)?;
            }
        }
        Ok(())
    }

    fn take_in_thread(&mut self, tid: u32, came: bool, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let known = |member: &Member| member.taken_in && member.thread.alive();
        let (Some(thread), false) = (Thread::of(tid), self.members.get(&tid).is_some_and(known)) else { return Ok(()) };
        let (Ok(before), Ok(cores)) = (sched::get(tid), sched::allowed(tid)) else { return Ok(()) };
        let now_ns = sched::cpu_time_ns(tid);
        // One that was born here has its core from another: undoing knows.
        if came || cores != [self.core] {
            intend(record, Undo::Bound { thread, core: self.core, cores })?;
            let pinned = sched::set_affinity(tid, &[self.core]);
            refused(thread, pinned, &format!("bind thread {tid} to core {}", self.core), "is the core in its cpuset?")?;
        }
        intend(record, Undo::Scheduling { thread, before, period_ns: 0 })?;
        let raised = sched::set(tid, &Attr::of_policy(sched::FIFO, PRIORITY));
        refused(thread, raised, &format!("make thread {tid} SCHED_FIFO"), "CAP_SYS_NICE is missing")?;
        let before_ns = if came { now_ns } else { 0 };
        let old = self.members.insert(tid, Member { thread, before_ns, now_ns, taken_in: true });
        // An id that is reused.
        self.ended_ns += old.filter(|old| old.thread != thread).map_or(0, |old| old.now_ns - old.before_ns);
        Ok(())
    }

    /// Whether all threads that were taken in and still live have their guarantee. Errors: one was given another policy, core
    /// or group by another program; none lives.
    pub fn check(&self) -> Result<(), Error> {
        let mut living = self.members.values().filter(|member| member.taken_in && member.thread.alive()).peekable();
        if living.peek().is_none() {
            return Err(Error::NoThread);
        }
        let lost = living.find(|member| {
            let tid = member.thread.tid;
            let fifo = sched::get(tid).is_ok_and(|now| (now.policy, now.priority) == (sched::FIFO, PRIORITY));
            let pinned = sched::affinity(tid).is_ok_and(|cores| cores == [self.core]);
            let here = self.group.tree.of_thread(&Real, tid).as_ref() == Some(&self.group.folder);
            !(fifo && pinned && here) && member.thread.alive()
        });
        lost.map_or(Ok(()), |member| Err(Error::Lost(member.thread.tid)))
    }

    /// Period and budget, as the kernel is told.
    pub(crate) fn whole_us(server: &Server) -> (u64, u64) {
        let period = server.period.ns() / 1_000;
        (period, server.budget.ns().div_ceil(1_000).min(period))
    }

    /// Processor time that the group has had since it was made. What a thread that has ended used since the last call is left
    /// out.
    pub fn supplied_ns(&mut self) -> u64 {
        let tasks = Real.read(&self.group.folder.join("tasks")).unwrap_or_default();
        for thread in tasks.lines().filter_map(|line| Thread::of(line.parse().ok()?)) {
            let now_ns = sched::cpu_time_ns(thread.tid);
            let born = Member { thread, before_ns: 0, now_ns, taken_in: false };
            let member = self.members.entry(thread.tid).or_insert(born);
            if member.thread == thread {
                member.now_ns = now_ns.max(member.now_ns);
            }
        }
        let had = |member: &Member| member.now_ns - member.before_ns;
        let ended = |member: &Member| !member.thread.alive();
        self.ended_ns += self.members.values().filter(|m| ended(m)).map(had).sum::<u64>();
        self.members.retain(|_, member| !ended(member));
        self.ended_ns + self.members.values().map(had).sum::<u64>()
    }
}

fn accepts(server: &Server) -> Result<(), Error> {
    match server.kind {
        ServerKind::ConstantBandwidth => Ok(()),
        other => Err(Error::Kind(other)),
    }
}

/// Where real-time groups are.
fn tree(files: &dyn Files) -> Result<CpuTree, Lack> {
    match CpuTree::find(files) {
        Some(tree @ CpuTree::V1(_)) if files.read(&tree.root().join(RUNTIME)).is_ok() => Ok(tree),
        _ => Err(Lack {
            what: "real-time groups (cgroup v1 with the cpu controller, CONFIG_RT_GROUP_SCHED)".into(),
            how: "choose backend 'deadline' or 'manager', or a kernel that has them".into(),
        }),
    }
}

fn refused(thread: Thread, done: std::io::Result<()>, doing: &str, hint: &str) -> Result<(), Error> {
    match done {
        Err(why) if thread.alive() => Err(Error::Kernel { doing: doing.into(), why: format!("{why}; {hint}") }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imitation::{Imitation, ROOT};
    use crate::undo::undo_in;
    use std::path::Path;

    fn server(budget_us: u64, period_us: u64) -> Server {
        let us = giusto_model::Duration::from_us;
        Server { kind: ServerKind::ConstantBandwidth, budget: us(budget_us), period: us(period_us) }
    }

    fn group(files: &Imitation, name: &str, server: &Server, record: &mut Vec<Undo>) -> Result<RtGroup, Error> {
        RtGroup::make(files, &tree(files).unwrap(), name, 0, server, record)
    }

    #[test]
    fn every_change_of_a_group_with_real_time_threads_passes_and_never_exceeds_the_larger_share() {
        let servers: Vec<Server> = [(30, 100), (300, 1000), (70, 100), (700, 1000), (1, 1000), (40, 50)]
            .map(|(b, p)| server(b * 100, p * 100))
            .into();
        for (from, to) in servers.iter().flat_map(|from| servers.iter().map(move |to| (from, to))) {
            let files = Imitation::cpu(false);
            let mut group = group(&files, "a", from, &mut Vec::new()).unwrap();
            // A real-time thread is in the group, so that a runtime of 0 is refused on the way.
            files.enter(4_000_001, &group.group.folder);
            files.largest_share();
            group.set_in(&files, to).unwrap();
            let [most, before, after] = [files.largest_share(), from.bandwidth().as_f64(), to.bandwidth().as_f64()];
            assert!(most <= before.max(after), "{from:?} to {to:?}: {most}");
            let now = |file: &str| files.read(&group.group.folder.join(file)).unwrap().parse::<u64>().unwrap();
            assert_eq!((now(PERIOD), now(RUNTIME)), (to.period.ns() / 1000, to.budget.ns() / 1000));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_rule_and_what_was_in_force_stays() {
        let files = Imitation::cpu(false);
        let (mut first, mut record) =
            (group(&files, "a", &server(50_000, 100_000), &mut Vec::new()).unwrap(), Vec::new());
        let refused = group(&files, "b", &server(50_000, 100_000), &mut record).unwrap_err().to_string();
        assert!(refused.contains("95 %"), "{refused}");
        assert!(undo_in(&files, &record).failed.is_empty());
        let _second = group(&files, "b", &server(40_000, 100_000), &mut record).unwrap();
        for too_much in [server(60_000, 100_000), server(600_000, 1_000_000), server(6_000, 10_000)] {
            assert!(first.set_in(&files, &too_much).is_err());
            let now = |file: &str| files.read(&first.group.folder.join(file)).unwrap();
            assert_eq!((now(PERIOD), now(RUNTIME)), ("100000".into(), "50000".into()), "{too_much:?}");
        }
        first.set_in(&files, &server(20_000, 100_000)).unwrap();
        assert!(matches!(group(&files, "b", &server(1, 10), &mut Vec::new()), Err(Error::Leftover(_))));
        let strict = Server { kind: ServerKind::PeriodicStrict, ..server(1, 10) };
        assert!(matches!(first.set_in(&files, &strict), Err(Error::Kind(ServerKind::PeriodicStrict))));
    }

    #[test]
    fn budgets_are_whole_microseconds_never_less_than_asked_for() {
        let ns = giusto_model::Duration::from_ns;
        let of = |budget, period| {
            RtGroup::whole_us(&Server { kind: ServerKind::ConstantBandwidth, budget: ns(budget), period: ns(period) })
        };
        assert_eq!(of(3_000_001, 10_000_999), (10_000, 3_001));
        assert_eq!(of(10_000_999, 10_000_999), (10_000, 10_000), "never more than the period");
    }

    #[test]
    fn a_machine_without_real_time_groups_says_what_it_lacks() {
        let lack = tree(&Imitation::cpu(true)).unwrap_err();
        assert!(lack.what.contains("RT_GROUP_SCHED") && lack.how.contains("manager"), "{lack:?}");
        assert!(matches!(tree(&Imitation::cpu(false)), Ok(CpuTree::V1(root)) if root == Path::new(ROOT)));
    }
}
