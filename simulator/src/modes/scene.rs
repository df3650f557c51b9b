//! A host whose modes are changed: what is given, and what is seen.

use crate::system::Error;
use giusto_model::{Bandwidth, Duration, Server, Task};
use giusto_modes::{Local, Member, Mode, Place, Settings, Table};
use serde::Deserialize;

/// What things take: measured times, of which one is drawn whenever it is needed. None may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The manager sends a message, and asks for the boost where the policy says so.
    pub post_ns: Vec<u64>,
    /// From there until it is at the agent's end, who has a processor.
    pub send_ns: Vec<u64>,
    /// The manager reads a message.
    pub receive_ns: Vec<u64>,
    /// The manager changes a reservation, after it has ended the boost if there was one.
    pub set_ns: Vec<u64>,
    /// Processor time of an agent, from reading a command to having sent the acknowledgement.
    pub switch_ns: Vec<u64>,
}

/// A virtual machine in a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmMode {
    /// Of each of its virtual CPUs; deferrable.
    pub server: Server,
    /// The tasks of each virtual CPU, rate monotonic; the agent is on the first, before them all.
    pub tasks: Vec<Vec<Task>>,
}

/// A host.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Cores, scheduled together under EDF. The manager has one more to itself.
    pub cores: u32,
    /// Virtual machines, in each mode, as many for each.
    pub vms: Vec<Vec<VmMode>>,
    /// How modes are changed.
    pub settings: Settings,
    /// False: reservations stay as in the first mode, and tasks change (what a static configuration does).
    pub reservations: bool,
    /// What it takes.
    pub costs: Costs,
    /// Time between the end of a change and the next request, uniform. The first mode is left first, then each follows
    /// in turn.
    pub between: (Duration, Duration),
    /// A mode that is not held back by `spacing`.
    pub urgent: Option<usize>,
    /// So many changes at most.
    pub changes: usize,
    /// It ends with the last of them.
    pub ends: bool,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// From the request to the end of each change, in ns.
    pub latencies: Vec<u64>,
    /// Changes that ended otherwise than in the new mode.
    pub failed: u64,
    /// Jobs that were due while they ran, and those of them that were late. A job of a task that is stopped is not
    /// counted unless it was late then.
    pub jobs: u64,
    /// Late.
    pub misses: u64,
}

impl Scene {
    /// The table of the manager: all cores are one place.
    ///
    /// # Errors
    /// What [`Table::new`] finds.
    pub(super) fn table(&self) -> Result<Table, Error> {
        let refused = |why: &dyn std::fmt::Display| Error::Server { index: 0, why: why.to_string() };
        let modes = self.vms.first().map_or(0, Vec::len);
        let member = |(index, vm): (usize, &Vec<VmMode>)| {
            let parts = vm.first().map_or(0, |mode| mode.tasks.len());
            if vm.len() != modes || vm.iter().any(|mode| mode.tasks.len() != parts) {
                return Err(refused(
                    &"a virtual machine has as many modes as the others, and as many virtual CPUs in each",
                ));
            }
            let local = |(number, mode): (usize, &VmMode)| {
                let server = if self.reservations { mode.server } else { vm[0].server };
                Local { name: number.to_string(), utilization: Bandwidth::ZERO, servers: vec![server; parts] }
            };
            let locals = vm.iter().enumerate().map(local).collect();
            let name = format!("vm{index}");
            Ok(Member { name, agent: true, parts: vec![0; parts], locals, asks: Vec::new() })
        };
        let members = self.vms.iter().enumerate().map(member).collect::<Result<Vec<_>, _>>()?;
        let place = Place { name: "guests".into(), boosts: self.cores as usize };
        let mode = |mode: usize| Mode {
            name: mode.to_string(),
            locals: vec![mode; members.len()],
            urgent: self.urgent == Some(mode),
        };
        let modes = (0..modes).map(mode).collect();
        Table::new(vec![place], members, modes).map_err(|why| refused(&why))
    }
}
