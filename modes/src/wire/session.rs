//! A session: the handshake, then messages with tags.

use super::body::Body;
use super::frame::{BadLength, Frames};
use crate::message::{FromAgent, ToAgent};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The secret of a member, shared with its agent only. Never sent.
pub type Key = [u8; 32];
/// Random bytes, new for each session of each end.
pub type Nonce = [u8; 16];

type Tag = [u8; 32];
type Hash = Hmac<Sha256>;

/// Version of the protocol, in the first byte of the handshake's frames.
const VERSION: u8 = 1;
const HI: u8 = 0x10;
const CHALLENGE: u8 = 0x11;
const PROOF: u8 = 0x12;

/// So many frames that are not of the other end are dropped; with one more the session ends.
pub const REFUSED_MOST: u32 = 16;

/// Why a session ended. Close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Not our protocol, or one of another version.
    #[error("this is not version 1 of the protocol of modes")]
    Version,
    /// A length that no frame has.
    #[error("a frame of {0} bytes; expected 1 to 320")]
    Length(usize),
    /// The name is not one of a member with an agent.
    #[error("no such member, or it has no agent")]
    Unknown,
    /// The other end does not hold the member's key.
    #[error("the other end does not hold the key of this member")]
    Key,
    /// Too many frames that the other end did not send in this session.
    #[error("{REFUSED_MOST} frames were not of this session, and one more came")]
    Forged,
}

impl From<BadLength> for Broken {
    fn from(BadLength(length): BadLength) -> Broken {
        Broken::Length(length)
    }
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken<M> {
    /// Both ends hold the key of the member of this name; from now on messages may be sealed.
    Open {
        /// The member.
        name: String,
    },
    /// A message: the next one that the other end sealed.
    Message(M),
}

enum Stage {
    /// The manager waits for the name.
    Hi { nonce: Nonce },
    /// The agent waits for the challenge.
    Challenge { name: String, key: Key, nonce: Nonce },
    /// The manager waits for the proof.
    Proof { name: String, key: Key, transcript: Vec<u8> },
    /// Both may speak.
    Open,
    /// Neither may any more.
    Closed(Broken),
}

/// One end of a connection. `Out` is what this end says, `In` what it hears.
pub struct Session<Out, In> {
    stage: Stage,
    frames: Frames,
    sends: Direction,
    takes: Direction,
    refused: u32,
    types: std::marker::PhantomData<fn(Out) -> In>,
}

/// One direction: its key, and how many messages there were.
struct Direction {
    hash: Hash,
    count: u64,
}

impl Direction {
    fn new(key: &Key, who: &[u8], transcript: &[u8]) -> Direction {
        let key: Tag = mac(key, &[b"giusto modes 1 key of ", who, transcript]);
        Direction { hash: hash(&key), count: 0 }
    }

    fn tag(&self, body: &[u8]) -> Hash {
        let mut hash = self.hash.clone();
        hash.update(&self.count.to_be_bytes());
        hash.update(body);
        hash
    }
}

impl Session<ToAgent, FromAgent> {
    /// The manager's end. It waits for the other one.
    pub fn manager(nonce: Nonce) -> Self {
        Session::new(Stage::Hi { nonce })
    }
}

impl Session<FromAgent, ToAgent> {
    /// The agent's end, for the member of this name (1 to 255 bytes; what is beyond is cut off). Appends its first frame to `out`.
    pub fn agent(name: &str, key: Key, nonce: Nonce, out: &mut Vec<u8>) -> Self {
        let cut = (0..=name.len().min(255)).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        let name = name[..cut].to_string();
        Frames::write(out, |out| {
            out.extend([HI, VERSION]);
            out.extend(nonce);
            out.extend(name.as_bytes());
        });
        Session::new(Stage::Challenge { name, key, nonce })
    }
}

// Private: only the two pairs of messages above make a session.
#[allow(private_bounds)]
impl<Out: Body, In: Body> Session<Out, In> {
    fn new(stage: Stage) -> Self {
        let unkeyed = || Direction { hash: hash(&[0; 32]), count: 0 };
        let (sends, takes) = (unkeyed(), unkeyed());
        Session { stage, frames: Frames::default(), sends, takes, refused: 0, types: std::marker::PhantomData }
    }

    /// Takes bytes of the stream, however they are cut. Appends replies to `out` and what came to `taken`. `key` finds the key of a
    /// member by its name; the agent's end does not ask it.
    ///
    /// What is not the next message of the other end in this session (forged, replayed, out of order, our own, of another session
    /// or member) does nothing.
    ///
    /// # Errors
    /// [`Broken`]; what was taken before counts.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        key: &dyn Fn(&str) -> Option<Key>,
        out: &mut Vec<u8>,
        taken: &mut Vec<Taken<In>>,
    ) -> Result<(), Broken> {
        if let Stage::Closed(why) = self.stage {
            return Err(why);
        }
        let mut frames = std::mem::take(&mut self.frames);
        let result = frames.feed(bytes, |frame| self.frame(frame, key, out, taken));
        self.frames = frames;
        if let Err(why) = result {
            self.stage = Stage::Closed(why);
        }
        result
    }

    /// Appends a message to `out`, with its tag. Whether it could: only an open session can.
    pub fn seal(&mut self, message: &Out, out: &mut Vec<u8>) -> bool {
        if !matches!(self.stage, Stage::Open) {
            return false;
        }
        let sends = &mut self.sends;
        Frames::write(out, |out| {
            let start = out.len();
            message.write(out);
            let tag = sends.tag(&out[start..]).finalize().into_bytes();
            out.extend(tag);
        });
        sends.count += 1;
        true
    }

    /// Frames that were dropped.
    pub fn refused(&self) -> u32 {
        self.refused
    }

    fn frame(
        &mut self,
        frame: &[u8],
        key: &dyn Fn(&str) -> Option<Key>,
        out: &mut Vec<u8>,
        taken: &mut Vec<Taken<In>>,
    ) -> Result<(), Broken> {
        match std::mem::replace(&mut self.stage, Stage::Closed(Broken::Version)) {
            Stage::Closed(why) => return Err(why),
            Stage::Open => {
                self.stage = Stage::Open;
                return self.message(frame, taken);
            }
            Stage::Hi { nonce } => {
                let (theirs, name) = handshake::<16>(frame, HI)?;
                let name = std::str::from_utf8(name).ok().filter(|name| (1..=255).contains(&name.len()));
                let name = name.ok_or(Broken::Unknown)?.to_string();
                let key = key(&name).ok_or(Broken::Unknown)?;
                let transcript = transcript(&name, theirs, &nonce);
                Frames::write(out, |out| {
                    out.extend([CHALLENGE, VERSION]);
                    out.extend(nonce);
                    out.extend(mac(&key, &[b"giusto modes 1 manager", &transcript]));
                });
                self.stage = Stage::Proof { name, key, transcript };
            }
            Stage::Challenge { name, key, nonce } => {
                let (theirs, tag) = handshake::<16>(frame, CHALLENGE)?;
                let transcript = transcript(&name, &nonce, theirs);
                check(&key, &[b"giusto modes 1 manager", &transcript], tag)?;
                Frames::write(out, |out| {
                    out.extend([PROOF, VERSION]);
                    out.extend(mac(&key, &[b"giusto modes 1 agent", &transcript]));
                });
                self.sends = Direction::new(&key, b"agent", &transcript);
                self.takes = Direction::new(&key, b"manager", &transcript);
                self.stage = Stage::Open;
                taken.push(Taken::Open { name });
            }
            Stage::Proof { name, key, transcript } => {
                let (tag, rest) = handshake::<32>(frame, PROOF)?;
                if !rest.is_empty() {
                    return Err(Broken::Key);
                }
                check(&key, &[b"giusto modes 1 agent", &transcript], tag)?;
                self.sends = Direction::new(&key, b"manager", &transcript);
                self.takes = Direction::new(&key, b"agent", &transcript);
                self.stage = Stage::Open;
                taken.push(Taken::Open { name });
            }
        }
        Ok(())
    }

    fn message(&mut self, frame: &[u8], taken: &mut Vec<Taken<In>>) -> Result<(), Broken> {
        let body = frame.split_last_chunk::<32>().filter(|(body, tag)| {
            // Compared in constant time.
            self.takes.tag(body).verify_slice(*tag).is_ok()
        });
        let Some((body, _)) = body else {
            self.refused += 1;
            return if self.refused > REFUSED_MOST { Err(Broken::Forged) } else { Ok(()) };
        };
        self.takes.count += 1;
        // The owner of the key sealed it; a kind that we do not know is of a later release, and left out.
        taken.extend(In::read(body).map(Taken::Message));
        Ok(())
    }
}

/// A frame of the handshake: its first field and the rest.
fn handshake<const N: usize>(frame: &[u8], kind: u8) -> Result<(&[u8; N], &[u8]), Broken> {
    match frame {
        [first, VERSION, rest @ ..] if *first == kind => rest.split_first_chunk::<N>().ok_or(Broken::Version),
        _ => Err(Broken::Version),
    }
}

/// What both ends have said: name and nonces.
fn transcript(name: &str, agent: &Nonce, manager: &Nonce) -> Vec<u8> {
    [&[name.len() as u8], name.as_bytes(), agent, manager].concat()
}

fn hash(key: &[u8; 32]) -> Hash {
    Hash::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn mac(key: &Key, parts: &[&[u8]]) -> Tag {
    let mut hash = hash(key);
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into_bytes().into()
}

fn check(key: &Key, parts: &[&[u8]], tag: &[u8]) -> Result<(), Broken> {
    let mut hash = hash(key);
    parts.iter().for_each(|part| hash.update(part));
    hash.verify_slice(tag).map_err(|_| Broken::Key)
}
