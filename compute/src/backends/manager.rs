//! The backend `manager` as one of many; how it works is in `manager/` of this room.

use super::lacks::ROOT;
use super::server::{key, name, refused, Key};
use crate::backend::{now, Backend, BudgetHandle, BudgetSource, Changed, Ground, Observed};
use crate::files::Real;
use crate::machine::kernel_version;
use crate::manager::group::Freezer;
use crate::manager::{Beats, Handle, Lever, Managed, Manager, Order, Report, When};
use crate::rights::{BPF, SYS_ADMIN, SYS_NICE};
use crate::{Error, Lack, Machine, Recorder, Undo};
use giusto_model::{Cap, Duration, Instant, Server, ServicePlan};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A manager a core, and the servers on them.
#[derive(Default)]
pub(super) struct Managers {
    managers: BTreeMap<u32, Manager>,
    /// With the core of each.
    held: BTreeMap<Key, (u32, Handle)>,
    /// Copies in force whose worker has not begun yet.
    waiting: BTreeSet<Key>,
    /// What each manager told last.
    reports: BTreeMap<u32, Report>,
}

impl Managers {
    /// The manager of the core of `server`, started when it is first asked for; and anew when services with criticality
    /// come to a core that had none, or go.
    fn start(&mut self, server: &ServicePlan, beats: &Beats) -> Result<(), Error> {
        let order = if server.criticality.is_some() { Order::MixedCriticality } else { Order::Edf };
        let core = server.core;
        match self.managers.get(&core) {
            Some(manager) if manager.order() == order => return Ok(()),
            Some(_) => {
                let in_force = |(on, handle): &(u32, Handle)| *on == core && handle.server().is_some();
                if let Some(((other, _), _)) = self.held.iter().find(|(_, held)| in_force(held)) {
                    let what = format!(
                        "shares core {core} with {other}, and only one of them has criticality; stop giusto and start \
                         it again"
                    );
                    return Err(refused(server, what));
                }
                self.managers.remove(&core);
            }
            None => {}
        }
        self.managers.insert(core, Manager::start(core, order, beats)?);
        Ok(())
    }
}

/// The manager of the core of `server`.
fn on<'a>(managers: &'a BTreeMap<u32, Manager>, server: &ServicePlan) -> Result<&'a Manager, Error> {
    managers.get(&server.core).ok_or_else(|| refused(server, "is not held by a manager"))
}

impl Backend for Managers {
    /// The manager reads consumption with BPF, sets real-time priorities and freezes what has used up its budget.
    fn lacks(&self, _machine: &Machine) -> Vec<Lack> {
        let mut missing = Vec::new();
        let mut lack = |what: &str, how: &str| missing.push(Lack::new(what, how));
        if !SYS_NICE.held() {
            lack("CAP_SYS_NICE (to set SCHED_FIFO)", ROOT);
        }
        if !BPF.held() && !SYS_ADMIN.held() {
            lack("CAP_BPF or CAP_SYS_ADMIN (to load BPF programs)", ROOT);
        }
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            let how = "use a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions' kernels are";
            lack("/sys/kernel/btf/vmlinux", how);
        }
        if kernel_version() < (5, 18) {
            lack("Linux 5.18 or later", "use a later kernel");
        }
        // PROC_PID_INIT_INO (include/linux/proc_ns.h): what BPF tells of threads are the numbers that they have there.
        if fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own != Path::new("pid:[4026531836]")) {
            lack("the host's PID namespace", "run outside of a container, or with --pid=host");
        }
        if Freezer::find(&Real).is_none() {
            lack("a cgroup freezer", "mount cgroup v2, or v1 with the freezer controller");
        }
        missing
    }

    fn describe_cores(&self, cores: &[u32], _machine: &Machine) -> Vec<String> {
        let mut lines: Vec<String> = vec![
            "start a watchdog, which undoes everything should giusto die or stall".into(),
            "make a frozen cgroup giusto.manager.keeper without members (cgroup v1), so that freezing others is quick"
                .into(),
        ];
        lines.extend(cores.iter().map(|core| {
            format!(
                "start the manager of core {core}: a thread at SCHED_FIFO 90 on it, told by BPF programs on sched_switch, \
                 sched_wakeup, sched_wakeup_new and sched_process_fork"
            )
        }));
        lines
    }

    fn describe(&self, server: &ServicePlan) -> Vec<String> {
        let (name, core) = (name(server), server.core);
        let Server { budget, period, kind } = server.server;
        let frozen = if server.cap == Cap::Hard { ", frozen without" } else { "" };
        vec![
            format!(
                "make the cgroup giusto.{name} in the freezer, or (cgroup v2) below the one its members are in, move them in, \
                 bind them to core {core}"
            ),
            format!(
                "give {name} {} ns in every {} ns, {kind}: sched_setattr(its threads, SCHED_RR 1 to 80 with budget, \
                 SCHED_OTHER without){frozen}",
                budget.ns(),
                period.ns()
            ),
        ]
    }

    fn prepare(&mut self, servers: &[&ServicePlan], on: Ground, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        Manager::prepare(record)?;
        servers.iter().try_for_each(|server| self.start(server, on.beats))
    }

    fn admit(&mut self, server: &ServicePlan, on: Ground, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        self.prepare(&[server], on, record)
    }

    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let manager = on(&self.managers, server)?;
        if let Some((_, handle)) = self.held.get_mut(&key(server)) {
            return manager.take_in(handle, members, record);
        }
        if server.copies.is_some() && members.is_empty() {
            return Ok(()); // this worker has not begun yet
        }
        let &ServicePlan { vcpu, server: reservation, criticality, cap, .. } = server;
        let name = server.name.clone();
        let managed = Managed { name, part: vcpu, server: reservation, first: None, priority: 0, criticality, cap };
        let mut handle = manager.hold(&managed, members, record)?;
        if self.waiting.contains(&key(server)) {
            manager.resume(&mut handle, (reservation, criticality), cap, record)?;
            self.waiting.remove(&key(server));
        }
        self.held.insert(key(server), (server.core, handle));
        Ok(())
    }

    fn part_with(&mut self, server: &ServicePlan, threads: &[u32]) -> Result<(), Error> {
        let Some((core, handle)) = self.held.get(&key(server)) else { return Ok(()) };
        self.managers.get(core).map_or(Ok(()), |manager| manager.part_with(handle, threads))
    }

    fn holds(&self, server: &ServicePlan) -> bool {
        self.held.contains_key(&key(server))
    }

    fn hold(
        &mut self,
        server: &ServicePlan,
        _members: &[u32],
        record: &mut dyn Recorder<Undo>,
    ) -> Result<String, Error> {
        if server.copies.is_some() && !self.holds(server) {
            self.waiting.insert(key(server));
            return Ok("waits for its worker".into());
        }
        let (Some(manager), Some((on, handle))) = (self.managers.get(&server.core), self.held.get_mut(&key(server)))
        else {
            return Err(refused(server, "is not held by a manager"));
        };
        manager.resume(handle, (server.server, server.criticality), server.cap, record)?;
        *on = server.core;
        let without = match server.cap {
            Cap::Hard => "without budget it stops",
            Cap::Soft => "without budget it goes on as an ordinary one",
        };
        Ok(format!("under the manager of core {on}, with all its threads; {without}"))
    }

    fn set(&mut self, from: &ServicePlan, to: &ServicePlan, record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let Some((core, handle)) = self.held.get_mut(&key(to)) else { return Ok(()) };
        let Some(manager) = self.managers.get(core) else { return Ok(()) };
        let wanted = (to.server, to.criticality);
        if from.cap == to.cap {
            let smaller = to.server.bandwidth() <= from.server.bandwidth();
            return manager.set(handle, wanted, if smaller { When::Now } else { When::NextPeriod });
        }
        manager.pause(handle)?;
        manager.resume(handle, wanted, to.cap, record).or_else(|error| {
            manager.resume(handle, (from.server, from.criticality), from.cap, record)?;
            Err(error)
        })
    }

    fn release(&mut self, server: &ServicePlan) -> Result<(), Error> {
        self.waiting.remove(&key(server));
        let Some((core, handle)) = self.held.get_mut(&key(server)) else { return Ok(()) };
        self.managers.get(core).map_or(Ok(()), |manager| manager.pause(handle))
    }

    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error> {
        self.waiting.remove(&key(server));
        let Some((core, handle)) = self.held.remove(&key(server)) else { return Ok(()) };
        self.managers.get(&core).map_or(Ok(()), |manager| manager.let_go(handle))
    }

    fn check(&mut self, server: &ServicePlan) -> Result<(), Error> {
        match self.holds(server) || self.waiting.contains(&key(server)) {
            true => Ok(()),
            false => Err(Error::NoThread),
        }
    }

    fn observe(&self, server: &ServicePlan) -> Observed<'_> {
        let counted = || {
            let (core, handle) = self.held.get(&key(server))?;
            let report = self.reports.get(core)?;
            let own = report.servers.iter().find(|one| Some(one.server) == handle.server())?;
            Some((report.for_ns, own))
        };
        let counted = counted();
        let left_ns = counted.map(|(_, own)| own.left_ns);
        Observed { left_ns, is_throttled: counted.is_some_and(|(_, own)| own.is_ready && own.is_throttled), counted }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes =
            vec!["backend manager: giusto enforces; should it die, its watchdog restores the host".to_string()];
        let blind = self.reports.values().filter(|report| !report.tells_moves);
        notes.extend(blind.map(|report| {
            let core = report.core;
            format!(
                "core {core}: this kernel does not tell who leaves its cgroup; it is noticed within 100 ms of running on"
            )
        }));
        notes
    }

    fn has(&self, core: u32) -> bool {
        self.managers.contains_key(&core)
    }

    fn handle(&self, server: &ServicePlan) -> Result<Box<dyn BudgetHandle>, Error> {
        let (_, handle) = self.held.get(&key(server)).ok_or(Error::NoThread)?;
        Ok(Box::new(on(&self.managers, server)?.lever(handle)?))
    }

    fn prefer(
        &mut self,
        server: &ServicePlan,
        agent: u32,
        _: (Duration, Duration),
        _record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        let Some((core, handle)) = self.held.get(&key(server)) else { return Ok(()) };
        self.managers.get(core).map_or(Ok(()), |manager| manager.prefer(handle, agent))
    }

    fn ask(&mut self) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        for (&core, manager) in &self.managers {
            let mut report = manager.report()?;
            warnings.extend(report.warnings.iter().map(|warning| format!("core {core}: {warning}")));
            // What moved stays until it was looked after.
            for before in self.reports.remove(&core).into_iter().flat_map(|report| report.servers) {
                let same = report.servers.iter_mut().find(|now| now.server == before.server && now.name == before.name);
                same.into_iter().for_each(|now| now.moved.extend(&before.moved));
            }
            self.reports.insert(core, report);
        }
        Ok(warnings)
    }

    fn report(&self, core: u32) -> Option<&Report> {
        self.reports.get(&core)
    }

    fn budgets(&self) -> Vec<BudgetSource> {
        let servers = |core: u32| {
            let here = self.held.iter().filter(move |(_, (on, _))| *on == core);
            here.filter_map(|(key, (_, handle))| Some((handle.server()?, key.clone()))).collect()
        };
        let source = |(&core, manager): (&u32, &Manager)| {
            let budgets = manager.budgets();
            BudgetSource { core, budgets, servers: servers(core) }
        };
        self.managers.iter().map(source).collect()
    }

    fn astray(&self) -> bool {
        // All are asked, as asking takes it back.
        self.managers.values().filter(|manager| manager.astray()).count() > 0
    }

    fn forget_moves(&mut self) {
        self.reports.values_mut().flat_map(|report| &mut report.servers).for_each(|server| server.moved.clear());
    }
}

impl BudgetHandle for Lever {
    fn core(&self) -> Option<u32> {
        Some(Lever::core(self))
    }

    fn set(&self, server: &Server) -> Result<Instant, Error> {
        Lever::set(self, *server, When::Now).map(Instant::from_ns)
    }

    fn set_at(&self, server: &Server, earliest: Instant) -> Result<Changed, Error> {
        let next = Instant::from_ns(self.replenishes()?);
        if next < earliest && next > now() {
            return Ok(Changed::NotYet(next));
        }
        Lever::set(self, *server, When::NextPeriod).map(|at| Changed::From(Instant::from_ns(at)))
    }

    fn boost(&self, until: Instant) -> Result<(), Error> {
        Lever::boost(self, until.ns())
    }

    fn end_boost(&self) -> Result<(), Error> {
        Lever::end_boost(self)
    }

    fn wake(&self) {
        Lever::wake(self);
    }
}
