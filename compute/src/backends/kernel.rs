//! The backend `kernel` as one of many; how it works is in `kernel/` of this room.

use super::lacks::{writing, ROOT};
use super::server::{key, no_vcpus, refused, Key};
use crate::backend::{Backend, Ground};
use crate::deadline::{reschedule, Isolated};
use crate::kernel::{btf, is_enabled, program, told, Call, Op, Scheduler, CALLED, EXT, SERVERS};
use crate::rights::{BPF, SYS_ADMIN, SYS_NICE};
use crate::sched::{self, Attr, Thread};
use crate::{Error, Lack, Machine, Recorder, Undo};
use giusto_model::ServicePlan;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// How often threads are looked for that a service forks while it is let go.
const PASSES: usize = 3;
const KEEP: &str = "keep the scheduler in the kernel";
const KERNEL: &str = "use a kernel with sched_ext, as Linux 7.2 of Debian 14 is (docs/kernel.md)";

/// How long a scheduler that was lost is not loaded again; twice as long after each loss, up to the last.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));
/// After so long without a loss the next one is the first again.
const CALM: Duration = Duration::from_secs(900);

/// The scheduler, its cores and the servers on them.
#[derive(Default)]
pub(super) struct Kernel {
    isolated: Option<Isolated>,
    scheduler: Option<Scheduler>,
    cores: Vec<u32>,
    held: BTreeMap<Key, Held>,
    loss: Option<Loss>,
}

/// The latest loss of the scheduler.
struct Loss {
    why: String,
    at: Instant,
    wait: Duration,
}

/// A server that is in force.
struct Held {
    core: u32,
    /// Its number in the pool; none: the scheduler was lost.
    index: Option<u32>,
    /// Threads that were born under it, and are on record.
    born: BTreeSet<Thread>,
    /// Processes that were put under it; what they fork is born under it.
    members: BTreeSet<Thread>,
}

impl Loss {
    /// Until it may be loaded again, if that is not now.
    fn left(&self) -> Option<Duration> {
        self.wait.checked_sub(self.at.elapsed())
    }
}

impl Held {
    fn alive(&self) -> bool {
        self.members.iter().any(|member| member.alive())
    }
}

impl Kernel {
    /// The scheduler, loaded again where it was lost a while ago.
    fn scheduler(&mut self) -> Result<&Scheduler, Error> {
        if self.scheduler.is_none() {
            if let Some((left, loss)) = self.loss.as_ref().and_then(|loss| Some((loss.left()?, loss))) {
                let why = format!("{}; it is loaded again in {} s", loss.why, left.as_secs() + 1);
                return Err(Error::Kernel { doing: KEEP.into(), why });
            }
            self.scheduler = Some(Scheduler::load(&self.cores).map_err(|why| self.lose(why.to_string()))?);
        }
        self.scheduler.as_ref().ok_or(Error::NoThread)
    }

    /// Nothing is in force any more, as the scheduler was lost or could not be loaded.
    fn lose(&mut self, why: String) -> Error {
        let before = self.loss.take().filter(|loss| loss.at.elapsed() < CALM).map(|loss| loss.wait * 2);
        let wait = before.unwrap_or(AGAIN.0).min(AGAIN.1);
        self.loss = Some(Loss { why: why.clone(), at: Instant::now(), wait });
        self.scheduler = None;
        self.held.values_mut().for_each(|held| held.index = None);
        Error::Kernel { doing: KEEP.into(), why }
    }

    /// Adds it to the pool of its core; its index there.
    fn add(&mut self, server: &ServicePlan) -> Result<u32, Error> {
        let it = &server.server;
        let (kind, budget, period) = (it.kind as u32, it.budget.ns(), it.period.ns());
        let call = Call { index: kind, budget, period, ..Call::default() };
        let index = self.scheduler()?.order(server.core, Op::Add, call)?;
        u32::try_from(index).ok().filter(|index| *index < SERVERS).ok_or_else(|| {
            let why = format!("is refused by the policy core ({index}), which has at most {SERVERS} servers a core");
            refused(server, why)
        })
    }

    /// Puts all threads of `members` under their server, if the scheduler is there; under SCHED_EXT in any case.
    fn take(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let held = self.held.get_mut(&key(server)).ok_or(Error::NoThread)?;
        held.members.retain(|member| member.alive());
        held.members.extend(members.iter().filter_map(|&pid| Thread::of(pid)));
        held.born.retain(|thread| thread.alive());
        let (core, index) = (held.core, held.index);
        for tid in members.iter().flat_map(|&pid| sched::threads(pid)) {
            let Some(thread) = Thread::of(tid) else { continue };
            let under = sched::get(tid).is_ok_and(|attr| attr.policy == EXT);
            let done = match (&self.scheduler, index) {
                (Some(scheduler), Some(index)) => match under && scheduler.owns(thread, core, index)? {
                    true => born(held, thread, record),
                    // This scheduler counts threads as they come to the class.
                    false => {
                        let _ = under.then(|| sched::set(tid, &Attr::default()));
                        scheduler.note(thread, core, index).and_then(|()| put(tid, record))
                    }
                },
                _ if under => Ok(()),
                _ => put(tid, record),
            };
            match done {
                Err(_) if !thread.alive() => {}
                done => done?,
            }
        }
        Ok(())
    }
}

/// Puts a thread under SCHED_EXT, with all that it will fork.
fn put(tid: u32, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    reschedule(tid, &Attr::inherited(EXT, 0), record)
}

/// Has a thread that was born under SCHED_EXT be an ordinary one at the end, as it would have been.
fn born(held: &mut Held, thread: Thread, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
    if held.born.insert(thread) {
        let before = Attr::default();
        record.intend(&Undo::Scheduling { thread, before, period_ns: 0 }).map_err(Error::Journal)?;
    }
    Ok(())
}

/// What this kernel lacks of sched_ext.
fn sched_ext() -> Option<Lack> {
    let state = told("state");
    if state.is_empty() {
        return Some(Lack::new("sched_ext (CONFIG_SCHED_CLASS_EXT)", KERNEL));
    }
    if state != "disabled" && !is_enabled() {
        let what = format!("sched_ext to itself: it is {state}, and the scheduler is '{}'", told("root/ops"));
        return Some(Lack::new(what, "end the scheduler that is loaded"));
    }
    let names = CALLED.map(|(name, _)| name);
    let found = fs::read("/sys/kernel/btf/vmlinux").ok().and_then(|btf| btf::parameters(&btf, &names));
    let Some(found) = found else {
        let how = "use a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions' kernels are";
        return Some(Lack::new("/sys/kernel/btf/vmlinux", how));
    };
    unsound(&found)
}

/// The first function that is not as programs call it.
fn unsound(found: &BTreeMap<String, u32>) -> Option<Lack> {
    let (name, parameters) = CALLED.into_iter().find(|(name, parameters)| found.get(*name) != Some(parameters))?;
    Some(match found.get(name) {
        None => Lack::new(format!("{name} among the functions for schedulers"), KERNEL),
        Some(there) => {
            let what =
                format!("sound type information of {name}, which has {there} parameters there instead of {parameters}");
            Lack::new(
                what,
                "use a kernel that was built with pahole 1.31 or later; this is a known fault of pahole 1.30",
            )
        }
    })
}

impl Backend for Kernel {
    fn lacks(&self, machine: &Machine) -> Vec<Lack> {
        let mut missing: Vec<Lack> = sched_ext().into_iter().collect();
        if program().is_none() {
            missing.push(Lack::new(
                "giusto-kernel beside giusto (it loads the scheduler)",
                "build it with 'make kernel' and put it there",
            ));
        }
        if !SYS_NICE.held() {
            missing.push(Lack::new("CAP_SYS_NICE (to set SCHED_EXT)", ROOT));
        }
        if !BPF.held() && !SYS_ADMIN.held() {
            missing.push(Lack::new("CAP_BPF or CAP_SYS_ADMIN (to load BPF programs)", ROOT));
        }
        match &machine.cpusets {
            None => missing.push(Lack::new(
                "cpusets (to keep other threads off its cores)",
                "mount cgroup v2, or v1 with the cpuset controller",
            )),
            Some(found) => missing.extend(writing(&found.root().join("cgroup.procs"))),
        }
        missing
    }

    fn describe_cores(&self, cores: &[u32], _machine: &Machine) -> Vec<String> {
        vec![
            format!("take cores {cores:?} out of the cpusets of others until the end"),
            format!("load the policy core as the kernel's scheduler (sched_ext) of threads under SCHED_EXT on cores {cores:?}"),
        ]
    }

    fn describe(&self, server: &ServicePlan) -> Vec<String> {
        let (name, core, it) = (&server.name, server.core, &server.server);
        let (budget, period) = (it.budget.ns(), it.period.ns());
        vec![
            format!("move the processes of {name} to core {core}"),
            format!(
                "add a server of {budget} ns in every {period} ns, {}, to the scheduler's pool of core {core}",
                it.kind
            ),
            format!("sched_setattr(all threads of {name}, SCHED_EXT)"),
        ]
    }

    fn prepare(&mut self, servers: &[&ServicePlan], on: Ground, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let cores: BTreeSet<u32> = servers.iter().map(|server| server.core).collect();
        let cores: Vec<u32> = cores.into_iter().collect();
        if let Some(cpusets) = &on.machine.cpusets {
            self.isolated = Some(Isolated::new(cpusets, &cores, record)?);
        }
        self.scheduler = Some(Scheduler::load(&cores)?);
        self.cores = cores;
        Ok(())
    }

    fn admit(&mut self, server: &ServicePlan, _on: Ground, _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let core = server.core;
        match &self.scheduler {
            Some(scheduler) if scheduler.has(core) => Ok(()),
            None if self.cores.contains(&core) => Ok(()), // lost
            _ => Err(refused(
                server,
                format!("needs core {core} isolated, which is done at the start only; stop giusto and start it again"),
            )),
        }
    }

    /// In force from here on: a thread that runs without end in the fair class, on the core, would go before all servers there
    /// and before every order. So they are under SCHED_EXT when they come. While the scheduler is lost they run as fair ones.
    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        no_vcpus(server)?;
        let known = self.held.entry(key(server));
        let held =
            known.or_insert(Held { core: server.core, index: None, born: BTreeSet::new(), members: BTreeSet::new() });
        if held.index.is_none() && self.scheduler.is_some() {
            let index = self.add(server)?;
            self.held.entry(key(server)).and_modify(|held| held.index = Some(index));
        }
        self.take(server, members, record)?;
        self.isolated.as_ref().ok_or(Error::NoThread)?.confine(members, server.core, record)
    }

    fn holds(&self, server: &ServicePlan) -> bool {
        self.held.contains_key(&key(server))
    }

    fn hold(
        &mut self,
        server: &ServicePlan,
        members: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<String, Error> {
        self.scheduler()?;
        self.keep(server, members, record)?;
        let held = self.held.get(&key(server)).filter(|held| held.alive()).ok_or(Error::NoThread)?;
        let index = held.index.ok_or(Error::NoThread)?;
        Ok(format!("server {index} of core {} in the kernel, with all its threads", held.core))
    }

    fn set(&mut self, from: &ServicePlan, to: &ServicePlan, _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let Some(&Held { core, index: Some(index), .. }) = self.held.get(&key(to)) else { return Ok(()) };
        let (budget, period) = (to.server.budget.ns(), to.server.period.ns());
        // Smaller counts at once (0), larger from the next period on (1).
        let flag = u32::from(to.server.bandwidth() > from.server.bandwidth());
        match self.scheduler()?.order(core, Op::Set, Call { index, budget, period, flag })? {
            0 => Ok(()),
            refusal => Err(refused(to, format!("cannot be changed: the policy core refuses it ({refusal})"))),
        }
    }

    /// The server goes first, by an order that only threads under SCHED_EXT let through; a moment later its threads are fair.
    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error> {
        let Some(held) = self.held.remove(&key(server)) else { return Ok(()) };
        let call = held.index.map(|index| Call { index, ..Call::default() });
        let removed = match (&self.scheduler, call) {
            (Some(scheduler), Some(call)) => scheduler.order(held.core, Op::Remove, call).map(drop),
            _ => Ok(()),
        };
        // What they fork meanwhile is met in a later pass.
        for _ in 0..PASSES {
            let threads =
                held.members.iter().filter(|member| member.alive()).flat_map(|member| sched::threads(member.tid));
            for thread in threads.chain(held.born.iter().map(|thread| thread.tid)).filter_map(Thread::of) {
                if !sched::get(thread.tid).is_ok_and(|attr| attr.policy == EXT) {
                    continue;
                }
                if let (Err(why), true) = (sched::set(thread.tid, &Attr::default()), thread.alive()) {
                    let doing = format!("give thread {} SCHED_OTHER back", thread.tid);
                    return Err(Error::Kernel { doing, why: why.to_string() });
                }
                if let Some(scheduler) = &self.scheduler {
                    let _ = scheduler.forget(thread, held.core); // it may have gone
                }
            }
        }
        removed
    }

    fn check(&mut self, server: &ServicePlan) -> Result<(), Error> {
        if let Some(why) = self.scheduler.as_mut().and_then(Scheduler::lost) {
            return Err(self.lose(why));
        }
        self.held.get(&key(server)).filter(|held| held.index.is_some() && held.alive()).map(drop).ok_or(Error::NoThread)
    }

    fn has(&self, core: u32) -> bool {
        self.isolated.as_ref().is_some_and(|isolated| isolated.has(core))
    }

    fn confine(
        &self,
        processes: &[u32],
        core: u32,
        capped: bool,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let isolated = self.isolated.as_ref().ok_or(Error::NoThread)?;
        if capped && isolated.is_v2() {
            return Err(Error::OneCgroup);
        }
        // In the fair class they would go before all servers; so they run when no server does.
        for tid in processes.iter().flat_map(|&pid| sched::threads(pid)) {
            if sched::get(tid).is_ok_and(|attr| attr.policy == sched::OTHER) {
                match put(tid, record) {
                    Err(_) if Thread::of(tid).is_none() => {}
                    done => done?,
                }
            }
        }
        isolated.confine(processes, core, record)
    }

    fn keep_off(&self, processes: &[u32], record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        let Some(isolated) = &self.isolated else { return Ok(false) };
        isolated.keep_off(processes, record).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_told_by_name() {
        let sound: BTreeMap<String, u32> = CALLED.map(|(name, count)| (name.to_string(), count)).into();
        assert_eq!(unsound(&sound), None);
        let hidden = BTreeMap::from([("scx_bpf_kick_cpu".to_string(), 3)]);
        let told = unsound(&sound.clone().into_iter().chain(hidden).collect()).unwrap();
        assert!(told.what.contains("scx_bpf_kick_cpu") && told.how.contains("pahole"), "{told:?}");
        let mut old = sound;
        old.remove("scx_bpf_dsq_insert");
        assert!(unsound(&old).unwrap().what.contains("scx_bpf_dsq_insert among"));
        if !std::path::Path::new("/sys/kernel/sched_ext").exists() {
            assert!(sched_ext().unwrap().what.contains("CONFIG_SCHED_CLASS_EXT"));
        }
    }
}
