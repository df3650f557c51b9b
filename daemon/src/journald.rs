//! Events with their fields for systemd's journal, over its own socket (https://systemd.io/JOURNAL_NATIVE_PROTOCOL).
//!
//! Written here as the crate `tracing-journald` waits where the journal's queue is full: enforcement must not wait.

use rustix::net::{sendto, SendFlags, SocketAddrUnix};
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The journal's socket.
const SOCKET: &str = "/run/systemd/journal/socket";

/// See the module. What the journal does not take becomes a line on standard error, which is the journal too.
pub(crate) struct Journald {
    socket: UnixDatagram,
    to: SocketAddrUnix,
}

impl Journald {
    /// Errors: there is no journal.
    pub(crate) fn open() -> io::Result<Journald> {
        Journald::at(Path::new(SOCKET))
    }

    fn at(path: &Path) -> io::Result<Journald> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Journald { socket, to: SocketAddrUnix::new(path)? })
    }
}

impl<S: Subscriber> Layer<S> for Journald {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let priority = priority(event.metadata().level());
        let mut fields = Fields(Vec::new());
        fields.add("PRIORITY", &priority.to_string());
        fields.add("SYSLOG_IDENTIFIER", "giusto");
        event.record(&mut fields);
        if sendto(&self.socket, &fields.0, SendFlags::DONTWAIT, &self.to).is_err() {
            let mut message = Message(String::new());
            event.record(&mut message);
            let line = format!("<{priority}>giusto: {}\n", message.0.replace('\n', " | "));
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}

/// As sd-daemon(3) numbers them.
pub(crate) fn priority(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// `NAME=value`, a line each; a value of several lines follows its length.
struct Fields(Vec<u8>);

impl Fields {
    fn add(&mut self, name: &str, value: &str) {
        self.0.extend(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend((value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend(value.as_bytes());
        self.0.push(b'\n');
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.add("MESSAGE", value),
            name => self.add(&format!("GIUSTO_{}", name.to_ascii_uppercase()), value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// The message of an event alone.
pub(crate) struct Message(pub(crate) String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn an_event_is_a_datagram_with_its_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journald::at(&path).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(service = "cache", took_ns = 7u64, "cache: {} requests\nwere late", 3);
        });
        let mut bytes = [0; 1000];
        let length = journal.recv(&mut bytes).unwrap();
        let message = "cache: 3 requests\nwere late";
        let expected = [
            b"PRIORITY=4\nSYSLOG_IDENTIFIER=giusto\nMESSAGE\n",
            &(message.len() as u64).to_le_bytes()[..],
            message.as_bytes(),
            b"\nGIUSTO_SERVICE=cache\nGIUSTO_TOOK_NS=7\n",
        ];
        assert_eq!(String::from_utf8_lossy(&bytes[..length]), String::from_utf8_lossy(&expected.concat()));
        assert!(Journald::at(&folder.path().join("none")).is_err());
    }

    #[test]
    fn a_journal_that_takes_nothing_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _journal = UnixDatagram::bind(&path).unwrap();
        let subscriber = tracing_subscriber::registry().with(Journald::at(&path).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            // More than the queue of a socket has room for.
            (0..2_000).for_each(|nth| tracing::info!(nth, "{}", "x".repeat(1_000)));
        });
    }
}
