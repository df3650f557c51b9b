//! What systemd is told over $NOTIFY_SOCKET (sd_notify(3)).
//!
//! Written here as the crate `sd-notify` knows no abstract sockets and waits where systemd's queue is full: enforcement must
//! not wait.

use rustix::io::Errno;
use rustix::net::{sendto, socket_with, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::time::{clock_gettime, ClockId};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// The service manager that started this process, if one did.
#[derive(Debug, Default)]
pub struct Notify {
    manager: Option<(OwnedFd, SocketAddrUnix)>,
    /// How often it wants to hear that this process lives.
    watchdog: Option<Duration>,
    last: Option<Instant>,
    /// What did not fit into its queue yet, oldest first.
    waiting: VecDeque<String>,
}

/// Most messages that wait; one that listens takes them at once.
const WAITING: usize = 16;

impl Notify {
    /// As the environment says; takes it away there, so that no service can speak for this process. To be called before there
    /// are threads. Errors: an address that is none.
    pub fn from_environment() -> io::Result<Notify> {
        let take = |name: &str| {
            let value = std::env::var_os(name);
            std::env::remove_var(name);
            value
        };
        let (socket, usec, pid) = (take("NOTIFY_SOCKET"), take("WATCHDOG_USEC"), take("WATCHDOG_PID"));
        let number = |text: Option<OsString>| text?.to_str()?.parse::<u64>().ok();
        let ours = number(pid).is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number(usec).filter(|&usec| ours && usec > 0).map(Duration::from_micros);
        socket.map_or(Ok(Notify::default()), |address| Notify::to(&address, watchdog))
    }

    fn to(address: &OsString, watchdog: Option<Duration>) -> io::Result<Notify> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
            path => SocketAddrUnix::new(path)?,
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Notify { manager: Some((socket, address)), watchdog, ..Notify::default() })
    }

    /// Everything is in force.
    pub(crate) fn ready(&mut self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// What is going on, for `systemctl status`.
    pub(crate) fn status(&mut self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// A reload begins; [`Notify::ready`] ends it.
    pub(crate) fn reloading(&mut self) {
        let now = clock_gettime(ClockId::Monotonic);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
    }

    /// The end begins; nothing is enforced any more, so there is time to be heard.
    pub(crate) fn stopping(&mut self) {
        self.send("STOPPING=1\nSTATUS=leaving the host as it was");
        let patience = Instant::now() + Duration::from_secs(1);
        while !self.waiting.is_empty() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
            self.deliver();
        }
    }

    /// To be called often by the thread that must not hang: says so twice in the watchdog's time.
    pub(crate) fn alive(&mut self) {
        self.deliver();
        let Some(watchdog) = self.watchdog else { return };
        if self.last.is_none_or(|last| last.elapsed() >= watchdog / 2) {
            self.last = Some(Instant::now());
            self.send("WATCHDOG=1");
        }
    }

    fn send(&mut self, message: &str) {
        if self.waiting.len() == WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(message.to_string());
        self.deliver();
    }

    /// As much of what waits as there is room for.
    fn deliver(&mut self) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while let Some(message) = self.waiting.pop_front() {
            let Some((socket, address)) = &self.manager else { continue };
            match sendto(socket, message.as_bytes(), flags, address) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return self.waiting.push_front(message),
                Err(error) => tracing::warn!("cannot tell the service manager {:?}: {error}", line(&message)),
            }
        }
    }
}

/// A status is one line: what follows would be read as another assignment.
fn line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 500];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn converse(socket: UnixDatagram, address: &str) {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut notify = Notify::to(&address.into(), Some(Duration::from_millis(100))).unwrap();
        notify.ready("2 services\nREADY=0");
        assert_eq!(heard(&socket), "READY=1\nSTATUS=2 services");
        notify.reloading();
        let reloading = heard(&socket);
        let usec: u64 = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(usec > 0);
        (0..3).for_each(|_| notify.alive());
        assert_eq!(heard(&socket), "WATCHDOG=1");
        std::thread::sleep(Duration::from_millis(50));
        notify.alive();
        assert_eq!(heard(&socket), "WATCHDOG=1", "once at first, again after half the time");
        notify.stopping();
        assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=leaving the host as it was");
    }

    #[test]
    fn systemd_is_told_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        converse(UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap());
        let name = format!("giusto-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        converse(UnixDatagram::bind_addr(&address).unwrap(), &format!("@{name}"));
    }

    #[test]
    fn a_manager_that_does_not_listen_holds_no_caller_up_and_hears_the_last_words_when_it_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let deaf = UnixDatagram::bind(&path).unwrap();
        let mut notify = Notify::to(&path.into(), None).unwrap();
        (0..10_000).for_each(|_| notify.status("still here"));
        let stopping = std::thread::spawn(move || notify.stopping());
        while !heard(&deaf).starts_with("STOPPING=1") {}
        stopping.join().unwrap();
        Notify::default().ready("no socket");
    }
}
