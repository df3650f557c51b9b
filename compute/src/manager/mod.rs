//! The backend `manager`: exact servers of any kind on a stock kernel, from user space.
//!
//! A thread a managed core ([`Manager`]) drives the policy core and carries its decisions out on the threads of the servers by
//! real-time priorities (SCHED_RR) and the freezer; a BPF program (bpf/watch.bpf.c) tells it when a server's threads sleep
//! and wake, and what they consume. Servers keep a fixed grid or re-anchor, under either order, as their kind says.
//!
//! Whatever it does to a thread is on record before ([`Undo`](crate::Undo)). Should it die or stall, its servers may hold the
//! core or stay stopped: its caller provides a watchdog that looks at [`Beats`] and undoes.

mod beat;
mod budgets;
mod command;
mod engine;
pub(crate) mod group;
mod guard;
mod line;
mod managed;
mod ranks;
mod report;
mod watch;

pub use beat::Beats;
pub use budgets::{BudgetPoint, Budgets};
pub use giusto_policy::{Order, When};
pub use guard::guard;
pub use line::Lever;
pub use managed::Managed;
pub use report::{ModeReport, Report, ServerReport};

use crate::files::Real;
use crate::{Error, Recorder, Undo};
use command::Command;
use engine::{Engine, PRIORITY};
use giusto_model::{Cap, Criticality, Server};
use group::{Freezer, Group};
use line::{answered, Line};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{channel, sync_channel, Receiver};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A server of a [`Manager`].
#[derive(Debug)]
pub struct Handle {
    /// Its number on its core; `None` while it is paused.
    server: Option<usize>,
    managed: Managed,
    group: Group,
}

impl Handle {
    /// Its number in [`Report::servers`]; `None` while it is paused.
    pub fn server(&self) -> Option<usize> {
        self.server
    }

    /// What happens when its budget is used up.
    pub fn cap(&self) -> Cap {
        self.managed.cap
    }
}

/// The manager of one core. Dropping it ends its thread, with all servers let go on; what was done to their threads is undone by
/// [`undo`](crate::undo()).
pub struct Manager {
    core: u32,
    order: Order,
    freezer: Freezer,
    line: Line,
    astray: Arc<AtomicBool>,
    budgets: Arc<Budgets>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Starts the manager of `core`: a thread on that core, above all servers. Takes some milliseconds.
    ///
    /// Errors: the machine lacks what [`probe`](crate::probe()) tells; the core is not there.
    pub fn start(core: u32, order: Order, beats: &Beats) -> Result<Manager, Error> {
        let online = crate::cores::online();
        if !online.contains(&core) {
            return Err(Error::NoCore { core, online });
        }
        let kernel = |doing: &str, why: String| Error::Kernel { doing: doing.into(), why };
        let freezer = Freezer::find(&Real)
            .ok_or_else(|| kernel("find a freezer", "mount cgroup v2, or v1 with the freezer controller".into()))?;
        // A page fault under way would hold every server up. Without the privilege, that is the risk.
        // SAFETY: plain system call.
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
        let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
        let call = rustix::event::eventfd(0, flags).map_err(|why| kernel("make an eventfd", why.to_string()))?;
        let called = call.try_clone().map_err(|why| kernel("share an eventfd", why.to_string()))?;
        let (commands, receiver) = channel();
        let (tell, told) = sync_channel(1);
        let (beats, astray, budgets) = (beats.clone(), Arc::<AtomicBool>::default(), Arc::new(Budgets::new()));
        let told_to = (astray.clone(), budgets.clone());
        let body = move || match prepared(core, order, (receiver, called), beats, told_to) {
            Ok(engine) => {
                let _ = tell.send(Ok(()));
                engine.run();
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name(format!("giusto-core{core}")).spawn(body);
        let thread = thread.map_err(|why| kernel("start the manager's thread", why.to_string()))?;
        answered(&told)??;
        Ok(Manager {
            core,
            order,
            freezer,
            line: Line { core, commands, call: Arc::new(call), unheard: Arc::default() },
            astray,
            budgets,
            thread: Some(thread),
        })
    }

    /// Makes what all managers of a host share, unless it is there; before the first server.
    pub fn prepare(record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        Freezer::find(&Real).map_or(Ok(()), |freezer| freezer.keep(record))
    }

    /// Its core.
    pub fn core(&self) -> u32 {
        self.core
    }

    /// The order of its servers.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Gets a server ready on this core, paused: binds its threads to the core and keeps them together in a cgroup. Of whole
    /// processes with all their threads and children, or, where `managed.part` is told, of the single threads `members` of one
    /// process.
    ///
    /// Errors: `members` is empty; a thread has a SCHED_DEADLINE reservation; the kernel refuses.
    pub fn hold(&self, managed: &Managed, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<Handle, Error> {
        let &leader = members.first().ok_or(Error::NoThread)?;
        let mut group = Group::new(&self.freezer, &managed.name, managed.part, leader, self.core, record)?;
        for &member in members {
            if let Err(why) = group.take_in(member, record) {
                let _ = group.release(); // or it would be in the way of another try; undoing tries again
                return Err(why);
            }
        }
        Ok(Handle { server: None, managed: managed.clone(), group })
    }

    /// [`Manager::hold`], then [`Manager::resume`].
    pub fn add(&self, managed: &Managed, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<Handle, Error> {
        let mut handle = self.hold(managed, members, record)?;
        self.begin(&mut handle)?;
        Ok(handle)
    }

    fn begin(&self, handle: &mut Handle) -> Result<(), Error> {
        handle.group.has_changed();
        let group = handle.group.clone_for_switching()?;
        let threads = group.threads();
        let wanted = Box::new((handle.managed.clone(), group));
        handle.server = Some(self.line.ask(|answer| Command::Add { wanted, threads, answer })??);
        Ok(())
    }

    /// Takes its server from a service: its threads go on as ordinary ones, on the same core.
    pub fn pause(&self, handle: &mut Handle) -> Result<(), Error> {
        let Some(server) = handle.server.take() else { return Ok(()) };
        self.line.ask(|answer| Command::Remove { server, answer })
    }

    /// Gives a paused service a server, on this manager's core, which may be another one than before. Errors: the reservation is
    /// none (0 < B ≤ P); the kernel refuses.
    pub fn resume(
        &self,
        handle: &mut Handle,
        (server, criticality): (Server, Option<Criticality>),
        cap: Cap,
        record: &mut dyn Recorder<Undo>,
    ) -> Result<(), Error> {
        handle.group.move_to(self.core, record)?;
        (handle.managed.server, handle.managed.criticality, handle.managed.cap) = (server, criticality, cap);
        self.begin(handle)
    }

    /// Manages a service no longer: its threads go back to where they were, and as they were.
    pub fn let_go(&self, mut handle: Handle) -> Result<(), Error> {
        self.pause(&mut handle)?;
        handle.group.release()
    }

    /// Takes members in that have come since: processes of the service that it did not fork itself, or single threads. Those
    /// that are there already are left alone.
    pub fn take_in(&self, handle: &mut Handle, members: &[u32], record: &mut dyn Recorder<Undo>) -> Result<(), Error> {
        let mut threads = Vec::new();
        for &member in members {
            threads.extend(handle.group.take_in(member, record)?);
        }
        let Some(server) = handle.server else { return Ok(()) };
        if handle.group.has_changed() {
            let group = Box::new(handle.group.clone_for_switching()?);
            self.line.send(Command::Regroup { server, group })?;
        }
        self.line.send(Command::TakeIn { server, threads })
    }

    /// Leaves `threads` to another server of their service, which takes them in next.
    pub fn part_with(&self, handle: &Handle, threads: &[u32]) -> Result<(), Error> {
        let Some(server) = handle.server else { return Ok(()) };
        self.line.ask(|answer| Command::PartWith { server, threads: threads.to_vec(), answer })
    }

    /// Changes a reservation; its kind stays, and whether its criticality is high. Takes effect within about 20 us, or with the next
    /// period.
    pub fn set(
        &self,
        handle: &mut Handle,
        (server, criticality): (Server, Option<Criticality>),
        when: When,
    ) -> Result<(), Error> {
        self.lever(handle)?.set_with(server, criticality, when)?;
        (handle.managed.server, handle.managed.criticality) = (server, criticality);
        Ok(())
    }

    /// What changes a server from any thread, as long as the server stays.
    pub fn lever(&self, handle: &Handle) -> Result<Lever, Error> {
        let server = handle.server.ok_or_else(paused)?;
        Ok(Lever { server, line: self.line.clone() })
    }

    /// Lets one thread of a service run before its others, and not beyond their budget: the agent that changes what they do.
    pub fn prefer(&self, handle: &Handle, thread: u32) -> Result<(), Error> {
        handle.server.map_or(Ok(()), |server| self.line.send(Command::Prefer { server, thread }))
    }

    /// Whether something was put into another cgroup since this was asked last; [`ServerReport::moved`] says what. Costs
    /// nothing.
    pub fn astray(&self) -> bool {
        self.astray.swap(false, Relaxed)
    }

    /// What it decides with, for a recording.
    pub fn budgets(&self) -> Arc<Budgets> {
        self.budgets.clone()
    }

    /// How everything stands.
    pub fn report(&self) -> Result<Report, Error> {
        self.line.ask(|answer| Command::Report { answer })
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.line.send(Command::Stop);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// On its core and in its place before anything is timed.
fn prepared(
    core: u32,
    order: Order,
    (commands, called): (Receiver<Command>, OwnedFd),
    beats: Beats,
    told_to: (Arc<AtomicBool>, Arc<Budgets>),
) -> Result<Engine, Error> {
    use crate::sched::{self, Attr};
    let engine = Engine::new(core, order, (commands, called), beats, told_to)?;
    let kernel = |doing: String| move |why: std::io::Error| Error::Kernel { doing, why: why.to_string() };
    sched::set_affinity(0, &[core]).map_err(kernel(format!("run on core {core}; is it in this process's cpuset?")))?;
    sched::set(0, &Attr::of_policy(sched::FIFO, PRIORITY)).map_err(kernel(
        "take a real-time priority (needs CAP_SYS_NICE; under cgroup v1 with RT_GROUP_SCHED also cpu.rt_runtime_us)"
            .into(),
    ))?;
    Ok(engine)
}

fn paused() -> Error {
    Error::Kernel { doing: "change a server".into(), why: "it is paused".into() }
}
