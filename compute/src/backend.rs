//! What a backend is: the one trait that `daemon` knows of the mechanisms that give processor time to servers.
//!
//! An implementation is a file in `backends/`, named in the list there; what it can do is a row in `giusto_model`
//! ([`giusto_model::Abilities`]), as the planner plans for machines that it does not run on. An implementation keeps
//! what is in force, by service and virtual CPU. Whatever it does to the host is on record first, so that it needs no
//! method to undo.

use crate::deadline::bind;
use crate::manager::{Beats, Budgets, Report, ServerReport};
use crate::{Error, Lack, Machine, Recorder, Undo};
use giusto_model::{Duration, Instant, Server, ServicePlan};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What backends have to know of their surroundings to get ready.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The host.
    pub machine: &'a Machine,
    /// Where threads of Giusto's own show that they live.
    pub beats: &'a Beats,
}

/// A mechanism, and the servers that it holds on this host. A server is known by its service and its virtual CPU;
/// `members` are the processes of its service, or the thread of its virtual CPU.
pub trait Backend: Send {
    /// What `machine` lacks for it; reads only.
    fn lacks(&self, machine: &Machine) -> Vec<Lack>;

    /// What it does to `cores` before any server is there, in words, a line a step (`--dry-run`).
    fn describe_cores(&self, _cores: &[u32], _machine: &Machine) -> Vec<String> {
        vec![]
    }

    /// What it does for `server`, likewise.
    fn describe(&self, server: &ServicePlan) -> Vec<String>;

    /// Gets the cores of all its servers of a plan ready, before any service is there. `servers` is not empty.
    fn prepare(
        &mut self,
        _servers: &[&ServicePlan],
        _on: Ground,
        _record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Gets the core of one more server ready, while others are in force.
    fn admit(&mut self, _server: &ServicePlan, _on: Ground, _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        Ok(())
    }

    /// Keeps `members` to the core of `server`, which may be another one than before, or under it, if it is in force.
    /// Called again for members that have come since, and with a process that is about to run its program.
    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error>;

    /// Leaves `threads` of `server`, which may have them, to another server of their service, which keeps them next.
    fn part_with(&mut self, _server: &ServicePlan, _threads: &[u32]) -> Result<(), Error> {
        Ok(())
    }

    /// Whether it knows `server`: in force, or kept ready.
    fn holds(&self, server: &ServicePlan) -> bool;

    /// Puts `server` in force for `members`, which are kept; returns what is to be told. In force already, also for
    /// those that have come since.
    fn hold(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>)
        -> Result<String, Error>;

    /// Changes a server that is in force from `from` to `to`: budget, period, criticality or cap, not its kind or core.
    /// A smaller one counts at once, a larger one as its kind allows without overload. Errors: `from` stays in force.
    /// One that it does not hold is passed over.
    fn set(&mut self, from: &ServicePlan, to: &ServicePlan, record: &mut dyn Recorder<Undo>) -> Result<(), Error>;

    /// Takes `server` from its members, which go on as ordinary ones on the same core.
    fn release(&mut self, server: &ServicePlan) -> Result<(), Error> {
        self.let_go(server)
    }

    /// Forgets `server`: its members go on as ordinary ones.
    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error>;

    /// Whether `server` has served its members since this was asked last. Errors: [`Error::NoThread`] and
    /// [`Error::Gone`] where [`Backend::hold`] mends that; others are told.
    fn check(&mut self, server: &ServicePlan) -> Result<(), Error>;

    /// How `server` stands, as far as this tells more than the kernel's accounts.
    fn observe(&self, _server: &ServicePlan) -> Observed<'_> {
        Observed::default()
    }

    /// What else is to be known of it while it is in use.
    fn notes(&self) -> Vec<String> {
        vec![]
    }

    /// Whether `core` is one that it enforces on now.
    fn has(&self, _core: u32) -> bool {
        false
    }

    /// Keeps processes without a server to `core`, which it enforces on; `capped`: they have a cap besides.
    fn confine(
        &self,
        processes: &[u32],
        core: u32,
        _capped: bool,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        processes.iter().try_for_each(|&pid| bind(pid, core, record))
    }

    /// Takes processes off its cores, to where the kernel balances load; false: it has taken no core from the kernel.
    fn keep_off(&self, _processes: &[u32], _record: &mut dyn Recorder<Undo>) -> Result<bool, Error> {
        Ok(false)
    }

    /// What changes `server`, which is in force, at a change of mode. Errors: it cannot be changed so.
    fn handle(&self, server: &ServicePlan) -> Result<Box<dyn BudgetHandle>, Error> {
        let what = "the backends 'manager' and 'deadline' can change servers in a mode change, the other ones cannot; \
                    plan with --backend manager";
        Err(Error::Server { name: server.name.clone(), what: what.into() })
    }

    /// Lets thread `agent` of `server` run soon when it has something to do: `cost`, once in `spacing`.
    fn prefer(
        &mut self,
        _server: &ServicePlan,
        _agent: u32,
        (_cost, _spacing): (Duration, Duration),
        _record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Asks the threads of Giusto's that enforce how they stand, for [`Backend::observe`] and [`Backend::report`];
    /// returns what they warn of.
    fn ask(&mut self) -> Result<Vec<String>, Error> {
        Ok(vec![])
    }

    /// What the thread of a core told last.
    fn report(&self, _core: u32) -> Option<&Report> {
        None
    }

    /// What its threads decide with, for a recording.
    fn budgets(&self) -> Vec<BudgetSource> {
        vec![]
    }

    /// Whether something has left its cgroup since this was asked last, as far as it notices.
    fn astray(&self) -> bool {
        false
    }

    /// What has left its cgroup was looked after.
    fn forget_moves(&mut self) {}
}

/// The budgets of a core's servers, as the thread of Giusto's that enforces there decides with them.
#[derive(Clone, Debug)]
pub struct BudgetSource {
    /// The core.
    pub core: u32,
    /// Where they are read.
    pub budgets: Arc<Budgets>,
    /// Its servers that are in force: the service of each number, and which of its virtual CPUs or copies it is.
    pub servers: BTreeMap<usize, (String, Option<u32>)>,
}

/// How a server stands.
#[derive(Debug, Default)]
pub struct Observed<'a> {
    /// Budget left, in ns.
    pub left_ns: Option<i64>,
    /// Whether it wants to run and has no budget.
    pub is_throttled: bool,
    /// What was counted, where a thread of Giusto's own enforces: over so many ns.
    pub counted: Option<(u64, &'a ServerReport)>,
}

/// Changes one server from any thread, as long as it is in force.
pub trait BudgetHandle: Send + std::fmt::Debug {
    /// The core whose thread of Giusto's does it; `None`: the kernel.
    fn core(&self) -> Option<u32> {
        None
    }

    /// At once; what was consumed of the old budget may make one budget of others late. Returns from when on it is in
    /// force.
    fn set(&self, server: &Server) -> Result<Instant, Error>;

    /// At its first replenishment that is not before `earliest`.
    fn set_at(&self, server: &Server, earliest: Instant) -> Result<Changed, Error>;

    /// Before all others of its core until then, if it can.
    fn boost(&self, _until: Instant) -> Result<(), Error> {
        Ok(())
    }

    /// No longer before all others, from the next command to its core on or from [`BudgetHandle::wake`].
    fn end_boost(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Has done what waits for the next command.
    fn wake(&self) {}
}

/// How a change went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// In force from then on.
    From(Instant),
    /// Not before it replenishes at this time: to be asked again then.
    NotYet(Instant),
}

/// CLOCK_MONOTONIC, on which all times of a [`BudgetHandle`] are.
pub fn now() -> Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_ns(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
