//! One connection to a web server, with one request on its way at most. Nothing here waits.

use crate::client::not_to_itself;
use crate::clock::now;
use crate::http::HttpReplies;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{connect, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is being made.
    Connecting,
    /// It waits for a request, since then.
    Idle(u64),
    /// It waits for an answer.
    Busy,
}

/// What was found when it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing yet.
    Nothing,
    /// A whole answer: its status, when its last byte was there, and whether the connection can take another request.
    Answer { status: String, at: u64, stays: bool },
    /// It was closed, and why.
    Closed(String),
    /// It is no HTTP/1.1.
    Broken(String),
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    state: State,
    replies: HttpReplies,
    unsent: Vec<u8>,
}

impl Connection {
    /// Begins to connect.
    pub(super) fn begin(address: SocketAddr) -> io::Result<Connection> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(why) => return Err(why.into()),
        }
        let (state, replies) = (State::Connecting, HttpReplies::default());
        Ok(Connection { stream: socket.into(), state, replies, unsent: Vec::new() })
    }

    /// Since when it has been idle; `None`: it is not.
    pub(super) fn idle(&self) -> Option<u64> {
        match self.state {
            State::Idle(since) => Some(since),
            State::Connecting | State::Busy => None,
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    /// What to wait for.
    pub(super) fn flags(&self) -> PollFlags {
        match self.state {
            State::Connecting => PollFlags::OUT,
            State::Busy if !self.unsent.is_empty() => PollFlags::IN | PollFlags::OUT,
            State::Busy | State::Idle(_) => PollFlags::IN,
        }
    }

    /// Sends a request over one that is idle. Errors: it is closed.
    pub(super) fn send(&mut self, request: Vec<u8>) -> io::Result<()> {
        (self.state, self.unsent) = (State::Busy, request);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Looks at it, as it is ready.
    pub(super) fn look(&mut self, ready: PollFlags, address: SocketAddr) -> Found {
        let closed = |why: io::Error| Found::Closed(why.to_string());
        match self.state {
            State::Connecting => match self.connected(address) {
                Ok(()) => {
                    self.state = State::Idle(now());
                    Found::Nothing
                }
                Err(why) => closed(why),
            },
            // An answer to nothing, or the end.
            State::Idle(_) => Found::Closed("it was idle".into()),
            State::Busy => {
                if let (true, Err(why)) = (ready.contains(PollFlags::OUT), self.flush()) {
                    return closed(why);
                }
                match ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    true => self.read(),
                    false => Found::Nothing,
                }
            }
        }
    }

    fn connected(&self, address: SocketAddr) -> io::Result<()> {
        match self.stream.take_error()? {
            None => not_to_itself(&self.stream, address),
            Some(why) => Err(why),
        }
    }

    fn read(&mut self) -> Found {
        let mut buffer = [0; 16 * 1024];
        let length = match self.stream.read(&mut buffer) {
            Ok(0) => return Found::Closed("it was closed".into()),
            Ok(length) => length,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Found::Nothing,
            Err(why) => return Found::Closed(why.to_string()),
        };
        let at = now();
        let mut answers = Vec::new();
        if let Err(what) = self.replies.feed(&buffer[..length], |status| answers.push(status.to_string())) {
            return Found::Broken(what);
        }
        match (answers.pop(), answers.is_empty()) {
            (None, _) => Found::Nothing,
            (Some(_), false) => Found::Broken("two answers to one request".into()),
            (Some(status), true) => {
                let stays = !self.replies.closes() && self.unsent.is_empty();
                self.state = State::Idle(at);
                Found::Answer { status, at, stays }
            }
        }
    }
}
