//! All services of a plan alive and in their places on this host, each under the backend that the plan chose, and the way back.

use crate::backends::Backends;
use crate::modal::Modal;
use crate::packets::Packets;
use crate::spinner::Spinner;
use crate::watchdog::clock;
use crate::workers::Workers;
use crate::{Before, Error, Journal, Running};
use giusto_compute::manager::Beats;
use giusto_compute::sched::{self, Attr, Thread};
use giusto_compute::{Ground, Machine, Parked, Quota, Recorder};
use giusto_model::{Duration, LeftoverPlan, Plan, ServicePlan};
use rustix::time::ClockId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The period of a leftover's cap, the kernel's own default.
const QUOTA_PERIOD: Duration = Duration::from_ms(100);

/// Services in their places. Dropping it leaves the host as it was found; [`Deployment::finish`] also says whether it could.
pub struct Deployment<'j> {
    /// What it was set for.
    pub(crate) plan: Plan,
    pub(crate) journal: &'j mut Journal,
    logs: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) backends: Backends,
    pub(crate) beats: Beats,
    pub(crate) services: Vec<Running>,
    /// By service, of those with copies.
    workers: RefCell<BTreeMap<String, Workers>>,
    /// Servers in the order of the plan; a virtual machine has one a vCPU.
    pub(crate) parts: Vec<ServicePlan>,
    pub(crate) leftovers: Vec<Leftover>,
    pub(crate) packets: Option<Packets>,
    /// Cores that are offline, once everything is in force.
    pub(crate) parked: BTreeMap<u32, Parked>,
    /// Mode changes, once everything is in force.
    pub(crate) modal: Option<Modal>,
    /// A service that did not listen when it was started, though it was there.
    not_listening: Option<Error>,
    finished: bool,
}

/// A service that gets what is left, and the core of each of its processes.
pub(crate) struct Leftover {
    pub(crate) plan: LeftoverPlan,
    pub(crate) running: Running,
    pub(crate) places: BTreeMap<u32, u32>,
    quota: Option<Quota>,
}

impl Leftover {
    /// Takes its cap away, once its processes have ended; those of an adopted one stay where they are.
    pub(crate) fn uncap(&self) -> Result<(), Error> {
        match &self.quota {
            Some(quota) if self.running.started() => Ok(quota.remove()?),
            _ => Ok(()),
        }
    }
}

impl<'j> Deployment<'j> {
    /// Prepares the cores that the plan reserves on, starts or adopts all services, and moves each to its core. Reserves
    /// nothing yet. `beats` is where managers show that they live. A service that is started and ends at once, or does not
    /// listen, is no error: [`Deployment::check`] tells. Errors: anything missing or refused; what was done until then is undone.
    pub fn set(
        plan: &Plan,
        machine: &Machine,
        journal: &'j mut Journal,
        logs: &Path,
        beats: &Beats,
    ) -> Result<Self, Error> {
        plan.only_host().ok_or(Error::ManyHosts(plan.hosts.len()))?;
        if let Some(lack) = crate::missing(plan, machine).into_iter().next() {
            return Err(Error::Lacks { what: lack.what, how: lack.how });
        }
        journal.begin()?;
        let mut deployment = Deployment {
            plan: plan.clone(),
            journal,
            logs: logs.into(),
            machine: machine.clone(),
            backends: Backends::default(),
            beats: beats.clone(),
            services: Vec::new(),
            workers: RefCell::default(),
            parts: Vec::new(),
            leftovers: Vec::new(),
            packets: None,
            parked: BTreeMap::new(),
            modal: None,
            not_listening: None,
            finished: false,
        };
        deployment.is_here();
        // From here on, whatever fails is undone when the deployment is dropped.
        deployment.backends.prepare(&plan.services, Ground { machine, beats }, deployment.journal)?;
        for service in &plan.services {
            deployment.enter(service, plan)?;
        }
        for plan in &plan.leftovers {
            deployment.enter_leftover(plan)?;
        }
        deployment.confine()?;
        // Once the services are there: their interfaces come with them.
        deployment.packets = Packets::set(plan, deployment.journal)?;
        deployment.rests();
        Ok(deployment)
    }

    /// Shows the watchdog that the main thread is at work.
    pub(crate) fn is_here(&self) {
        self.beats.main_is_here(clock(ClockId::Monotonic));
    }

    /// No thread has to be at work from now on, until [`Deployment::is_here`].
    fn rests(&self) {
        self.beats.main_is_here(0);
    }

    /// Starts or finds a service of the plan, unless another server of it has, and keeps it to its core; it has no server yet.
    /// A started one is on its core before its first instruction.
    pub(crate) fn enter(&mut self, plan: &ServicePlan, whole: &Plan) -> Result<(), Error> {
        self.parts.push(plan.clone());
        let index = self.parts.len() - 1;
        if !self.services.iter().any(|running| running.name == plan.name) {
            self.is_here();
            let logs = self.logs.clone();
            // Where the kernel isolates cores, it keeps a service to its own by itself.
            let own = whole.services.iter().filter(|other| other.name == plan.name);
            let cores: Vec<u32> = own.map(|other| other.core).filter(|_| !plan.backend.abilities().isolates).collect();
            let mut before = |before: Before| match before {
                Before::Made(undo) => self.journal.intend(&undo),
                Before::Runs(leader) => self.keep_to_core(index, Some(leader)).map_err(io::Error::other),
            };
            let running = Running::begin(&plan.name, &plan.origin, &plan.process, &cores, &logs, &mut before)?;
            if let Some(load) = &plan.load {
                let patience = Duration::from_secs(10);
                let listening =
                    giusto_measure::wait_listening(load.address(), patience, &mut || !running.processes().is_empty());
                if let Err(error) = listening {
                    tracing::warn!("{}: {error}", plan.name);
                    self.not_listening = Some(error.into());
                }
            }
            self.services.push(running);
        }
        self.keep_to_core(index, None)
    }

    pub(crate) fn enter_leftover(&mut self, plan: &LeftoverPlan) -> Result<(), Error> {
        let running = Running::not_yet(&plan.name);
        self.leftovers.push(Leftover { plan: plan.clone(), running, places: BTreeMap::new(), quota: None });
        let index = self.leftovers.len() - 1;
        let begun = self.begin_leftover(index, plan);
        match begun {
            Ok(running) => self.leftovers[index].running = running,
            Err(error) => {
                self.leftovers.drain(index..).for_each(|leftover| {
                    if let Err(error) = leftover.uncap() {
                        tracing::warn!("{error}");
                    }
                });
                return Err(error);
            }
        }
        let alive = self.leftovers[index].running.processes();
        self.cap(index, &alive)
    }

    fn begin_leftover(&mut self, index: usize, plan: &LeftoverPlan) -> Result<Running, Error> {
        self.is_here();
        let logs = self.logs.clone();
        let mut before = |before: Before| match before {
            Before::Made(undo) => self.journal.intend(&undo),
            Before::Runs(leader) => self.keep_spread(index, vec![leader.tid]).map_err(io::Error::other),
        };
        Running::begin(&plan.name, &plan.origin, &plan.process, &[], &logs, &mut before)
    }

    /// Starts a service again that has ended: in its cgroup, on its core and under its server before its first instruction.
    pub(crate) fn start_again(&mut self, name: &str) -> Result<(), Error> {
        self.is_here();
        if let Some(at) = self.services.iter().position(|running| running.name == name) {
            let index = self.parts.iter().position(|part| part.name == name);
            let mut running = self.services.remove(at);
            let done = running.start_again(&mut |before| match (before, index) {
                (Before::Made(undo), _) => self.journal.intend(&undo),
                (Before::Runs(leader), Some(index)) => self.keep_to_core(index, Some(leader)).map_err(io::Error::other),
                _ => Ok(()),
            });
            self.services.insert(at, running);
            return done;
        }
        let Some(index) = self.leftovers.iter().position(|leftover| leftover.running.name == name) else {
            return Ok(());
        };
        let mut running = std::mem::replace(&mut self.leftovers[index].running, Running::not_yet(name));
        let done = running.start_again(&mut |before| match before {
            Before::Made(undo) => self.journal.intend(&undo),
            Before::Runs(leader) => self.keep_spread(index, vec![leader.tid]).map_err(io::Error::other),
        });
        self.leftovers[index].running = running;
        done
    }

    /// Every service once.
    pub(crate) fn every(&mut self) -> impl Iterator<Item = &mut Running> {
        let leftovers = self.leftovers.iter_mut().map(|leftover| &mut leftover.running);
        self.services.iter_mut().chain(leftovers)
    }

    /// The cap on a leftover that has one, from the first process on.
    fn cap(&mut self, index: usize, processes: &[u32]) -> Result<(), Error> {
        let leftover = &mut self.leftovers[index];
        match (&leftover.quota, leftover.plan.at_most) {
            (Some(quota), _) => Ok(quota.take_in(processes, self.journal)?),
            (None, Some(share)) => {
                leftover.quota = Some(Quota::new(&leftover.plan.name, share, QUOTA_PERIOD, processes, self.journal)?);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Other cores or another cap for a leftover; `false`: there is none of this name.
    pub(crate) fn spread(&mut self, goal: &LeftoverPlan) -> Result<bool, Error> {
        let Some(leftover) = self.leftovers.iter_mut().find(|leftover| leftover.plan.name == goal.name) else {
            return Ok(false);
        };
        match (&mut leftover.quota, goal.at_most) {
            (Some(quota), most) => quota.set(most.unwrap_or(giusto_model::Bandwidth::ONE), QUOTA_PERIOD)?,
            (none, Some(share)) => {
                *none = Some(Quota::new(&goal.name, share, QUOTA_PERIOD, &leftover.running.processes(), self.journal)?);
            }
            (None, None) => {}
        }
        leftover.plan = goal.clone();
        leftover.places.clear();
        Ok(true)
    }

    /// All running services, each with what it is to get.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<&ServicePlan>, &Running)> {
        let parts = self.parts.iter().filter_map(|part| Some((Some(part), self.service(&part.name)?)));
        parts.chain(self.leftovers.iter().map(|leftover| (None, &leftover.running)))
    }

    /// What a server schedules: the processes of its service, the thread of its vCPU, or its workers.
    pub(crate) fn members(&self, plan: &ServicePlan) -> Result<Vec<u32>, Error> {
        let Some(running) = self.services.iter().find(|running| running.name == plan.name) else { return Ok(vec![]) };
        let Some(vcpu) = plan.vcpu else { return Ok(running.processes()) };
        if let Some(copies) = plan.copies.as_ref().filter(|copies| copies.threads.is_some()) {
            let mut workers = self.workers.borrow_mut();
            return Ok(workers.entry(plan.name.clone()).or_default().of(&running.processes(), copies, vcpu));
        }
        let vcpus = running.vcpus()?;
        let none = || Error::Service {
            name: plan.name.clone(),
            what: format!("has {} virtual CPUs, and number {vcpu} was promised a supply", vcpus.len()),
        };
        vcpus.get(vcpu as usize).map(|&tid| vec![tid]).ok_or_else(none)
    }

    /// Moves every process to its core; called again, those that have come since. A leftover's processes are spread over its
    /// cores, each on one; on a core that carries no reservation they run wherever the kernel finds room off the others.
    /// Errors: the first one; the others are in their places nevertheless.
    pub fn confine(&mut self) -> Result<(), Error> {
        let parts = (0..self.parts.len()).map(|index| self.keep_to_core(index, None)).fold(Ok(()), Result::and);
        let mut done = parts;
        for index in 0..self.leftovers.len() {
            let alive = self.leftovers[index].running.processes();
            let spread = self.keep_spread(index, alive);
            done = done.and(spread);
        }
        done
    }

    /// `alive`: its processes, or the one that is about to run.
    fn keep_spread(&mut self, index: usize, alive: Vec<u32>) -> Result<(), Error> {
        let leftover = &mut self.leftovers[index];
        leftover.places.retain(|pid, _| alive.contains(pid));
        let new: Vec<u32> = alive.into_iter().filter(|pid| !leftover.places.contains_key(pid)).collect();
        if !new.is_empty() {
            self.cap(index, &new)?;
        }
        let leftover = &mut self.leftovers[index];
        for pid in new {
            let taken = |core: &&u32| leftover.places.values().filter(|place| place == core).count();
            let Some(&core) = leftover.plan.cores.iter().min_by_key(taken) else { continue };
            let placed = self.backends.place(pid, core, leftover.quota.is_some(), self.journal);
            placed.map_err(|why| match why {
                why @ giusto_compute::Error::OneCgroup => {
                    Error::Service { name: leftover.plan.name.clone(), what: why.to_string() }
                }
                why => why.into(),
            })?;
            leftover.places.insert(pid, core);
        }
        Ok(())
    }

    /// Moves service `index` to its core, also those of it that have come since; or only the process that is about to run its
    /// program.
    fn keep_to_core(&mut self, index: usize, leader: Option<Thread>) -> Result<(), Error> {
        let plan = &self.parts[index];
        let members = match leader.map_or_else(|| self.members(plan), |leader| Ok(vec![leader.tid])) {
            // A vCPU cannot be asked for while another client talks to the monitor: what is known stays.
            Err(_) if self.backends.holds(plan) => return Ok(()),
            members => members?,
        };
        if plan.copies.is_some() {
            // A worker is born where the thread is that started it.
            let others = self.parts.iter().filter(|other| other.name == plan.name && other.vcpu != plan.vcpu);
            others.into_iter().try_for_each(|other| self.backends.of(other.backend).part_with(other, &members))?;
        }
        Ok(self.backends.of(plan.backend).keep(plan, &members, self.journal)?)
    }

    /// Gives all threads of service `index` a real-time priority without a budget; returns what to hand to [`Deployment::leave`].
    pub fn unlimited(&mut self, index: usize) -> Result<Vec<u32>, Error> {
        let threads: Vec<u32> = self.processes(index).into_iter().flat_map(sched::threads).collect();
        for &tid in &threads {
            giusto_compute::reschedule(tid, &Attr::of_policy(sched::FIFO, 1), self.journal)?;
        }
        Ok(threads)
    }

    /// Back to SCHED_OTHER. A thread that has ended is passed over.
    pub fn leave(&mut self, threads: &[u32]) -> Result<(), Error> {
        for &tid in threads {
            if let Err(source) = sched::leave(tid, &Attr::default()) {
                if source.raw_os_error() != Some(libc::ESRCH) {
                    return Err(Error::Io { doing: format!("give thread {tid} SCHED_OTHER back"), source });
                }
            }
        }
        Ok(())
    }

    /// Processes of the service of server `index` now.
    pub fn processes(&self, index: usize) -> Vec<u32> {
        self.service(&self.parts[index].name).map(Running::processes).unwrap_or_default()
    }

    pub(crate) fn service(&self, name: &str) -> Option<&Running> {
        self.services.iter().find(|running| running.name == name)
    }

    /// Keeps `core` awake until what is returned is dropped.
    pub(crate) fn keep_awake(&mut self, core: u32) -> Result<Spinner, Error> {
        Spinner::start(&mut |pid| self.backends.place(pid, core, false, self.journal))
    }

    /// Leftover services that share a core with a service.
    pub fn competitors(&self, core: u32) -> impl Iterator<Item = &Running> {
        let here = move |leftover: &&Leftover| leftover.places.values().any(|&place| place == core);
        self.leftovers.iter().filter(here).map(|leftover| &leftover.running)
    }

    /// Processor time in ns that leftover processes on `core` have had so far.
    pub fn used_by_others(&self, core: u32) -> BTreeMap<u32, u64> {
        let places = self.leftovers.iter().flat_map(|leftover| &leftover.places);
        let used = |pid| sched::threads(pid).into_iter().map(sched::cpu_time_ns).sum();
        places.filter(|&(_, &place)| place == core).map(|(&pid, _)| (pid, used(pid))).collect()
    }

    /// An error if a service has ended, also one that gets leftovers, or did not listen when it was started: what measures
    /// services cannot go on then.
    pub fn check(&mut self) -> Result<(), Error> {
        self.every().try_for_each(Running::check)?;
        self.not_listening.take().map_or(Ok(()), Err)
    }

    /// Another plan for packets, or none.
    pub(crate) fn change_packets(&mut self, plan: &Plan) -> Result<(), Error> {
        match (&mut self.packets, plan.network.first()) {
            (Some(packets), Some(network)) => packets.change(network, self.journal),
            (Some(packets), None) => {
                packets.let_go()?;
                self.packets = None;
                Ok(())
            }
            (none, _) => {
                *none = Packets::set(plan, self.journal)?;
                Ok(())
            }
        }
    }

    /// Takes cores offline that nothing is on. Errors: the first one that cannot; those before it are.
    pub(crate) fn park(&mut self, cores: &[u32]) -> Result<(), Error> {
        for &core in cores.iter().filter(|core| !self.parked.contains_key(core)).collect::<Vec<_>>() {
            self.parked.insert(core, Parked::new(core, self.journal)?);
            tracing::info!(core, "core {core} is parked");
        }
        Ok(())
    }

    /// Brings cores online that were parked.
    pub(crate) fn bring_back(&mut self, cores: &[u32]) -> Result<(), Error> {
        for core in cores {
            if let Some(parked) = self.parked.get(core) {
                parked.bring_back()?;
                self.parked.remove(core);
                tracing::info!(core, "core {core} is online again");
            }
        }
        Ok(())
    }

    /// Undoes everything.
    pub fn finish(mut self) -> Result<(), Error> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.is_here();
        // What has left its cgroup just now would outlive it.
        let _ = self.ask_backends();
        self.look_after_services().iter().for_each(|wrong| tracing::warn!("{wrong}"));
        // First those who would do it all again.
        self.modal = None;
        self.backends.clear();
        self.packets = None;
        // Threads leave their reservations, cpusets go, and only then do the services end (the journal's order).
        let restored = self.journal.restore();
        self.rests();
        let restored = restored?;
        restored.notes.iter().for_each(|note| tracing::warn!("{note}"));
        if restored.failed.is_empty() {
            return Ok(());
        }
        Err(Error::NotRestored(restored.failed.join("; ")))
    }
}

impl Drop for Deployment<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            tracing::error!("{error}");
        }
    }
}
