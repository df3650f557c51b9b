//! The scene of a run: all services of a plan alive and in their places on this host, and the way back.

use crate::{Error, Journal, Running};
use giusto_compute::sched::{self, Attr, Thread};
use giusto_compute::{Isolated, Machine, Recorder, Reserved, Undo};
use giusto_model::{LeftoverPlan, Load, Plan, ServicePlan};
use std::path::Path;
use std::time::Duration;

/// Services in their places. Dropping it leaves the host as it was found; [`Scene::finish`] also says whether it could.
pub struct Scene<'a> {
    journal: &'a mut Journal,
    isolated: Option<Isolated>,
    /// Time-sensitive services and the others, in the order of the plan.
    services: Vec<(&'a ServicePlan, Running)>,
    leftovers: Vec<(&'a LeftoverPlan, Running)>,
    finished: bool,
}

impl<'a> Scene<'a> {
    /// Starts or adopts all services of `plan`, isolates the host's cores and moves each service to its own. Reserves nothing
    /// yet. Errors: anything missing or refused; what was done until then is undone.
    pub fn set(plan: &'a Plan, machine: &Machine, journal: &'a mut Journal, logs: &Path) -> Result<Self, Error> {
        let cpusets = require(machine)?;
        journal.begin()?;
        let mut scene = Scene { journal, isolated: None, services: Vec::new(), leftovers: Vec::new(), finished: false };
        for service in &plan.services {
            let running = scene.begin(&service.name, &service.origin, logs)?;
            scene.services.push((service, running));
            let (_, running) = scene.services.last_mut().expect("just pushed");
            if let Some(Load::Redis { address, .. }) = &service.load {
                let patience = giusto_model::Duration::from_secs(10);
                let listening =
                    giusto_measure::wait_listening(*address, patience, &mut || !running.processes().is_empty());
                running.check()?; // how it ended says more than that nobody listens
                listening?;
            }
        }
        for leftover in &plan.leftovers {
            let running = scene.begin(&leftover.name, &leftover.origin, logs)?;
            scene.leftovers.push((leftover, running));
        }
        scene.isolated = Some(Isolated::new(cpusets, &plan.host.cores, scene.journal)?);
        scene.confine()?;
        Ok(scene)
    }

    fn begin(&mut self, name: &str, origin: &giusto_model::Origin, logs: &Path) -> Result<Running, Error> {
        let running = Running::begin(name, origin, logs)?;
        if let Some(leader) = running.group().and_then(Thread::of) {
            self.journal.intend(&Undo::Group(leader)).map_err(giusto_compute::Error::Journal)?;
        }
        Ok(running)
    }

    /// Moves every process to its core; called again, those that have come since. A leftover's processes are spread over its
    /// cores, each on one.
    pub fn confine(&mut self) -> Result<(), Error> {
        let Some(isolated) = &self.isolated else { return Ok(()) };
        for (service, running) in &self.services {
            isolated.confine(&running.processes(), service.core, self.journal)?;
        }
        for (leftover, running) in &self.leftovers {
            for (pid, &core) in running.processes().into_iter().zip(leftover.cores.iter().cycle()) {
                isolated.confine(&[pid], core, self.journal)?;
            }
        }
        Ok(())
    }

    /// Puts service `index` of the plan under its reservation.
    pub fn reserve(&mut self, index: usize) -> Result<Reserved, Error> {
        let (service, running) = &self.services[index];
        let isolated = self.isolated.as_ref().expect("set() isolates");
        Ok(isolated.reserve(&running.processes(), &service.server, self.journal)?)
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

    /// Leftover services that share a core with a service.
    pub fn competitors(&self, core: u32) -> impl Iterator<Item = &Running> {
        self.leftovers.iter().filter(move |(plan, _)| plan.cores.contains(&core)).map(|(_, running)| running)
    }

    /// An error if a service has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        let services = self.services.iter_mut().map(|(_, running)| running);
        services.chain(self.leftovers.iter_mut().map(|(_, running)| running)).try_for_each(Running::check)
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
        let restored = self.journal.restore()?;
        if restored.failed.is_empty() {
            return Ok(());
        }
        Err(Error::NotRestored(restored.failed.join("; ")))
    }
}

impl Drop for Scene<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            eprintln!("giusto: {error}");
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

/// Enforces a plan until `stop` says so: reserves, then looks once a second for processes that have come, services that have
/// ended, and reservations that no longer serve the thread that does the work.
pub fn enforce(scene: &mut Scene, stop: &dyn Fn() -> bool, say: &mut dyn FnMut(String)) -> Result<(), Error> {
    let mut reservations = Vec::new();
    for index in 0..scene.services.len() {
        let reserved = scene.reserve(index)?;
        let name = &scene.services[index].0.name;
        let share = match reserved.percent {
            Some(percent) => format!("which does {percent} % of its work"),
            None => "its main thread; it has hardly run yet".to_string(),
        };
        let tid = reserved.thread;
        say(format!(
            "{name}: reserved for thread {tid}, {share}; its other threads stay as they are, on the same core"
        ));
        reservations.push(reserved);
    }
    let mut turn = 0;
    while !stop() {
        std::thread::sleep(Duration::from_millis(100));
        turn += 1;
        if turn % 10 == 0 {
            scene.check()?;
            scene.confine()?;
            for (index, reserved) in reservations.iter().enumerate() {
                reserved.check(&scene.processes(index))?;
            }
        }
    }
    Ok(())
}
