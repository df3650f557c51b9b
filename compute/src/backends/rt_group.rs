//! The backend `rt-group` as one of many; how it works is in `rt_group.rs` of this room.

use super::lacks::{writing, CPU};
use super::server::{key, no_vcpus, Key};
use crate::backend::Backend;
use crate::deadline::bind;
use crate::rt_group::RtGroup;
use crate::{spent, undo, Error, Lack, Machine, Recorder, Undo};
use giusto_model::ServicePlan;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Too few records to look for those that are of no use any more.
const FEW: usize = 500;

/// A group a server.
#[derive(Default)]
pub(super) struct RtGroups {
    held: BTreeMap<Key, Held>,
}

struct Held {
    core: u32,
    group: RtGroup,
    /// How to undo this one alone, and how many that were when what the dead had was forgotten last.
    own: Vec<Undo>,
    kept: usize,
}

impl Held {
    fn take_in(&mut self, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        if self.own.len() > 2 * self.kept.max(FEW) {
            let mut dead = spent(&self.own).into_iter();
            self.own.retain(|_| dead.next() != Some(true));
            self.kept = self.own.len();
        }
        self.group.take_in(members, &mut Both(record, &mut self.own))
    }
}

/// Records for the host and for one group.
struct Both<'a>(&'a mut dyn Recorder<Undo>, &'a mut Vec<Undo>);

impl Recorder<Undo> for Both<'_> {
    fn intend(&mut self, undo: &Undo) -> io::Result<()> {
        self.0.intend(undo)?;
        self.1.intend(undo)
    }
}

impl Backend for RtGroups {
    fn lacks(&self, _machine: &Machine) -> Vec<Lack> {
        match CPU.iter().map(|root| Path::new(root).join("cpu.rt_runtime_us")).find(|file| file.exists()) {
            None => vec![Lack::new(
                "cpu.rt_runtime_us (real-time groups)",
                "use a kernel built with CONFIG_RT_GROUP_SCHED and mount cgroup v1 with the cpu controller",
            )],
            Some(file) => writing(&file),
        }
    }

    fn describe(&self, server: &ServicePlan) -> Vec<String> {
        let (name, core) = (&server.name, server.core);
        let (period, runtime) = RtGroup::whole_us(&server.server);
        vec![
            format!("bind all threads of {name} to core {core}"),
            format!(
                "make the group giusto.{name} of the cpu controller, write {period} to its cpu.rt_period_us and {runtime} \
                 to its cpu.rt_runtime_us"
            ),
            format!("move the processes of {name} in, sched_setattr(all their threads, SCHED_FIFO 1)"),
        ]
    }

    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        no_vcpus(server)?;
        match self.held.get_mut(&key(server)) {
            Some(held) => held.take_in(members, record),
            None => members.iter().try_for_each(|&pid| bind(pid, server.core, record)),
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
        let core = server.core;
        if let Some(held) = self.held.get_mut(&key(server)) {
            held.take_in(members, record)?; // it was started again
            return Ok(format!("in its real-time group on core {core}"));
        }
        let mut own = Vec::new();
        let made = RtGroup::new(&server.name, core, &server.server, members, &mut Both(record, &mut own));
        let group = made.inspect_err(|_| _ = undo(&own))?;
        self.held.insert(key(server), Held { core, group, own, kept: 0 });
        Ok(format!("in a real-time group on core {core}, with all its threads"))
    }

    fn set(&mut self, _from: &ServicePlan, to: &ServicePlan, _record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        self.held.get_mut(&key(to)).map_or(Ok(()), |held| held.group.set(&to.server))
    }

    /// All go home, and the group goes. What is born of them meanwhile goes with them.
    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error> {
        let failed = self.held.get(&key(server)).map_or(vec![], |held| undo(&held.own).failed);
        if failed.is_empty() {
            self.held.remove(&key(server));
            return Ok(());
        }
        Err(Error::Kernel { doing: format!("let {} leave its real-time group", server.name), why: failed.join("; ") })
    }

    fn check(&mut self, server: &ServicePlan) -> Result<(), Error> {
        self.held.get(&key(server)).map_or(Err(Error::NoThread), |held| held.group.check())
    }

    fn has(&self, core: u32) -> bool {
        self.held.values().any(|held| held.core == core)
    }
}
