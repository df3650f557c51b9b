//! The backend `deadline` as one of many; how it works is in `deadline.rs` of this room.

use super::lacks::{writing, ROOT};
use super::server::{key, no_vcpus, refused, Key};
use crate::backend::{now, Backend, BudgetHandle, Changed, Ground, Observed};
use crate::deadline::{budget_left, prompt, Isolated, Reservation, Reserved};
use crate::rights::SYS_NICE;
use crate::sched::{self, Attr};
use crate::{Cpusets, Error, Lack, Machine, Recorder, Undo};
use giusto_model::{Duration, Instant, Server, ServicePlan};
use std::collections::BTreeMap;
use std::path::Path;

/// Within which an agent gets its small reservation, unless that is longer than half of it.
const PROMPT: Duration = Duration::from_ms(1);
/// The longest period of that: about what the kernel accepts.
const SPACING: Duration = Duration::from_secs(4);

/// Isolated cores, and the reservations on them.
#[derive(Default)]
pub(super) struct Deadline {
    isolated: Option<Isolated>,
    held: BTreeMap<Key, Reserved>,
}

impl Deadline {
    fn isolated(&self) -> Result<&Isolated, Error> {
        self.isolated.as_ref().ok_or(Error::NoThread)
    }
}

impl Backend for Deadline {
    fn lacks(&self, machine: &Machine) -> Vec<Lack> {
        let mut lacks = Vec::new();
        if !SYS_NICE.held() {
            lacks.push(Lack::new("CAP_SYS_NICE (to set SCHED_DEADLINE)", ROOT));
        }
        match &machine.cpusets {
            None => lacks.push(Lack::new(
                "cpusets (to give a core a root domain of its own)",
                "mount cgroup v2, or v1 with the cpuset controller",
            )),
            Some(found) if !writing(&found.root().join("cgroup.procs")).is_empty() => {
                let what = format!("write access to {}", found.root().display());
                lacks.push(Lack::new(what, "run as root, outside of a container"));
            }
            Some(_) => {}
        }
        lacks
    }

    fn describe_cores(&self, cores: &[u32], machine: &Machine) -> Vec<String> {
        let held = machine.held.iter().filter(|held| held.cores.iter().all(|core| cores.contains(core)));
        let mut lines: Vec<String> = held.map(|held| format!("refuse all of this, because {}", held.why)).collect();
        lines.push(format!(
            "reserve with SCHED_DEADLINE on cores {:?} for a millisecond, to see how much bandwidth is free",
            machine.cores
        ));
        match &machine.cpusets {
            Some(cpusets) => isolate(cpusets, cores, &machine.cores, &mut lines),
            None => lines.push("(no cpusets here: nothing further)".into()),
        }
        lines
    }

    fn describe(&self, server: &ServicePlan) -> Vec<String> {
        let (name, budget, period) = (&server.name, server.server.budget.ns(), server.server.period.ns());
        vec![
            format!("move the processes of {name} to core {}", server.core),
            format!(
                "sched_setattr(thread of {name} that does the work, SCHED_DEADLINE | RESET_ON_FORK, runtime {budget} ns, \
                 deadline {period} ns, period {period} ns)"
            ),
            "interrupt that thread once by ptrace if it sleeps on another core (compute/README.md)".into(),
        ]
    }

    fn prepare(&mut self, servers: &[&ServicePlan], on: Ground, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let cores: Vec<u32> = servers.iter().map(|server| server.core).collect();
        if let Some(cpusets) = &on.machine.cpusets {
            self.isolated = Some(Isolated::new(cpusets, &cores, record)?);
        }
        Ok(())
    }

    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        no_vcpus(server)?;
        match &self.isolated {
            Some(isolated) if isolated.has(server.core) => isolated.confine(members, server.core, record),
            _ => {
                let core = server.core;
                let what = format!(
                    "needs core {core} isolated, which is done at the start only; stop giusto and start it again"
                );
                Err(refused(server, what))
            }
        }
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
        let reserved = self.isolated()?.reserve(members, &server.server, record)?;
        let share = match reserved.percent {
            Some(percent) => format!("which does {percent} % of its work"),
            None => "its main thread; it has hardly run yet".to_string(),
        };
        let thread = reserved.thread;
        self.held.insert(key(server), reserved);
        Ok(format!("reserved for thread {thread}, {share}; its other threads stay as they are, on the same core"))
    }

    fn set(&mut self, _from: &ServicePlan, to: &ServicePlan, _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        self.held.get(&key(to)).map_or(Ok(()), |reserved| reserved.set(&to.server))
    }

    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error> {
        let Some(Reserved { thread, .. }) = self.held.remove(&key(server)).filter(Reserved::alive) else {
            return Ok(());
        };
        match sched::leave(thread, &Attr::default()) {
            Err(why) if why.raw_os_error() != Some(libc::ESRCH) => {
                Err(Error::Kernel { doing: format!("give thread {thread} SCHED_OTHER back"), why: why.to_string() })
            }
            _ => Ok(()),
        }
    }

    fn check(&mut self, server: &ServicePlan) -> Result<(), Error> {
        self.held.get_mut(&key(server)).map_or(Err(Error::NoThread), Reserved::check)
    }

    fn observe(&self, server: &ServicePlan) -> Observed<'_> {
        let Some(reserved) = self.held.get(&key(server)) else { return Observed::default() };
        // The kernel writes it down at ticks: up to 4 ms ago.
        let left_ns = budget_left(reserved.thread);
        let is_throttled = left_ns.is_some_and(|left| left <= 0) && sched::wants_to_run(reserved.thread);
        Observed { left_ns, is_throttled, counted: None }
    }

    fn notes(&self) -> Vec<String> {
        vec!["backend deadline: the kernel enforces; it does not count how often it throttled".into()]
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
        let isolated = self.isolated()?;
        if capped && isolated.is_v2() {
            return Err(Error::OneCgroup);
        }
        isolated.confine(processes, core, record)
    }

    fn keep_off(&self, processes: &[u32], record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        let Some(isolated) = &self.isolated else { return Ok(false) };
        isolated.keep_off(processes, record).map(|()| true)
    }

    fn handle(&self, server: &ServicePlan) -> Result<Box<dyn BudgetHandle>, Error> {
        let reserved = self.held.get(&key(server)).ok_or(Error::NoThread)?;
        Ok(Box::new(reserved.reservation()))
    }

    /// The kernel has no boost: the agent gets a small reservation of its own instead.
    fn prefer(
        &mut self,
        _server: &ServicePlan,
        agent: u32,
        (cost, spacing): (Duration, Duration),
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let half = Duration::from_ns(cost.ns().saturating_mul(2));
        match prompt(agent, cost, PROMPT.max(half), spacing.min(SPACING), record) {
            Err(Error::Taken(_)) | Ok(()) => Ok(()),
            refused => refused,
        }
    }
}

impl BudgetHandle for Reservation {
    fn set(&self, server: &Server) -> Result<Instant, Error> {
        Reservation::set(self, server).map(|()| now())
    }

    // The kernel changes at once: later than its own replenishment, never before `earliest`.
    fn set_at(&self, server: &Server, earliest: Instant) -> Result<Changed, Error> {
        if now() < earliest {
            return Ok(Changed::NotYet(earliest));
        }
        Reservation::set(self, server).map(|()| Changed::From(now()))
    }
}

fn isolate(cpusets: &Cpusets, cores: &[u32], online: &[u32], lines: &mut Vec<String>) {
    let show = |path: &Path| path.display().to_string();
    lines.push(format!(
        "take cores {cores:?} out of the cpuset.cpus of other cpusets in {} until the end; their tasks run on with the \
         other cores that they have",
        show(cpusets.root())
    ));
    match cpusets {
        Cpusets::V1(root) => {
            let rest: Vec<u32> = online.iter().copied().filter(|core| !cores.contains(core)).collect();
            lines.push(format!("make {} with cores {rest:?}", show(&root.join("giusto.rest"))));
            for &core in cores {
                lines.push(format!("make {} with core {core}, exclusive", show(&cpusets.folder(core))));
            }
            lines.push(format!("write 0 to {}", show(&root.join("cpuset.sched_load_balance"))));
            lines.push(format!("move all processes of {} to {}", show(root), show(&root.join("giusto.rest"))));
        }
        Cpusets::V2(root) => {
            lines.push(format!("write +cpuset to {}", show(&root.join("cgroup.subtree_control"))));
            for &core in cores {
                lines.push(format!("make {} with core {core}, partition root", show(&cpusets.folder(core))));
            }
        }
    }
}
