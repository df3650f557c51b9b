//! The scene of a run: all services of a plan alive and in their places on this host, and the way back.

use crate::spinner::Spinner;
use crate::{Error, Journal, Running};
use giusto_compute::sched::{self, Attr};
use giusto_compute::{Isolated, Machine, Recorder, Reserved, Undo};
use giusto_model::{LeftoverPlan, Load, Plan, ServicePlan};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Services in their places. Dropping it leaves the host as it was found; [`Scene::finish`] also says whether it could.
pub struct Scene<'a> {
    journal: &'a mut Journal,
    isolated: Isolated,
    /// Time-sensitive services and the others, in the order of the plan.
    services: Vec<(&'a ServicePlan, Running)>,
    leftovers: Vec<Leftover<'a>>,
    finished: bool,
}

/// A service that gets what is left, and the core of each of its processes.
struct Leftover<'a> {
    plan: &'a LeftoverPlan,
    running: Running,
    places: BTreeMap<u32, u32>,
}

impl<'a> Scene<'a> {
    /// Isolates the cores that the plan reserves on, starts or adopts all services, and moves each to its core. Reserves
    /// nothing yet. Errors: anything missing or refused; what was done until then is undone.
    pub fn set(plan: &'a Plan, machine: &Machine, journal: &'a mut Journal, logs: &Path) -> Result<Self, Error> {
        let cpusets = require(machine)?;
        journal.begin()?;
        let mut cores: Vec<u32> = plan.services.iter().map(|service| service.core).collect();
        cores.dedup();
        let isolated = match Isolated::new(cpusets, &cores, journal) {
            Ok(isolated) => isolated,
            Err(error) => {
                restored(journal)?;
                return Err(error.into());
            }
        };
        let mut scene = Scene { journal, isolated, services: Vec::new(), leftovers: Vec::new(), finished: false };
        for service in &plan.services {
            let mut running = scene.begin(&service.name, &service.origin, logs)?;
            if let Some(Load::Redis { address, .. }) = &service.load {
                let patience = giusto_model::Duration::from_secs(10);
                let listening =
                    giusto_measure::wait_listening(*address, patience, &mut || !running.processes().is_empty());
                running.check()?; // how it ended says more than that nobody listens
                listening?;
            }
            scene.services.push((service, running));
        }
        for plan in &plan.leftovers {
            let running = scene.begin(&plan.name, &plan.origin, logs)?;
            scene.leftovers.push(Leftover { plan, running, places: BTreeMap::new() });
        }
        scene.confine()?;
        Ok(scene)
    }

    fn begin(&mut self, name: &str, origin: &giusto_model::Origin, logs: &Path) -> Result<Running, Error> {
        Running::begin(name, origin, logs, &mut |leader| self.journal.intend(&Undo::Group(leader)))
    }

    /// Moves every process to its core; called again, those that have come since. A leftover's processes are spread over its
    /// cores, each on one; on a core that carries no reservation they run wherever the kernel finds room off the others.
    pub fn confine(&mut self) -> Result<(), Error> {
        for (service, running) in &self.services {
            self.isolated.confine(&running.processes(), service.core, self.journal)?;
        }
        for leftover in &mut self.leftovers {
            let alive = leftover.running.processes();
            leftover.places.retain(|pid, _| alive.contains(pid));
            for pid in alive {
                if leftover.places.contains_key(&pid) {
                    continue;
                }
                let taken = |core: &&u32| leftover.places.values().filter(|place| place == core).count();
                let Some(&core) = leftover.plan.cores.iter().min_by_key(taken) else { continue };
                if self.isolated.has(core) {
                    self.isolated.confine(&[pid], core, self.journal)?;
                } else {
                    self.isolated.keep_off(&[pid], self.journal)?;
                }
                leftover.places.insert(pid, core);
            }
        }
        Ok(())
    }

    /// Puts service `index` of the plan under its reservation.
    pub fn reserve(&mut self, index: usize) -> Result<Reserved, Error> {
        let (service, running) = &self.services[index];
        Ok(self.isolated.reserve(&running.processes(), &service.server, self.journal)?)
    }

    /// Gives all threads of service `index` a real-time priority without a budget; returns what to hand to [`Scene::leave`].
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

    /// Processes of service `index` now.
    pub fn processes(&self, index: usize) -> Vec<u32> {
        self.services[index].1.processes()
    }

    /// Everybody, with what they are to get.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<&ServicePlan>, &Running)> {
        let services = self.services.iter().map(|(service, running)| (Some(*service), running));
        services.chain(self.leftovers.iter().map(|leftover| (None, &leftover.running)))
    }

    /// Keeps `core` awake until what is returned is dropped.
    pub(crate) fn keep_awake(&mut self, core: u32) -> Result<Spinner, Error> {
        Spinner::start(&self.isolated, core, self.journal)
    }

    /// Leftover services that share a core with a service.
    pub fn competitors(&self, core: u32) -> impl Iterator<Item = &Running> {
        let here = move |leftover: &&Leftover| leftover.places.values().any(|&place| place == core);
        self.leftovers.iter().filter(here).map(|leftover| &leftover.running)
    }

    /// Processor time that leftover processes on `core` have had so far.
    pub fn used_by_others(&self, core: u32) -> giusto_model::Duration {
        let places = self.leftovers.iter().flat_map(|leftover| &leftover.places);
        let pids = places.filter(|&(_, &place)| place == core).map(|(&pid, _)| pid);
        giusto_model::Duration::from_ns(pids.flat_map(sched::threads).map(sched::cpu_time_ns).sum())
    }

    /// An error if a service has ended, also one that gets leftovers.
    pub fn check(&mut self) -> Result<(), Error> {
        let services = self.services.iter_mut().map(|(_, running)| running);
        services.chain(self.leftovers.iter_mut().map(|leftover| &mut leftover.running)).try_for_each(Running::check)
    }

    /// Undoes everything.
    pub fn finish(mut self) -> Result<(), Error> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        // Threads leave their reservations, cpusets go, and only then do the services end (the journal's order).
        restored(self.journal)
    }
}

fn restored(journal: &mut Journal) -> Result<(), Error> {
    let restored = journal.restore()?;
    restored.notes.iter().for_each(|note| tracing::warn!("{note}"));
    if restored.failed.is_empty() {
        return Ok(());
    }
    Err(Error::NotRestored(restored.failed.join("; ")))
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            tracing::error!("{error}");
        }
    }
}

/// Cpusets, if the machine has all that enforcement needs; else the first thing that is missing.
fn require(machine: &Machine) -> Result<&giusto_compute::Cpusets, Error> {
    if let Some(lack) = machine.missing.first() {
        return Err(Error::Lacks { what: lack.what.clone(), how: lack.how.clone() });
    }
    machine.cpusets.as_ref().ok_or_else(|| Error::Lacks { what: "cpusets".into(), how: "mount cgroup v2".into() })
}

/// Enforces a plan until `stop` says so: reserves, then looks once a second for processes that have come, and for
/// reservations that no longer serve. What can be mended is, and logged; only the end of a time-sensitive service is an error.
/// `turn` is called ten times a second, with what is wrong now.
pub fn enforce(
    scene: &mut Scene,
    stop: &dyn Fn() -> bool,
    turn: &mut dyn FnMut(&mut Scene, Vec<String>),
) -> Result<(), Error> {
    let mut guards = Vec::new();
    for index in 0..scene.services.len() {
        guards.push(Guard { reserved: reserve(scene, index)?, worry: None });
    }
    let mut turns = 0;
    while !stop() {
        turn(scene, guards.iter().filter_map(|guard| guard.worry.clone()).collect());
        std::thread::sleep(Duration::from_millis(100));
        turns += 1;
        if turns % 10 != 0 {
            continue;
        }
        for leftover in &mut scene.leftovers {
            let ended = leftover.running.check().err().filter(|_| !leftover.places.is_empty());
            if let Some(error) = ended {
                tracing::warn!(service = leftover.plan.name, "{error}; the plan goes on without it");
            }
        }
        scene.confine()?;
        for (index, guard) in guards.iter_mut().enumerate() {
            scene.services[index].1.check()?;
            guard.look(scene, index)?;
        }
    }
    Ok(())
}

fn reserve(scene: &mut Scene, index: usize) -> Result<Reserved, Error> {
    let reserved = scene.reserve(index)?;
    let share = match reserved.percent {
        Some(percent) => format!("which does {percent} % of its work"),
        None => "its main thread; it has hardly run yet".to_string(),
    };
    let (ServicePlan { name, core, .. }, thread) = (scene.services[index].0, reserved.thread);
    tracing::info!(
        service = name,
        core,
        thread,
        "{name}: reserved for thread {thread}, {share}; its other threads stay as they are, on the same core"
    );
    Ok(reserved)
}

/// Watches a reservation.
struct Guard {
    reserved: Reserved,
    /// What was said last, so that it is said once.
    worry: Option<String>,
}

impl Guard {
    fn look(&mut self, scene: &mut Scene, index: usize) -> Result<(), Error> {
        let worry = match self.reserved.check() {
            Ok(()) => None,
            Err(giusto_compute::Error::Gone(_)) => {
                self.reserved = reserve(scene, index)?;
                None
            }
            Err(error) => Some(format!("{}: {error}", scene.services[index].0.name)),
        };
        if worry != self.worry {
            let (ServicePlan { name, core, .. }, thread) = (scene.services[index].0, self.reserved.thread);
            worry.iter().for_each(|worry| tracing::warn!(service = name, core, thread, "{worry}"));
            self.worry = worry;
        }
        Ok(())
    }
}
