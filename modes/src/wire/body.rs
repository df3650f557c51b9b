//! What is in a frame, without its tag: a byte that says which message, and its fields, big endian.

use crate::message::{Answered, FromAgent, ToAgent};

/// Messages of one direction.
pub(super) trait Body: Sized {
    fn write(&self, out: &mut Vec<u8>);
    /// `None`: no such message. Exactly these bytes; nothing may follow.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// Hello without a local mode.
const UNKNOWN: u16 = u16::MAX;

const WORDS: [Answered; 6] =
    [Answered::Done, Answered::Degraded, Answered::Refused, Answered::RolledBack, Answered::Preempted, Answered::Stuck];

impl Body for ToAgent {
    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            ToAgent::Command { change, local } => {
                out.push(1);
                out.extend(change.to_be_bytes());
                out.extend(local.to_be_bytes());
            }
            ToAgent::Answer { request, answered } => {
                out.push(2);
                out.extend(request.to_be_bytes());
                out.push(WORDS.iter().position(|&word| word == answered).unwrap_or_default() as u8);
            }
        }
    }

    fn read(bytes: &[u8]) -> Option<ToAgent> {
        let (&kind, rest) = bytes.split_first()?;
        let mut read = Read(rest);
        let message = match kind {
            1 => ToAgent::Command { change: u64::from_be_bytes(read.take()?), local: u16::from_be_bytes(read.take()?) },
            2 => ToAgent::Answer {
                request: u32::from_be_bytes(read.take()?),
                answered: *WORDS.get(usize::from(u8::from_be_bytes(read.take()?)))?,
            },
            _ => return None,
        };
        read.0.is_empty().then_some(message)
    }
}

impl Body for FromAgent {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            FromAgent::Hello { local, change, digest } => {
                out.push(1);
                out.extend(local.unwrap_or(UNKNOWN).to_be_bytes());
                out.extend(change.to_be_bytes());
                out.extend(digest.to_be_bytes());
            }
            FromAgent::Done { change, local, received_ns, switched_ns } => {
                out.push(2);
                out.extend(change.to_be_bytes());
                out.extend(local.to_be_bytes());
                out.extend(received_ns.to_be_bytes());
                out.extend(switched_ns.to_be_bytes());
            }
            FromAgent::Failed { change } => {
                out.push(3);
                out.extend(change.to_be_bytes());
            }
            FromAgent::Ask { request, mode } => {
                // Who asks for a longer name asks for one that no table has.
                let mode = &mode.as_bytes()[..mode.len().min(255)];
                out.push(4);
                out.extend(request.to_be_bytes());
                out.push(mode.len() as u8);
                out.extend(mode);
            }
        }
    }

    fn read(bytes: &[u8]) -> Option<FromAgent> {
        let (&kind, rest) = bytes.split_first()?;
        let mut read = Read(rest);
        let message = match kind {
            1 => FromAgent::Hello {
                local: Some(u16::from_be_bytes(read.take()?)).filter(|&local| local != UNKNOWN),
                change: u64::from_be_bytes(read.take()?),
                digest: u64::from_be_bytes(read.take()?),
            },
            2 => FromAgent::Done {
                change: u64::from_be_bytes(read.take()?),
                local: u16::from_be_bytes(read.take()?),
                received_ns: u64::from_be_bytes(read.take()?),
                switched_ns: u64::from_be_bytes(read.take()?),
            },
            3 => FromAgent::Failed { change: u64::from_be_bytes(read.take()?) },
            4 => {
                let request = u32::from_be_bytes(read.take()?);
                let [length] = read.take()?;
                let (mode, rest) = read.0.split_at_checked(usize::from(length))?;
                read.0 = rest;
                FromAgent::Ask { request, mode: std::str::from_utf8(mode).ok()?.to_string() }
            }
            _ => return None,
        };
        read.0.is_empty().then_some(message)
    }
}

struct Read<'a>(&'a [u8]);

impl Read<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}
