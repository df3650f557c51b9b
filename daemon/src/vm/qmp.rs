//! QEMU's machine protocol, as far as it tells a VM's vCPU threads (QEMU's docs/interop/qmp-spec). The connection ends with
//! the answer: QMP serves one client at a time, and there are others.

use super::told::Told;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{json, Value};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long everything may take together.
const PATIENCE: Duration = Duration::from_secs(2);
/// No answer is as long: 200 bytes a vCPU.
const LONGEST_LINE: usize = 1 << 20;

/// The process that listens on the socket, also while another client is served.
pub(super) fn server(path: &Path) -> Result<u32, String> {
    peer(&connect(path)?).map_err(|error| format!("cannot tell who serves {}: {error}", path.display()))
}

/// Asks for the vCPUs.
pub(super) fn ask(path: &Path) -> Result<Told, String> {
    let until = Instant::now() + PATIENCE;
    let stream = connect(path)?;
    let pid = peer(&stream).map_err(|error| format!("cannot tell who serves {}: {error}", path.display()))?;
    let mut monitor = Monitor { stream, path, until, unread: Vec::new() };
    let greeting = monitor.line()?;
    if parse(&greeting).is_none_or(|greeting| greeting.get("QMP").is_none()) {
        return Err(
            monitor.unexpected(&greeting, "a QMP greeting (QEMU started with -qmp, not -monitor or a guest agent's)")
        );
    }
    monitor.execute("qmp_capabilities")?;
    let answer = monitor.execute("query-cpus-fast")?;
    let number = |cpu: &Value, key: &str| cpu.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let read = |cpu: &Value| Some((number(cpu, "cpu-index")?, number(cpu, "thread-id")?));
    let vcpus = answer.as_array().and_then(|cpus| cpus.iter().map(read).collect());
    let vcpus = vcpus.ok_or_else(|| {
        monitor.unexpected(answer.to_string().as_bytes(), "a list of vCPUs, each with cpu-index and thread-id")
    })?;
    Ok(Told { pid, vcpus })
}

/// One conversation.
struct Monitor<'a> {
    stream: UnixStream,
    path: &'a Path,
    until: Instant,
    /// What has come after the last line.
    unread: Vec<u8>,
}

impl Monitor<'_> {
    /// Sends a command and waits for its answer; events in between are none of ours.
    fn execute(&mut self, command: &str) -> Result<Value, String> {
        let line = json!({"execute": command, "id": command}).to_string() + "\n";
        self.stream.write_all(line.as_bytes()).map_err(|error| self.broken(&error))?;
        loop {
            let line = self.line()?;
            let Some(mut answer) = parse(&line) else { return Err(self.unexpected(&line, "JSON")) };
            if answer.get("id").and_then(Value::as_str) != Some(command) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("it does not say why");
                return Err(format!(
                    "{} refuses {command}: {why}; expected QEMU 2.12 or later, with its VM made",
                    self.path.display()
                ));
            }
            return Ok(answer["return"].take());
        }
    }

    fn line(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let rest = self.unread.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.unread, rest));
            }
            if self.unread.len() > LONGEST_LINE {
                return Err(self.unexpected(&self.unread, "lines of at most 1 MiB"));
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(silent(self.path));
            }
            let mut bytes = [0; 4096];
            let read = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut bytes));
            match read {
                Ok(0) => return Err(self.broken(&ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.unread.extend(&bytes[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn broken(&self, error: &std::io::Error) -> String {
        format!("the VM at {} hung up in the middle of an answer ({error}); it may be ending", self.path.display())
    }

    fn unexpected(&self, found: &[u8], expected: &str) -> String {
        let found: String = String::from_utf8_lossy(found).trim().chars().take(60).collect();
        format!("{} says '{}'; expected {expected}", self.path.display(), found.escape_debug())
    }
}

fn parse(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok()
}

fn silent(path: &Path) -> String {
    format!(
        "no QMP server answers at {} within {} s: QMP serves one client at a time, and a stopped QEMU none; expected a socket \
         for Giusto alone: end the other client, give QEMU a second -qmp unix:PATH,server=on,wait=off, or, if the other one is \
         libvirt, write adopt: {{libvirt: NAME}}",
        path.display(),
        PATIENCE.as_secs()
    )
}

/// Connects; where others wait to be served too, for a limited time.
fn connect(path: &Path) -> Result<UnixStream, String> {
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        net::connect(&socket, &address).map(|()| UnixStream::from(socket))
    });
    let started = "start QEMU with -qmp unix:PATH,server=on,wait=off";
    connected.map_err(std::io::Error::from).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::WouldBlock => return silent(path),
            ErrorKind::NotFound => format!("there is no {}", path.display()),
            ErrorKind::ConnectionRefused => {
                format!("no process serves {}: its VM has ended, or it is no socket", path.display())
            }
            _ => format!("cannot connect to {}: {error}", path.display()),
        };
        format!("{what}; expected a VM's QMP socket, and the right to use it: {started}, and run giusto as root")
    })
}

/// Who listens at the other end (SO_PEERCRED).
fn peer(stream: &UnixStream) -> Result<u32, String> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = std::mem::size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel fills at most the bytes that are told.
    let done = unsafe {
        let (peer, size) = ((&raw mut peer).cast(), &raw mut size);
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, peer, size)
    };
    match u32::try_from(peer.pid) {
        _ if done != 0 => Err(std::io::Error::last_os_error().to_string()),
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("it runs outside of this PID namespace; run giusto on the host, not in a container".into()),
    }
}

#[cfg(test)]
mod tests;
