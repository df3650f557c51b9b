//! Agents, and all others that connect: sockets and sessions, on a thread of their own.
//!
//! No peer is trusted before a session is open, and then only for the member whose key it was opened with. Strangers
//! have a bounded number of places, apart from those of members, and a second to prove who they are; who comes when
//! all are taken gets the place of the oldest from where most of them come from. Accepting them, and reading what a
//! member says, costs no more than an allowance each: beyond it sockets are left alone until there is some again, so
//! that a peer that floods waits and others do not. Nothing is written that would wait.

use super::allowance::{gives_way, Allowance, Origin, Tally};
use super::counter::{Counter, News, Outgoing};
use crate::Error;
use giusto_compute::sched::{self, Attr};
use giusto_model::{Listen, ModesPlan};
use giusto_modes::wire::{Broken, Key, Session, Taken};
use giusto_modes::{FromAgent, ToAgent};
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Connections that are no member's yet.
const STRANGERS: usize = 64;
/// How long one may stay a stranger.
const PATIENCE: Duration = Duration::from_secs(1);
/// So often a stranger's socket is read at most: a handshake is two frames.
const READS: u32 = 8;
/// Strangers that are let in in a second, and at once.
const LET_IN: (u32, u32) = (2000, 64);
/// A member's units in a second, and at once: a reading costs one, and each 64 bytes; a session [`OPENING`].
const HEARD: (u32, u32) = (400, 64);
const OPENING: u32 = 16;
/// What may wait to be sent to one agent, in bytes.
const WAITING: usize = 64 * 1024;
/// What connects meanwhile waits in the kernel: on a Unix socket in its order, outside of a short queue; of TCP what
/// finds a full queue would try again after a second.
const BACKLOG: (i32, i32) = (64, 1024);
/// After a message to an agent it does not sleep for so long: the answer comes sooner than a core wakes.
const AWAKE: Duration = Duration::from_micros(500);
/// The slice of its thread, the least there is.
const SLICE_NS: u64 = 100_000;
/// Its real-time priority on a core without a manager: below every server and everything that enforces.
const PRIORITY: u32 = 1;
/// Between two lines of the log about the same.
const QUIET: Duration = Duration::from_secs(10);
/// Any host's (VMADDR_CID_ANY).
const ANY: u32 = u32::MAX;

pub(super) struct Peers {
    listeners: Vec<Socket>,
    files: Vec<PathBuf>,
    /// By member's name.
    keys: BTreeMap<String, (usize, Key)>,
    members: BTreeMap<usize, Member>,
    peers: Vec<Peer>,
    let_in: Allowance,
    counter: Counter,
    /// What the thread of modes has not taken yet: nothing is read before it has.
    news: VecDeque<News>,
    tally: Tally,
    awake_until: Instant,
}

/// What is remembered of a member from session to session.
struct Member {
    name: String,
    heard: Allowance,
    session: u64,
    is_throttled: bool,
    throttled: Tally,
    connected: Tally,
}

struct Peer {
    socket: Socket,
    session: Session<ToAgent, FromAgent>,
    origin: Origin,
    member: Option<usize>,
    waiting: Vec<u8>,
    since: Instant,
    reads: u32,
}

/// Why a connection ends.
enum Gone {
    /// It has gone by itself.
    Left,
    Refused(&'static str),
}

impl Peers {
    pub(super) fn listen(modes: &ModesPlan, counter: Counter) -> Result<Peers, Error> {
        let now = Instant::now();
        let (mut keys, mut members) = (BTreeMap::new(), BTreeMap::new());
        for (place, member) in modes.members.iter().enumerate() {
            let Some(agent) = &member.agent else { continue };
            let key = giusto_agent::key(&agent.key)
                .map_err(|why| Error::Service { name: member.service.clone(), what: why.to_string() })?;
            keys.insert(member.service.clone(), (place, key));
            let one = Member {
                name: member.service.clone(),
                heard: Allowance::new(HEARD.0, HEARD.1, now),
                session: 0,
                is_throttled: false,
                throttled: Tally::new("its agent says more than it may and is heard no faster", QUIET),
                connected: Tally::new("its agent", QUIET),
            };
            members.insert(place, one);
        }
        let mut all = Peers {
            listeners: vec![],
            files: vec![],
            keys,
            members,
            peers: vec![],
            let_in: Allowance::new(LET_IN.0, LET_IN.1, now),
            counter,
            news: VecDeque::new(),
            tally: Tally::new("a connection for mode changes was refused", QUIET),
            awake_until: now,
        };
        if all.keys.is_empty() {
            return Ok(all);
        }
        for place in &modes.changes.listen {
            let listener = all.bind(place);
            all.listeners
                .push(listener.map_err(|source| Error::Io { doing: format!("wait for agents at {place}"), source })?);
        }
        Ok(all)
    }

    fn bind(&mut self, place: &Listen) -> io::Result<Socket> {
        let (domain, address) = match place {
            Listen::Unix(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                // The journal's lock is held: no other giusto listens here.
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                (Domain::UNIX, SockAddr::unix(path)?)
            }
            Listen::Tcp(address) => (Domain::for_address(*address), (*address).into()),
            Listen::Vsock(port) => (Domain::VSOCK, SockAddr::vsock(ANY, *port)),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        if let Listen::Tcp(_) = place {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&address)?;
        if let Listen::Unix(path) = place {
            self.files.push(path.clone());
            // Any process in a container may connect: the key shows which member it is.
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o666))?;
        }
        socket.listen(if matches!(place, Listen::Unix(_)) { BACKLOG.0 } else { BACKLOG.1 })?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Until the thread of modes wants no more. `cores` are those that managers have.
    pub(super) fn run(mut self, cores: &[u32]) {
        let free = self.prefer(cores);
        while !self.counter.stopped() {
            let ready = self.wait(free);
            while let Ok(outgoing) = self.counter.out.try_recv() {
                self.send(outgoing);
            }
            self.tell();
            if !self.news.is_empty() {
                continue; // nothing more is read before that is taken
            }
            for (place, peer) in ready.into_iter().rev() {
                match peer {
                    true => self.hear(place),
                    false => self.accept(place),
                }
            }
            self.look();
        }
    }

    /// Cores without managers, where there are any, and before all of ordinary priority there: a change waits for this
    /// thread, and what it may cost is bounded. Where every core has a manager it is before others by its nice value and a
    /// short slice. Whether it has a core for that.
    fn prefer(&self, cores: &[u32]) -> bool {
        let all = sched::affinity(0).unwrap_or_default();
        let free: Vec<u32> = all.into_iter().filter(|core| !cores.contains(core)).collect();
        let is_free = !free.is_empty() && sched::set_affinity(0, &free).is_ok();
        if is_free && sched::set(0, &Attr::of_policy(sched::FIFO, PRIORITY)).is_ok() {
            return true;
        }
        // A short slice lets it run at once when it wakes (kernel 6.12); it is never longer at work.
        let mut soon = Attr::of_policy(sched::OTHER, 0);
        (soon.nice, soon.runtime) = (-20, SLICE_NS);
        if let Err(why) = sched::set(0, &soon) {
            tracing::debug!("agents are heard at nice 0: {why}");
        }
        is_free
    }

    /// For something to do; which peers (true) and listeners (false) are ready.
    fn wait(&self, may_spin: bool) -> Vec<(usize, bool)> {
        let now = Instant::now();
        let mut at_most = Duration::from_secs(1);
        let mut fds = vec![PollFd::new(self.counter.bell(), PollFlags::IN)];
        let mut who = Vec::new();
        let takes = self.news.is_empty();
        at_most = if takes { at_most } else { Duration::from_millis(1) };
        let let_in = self.let_in.wait(now);
        for (place, listener) in self.listeners.iter().enumerate().filter(|_| takes && let_in.is_zero()) {
            fds.push(PollFd::new(listener, PollFlags::IN));
            who.push((place, false));
        }
        if !let_in.is_zero() {
            at_most = at_most.min(let_in);
        }
        for (place, peer) in self.peers.iter().enumerate() {
            let wait = peer.member.and_then(|member| self.members.get(&member)).map(|member| member.heard.wait(now));
            let reads = takes && wait.is_none_or(|wait| wait.is_zero());
            let patience = peer.member.is_none().then(|| PATIENCE.saturating_sub(now.duration_since(peer.since)));
            at_most = at_most.min(wait.filter(|wait| !wait.is_zero()).or(patience).unwrap_or(at_most));
            let out = if peer.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let flags = if reads { PollFlags::IN | out } else { out };
            // One that is left alone is not asked for its end either, or that would be all that is ever told.
            if !flags.is_empty() {
                fds.push(PollFd::new(&peer.socket, flags));
                who.push((place, true));
            }
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        while may_spin && Instant::now() < self.awake_until && rustix::event::poll(&mut fds, Some(&at_once)) == Ok(0) {}
        if fds.iter().all(|fd| fd.revents().is_empty()) {
            let at_most = at_most.max(Duration::from_micros(50));
            let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            let _ = rustix::io::read(self.counter.bell(), &mut [0; 8]);
        }
        who.into_iter().zip(&ready[1..]).filter(|(_, ready)| **ready).map(|(who, _)| who).collect()
    }

    /// Lets in who waits at a listener, as far as the allowance goes.
    fn accept(&mut self, place: usize) {
        while self.let_in.wait(Instant::now()).is_zero() {
            let Ok((socket, address)) = self.listeners[place].accept() else { return };
            let now = Instant::now();
            self.let_in.take(1, now);
            let mut nonce = [0; 16];
            let random = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
            if random.is_err() || socket.set_nonblocking(true).is_err() {
                self.refuse("the machine gives no random bytes", now);
                continue;
            }
            let strangers: Vec<usize> =
                (0..self.peers.len()).filter(|&peer| self.peers[peer].member.is_none()).collect();
            if strangers.len() >= STRANGERS {
                let all: Vec<_> =
                    strangers.iter().map(|&peer| (self.peers[peer].origin, self.peers[peer].since)).collect();
                gives_way(&all).into_iter().for_each(|nth| _ = self.peers.remove(strangers[nth]));
                self.refuse("gave way to newer ones", now);
            }
            let _ = socket.set_tcp_nodelay(true); // other kinds of sockets have no such thing
            let (origin, session) = (origin(&socket, &address), Session::manager(nonce));
            self.peers.push(Peer { socket, session, origin, member: None, waiting: vec![], since: now, reads: 0 });
        }
    }

    fn hear(&mut self, place: usize) {
        match self.hear_one(place) {
            Ok(()) => {}
            Err(gone) => {
                let peer = self.peers.remove(place);
                match (peer.member, gone) {
                    (Some(member), _) => self.news.push_back(News::Lost(member)),
                    (None, Gone::Refused(why)) => self.refuse(why, Instant::now()),
                    (None, Gone::Left) => {}
                }
            }
        }
        self.tell();
    }

    fn hear_one(&mut self, place: usize) -> Result<(), Gone> {
        let (now, peer) = (Instant::now(), &mut self.peers[place]);
        peer.flush().map_err(|_| Gone::Left)?;
        let mut bytes = [0; 1024];
        let length = match peer.socket.read(&mut bytes) {
            Ok(0) => return Err(Gone::Left),
            Ok(length) => length,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(())
            }
            Err(_) => return Err(Gone::Left),
        };
        peer.reads += 1;
        if peer.member.is_none() && peer.reads > READS {
            return Err(Gone::Refused("said too little at a time"));
        }
        let (keys, mut taken) = (&self.keys, Vec::new());
        let key = |name: &str| keys.get(name).map(|(_, key)| *key);
        let fed = peer.session.feed(&bytes[..length], &key, &mut peer.waiting, &mut taken);
        let flushed = peer.flush();
        if let Some(member) = peer.member.and_then(|member| self.members.get_mut(&member)) {
            member.heard.take(1 + length as u32 / 64, now);
        }
        for one in taken {
            match one {
                Taken::Open { name } => self.open(place, &name, now)?,
                Taken::Message(message) => {
                    self.news.extend(self.peers[place].member.map(|member| News::Said(member, message)));
                }
            }
        }
        self.throttle(place, now);
        flushed.map_err(|_| Gone::Left)?;
        fed.map_err(|why| {
            Gone::Refused(match why {
                Broken::Version | Broken::Length(_) => "not the protocol of modes",
                Broken::Unknown => "no such member, or it has no agent",
                Broken::Key => "not the key of this member",
                Broken::Forged => "messages that are not of its session",
            })
        })
    }

    /// A stranger is a member's agent: the latest, as the host may not have seen the end of the one before.
    fn open(&mut self, place: usize, name: &str, now: Instant) -> Result<(), Gone> {
        let Some(&(number, _)) = self.keys.get(name) else { return Ok(()) };
        let Some(member) = self.members.get_mut(&number) else { return Ok(()) };
        if !member.heard.wait(now).is_zero() {
            return Err(Gone::Refused("a member that connects too often"));
        }
        member.heard.take(OPENING, now);
        member.session += 1;
        if let Some(line) = member.connected.add("connected", now) {
            tracing::info!(service = name, "{name}: {line}");
        }
        let session = member.session;
        for before in self.peers.iter_mut().filter(|other| other.member == Some(number)) {
            before.member = None;
            let _ = before.socket.shutdown(std::net::Shutdown::Both);
            self.news.push_back(News::Lost(number));
        }
        self.peers[place].member = Some(number);
        self.news.push_back(News::Opened(number, session));
        Ok(())
    }

    /// Says once that a member has to wait.
    fn throttle(&mut self, place: usize, now: Instant) {
        let Some(number) = self.peers[place].member else { return };
        let Some(member) = self.members.get_mut(&number) else { return };
        let waits = !member.heard.wait(now).is_zero();
        if waits && !member.is_throttled {
            self.counter.counts.throttle(number);
            if let Some(line) = member.throttled.add("waits", now) {
                tracing::warn!(service = member.name, "{}: {line}", member.name);
            }
        }
        member.is_throttled = waits;
    }

    /// To a member's agent, in the session that is meant. One that takes nothing any more loses its connection when it
    /// is next heard.
    fn send(&mut self, Outgoing { member, session, message }: Outgoing) {
        if self.members.get(&member).is_none_or(|member| member.session != session) {
            return;
        }
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.member == Some(member)) else { return };
        peer.session.seal(&message, &mut peer.waiting);
        if peer.flush().is_err() || peer.waiting.len() > WAITING {
            let _ = peer.socket.shutdown(std::net::Shutdown::Both);
        }
        self.awake_until = Instant::now() + AWAKE;
    }

    /// Hands over what there is, in its order.
    fn tell(&mut self) {
        while let Some(news) = self.news.pop_front() {
            if let Err(news) = self.counter.tell(news) {
                return self.news.push_front(news);
            }
        }
    }

    /// Ends what took too long, and tells what is due.
    fn look(&mut self) {
        let now = Instant::now();
        for place in (0..self.peers.len()).rev() {
            let peer = &self.peers[place];
            // Also one that was replaced by a newer session of its member.
            if peer.member.is_none() && now.duration_since(peer.since) > PATIENCE {
                let said = self.peers.remove(place).reads > 0;
                self.refuse(if said { "did not prove who they are in time" } else { "said nothing" }, now);
            }
        }
        if let Some(line) = self.tally.due(now) {
            tracing::warn!("{line}");
        }
        for member in self.members.values_mut() {
            if let Some(line) = member.throttled.due(now) {
                tracing::warn!(service = member.name, "{}: {line}", member.name);
            }
            if let Some(line) = member.connected.due(now) {
                tracing::warn!(service = member.name, "{}: {line}", member.name);
            }
        }
    }

    fn refuse(&mut self, why: &'static str, now: Instant) {
        self.counter.counts.refuse();
        if let Some(line) = self.tally.add(why, now) {
            tracing::warn!("{line}");
        }
    }
}

fn origin(socket: &Socket, address: &SockAddr) -> Origin {
    if let Some((machine, _)) = address.as_vsock_address() {
        return Origin::Machine(machine);
    }
    match address.as_socket().map(|address| address.ip()) {
        Some(IpAddr::V4(ip)) => Origin::Address(0, u32::from(ip).into()),
        Some(IpAddr::V6(ip)) => Origin::Address(1, (u128::from(ip) >> 64) as u64),
        None => {
            let user = rustix::net::sockopt::socket_peercred(socket.as_fd());
            user.map_or(Origin::Unknown, |user| Origin::User(user.uid.as_raw()))
        }
    }
}

impl Peer {
    fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.socket.write(&self.waiting) {
                Ok(length) => _ = self.waiting.drain(..length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}
