//! The loop of an agent: one thread, one connection.

use crate::asks::Asks;
use crate::engine::Engine;
use crate::error::{cannot, Error};
use crate::link::Link;
use crate::state::State;
use giusto_model::Instant;
use giusto_modes::wire::{Key, Taken};
use giusto_modes::{Agent, AgentAction, AgentEvent, Intention};
use giusto_site::agent::AgentFile;
use rustix::event::{PollFd, PollFlags, Timespec};
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Between two tries to connect, in ns.
const AGAIN: u64 = 100_000_000;

struct Worker {
    agent: Agent,
    engine: Engine,
    state: State,
    asks: Asks,
    link: Option<Link>,
    key: Key,
    file: AgentFile,
}

/// Works until it is killed. Notes for the log are passed to `say`. Errors: what it needs is not
/// there, or its state can no longer be written.
pub(crate) fn work(file: AgentFile, say: &mut dyn FnMut(String)) -> Result<(), Error> {
    crate::process::proc_is_ours().map_err(Error::Proc)?;
    let key = key(&file.key)?;
    let (state, kept) = State::open(&file.state, &file.service)?;
    let asks = Asks::listen(&file.state, &file.service)?;
    become_urgent(&file, say);
    let names: Vec<String> = file.modes.iter().map(|mode| mode.name.clone()).collect();
    // Without any word of the host nothing may run that it has not reserved for.
    let stopped = Intention { local: (names.len() - 1) as u16, change: 0 };
    let engine = Engine::new(&file, &state)?;
    let (mut out, at) = (Vec::new(), now());
    let agent = kept.and_then(|kept| Agent::new(&names, kept, at, &mut out));
    let agent = agent.or_else(|| Agent::new(&names, stopped, at, &mut out));
    let agent = agent.ok_or_else(|| cannot("count the local modes")(std::io::ErrorKind::InvalidInput.into()))?;
    let mut worker = Worker { agent, engine, state, asks, link: None, key, file };
    worker.carry_out(out, say)?;
    worker.run(say)
}

impl Worker {
    fn run(&mut self, say: &mut dyn FnMut(String)) -> Result<(), Error> {
        let (mut try_at, mut told) = (0, String::new());
        loop {
            if self.link.is_none() && now().ns() >= try_at {
                try_at = now().ns() + AGAIN;
                match Link::open(&self.file.manager, &self.file.service, self.key) {
                    Ok(link) => self.link = Some(link),
                    Err(error) => {
                        let text = format!(
                            "no manager at {}: {error}; tried again every {} ms",
                            self.file.manager,
                            AGAIN / 1_000_000
                        );
                        if told != text {
                            say(text.clone());
                            told = text;
                        }
                    }
                }
            }
            let wait = if self.link.is_none() { try_at.saturating_sub(now().ns()) } else { 1_000_000_000 };
            let (from_manager, from_here) = self.wait(wait);
            if from_manager {
                if let Err(why) = self.hear(say)? {
                    told.clear();
                    say(format!("the manager at {} is gone: {why}", self.file.manager));
                    self.lost(say)?;
                }
            }
            if from_here {
                for (request, mode) in self.asks.receive() {
                    self.happens(AgentEvent::Ask { request, mode }, say)?;
                }
            }
            self.engine.reap();
        }
    }

    /// For something from the manager, from here, or until so many ns have passed.
    fn wait(&self, ns: u64) -> (bool, bool) {
        let link = self.link.iter().map(|link| PollFd::new(link, PollFlags::IN));
        let here = self.asks.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = link.chain(here).collect();
        let timeout = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let links = usize::from(self.link.is_some());
        (ready[..links].contains(&true), ready[links..].contains(&true))
    }

    /// What the manager says; inside: the connection ended, and why.
    fn hear(&mut self, say: &mut dyn FnMut(String)) -> Result<Result<(), std::io::Error>, Error> {
        let Some(link) = &mut self.link else { return Ok(Ok(())) };
        let taken = match link.receive() {
            Ok(taken) => taken,
            Err(why) => return Ok(Err(why)),
        };
        for one in taken {
            match one {
                Taken::Open { .. } => {
                    say(format!("connected to {}", self.file.manager));
                    self.happens(AgentEvent::Connected, say)?;
                }
                Taken::Message(message) => self.happens(AgentEvent::Message(message), say)?,
            }
        }
        Ok(Ok(()))
    }

    fn lost(&mut self, say: &mut dyn FnMut(String)) -> Result<(), Error> {
        self.link = None;
        self.happens(AgentEvent::Lost, say)
    }

    fn happens(&mut self, event: AgentEvent, say: &mut dyn FnMut(String)) -> Result<(), Error> {
        let mut out = Vec::new();
        self.agent.handle(now(), event, &mut out);
        self.carry_out(out, say)
    }

    fn carry_out(&mut self, out: Vec<AgentAction>, say: &mut dyn FnMut(String)) -> Result<(), Error> {
        let mut todo = std::collections::VecDeque::from(out);
        while let Some(action) = todo.pop_front() {
            match action {
                AgentAction::Keep(intention) => self.state.keep(&intention)?,
                AgentAction::Switch { local } => {
                    let done = self.engine.switch(usize::from(local));
                    self.engine.notes().into_iter().for_each(&mut *say);
                    let event = if done.is_ok() { AgentEvent::Switched } else { AgentEvent::SwitchFailed };
                    let mut more = Vec::new();
                    self.agent.handle(now(), event, &mut more);
                    todo.extend(more);
                    if let Err(why) = done {
                        say(why);
                    }
                }
                AgentAction::Send(message) => {
                    // What is wrong with the connection shows when it is read.
                    _ = self.link.as_mut().map(|link| link.send(&message));
                }
                AgentAction::Answer { request, answered } => self.asks.answer(request, answered),
            }
        }
        Ok(())
    }
}

/// Ends the tasks that agents of `file` have started. None works any more.
pub(crate) fn end(file: &AgentFile) -> Result<(), Error> {
    let (state, _) = State::open(&file.state, &file.service)?;
    let ended = Engine::new(file, &state)?.end();
    state.forget()?;
    ended.map_err(|why| cannot("end the tasks")(std::io::Error::other(why)))
}

/// Above the tasks of this machine, and never swapped out.
fn become_urgent(file: &AgentFile, say: &mut dyn FnMut(String)) {
    let _ = rustix::thread::set_name(c"giusto-agent");
    // SAFETY: plain system calls.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    let Some(priority) = file.priority else { return };
    let param = libc::sched_param { sched_priority: priority as i32 };
    // SAFETY: plain system call with a parameter of its own.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) } != 0 {
        let why = std::io::Error::last_os_error();
        say(format!("priority {priority}: {why}; tasks that never sleep can delay a change (in a container that is the host's to solve: write priority: none)"));
    }
}

/// The key in a file that no other user can read: SHA-256 of its 32 to 1,024 bytes.
///
/// Errors: it is not there, others can read it, or it is no key.
pub fn key(path: &Path) -> Result<Key, Error> {
    let wrong = |what: String| Error::Key { path: path.into(), what };
    let mode = std::fs::metadata(path).map_err(|why| wrong(why.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong(format!("others can read it (mode {:o})", mode & 0o777)));
    }
    let secret = std::fs::read(path).map_err(|why| wrong(why.to_string()))?;
    match secret.len() {
        32..=1024 => Ok(Sha256::digest(&secret).into()),
        bytes => Err(wrong(format!("it has {bytes} bytes; expected 32 to 1024"))),
    }
}

/// Makes a key where there is none: 32 random bytes that only this user can read. Whether it did.
///
/// Errors: the file or its folder cannot be made.
pub fn make_key(path: &Path) -> Result<bool, Error> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if path.exists() {
        return Ok(false);
    }
    let doing = || cannot(format!("make the key {}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(doing())?;
    let mut secret = [0; 32];
    rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty()).map_err(|why| doing()(why.into()))?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&secret)).map_err(doing())?;
    Ok(true)
}

fn now() -> Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_ns(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
