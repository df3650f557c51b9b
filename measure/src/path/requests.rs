//! Messages as requests over HTTP/1.1, on a pool of connections that are kept.
//!
//! A message that is due goes out on the connection that was idle last, so that the others can be closed by the server in
//! peace; where none is idle another one is made, up to [`MOST`]; what is due then waits for the first that is free. Its time
//! counts from when it was due all the while, and nothing here waits for a server, so that no message holds up another one.

use super::connection::{Connection, Found};
use super::run::{Run, GRACE_NS};
use super::traceparent::Traces;
use crate::client::connect;
use crate::clock::now;
use crate::drive::wait;
use crate::Error;
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Connections at once.
const MOST: usize = 256;
const NO_ANSWER: &str = "no answer within 5 s";

/// A message that was neither answered nor lost yet: it is in one place at a time.
struct Message {
    number: u64,
    /// Its place among the records of this run; `None`: it is not recorded.
    record: Option<usize>,
    due: u64,
}

struct Place {
    connection: Connection,
    /// What it is to be answered.
    message: Option<Message>,
}

/// The first stage, and what is on its way to it.
pub(super) struct Requests {
    address: SocketAddr,
    path: String,
    traces: Traces,
    pool: Vec<Place>,
    /// Due, and without a connection; in order.
    waiting: VecDeque<Message>,
    /// Connections whose message was given up, and whose answer the service still owes.
    left: Vec<Connection>,
    /// Messages so far.
    sent: u64,
    /// Connections at once.
    pub(super) most: usize,
}

impl Requests {
    pub(super) fn new(address: SocketAddr, path: &str, seed: u64) -> Result<Requests, Error> {
        connect(address)?; // so that a wrong address is told before anything is measured
        let (pool, waiting, left) = Default::default();
        Ok(Requests { address, path: path.into(), traces: Traces::new(seed), pool, waiting, left, sent: 0, most: MOST })
    }

    /// How the traces of all messages begin.
    pub(super) fn traces(&self) -> String {
        self.traces.begin()
    }

    /// Sends a message that is due, or has it wait.
    pub(super) fn send(&mut self, run: &mut Run, record: Option<usize>, due: u64) {
        let message = Message { number: self.sent, record, due };
        self.sent += 1;
        if record.is_some() {
            run.traces.push(self.traces.trace(message.number));
        }
        self.waiting.push_back(message);
        self.serve(run);
    }

    /// Waits until something comes, but not beyond `until`, and takes it.
    pub(super) fn wait(&mut self, run: &mut Run, until: u64) -> Result<(), Error> {
        let (busy, address) = (self.pool.iter().filter_map(|place| place.message.as_ref()), self.address);
        let first = busy.chain(self.waiting.front()).map(|message| message.due + GRACE_NS).min();
        let ready = ready(self.pool.iter().map(|place| &place.connection), first.map_or(until, |end| end.min(until)))?;
        // From the end, as one that is taken out is replaced by the last.
        for (nth, ready) in ready.into_iter().enumerate().rev().filter(|(_, ready)| !ready.is_empty()) {
            let Place { connection, message } = &mut self.pool[nth];
            let stays = match connection.look(ready, address) {
                Found::Nothing => true,
                Found::Answer { status, at, stays } => {
                    if let Some(Message { record, .. }) = message.take() {
                        match status.starts_with('2') {
                            true => run.done(record, at),
                            false => run.lost(record, &format!("answered {status}")),
                        }
                    }
                    stays
                }
                Found::Closed(why) => {
                    let is_connecting = connection.is_connecting();
                    match message.take() {
                        Some(Message { record, .. }) => run.lost(record, "the connection was closed before the answer"),
                        // Of those that wait for a connection one was to have it.
                        None if is_connecting => self.refused(run, &why),
                        None => {}
                    }
                    false
                }
                Found::Broken(found) => return Err(Error::Protocol { address, found }),
            };
            if !stays {
                self.pool.swap_remove(nth);
            }
        }
        self.give_up(run, now());
        self.serve(run);
        Ok(())
    }

    /// Whether the service still owes answers.
    pub(super) fn is_out(&self) -> bool {
        !self.left.is_empty()
    }

    /// What was not answered is not waited for any more, but for its answer to be over.
    pub(super) fn leave(&mut self) {
        self.waiting.clear();
        let (busy, rest) = std::mem::take(&mut self.pool).into_iter().partition(|place| place.message.is_some());
        self.pool = rest;
        busy.into_iter().for_each(|place| self.leave_one(place.connection));
    }

    /// Waits for those that were left, but not beyond `until`.
    pub(super) fn settle(&mut self, until: u64) -> Result<(), Error> {
        let mut ready = ready(self.left.iter(), until)?.into_iter();
        let address = self.address;
        self.left.retain_mut(|connection| match ready.next() {
            Some(ready) if !ready.is_empty() => connection.look(ready, address) == Found::Nothing,
            Some(_) | None => true,
        });
        Ok(())
    }

    pub(super) fn forget(&mut self) {
        self.left.clear();
    }

    fn leave_one(&mut self, connection: Connection) {
        if self.left.len() >= self.most {
            self.left.remove(0);
        }
        self.left.push(connection);
    }

    /// Gives what waits to the connections that are idle, and makes more of them where there are too few.
    fn serve(&mut self, run: &mut Run) {
        while !self.waiting.is_empty() {
            let idle = self.pool.iter_mut().filter(|place| place.connection.idle().is_some());
            let Some(place) = idle.max_by_key(|place| place.connection.idle()) else { break };
            let Some(message) = self.waiting.pop_front() else { break };
            let request = request(self.address, &self.path, &self.traces, message.number);
            // Where it is closed, that is seen when it is looked at.
            let _ = place.connection.send(request);
            place.message = Some(message);
        }
        let connecting = self.pool.iter().filter(|place| place.connection.is_connecting()).count();
        for _ in connecting..self.waiting.len().min(self.most - self.pool.len() + connecting) {
            match Connection::begin(self.address) {
                Ok(connection) => self.pool.push(Place { connection, message: None }),
                Err(why) => self.refused(run, &why.to_string()),
            }
        }
    }

    /// No connection could be made for the first that waits.
    fn refused(&mut self, run: &mut Run, why: &str) {
        if let Some(message) = self.waiting.pop_front() {
            run.lost(message.record, &format!("no connection: {why}"));
        }
    }

    /// What is too long on its way is lost.
    fn give_up(&mut self, run: &mut Run, now: u64) {
        let is_over = |message: &Message| message.due + GRACE_NS <= now;
        while self.waiting.front().is_some_and(is_over) {
            run.lost(self.waiting.pop_front().and_then(|message| message.record), NO_ANSWER);
        }
        for nth in (0..self.pool.len()).rev() {
            if let Some(message) = self.pool[nth].message.take_if(|message| is_over(message)) {
                run.lost(message.record, NO_ANSWER);
                let place = self.pool.swap_remove(nth);
                self.leave_one(place.connection);
            }
        }
    }
}

/// What each of these is ready for, once one is, or then.
fn ready<'c>(connections: impl Iterator<Item = &'c Connection>, until: u64) -> Result<Vec<PollFlags>, Error> {
    let mut polls: Vec<PollFd> = connections.map(|one| PollFd::new(&one.stream, one.flags())).collect();
    wait(&mut polls, until)?;
    Ok(polls.iter().map(PollFd::revents).collect())
}

fn request(address: SocketAddr, path: &str, traces: &Traces, number: u64) -> Vec<u8> {
    let (header, body) = (traces.header(number), number.to_string());
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\n{header}\r\n\
         Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
