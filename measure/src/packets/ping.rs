//! Round trips of ICMP echo requests, sent on time whatever becomes of those before.

use super::{Place, Stage};
use crate::clock::now;
use crate::{Error, Generator};
use giusto_model::Duration;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::{ipproto, recv, sendto, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;

/// How to ping.
#[derive(Clone, Debug)]
pub struct Ping {
    /// The guest that pings the remote machine.
    pub from: usize,
    /// One every so often.
    pub every: Duration,
    /// How many.
    pub count: u32,
    /// The thread that sends and takes the answers.
    pub generator: Generator,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pings {
    /// Round trips in ns, ascending, of those that came back.
    pub trips: Vec<u64>,
    /// Those that did not within two seconds.
    pub lost: u32,
    /// By how much the latest was sent late, in ns.
    pub latest: u64,
}

impl Pings {
    /// By nearest rank; one that was lost is longer than all others. `None`: it was lost.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let all = self.trips.len() + self.lost as usize;
        let rank = ((all as f64 * percent / 100.0).ceil() as usize).max(1);
        self.trips.get(rank - 1).copied()
    }
}

/// How long the last ones are waited for.
const PATIENCE: u64 = 2_000_000_000;
const HEADER: usize = 8;

/// Pings the remote machine. Errors: no privilege for a raw socket or the priority.
pub fn ping(stage: &Stage, ping: &Ping) -> Result<Pings, Error> {
    let make = || {
        socket_with(
            AddressFamily::INET,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(ipproto::ICMP),
        )
    };
    let what = || "open a raw socket to ping with".to_string();
    let socket =
        stage.inside(Place::Guest(ping.from), make)?.map_err(|why| Error::System { what: what(), why: why.into() })?;
    let _applied = ping.generator.apply()?;
    trips(&socket, ping).map_err(|why| Error::System { what: "ping".into(), why })
}

fn trips(socket: &OwnedFd, ping: &Ping) -> io::Result<Pings> {
    let to = SocketAddrV4::new(Stage::address(Place::Remote), 0);
    let id = std::process::id() as u16;
    let first = now() + 1_000_000;
    let (mut sent, mut trips, mut latest) = (Vec::with_capacity(ping.count as usize), Vec::new(), 0);
    let mut back = vec![false; ping.count as usize];
    loop {
        let due = match sent.len() < ping.count as usize {
            true => first + sent.len() as u64 * ping.every.ns(),
            false => first + u64::from(ping.count) * ping.every.ns() + PATIENCE,
        };
        if trips.len() == ping.count as usize || sent.len() == ping.count as usize && now() >= due {
            break;
        }
        if sent.len() < ping.count as usize && now() >= due {
            let at = now();
            latest = latest.max(at - due);
            sendto(socket, &request(id, sent.len() as u32), SendFlags::empty(), &to)?;
            sent.push(at);
            continue;
        }
        let left = due.saturating_sub(now());
        let time = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let at = now();
        let mut packet = [0u8; 128];
        while let Ok((length, _)) = recv(socket, &mut packet[..], RecvFlags::empty()) {
            let Some(number) = answer(&packet[..length], id) else { continue };
            if let Some(seen) = back.get_mut(number as usize).filter(|seen| !**seen) {
                *seen = true;
                trips.push(at - sent[number as usize]);
            }
        }
    }
    trips.sort_unstable();
    let lost = ping.count - trips.len() as u32;
    Ok(Pings { trips, lost, latest })
}

/// An echo request; its number is in the data, as that of the header has 16 bits.
fn request(id: u16, number: u32) -> [u8; HEADER + 4] {
    let mut packet = [0; HEADER + 4];
    packet[0] = 8;
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    packet[8..12].copy_from_slice(&number.to_be_bytes());
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The number of an echo reply to `id`, which comes with its IP header.
fn answer(packet: &[u8], id: u16) -> Option<u32> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let icmp = packet.get(header..header + HEADER + 4)?;
    (icmp[0] == 0 && icmp[4..6] == id.to_be_bytes()).then(|| u32::from_be_bytes([icmp[8], icmp[9], icmp[10], icmp[11]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_sums_up_and_its_answer_is_told() {
        for number in [0, 1, 0xffff, 0x1_0000, u32::MAX] {
            let packet = request(0xbeef, number);
            let sum: u32 = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "RFC 1071");
            let mut reply = vec![0x45; 20];
            reply.extend(packet);
            assert_eq!(answer(&reply, 0xbeef), None, "a request is no answer");
            reply[20] = 0;
            assert_eq!(
                (answer(&reply, 0xbeef), answer(&reply, 1), answer(&reply[..30], 0xbeef)),
                (Some(number), None, None)
            );
        }
    }

    #[test]
    fn what_is_lost_is_longer_than_all() {
        let pings = Pings { trips: (1..=98).collect(), lost: 2, latest: 0 };
        assert_eq!([50.0, 98.0, 99.0].map(|p| pings.percentile(p)), [Some(50), Some(98), None]);
    }
}
