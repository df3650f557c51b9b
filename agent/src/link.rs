//! The connection to the host's manager.

use giusto_model::Listen;
use giusto_modes::wire::{Key, Session, Taken};
use giusto_modes::{FromAgent, ToAgent};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The address of the host inside its virtual machines (VMADDR_CID_HOST).
const HOST: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(1);

/// One connection, with its session. Once it fails it is of no more use.
pub(crate) struct Link {
    socket: Socket,
    session: Session<FromAgent, ToAgent>,
}

impl Link {
    /// Connects and says who is there; the session opens later. Takes a second at most.
    pub(crate) fn open(manager: &Listen, service: &str, key: Key) -> io::Result<Link> {
        let (domain, address) = match manager {
            Listen::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
            Listen::Tcp(address) => (Domain::for_address(*address), (*address).into()),
            Listen::Vsock(port) => (Domain::VSOCK, SockAddr::vsock(HOST, *port)),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        match manager {
            // Waits for its turn where many connect; without waiting it would be turned away.
            Listen::Unix(_) => socket.connect(&address)?,
            _ => socket.connect_timeout(&address, PATIENCE)?,
        }
        if matches!(manager, Listen::Tcp(_)) {
            socket.set_tcp_nodelay(true)?;
            // A host that vanished without a word is noticed in about 10 s.
            let alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(5));
            socket.set_tcp_keepalive(&alive.with_interval(Duration::from_secs(2)).with_retries(3))?;
        }
        let mut nonce = [0; 16];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        let mut first = Vec::new();
        let session = Session::agent(service, key, nonce, &mut first);
        let mut link = Link { socket, session };
        link.socket.write_all(&first)?;
        Ok(link)
    }

    /// What came, at once or when something does. Errors: the connection or the session ended.
    pub(crate) fn receive(&mut self) -> io::Result<Vec<Taken<ToAgent>>> {
        let mut bytes = [0; 4096];
        let length = self.socket.read(&mut bytes)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut reply, mut taken) = (Vec::new(), Vec::new());
        let fed = self.session.feed(&bytes[..length], &|_| None, &mut reply, &mut taken);
        self.socket.write_all(&reply)?;
        fed.map(|()| taken).map_err(io::Error::other)
    }

    pub(crate) fn send(&mut self, message: &FromAgent) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.session.seal(message, &mut bytes) {
            self.socket.write_all(&bytes)?;
        }
        Ok(())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
