//! One client of the load: a connection, the next request, what is not sent yet and what is not answered yet.

use crate::replies::Replies;
use crate::reply::Reply;
use crate::request::{preparation, Request};
use crate::Error;
use giusto_model::Load;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Requests that may wait for replies before a queue must grow.
const OUTSTANDING: usize = 4096;
/// A reply to [`Asking`] that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connects, without Nagle's delay.
pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream, Error> {
    let stream = reach(address, Duration::from_secs(2));
    stream.and_then(|s| s.set_nodelay(true).map(|()| s)).map_err(|why| Error::Connect { address, why })
}

/// Connects to another socket, never to itself.
pub(crate) fn reach(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    not_to_itself(&stream, address).map(|()| stream)
}

/// Where no process listens, the system may choose the very port that is asked for as the client's own: TCP then connects
/// the socket to itself, and a client that tries often enough takes that for a service.
pub(crate) fn not_to_itself(stream: &TcpStream, address: SocketAddr) -> io::Result<()> {
    if stream.local_addr()? != address {
        return Ok(());
    }
    // Reset instead of TIME_WAIT, which would keep the port from the service for a minute.
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?;
    Err(io::ErrorKind::ConnectionRefused.into())
}

/// Fills what the requests of `load` work on.
pub(crate) fn prepare(load: &Load, seed: u64) -> Result<(), Error> {
    let commands = preparation(load, seed);
    if commands.is_empty() {
        return Ok(());
    }
    let mut asking = Asking::to(load)?;
    commands.iter().try_for_each(|command| asking.ask(command))
}

/// A connection that waits for each reply.
pub(crate) struct Asking {
    stream: TcpStream,
    address: SocketAddr,
    replies: Replies,
}

impl Asking {
    pub(crate) fn to(load: &Load) -> Result<Asking, Error> {
        let address = load.address();
        let stream = connect(address)?;
        let patience = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
        patience.map_err(|why| Error::Connection { address, why })?;
        Ok(Asking { stream, address, replies: Replies::of(load) })
    }

    /// Sends `request` and waits for its reply. Errors: one as reply, and those of the connection.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Result<(), Error> {
        let address = self.address;
        let failed = |why: io::Error| match why.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::Closed { address, client: 0 },
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Error::Connection { address, why: io::Error::new(ErrorKind::TimedOut, "no reply within 2 s") }
            }
            _ => Error::Connection { address, why },
        };
        self.stream.write_all(request).map_err(failed)?;
        let mut reply = None;
        let mut buffer = [0; 512];
        while reply.is_none() {
            let bytes = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Error::Closed { address, client: 0 }),
                Ok(bytes) => bytes,
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) => return Err(failed(why)),
            };
            let parsed = self.replies.feed(&buffer[..bytes], |r| reply = Some(r));
            parsed.map_err(|found| Error::Protocol { address, found })?;
        }
        match reply {
            Some(Reply::Refused(text)) => Err(Error::Refused { address, text }),
            _ => Ok(()),
        }
    }
}

/// One client. Its tags come back in the order of its requests: every service here answers each connection in order.
pub(crate) struct Client<'a> {
    stream: &'a TcpStream,
    address: SocketAddr,
    index: usize,
    request: Request,
    rng: ChaCha8Rng,
    unsent: VecDeque<u8>,
    outstanding: VecDeque<usize>,
    replies: Replies,
}

impl<'a> Client<'a> {
    /// On a stream that does not block. Each client draws from its own stream of the same seed, so that what it sends
    /// does not depend on who is first.
    pub(crate) fn new(stream: &'a TcpStream, load: &Load, index: usize, request: &Request, seed: u64) -> Client<'a> {
        let (address, replies) = (load.address(), Replies::of(load));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(index as u64);
        let mut request = request.clone();
        request.draw(&mut rng);
        let (unsent, outstanding) = (VecDeque::new(), VecDeque::with_capacity(OUTSTANDING));
        Client { stream, address, index, request, rng, unsent, outstanding, replies }
    }

    /// Sends the request that is ready, whatever is still unanswered, keeps what the socket does not take, and makes
    /// the next one ready.
    pub(crate) fn send(&mut self, tag: usize) -> Result<(), Error> {
        self.outstanding.push_back(tag);
        let mut sent = 0;
        if self.unsent.is_empty() {
            sent = self.write(self.request.bytes())?;
        }
        self.unsent.extend(&self.request.bytes()[sent..]);
        self.request.draw(&mut self.rng);
        Ok(())
    }

    /// Sends more of what was left.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        while !self.unsent.is_empty() {
            let sent = self.write(self.unsent.as_slices().0)?;
            if sent == 0 {
                break;
            }
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Reads once and hands over the tag of each request that is now answered. `finished` is called after the read.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], mut finished: impl FnMut(usize, Reply)) -> Result<(), Error> {
        let bytes = match (&mut &*self.stream).read(buffer) {
            Ok(0) => return Err(self.closed()),
            Ok(bytes) => bytes,
            Err(why) => return self.not_now(why).map(drop),
        };
        let (address, outstanding) = (self.address, &mut self.outstanding);
        let mut unasked = false;
        let parsed = self.replies.feed(&buffer[..bytes], |reply| match outstanding.pop_front() {
            Some(tag) => finished(tag, reply),
            None => unasked = true,
        });
        parsed.map_err(|found| Error::Protocol { address, found })?;
        match unasked {
            true => Err(Error::Protocol { address, found: "a reply to nothing".into() }),
            false => Ok(()),
        }
    }

    /// Whether the socket took less than was to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether every request was answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Error> {
        (&mut &*self.stream).write(bytes).or_else(|why| self.not_now(why))
    }

    /// 0 bytes if it is only that the socket has no room or no data.
    fn not_now(&self, why: std::io::Error) -> Result<usize, Error> {
        match why.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(0),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(self.closed()),
            _ => Err(Error::Connection { address: self.address, why }),
        }
    }

    fn closed(&self) -> Error {
        Error::Closed { address: self.address, client: self.index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, connect, socket, AddressFamily, SocketType};
    use std::net::TcpListener;

    #[test]
    fn a_connection_to_itself_is_refused() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let own = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&own, &address).unwrap();
        let own = TcpStream::from(own);
        let address = own.local_addr().unwrap();
        connect(&own, &address).unwrap();
        assert_eq!(own.peer_addr().unwrap(), address, "the system does connect it to itself");
        assert_eq!(not_to_itself(&own, address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        drop(own);
        // And the port is free again at once.
        let listener = TcpListener::bind(address).unwrap();
        assert!(reach(listener.local_addr().unwrap(), Duration::from_secs(1)).is_ok());
    }
}
