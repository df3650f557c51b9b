//! The control socket: one JSON object a line, request and answer (formats/control.md).
//!
//! It is a file beside the journal, for root and the group `giusto`. Who holds the journal's lock owns it, so that a socket
//! that a dead giusto left is replaced and that of a living one never is.

use crate::journal::state_folder;
use crate::listening::{Client, Server, PATIENCE};
use crate::protocol::{request, Answer, Request};
use crate::recording::{record, Client as Recorded};
use crate::{Error, Host, Journal, RecordWish, Recording, Refused};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{chmod, chown, Gid, Mode};
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

/// Longest request.
const LINE: usize = 64 * 1024;
/// Who may use it besides root.
const GROUP: &str = "giusto";
/// How long a client waits for the answer to a reload: planning, and services that start.
const RELOAD: Duration = Duration::from_secs(120);

/// The socket, until it is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    _server: Server,
}

impl Control {
    /// Listens beside `journal`, whose lock is held.
    pub(crate) fn listen(journal: &Journal, host: Arc<dyn Host>) -> Result<Control, Error> {
        let path = journal.folder().join("control");
        let cannot = |source| Error::Io { doing: format!("listen on the control socket {}", path.display()), source };
        let listener = bind(&path).map_err(cannot)?;
        let recorded = Mutex::new(());
        let serve = move |client| serve(client, host.as_ref(), &recorded);
        let server = Server::start("giusto-control", listener, serve, too_many).map_err(cannot)?;
        Ok(Control { path, _server: server })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    if let Some(group) = group(GROUP).filter(|_| rustix::process::geteuid().is_root()) {
        let folder = path.parent().unwrap_or(path);
        chown(folder, None, Some(group))?;
        chmod(folder, Mode::from_raw_mode(0o710))?; // the group gets through, and sees nothing else
        chown(path, None, Some(group))?;
    }
    chmod(path, Mode::from_raw_mode(0o660))?;
    Ok(listener)
}

/// The id of a group of this host's own.
fn group(name: &str) -> Option<Gid> {
    let groups = fs::read_to_string("/etc/group").ok()?;
    let mut lines = groups.lines().map(|line| line.split(':'));
    let id = lines.find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.nth(1)).flatten())?;
    id.parse().ok().map(Gid::from_raw)
}

/// Into the empty buffer of a new connection: does not wait.
fn too_many(mut client: UnixStream) {
    let reason = "too many clients; try again in a moment".into();
    let _ = client.write_all(Answer::Error(Refused { exit: 4, reason }).line().as_bytes());
}

/// Serves one client until it goes, is silent for too long, or sends a line that is too long.
fn serve(mut client: Client<UnixStream>, host: &dyn Host, recorded: &Mutex<()>) {
    let Ok(who) = socket_peercred(&client.stream) else { return };
    let mut read = Vec::new();
    loop {
        client.renew();
        let line = match next_line(&mut client, &mut read) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                let what = match error.kind() {
                    io::ErrorKind::TimedOut => format!("no whole request came for {} s", PATIENCE.as_secs()),
                    io::ErrorKind::InvalidData => format!("a line of more than {} KiB is no request", LINE / 1024),
                    _ => return,
                };
                client.renew();
                let _ = client.write_all(Answer::Error(Refused { exit: 2, reason: what }).line().as_bytes());
                return;
            }
        };
        let asked = request(&line);
        if let Ok(asked @ (Request::Reload(_) | Request::Mode(_) | Request::Record(_) | Request::Stop)) = &asked {
            let (pid, uid, gid) = (who.pid.as_raw_nonzero(), who.uid.as_raw(), who.gid.as_raw());
            tracing::info!(client = pid, uid, gid, "process {pid} of user {uid} asks: {}", asked.line().trim_end());
        }
        if let Ok(Request::Record(wish)) = &asked {
            return send_recordings(wish, client, host, recorded);
        }
        let may_name_sites = who.uid.is_root() || who.uid == rustix::process::geteuid();
        let answer = asked.clone().and_then(|asked| answer(asked, may_name_sites, host)).unwrap_or_else(Answer::Error);
        client.renew();
        let told = client.write_all(answer.line().as_bytes());
        if asked == Ok(Request::Stop) {
            host.stop(); // after the answer: this process may be gone in a moment
        }
        if told.is_err() {
            return;
        }
    }
}

fn answer(asked: Request, may_name_sites: bool, host: &dyn Host) -> Result<Answer, Refused> {
    Ok(match asked {
        Request::Status => Answer::Status(Box::new(host.status())),
        Request::Metrics => Answer::Metrics(crate::metrics::text(&host.status())),
        // A site names programs that are started as root.
        Request::Reload(Some(_)) if !may_name_sites => {
            let reason = "only root may name another site file; leave it out to reload the one in force";
            return Err(Refused { exit: 3, reason: reason.into() });
        }
        Request::Reload(site) => Answer::Change(host.reload(site.as_deref())?),
        Request::Mode(wish) => Answer::Mode(host.change_mode(&wish)?),
        Request::Record(_) => unreachable!("served by `send_recordings`"),
        Request::Stop => Answer::Stopping(true),
    })
}

/// Answers with recordings until all have been sent, or the client has gone: one client at a time. Then the connection ends.
fn send_recordings(wish: &RecordWish, client: Client<UnixStream>, host: &dyn Host, recorded: &Mutex<()>) {
    let mut recorder = Recorder(client);
    let done = match recorded.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let reason = "another client records; try again after it".into();
            Err(Refused { exit: 4, reason })
        }
        Ok(_) | Err(TryLockError::Poisoned(_)) => record(wish, host, &mut recorder),
    };
    if let Err(refused) = done {
        recorder.answer(Answer::Error(refused));
    }
}

/// A client that records.
struct Recorder(Client<UnixStream>);

impl Recorder {
    fn answer(&mut self, answer: Answer) -> bool {
        self.0.renew();
        self.0.write_all(answer.line().as_bytes()).is_ok()
    }
}

impl Recorded for Recorder {
    fn send(&mut self, recording: Recording) -> bool {
        self.answer(Answer::Recording(Box::new(recording)))
    }

    /// Also where it says something else: it is to wait.
    fn has_gone(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.0.stream, PollFlags::IN)], Some(&now)) != Ok(0)
    }
}

/// The next line without its end; `read` holds what came after the last one. `None`: the client has gone.
fn next_line(client: &mut impl Read, read: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut looked = 0;
    loop {
        if let Some(end) = read[looked..].iter().position(|&byte| byte == b'\n') {
            let rest = read.split_off(looked + end + 1);
            let mut line = std::mem::replace(read, rest);
            line.pop();
            return Ok(Some(line));
        }
        looked = read.len();
        if looked >= LINE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = [0; 4096];
        match client.read(&mut bytes[..(LINE - looked).min(4096)]) {
            Ok(0) => return Ok(None),
            Ok(length) => read.extend(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Recordings as they come from the giusto that runs on this host; after the last one, `None`.
pub struct Recordings(BufReader<UnixStream>);

impl Recordings {
    /// Asks for them. Errors: as those of [`ask`].
    pub fn ask(wish: RecordWish) -> Result<Recordings, Error> {
        let mut stream = connect()?;
        stream.set_write_timeout(Some(PATIENCE)).and_then(|()| stream.set_read_timeout(None)).map_err(cannot)?;
        stream.write_all(Request::Record(wish).line().as_bytes()).map_err(cannot)?;
        Ok(Recordings(BufReader::new(stream)))
    }

    /// Waits for the next one, however long that takes. Errors: giusto has ended, or does not answer as expected; what it
    /// refuses is an [`Answer::Error`].
    pub fn next_answer(&mut self) -> Result<Option<Answer>, Error> {
        let mut line = String::new();
        match self.0.read_line(&mut line).map_err(cannot)? {
            0 => Ok(None),
            _ => read_answer(&line).map(Some),
        }
    }
}

/// Asks the giusto that runs on this host. Errors: none runs, one may not ask it, or it does not answer as expected; what it
/// refuses is an [`Answer::Error`].
pub fn ask(request: &Request) -> Result<Answer, Error> {
    let mut stream = connect()?;
    let patience = if matches!(request, Request::Reload(_) | Request::Mode(_)) { RELOAD } else { PATIENCE };
    stream.set_read_timeout(Some(patience)).map_err(cannot)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(cannot)?;
    let mut line = String::new();
    let asked = stream.write_all(request.line().as_bytes());
    BufReader::new(stream).read_line(&mut line).map_err(cannot)?;
    if line.is_empty() {
        asked.map_err(cannot)?; // where it hung up before it was asked, it may have said why
    }
    read_answer(&line)
}

fn connect() -> Result<UnixStream, Error> {
    UnixStream::connect(state_folder().join("control")).map_err(cannot)
}

fn read_answer(line: &str) -> Result<Answer, Error> {
    Answer::read(line).map_err(|why| {
        cannot(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it does not answer as this giusto expects ({why}); is it another release?"),
        ))
    })
}

fn cannot(source: io::Error) -> Error {
    let path = state_folder().join("control");
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::Lacks {
            what: format!("a running giusto (no process listens on {})", path.display()),
            how: "start one as root: giusto run SITE, or: systemctl start giusto".into(),
        },
        io::ErrorKind::PermissionDenied => Error::Lacks {
            what: format!("the right to use {}", path.display()),
            how: format!("run it as root, or as a member of the group {GROUP}: sudo usermod -aG {GROUP} USER"),
        },
        _ => Error::Io { doing: format!("ask the running giusto over {}", path.display()), source },
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
