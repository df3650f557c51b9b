//! Agents, and whoever else connects: sockets and sessions.
//!
//! Nobody is trusted before a session is open, and then only for the member whose key it was opened with. Who does not prove in time that it is a member's
//! agent goes; nothing is written that would wait.

use crate::Error;
use giusto_model::{Listen, ModesPlan};
use giusto_modes::wire::{Key, Session, Taken};
use giusto_modes::{FromAgent, ToAgent};
use rustix::event::{PollFd, PollFlags};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Connections that are no member's yet.
const STRANGERS: usize = 32;
/// How long one may stay a stranger.
const PATIENCE: Duration = Duration::from_secs(2);
/// What may wait to be sent to one agent, in bytes.
const WAITING: usize = 64 * 1024;
/// Any host's (VMADDR_CID_ANY).
const ANY: u32 = u32::MAX;

pub(super) struct Peers {
    listeners: Vec<Socket>,
    files: Vec<PathBuf>,
    /// By member's name.
    keys: BTreeMap<String, (usize, Key)>,
    peers: Vec<Peer>,
    refused: u64,
}

struct Peer {
    socket: Socket,
    session: Session<ToAgent, FromAgent>,
    member: Option<usize>,
    waiting: Vec<u8>,
    since: Instant,
}

/// What happened.
pub(super) enum News {
    /// A member's agent says something.
    Said(usize, FromAgent),
    /// Its session has ended.
    Lost(usize),
}

impl Peers {
    pub(super) fn listen(modes: &ModesPlan) -> Result<Peers, Error> {
        let mut keys = BTreeMap::new();
        for (place, member) in modes.members.iter().enumerate() {
            let Some(agent) = &member.agent else { continue };
            let key = giusto_agent::key(&agent.key)
                .map_err(|why| Error::Service { name: member.service.clone(), what: why.to_string() })?;
            keys.insert(member.service.clone(), (place, key));
        }
        let mut all = Peers { listeners: vec![], files: vec![], keys, peers: vec![], refused: 0 };
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
                // The journal's lock is held: nobody else listens here.
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
            // Whoever is in a container may connect: the key says who it is.
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o666))?;
        }
        socket.listen(64)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// What to wait for, in the order that [`Peers::hear`] expects the answers.
    pub(super) fn fds(&self) -> Vec<PollFd<'_>> {
        let listeners = self.listeners.iter().map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        let peers = self.peers.iter().map(|peer| {
            let out = if peer.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(peer.socket.as_fd(), PollFlags::IN | out)
        });
        listeners.chain(peers).collect()
    }

    /// What those say that are ready, one truth for each of [`Peers::fds`].
    pub(super) fn hear(&mut self, ready: &[bool], news: &mut Vec<News>) {
        let (listeners, peers) = ready.split_at(self.listeners.len().min(ready.len()));
        let mut gone = Vec::new();
        for place in (0..peers.len()).filter(|&place| peers[place]) {
            if let Err(why) = self.hear_one(place, news) {
                gone.push((place, Some(why)));
            }
        }
        for (place, peer) in self.peers.iter().enumerate() {
            // Also one that was replaced by a newer session of its member.
            if peer.member.is_none() && peer.since.elapsed() > PATIENCE && !gone.iter().any(|(at, _)| *at == place) {
                gone.push((place, None));
            }
        }
        gone.sort_by_key(|(place, _)| *place);
        for (place, why) in gone.into_iter().rev() {
            let peer = self.peers.remove(place);
            match (peer.member, why) {
                (Some(member), _) => news.push(News::Lost(member)),
                (None, Some(why)) if why.kind() == io::ErrorKind::Other => {
                    self.refused += 1;
                    tracing::warn!("a connection for mode changes was refused: {why}");
                }
                (None, _) => {}
            }
        }
        for place in (0..listeners.len()).filter(|&place| listeners[place]) {
            self.accept(place);
        }
    }

    /// When a stranger's time is over.
    pub(super) fn until(&self) -> Option<Duration> {
        let strangers = self.peers.iter().filter(|peer| peer.member.is_none());
        strangers.map(|peer| PATIENCE.saturating_sub(peer.since.elapsed())).min()
    }

    fn accept(&mut self, place: usize) {
        while let Ok((socket, _)) = self.listeners[place].accept() {
            let strangers = self.peers.iter().filter(|peer| peer.member.is_none()).count();
            let mut nonce = [0; 16];
            let random = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
            if strangers >= STRANGERS || random.is_err() || socket.set_nonblocking(true).is_err() {
                self.refused += 1;
                continue;
            }
            let _ = socket.set_tcp_nodelay(true); // other kinds of sockets have no such thing
            let session = Session::manager(nonce);
            self.peers.push(Peer { socket, session, member: None, waiting: vec![], since: Instant::now() });
        }
    }

    fn hear_one(&mut self, place: usize, news: &mut Vec<News>) -> io::Result<()> {
        let peer = &mut self.peers[place];
        peer.flush()?;
        let mut bytes = [0; 4096];
        let length = match peer.socket.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(())
            }
            read => read?,
        };
        let (keys, mut taken) = (&self.keys, Vec::new());
        let key = |name: &str| keys.get(name).map(|(_, key)| *key);
        let fed = peer.session.feed(&bytes[..length], &key, &mut peer.waiting, &mut taken);
        peer.flush()?;
        for one in taken {
            match one {
                Taken::Open { name } => {
                    let Some(&(member, _)) = self.keys.get(&name) else { continue };
                    // One agent a member: the latest, as the host may not have seen the end of the one before.
                    let before = self.peers.iter().position(|other| other.member == Some(member));
                    if let Some(before) = before {
                        self.peers[before].member = None;
                        let _ = self.peers[before].socket.shutdown(std::net::Shutdown::Both);
                        news.push(News::Lost(member));
                    }
                    self.peers[place].member = Some(member);
                    tracing::info!(service = name, "{name}: its agent is connected");
                }
                Taken::Message(message) => {
                    news.extend(self.peers[place].member.map(|member| News::Said(member, message)));
                }
            }
        }
        fed.map_err(io::Error::other)
    }

    /// To a member's agent, if it is connected. One that takes nothing any more loses its connection when it is next heard.
    pub(super) fn send(&mut self, member: usize, message: &ToAgent) {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.member == Some(member)) else { return };
        peer.session.seal(message, &mut peer.waiting);
        if peer.flush().is_err() || peer.waiting.len() > WAITING {
            let _ = peer.socket.shutdown(std::net::Shutdown::Both);
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
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
