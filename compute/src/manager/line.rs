//! The line to a core's manager: commands go in, answers come back.

use super::command::Command;
use super::engine::PRIORITY;
use crate::Error;
use giusto_model::{Criticality, Server};
use giusto_policy::When;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{sync_channel, Receiver, Sender, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A manager answers sooner than a thread that sleeps on a core of its own wakes.
const SPIN: Duration = Duration::from_micros(200);

/// Changes one server of a [`Manager`](super::Manager), from any thread. Once the server is paused or let go it changes nothing that it
/// should: the caller that pauses it takes the lever back first.
#[derive(Clone, Debug)]
pub struct Lever {
    pub(super) server: usize,
    pub(super) line: Line,
}

impl Lever {
    /// The manager's.
    pub fn core(&self) -> u32 {
        self.line.core
    }

    /// Changes the reservation; its kind stays. Returns from when on it is in force (CLOCK_MONOTONIC, ns): about now, or at its next
    /// replenishment. Waits for the manager, about 20 us, in which it does not sleep.
    pub fn set(&self, wanted: Server, when: When) -> Result<u64, Error> {
        self.set_with(wanted, None, when)
    }

    pub(super) fn set_with(&self, wanted: Server, criticality: Option<Criticality>, when: When) -> Result<u64, Error> {
        let server = self.server;
        self.line.ask(|answer| Command::Set { server, wanted, criticality, when, answer })?
    }

    /// Its next replenishment (CLOCK_MONOTONIC, ns), where its kind has a grid; else its deadline.
    pub fn replenishes(&self) -> Result<u64, Error> {
        let server = self.server;
        self.line.ask(|answer| Command::Look { server, answer })?
    }

    /// Puts the server above all others until then (CLOCK_MONOTONIC, ns). At most one on a core. Does not wait: the caller waits
    /// for what the boosted server does. A boost that is refused is among the manager's warnings.
    pub fn boost(&self, until: u64) -> Result<(), Error> {
        let server = self.server;
        self.line.send(Command::Boost { server, until })
    }

    /// Ends its boost with the next command to this manager, which spares a wake-up; [`Lever::wake`] where none follows.
    pub fn end_boost(&self) -> Result<(), Error> {
        let server = self.server;
        self.line.put(Command::Boost { server, until: 0 })
    }

    /// Makes the manager do what waits for the next command, if anything does.
    pub fn wake(&self) {
        if self.line.unheard.load(Relaxed) {
            self.line.call();
        }
    }
}

/// Where a manager's commands go in.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) core: u32,
    pub(super) commands: Sender<Command>,
    pub(super) call: Arc<OwnedFd>,
    /// A command has been put in, and the manager was not called since.
    pub(super) unheard: Arc<AtomicBool>,
}

impl Line {
    pub(super) fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, Error> {
        let (answer, told) = sync_channel(1);
        self.send(command(answer))?;
        let begun = Instant::now();
        while crate::sched::here() != self.core && begun.elapsed() < SPIN {
            if let Ok(answer) = told.try_recv() {
                return Ok(answer);
            }
            std::hint::spin_loop();
        }
        answered(&told)
    }

    pub(super) fn send(&self, command: Command) -> Result<(), Error> {
        self.put(command)?;
        self.call();
        Ok(())
    }

    fn put(&self, command: Command) -> Result<(), Error> {
        above_the_manager(|| self.commands.send(command)).map_err(|_| silent())?;
        self.unheard.store(true, Relaxed);
        Ok(())
    }

    fn call(&self) {
        self.unheard.store(false, Relaxed);
        let _ = rustix::io::write(&*self.call, &1u64.to_ne_bytes());
    }
}

/// A channel's receiver spins while a sender is half-way through. The manager would do so for ever if it had preempted the
/// sender, on its own core.
fn above_the_manager<T>(work: impl FnOnce() -> T) -> T {
    use crate::sched::{self, Attr};
    let own = sched::get(0).ok();
    let low = own.filter(|own| own.policy != sched::FIFO || own.priority <= PRIORITY);
    let raised = low.filter(|_| sched::set(0, &Attr::of_policy(sched::FIFO, PRIORITY + 1)).is_ok());
    let done = work();
    if let Some(own) = raised {
        let _ = sched::set(0, &own);
    }
    done
}

pub(super) fn answered<T>(told: &Receiver<T>) -> Result<T, Error> {
    told.recv_timeout(Duration::from_secs(10)).map_err(|_| silent())
}

fn silent() -> Error {
    Error::Kernel { doing: "reach the manager".into(), why: "it does not answer; it has broken down or stalled".into() }
}
