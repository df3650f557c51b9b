//! Clients that need not be trusted: at most so many, each on a thread of its own, none for longer than it is patient with.
//!
//! Under the control socket and the metrics. What a client does, or does not do, never holds up enforcement.

use rustix::net::{shutdown, Shutdown};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients at once.
pub(crate) const CLIENTS: usize = 16;
/// How long a client may take for a request, and again to take the answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A socket that clients connect to.
pub(crate) trait Listener: AsFd + Send + 'static {
    /// The connection.
    type Stream: Stream;
    /// Waits for the next.
    fn next(&self) -> io::Result<Self::Stream>;
}

/// A connection that can be impatient.
pub(crate) trait Stream: Read + Write + AsFd + Send + 'static {
    /// Longest wait of one read and of one write.
    fn within(&self, wait: Duration) -> io::Result<()>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    fn next(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    fn next(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Stream for UnixStream {
    fn within(&self, wait: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

impl Stream for TcpStream {
    fn within(&self, wait: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(wait))?;
        self.set_write_timeout(Some(wait))
    }
}

/// A client whose time runs out: [`io::ErrorKind::TimedOut`] then, however many bytes it sent or took one by one.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    until: Instant,
}

impl<S: Stream> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Client { stream, until: Instant::now() + PATIENCE }
    }

    /// Its time begins anew.
    pub(crate) fn renew(&mut self) {
        self.until = Instant::now() + PATIENCE;
    }

    fn limited<T>(&mut self, work: impl FnOnce(&mut S) -> io::Result<T>) -> io::Result<T> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.within(left)?;
        work(&mut self.stream).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

impl<S: Stream> Read for Client<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.limited(|stream| stream.read(bytes))
    }
}

impl<S: Stream> Write for Client<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limited(|stream| stream.write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves until it is dropped; clients that are being served then have their [`PATIENCE`] left.
#[derive(Debug)]
pub(crate) struct Server {
    socket: OwnedFd,
    stopped: Arc<AtomicBool>,
}

impl Server {
    /// Calls `serve` with each client on a thread of its own, and `refuse` with one too many: that must not wait.
    pub(crate) fn start<L: Listener>(
        name: &str,
        listener: L,
        serve: impl Fn(Client<L::Stream>) + Send + Sync + 'static,
        refuse: impl Fn(L::Stream) + Send + 'static,
    ) -> io::Result<Server> {
        let server = Server { socket: listener.as_fd().try_clone_to_owned()?, stopped: Arc::default() };
        let (stopped, serve, clients) = (server.stopped.clone(), Arc::new(serve), Arc::new(AtomicUsize::new(0)));
        let one = format!("{name}-one");
        let accept = move || {
            while !stopped.load(Ordering::Relaxed) {
                let Ok(stream) = listener.next() else {
                    std::thread::sleep(Duration::from_millis(100)); // out of descriptors: some are free again soon
                    continue;
                };
                if clients.load(Ordering::Relaxed) >= CLIENTS {
                    refuse(stream);
                    continue;
                }
                let (serve, place) = (serve.clone(), Place::take(&clients));
                // Where there is no thread left, the client is dropped.
                let _ = std::thread::Builder::new().name(one.clone()).spawn(move || {
                    serve(Client::new(stream));
                    drop(place);
                });
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(accept)?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = shutdown(&self.socket, Shutdown::Both); // wakes accept(2)
    }
}

/// One of the [`CLIENTS`]; given back also where serving panics.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Place {
        clients.fetch_add(1, Ordering::Relaxed);
        Place(clients.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
