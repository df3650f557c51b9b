//! The backend `rt-group` as one of many; how it works is in `rt_group.rs` of this room.

use super::lacks::{writing, CPU};
use super::server::{key, no_vcpus, refused, Key};
use crate::backend::Backend;
use crate::deadline::bind;
use crate::rt_group::RtGroup;
use crate::{Error, Lack, Machine, Recorder};
use giusto_model::ServicePlan;
use std::collections::BTreeMap;
use std::path::Path;

/// A group a server; with the core of each.
#[derive(Default)]
pub(super) struct RtGroups {
    held: BTreeMap<Key, (u32, RtGroup)>,
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

    fn keep(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder) -> Result<(), Error> {
        no_vcpus(server)?;
        match self.held.get_mut(&key(server)) {
            Some((_, group)) => group.take_in(members, record),
            None => members.iter().try_for_each(|&pid| bind(pid, server.core, record)),
        }
    }

    fn holds(&self, server: &ServicePlan) -> bool {
        self.held.contains_key(&key(server))
    }

    fn hold(&mut self, server: &ServicePlan, members: &[u32], record: &mut dyn Recorder) -> Result<String, Error> {
        let core = server.core;
        if let Some((_, group)) = self.held.get_mut(&key(server)) {
            group.take_in(members, record)?; // it was started again
            return Ok(format!("in its real-time group on core {core}"));
        }
        let group = RtGroup::new(&server.name, core, &server.server, members, record)?;
        self.held.insert(key(server), (core, group));
        Ok(format!("in a real-time group on core {core}, with all its threads"))
    }

    fn set(&mut self, _from: &ServicePlan, to: &ServicePlan, _record: &mut dyn Recorder) -> Result<(), Error> {
        self.held.get_mut(&key(to)).map_or(Ok(()), |(_, group)| group.set(&to.server))
    }

    fn let_go(&mut self, server: &ServicePlan) -> Result<(), Error> {
        let what =
            "is in a real-time group, which can be resized while it runs, and not moved or left; stop giusto and \
                    start it again";
        if self.holds(server) {
            return Err(refused(server, what));
        }
        Ok(())
    }

    fn check(&mut self, server: &ServicePlan) -> Result<(), Error> {
        self.held.get(&key(server)).map_or(Err(Error::NoThread), |(_, group)| group.check())
    }

    fn has(&self, core: u32) -> bool {
        self.held.values().any(|(on, _)| *on == core)
    }
}
