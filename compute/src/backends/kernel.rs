//! The backend `kernel` as one of many; how it works is in `kernel/` of this room.

use super::lacks::{writing, ROOT};
use super::server::{key, no_vcpus, refused, Key};
use crate::backend::{Backend, Ground};
use crate::deadline::{reschedule, Isolated};
use crate::kernel::{btf, is_enabled, program, told, Call, Op, Scheduler, CALLED, EXT, SERVERS};
use crate::rights::{BPF, SYS_ADMIN, SYS_NICE};
use crate::sched::{self, Attr, Thread};
use crate::{Error, Lack, Machine, Recorder};
use giusto_model::ServicePlan;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

const KEEP: &str = "keep the scheduler in the kernel";
const KERNEL: &str = "use a kernel with sched_ext, as Linux 7.2 of Debian 14 is (docs/kernel.md)";

/// How long a scheduler that was lost is not loaded again; twice as long after each loss, up to the last.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));

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
    index: u32,
    /// Processes that were put under it; what they fork is born under it.
    members: BTreeSet<Thread>,
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
            if let Some(left) = self.loss.as_ref().and_then(|loss| loss.wait.checked_sub(loss.at.elapsed())) {
                let why = self.loss.as_ref().map(|loss| loss.why.as_str()).unwrap_or_default();
                let why = format!("{why}; it is loaded again in {} s", left.as_secs() + 1);
                return Err(Error::Kernel { doing: KEEP.into(), why });
            }
            self.scheduler = Some(Scheduler::load(&self.cores)?);
        }
        self.scheduler.as_ref().ok_or(Error::NoThread)
    }

    /// What was in force under a scheduler that is lost is not any more.
    fn lose(&mut self, why: String) -> Error {
        let before = self.loss.take().map_or(AGAIN.0 / 2, |loss| loss.wait);
        self.loss = Some(Loss { why: why.clone(), at: Instant::now(), wait: (before * 2).min(AGAIN.1) });
        self.scheduler = None;
        self.held.clear();
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

    /// Puts all threads of `members` under their server, which is there; `anew`: no thread is of it yet.
    fn take(
        &mut self,
        server: &ServicePlan,
        members: &[u32],
        anew: bool,
        record: &mut dyn Recorder,
    ) -> Result<(), Error> {
        let held = self.held.get_mut(&key(server)).ok_or(Error::NoThread)?;
        held.members.retain(|member| member.alive());
        held.members.extend(members.iter().filter_map(|&pid| Thread::of(pid)));
        let (core, index) = (held.core, held.index);
        for tid in members.iter().flat_map(|&pid| sched::threads(pid)) {
            let Some(thread) = Thread::of(tid) else { continue };
            if sched::get(tid).is_ok_and(|attr| attr.policy == EXT) {
                if !anew {
                    continue; // born under it
                }
                // From a scheduler that was lost; this one counts threads as they come to the class.
                let _ = sched::set(tid, &Attr::default());
            }
            let noted = self.scheduler()?.note(thread, core, index);
            match noted.and_then(|()| reschedule(tid, &Attr::inherited(EXT, 0), record)) {
                Err(_) if !thread.alive() => {}
                done => done?,
            }
        }
        Ok(())
    }
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
            format!("load the policy core into the kernel as a scheduler (sched_ext) of threads under SCHED_EXT on cores {cores:?}"),
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

    fn prepare(&mut self, servers: &[&ServicePlan], on: Ground, record: &mut dyn Recorder) -> Result<(), Error> {
        let cores: BTreeSet<u32> = servers.iter().map(|server| server.core).collect();
        let cores: Vec<u32> = cores.into_iter().collect();
        if let Some(cpusets) = &on.machine.cpusets {
            self.isolated = Some(Isolated::new(cpusets, &cores, record)?);
        }
        self.scheduler = Some(Scheduler::load(&cores)?);
        self.cores = cores;
        Ok(())
    }

    fn admit(&mut self, server: &ServicePlan, _on: Ground, _record: &mut dyn Recorder) -> Result<(), Error> {
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
    /// and before every order. So they are under SCHED_EXT when they come.
    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder) -> Result<(), Error> {
        no_vcpus(server)?;
        let anew = !self.held.contains_key(&key(server));
        if anew {
            let index = self.add(server)?;
            self.held.insert(key(server), Held { core: server.core, index, members: BTreeSet::new() });
        }
        self.take(server, members, anew, record)?;
        self.isolated.as_ref().ok_or(Error::NoThread)?.confine(members, server.core, record)
    }

    fn holds(&self, server: &ServicePlan) -> bool {
        self.held.contains_key(&key(server))
    }

    fn hold(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder) -> Result<String, Error> {
        self.keep(server, members, record)?;
        let held = self.held.get(&key(server)).filter(|held| held.alive()).ok_or(Error::NoThread)?;
        Ok(format!("server {} of core {} in the kernel, with all its threads", held.index, held.core))
    }

    fn set(&mut self, from: &ServicePlan, to: &ServicePlan, _record: &mut dyn Recorder) -> Result<(), Error> {
        let Some(&Held { core, index, .. }) = self.held.get(&key(to)) else { return Ok(()) };
        let (budget, period) = (to.server.budget.ns(), to.server.period.ns());
        // Smaller counts at once (0), larger from the next period on (1).
        let flag = u32::from(to.server.bandwidth() > from.server.bandwidth());
        match self.scheduler()?.order(core, Op::Set, Call { index, budget, period, flag, ..Call::default() })? {
            0 => Ok(()),
            refusal => Err(refused(to, format!("cannot be changed: the policy core refuses it ({refusal})"))),
        }
    }

    /// Threads leave the server before it goes: who waits for one that is not there would wait for ever.
    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error> {
        let Some(held) = self.held.remove(&key(server)) else { return Ok(()) };
        for tid in held.members.iter().filter(|member| member.alive()).flat_map(|member| sched::threads(member.tid)) {
            let Some(thread) = Thread::of(tid) else { continue };
            if !sched::get(tid).is_ok_and(|attr| attr.policy == EXT) {
                continue;
            }
            if let (Err(why), true) = (sched::set(tid, &Attr::default()), thread.alive()) {
                return Err(Error::Kernel {
                    doing: format!("give thread {tid} SCHED_OTHER back"),
                    why: why.to_string(),
                });
            }
        }
        let call = Call { index: held.index, ..Call::default() };
        self.scheduler()?.order(held.core, Op::Remove, call).map(drop)
    }

    fn check(&mut self, server: &ServicePlan) -> Result<(), Error> {
        if let Some(why) = self.scheduler.as_mut().and_then(Scheduler::lost) {
            return Err(self.lose(why));
        }
        self.held.get(&key(server)).filter(|held| held.alive()).map(drop).ok_or(Error::NoThread)
    }

    fn has(&self, core: u32) -> bool {
        self.isolated.as_ref().is_some_and(|isolated| isolated.has(core))
    }

    fn confine(&self, processes: &[u32], core: u32, capped: bool, record: &mut dyn Recorder) -> Result<(), Error> {
        let isolated = self.isolated.as_ref().ok_or(Error::NoThread)?;
        if capped && isolated.is_v2() {
            return Err(Error::OneCgroup);
        }
        isolated.confine(processes, core, record)
    }

    fn keep_off(&self, processes: &[u32], record: &mut dyn Recorder) -> Result<bool, Error> {
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
