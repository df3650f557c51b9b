//! Who in this virtual machine wants another mode: a socket that takes a line with its name and answers with a line.

use crate::error::{cannot, Error};
use giusto_modes::Answered;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Clients at once; more are turned away.
const MOST: usize = 8;
/// How long a change may take until the client gives up.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Asks {
    listener: UnixListener,
    clients: Vec<Client>,
    next: u32,
}

struct Client {
    stream: UnixStream,
    read: Vec<u8>,
    /// Once it has asked.
    request: Option<u32>,
}

fn socket(folder: &Path, service: &str) -> PathBuf {
    folder.join(format!("{service}.ask"))
}

impl Asks {
    /// The lock on the state is held, so a socket that is there is unowned.
    pub(crate) fn listen(folder: &Path, service: &str) -> Result<Asks, Error> {
        let path = socket(folder, service);
        let _ = std::fs::remove_file(&path);
        let doing = || format!("listen on {}", path.display());
        let listener = UnixListener::bind(&path).map_err(cannot(doing()))?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).map_err(cannot(doing()))?;
        listener.set_nonblocking(true).map_err(cannot(doing()))?;
        Ok(Asks { listener, clients: Vec::new(), next: 1 })
    }

    /// What to wait for.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// New requests, with the modes that are asked for. Never waits.
    pub(crate) fn receive(&mut self) -> Vec<(u32, String)> {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < MOST && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, read: Vec::new(), request: None });
            }
        }
        let mut asked = Vec::new();
        let next = &mut self.next;
        self.clients.retain_mut(|client| {
            let mut bytes = [0; 512];
            match client.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(length) => client.read.extend(&bytes[..length]),
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
            let Some(end) = client.read.iter().position(|&byte| byte == b'\n') else { return client.read.len() < 512 };
            let Ok(mode) = std::str::from_utf8(&client.read[..end]) else { return false };
            if client.request.is_some() {
                return false; // one request a connection
            }
            client.request = Some(*next);
            asked.push((*next, mode.to_string()));
            *next = next.wrapping_add(1);
            true
        });
        asked
    }

    pub(crate) fn answer(&mut self, request: u32, answered: Option<Answered>) {
        let Some(place) = self.clients.iter().position(|client| client.request == Some(request)) else { return };
        let mut client = self.clients.swap_remove(place);
        let _ = writeln!(client.stream, "{}", word(answered)); // it may have gone
    }
}

fn word(answered: Option<Answered>) -> &'static str {
    match answered {
        Some(Answered::Done) => "done",
        Some(Answered::Degraded) => "degraded",
        Some(Answered::Refused) => "refused",
        Some(Answered::RolledBack) => "rolled-back",
        Some(Answered::Preempted) => "preempted",
        Some(Answered::Stuck) => "stuck",
        None => "no-manager",
    }
}

/// Asks the agent of `service`, whose state is in `folder`, for a global mode; what became of it, in a word: `done`, `degraded`, `refused`,
/// `rolled-back`, `preempted`, `stuck`, or `no-manager` where the agent has no connection.
pub fn ask(folder: &Path, service: &str, mode: &str) -> Result<String, Error> {
    let path = socket(folder, service);
    let unanswered = |source| Error::NoAnswer { service: service.into(), path: path.clone(), source };
    let mut stream = UnixStream::connect(&path).map_err(unanswered)?;
    let doing = || cannot(format!("ask the agent at {}", path.display()));
    stream.set_read_timeout(Some(PATIENCE)).map_err(doing())?;
    writeln!(stream, "{mode}").map_err(doing())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(doing())?;
    Ok(line.trim_end().to_string())
}
