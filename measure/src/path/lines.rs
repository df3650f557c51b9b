//! Messages as lines over TCP, one connection to the first stage and one from the last.
//!
//! A line is its number and when it was sent, in ns. A stage passes it on as one line; a stage that wants to be told apart adds a
//! space and `NAME:FROM-TO`, when the line came and when it left, on the CLOCK_MONOTONIC of its own machine.

use super::run::{Run, GRACE_NS};
use crate::client::connect;
use crate::clock::now;
use crate::drive::wait;
use crate::Error;
use rustix::event::{PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Of the lines that are on their way, this much is kept unread at most.
const LONGEST_LINE: usize = 64 * 1024;

/// Both ends.
pub(super) struct Lines {
    listener: TcpListener,
    receive: SocketAddr,
    first: TcpStream,
    send: SocketAddr,
    /// The last stage, once it has connected, and what is not a whole line yet.
    back: Option<(TcpStream, Vec<u8>)>,
    /// When the first line was sent.
    begun: Option<u64>,
    /// Lines that were sent and have not come back.
    pub(super) out: u64,
}

impl Lines {
    pub(super) fn new(send: SocketAddr, receive: SocketAddr) -> Result<Lines, Error> {
        let failed = |why| Error::Connection { address: receive, why };
        let listener = TcpListener::bind(receive).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let first = connect(send)?;
        // A first stage that reads no more is told of, not waited for.
        let grace = std::time::Duration::from_nanos(GRACE_NS);
        first.set_write_timeout(Some(grace)).map_err(|why| Error::Connection { address: send, why })?;
        Ok(Lines { listener, receive, first, send, back: None, begun: None, out: 0 })
    }

    /// Sends a message that was taken up `at`; the warm-up's has no number.
    pub(super) fn send(&mut self, record: Option<usize>, at: u64) -> Result<(), Error> {
        self.begun.get_or_insert(at);
        let line = record.map_or(format!("- {at}\n"), |record| format!("{record} {at}\n"));
        self.first.write_all(line.as_bytes()).map_err(|why| Error::Connection { address: self.send, why })?;
        self.out += 1;
        Ok(())
    }

    /// Waits until something comes, but not beyond `until`, and takes it.
    pub(super) fn wait(&mut self, run: &mut Run, until: u64) -> Result<(), Error> {
        self.accept(self.begun.is_some_and(|begun| now() > begun + GRACE_NS))?;
        let waits_for = self.back.as_ref().map_or(self.listener.as_fd(), |(stream, _)| stream.as_fd());
        let mut polls = [PollFd::from_borrowed_fd(waits_for, PollFlags::IN)];
        wait(&mut polls, until)?;
        if let (false, Some((stream, unread))) = (polls[0].revents().is_empty(), &mut self.back) {
            let came = read(run, stream, unread).map_err(|why| Error::Connection { address: self.receive, why })?;
            self.out = self.out.saturating_sub(came);
        }
        Ok(())
    }

    /// Whether lines may still come back, as far as that is known.
    pub(super) fn is_out(&self) -> bool {
        self.out > 0 && self.back.is_some()
    }

    /// Takes the connection of the last stage, if it is not there; an error where it is `late`.
    fn accept(&mut self, late: bool) -> Result<(), Error> {
        if self.back.is_some() {
            return Ok(());
        }
        let why = match self.listener.accept() {
            Ok((stream, _)) => {
                self.back = Some((stream, Vec::new()));
                return Ok(());
            }
            Err(why) if why.kind() != ErrorKind::WouldBlock => why,
            Err(_) if late => {
                let why = "the last stage does not connect; expected it to send its lines here";
                std::io::Error::new(ErrorKind::TimedOut, why)
            }
            Err(_) => return Ok(()),
        };
        Err(Error::Connection { address: self.receive, why })
    }
}

/// Takes what has come; how many lines that is.
fn read(run: &mut Run, stream: &mut TcpStream, unread: &mut Vec<u8>) -> std::io::Result<u64> {
    let mut buffer = [0; 16 * 1024];
    let count = stream.read(&mut buffer)?;
    let at = now();
    if count == 0 {
        return Err(std::io::Error::new(ErrorKind::UnexpectedEof, "the last stage closed its connection"));
    }
    unread.extend_from_slice(&buffer[..count]);
    let mut lines = 0;
    while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = unread.drain(..=end).collect();
        take(run, &String::from_utf8_lossy(&line), at);
        lines += 1;
    }
    match unread.len() > LONGEST_LINE {
        true => Err(std::io::Error::new(
            ErrorKind::InvalidData,
            "a line of more than 64 KiB; expected those that were sent",
        )),
        false => Ok(lines),
    }
}

/// Lines that were not sent in this run, or came before, are passed over.
fn take(run: &mut Run, line: &str, at: u64) {
    let mut words = line.split_whitespace();
    let number: Option<usize> = words.next().and_then(|number| number.parse().ok());
    let Some(job) = number.and_then(|number| run.jobs.get(number)) else { return };
    let sent: Option<u64> = words.next().and_then(|sent| sent.parse().ok());
    if job.finish.is_some() || sent != Some(job.release.ns()) {
        return;
    }
    run.done(number, at);
    for word in words {
        let Some((name, times)) = word.rsplit_once(':') else { continue };
        let times = times.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        if let Some((from, to)) = times {
            let spent: u64 = u64::saturating_sub(to, from);
            run.stages.entry(name.into()).or_default().push(spent);
        }
    }
}
