//! What a high class without a bucket leaves to the low one: [LiC20, § 3.4.2, Fig. 3.10].

use crate::tables::Csv;
use crate::vatc::cells::quiet;
use crate::vatc::host::{bucket, filter, steal, Arm, Host, OTHERS};
use crate::Error;
use giusto_measure::packets::{Flood, Flow, Place, Stage};
use giusto_model::{Bucket, Duration};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

pub(crate) const COLUMNS: [&str; 9] =
    ["protocol", "bucket", "offered", "set", "high_kpps", "low_a_second", "left", "kept", "stolen_ms"];
/// What the high class offers, in parts of what a core processes.
const OFFERED: [f64; 4] = [0.0, 0.5, 1.0, 2.0];
const PROTOCOLS: [&str; 2] = ["udp", "tcp"];
pub(crate) const CELLS: u64 = 3 * (PROTOCOLS.len() * OFFERED.len()) as u64;
/// The bucket has a fifth of a core.
const PART: f64 = 0.2;
/// More than what a guest sends in one turn on its core, and less than a quarter of a second of tokens.
const DEPTH: u64 = 512;

/// The rows of a set; the host's core processes so many packets a second.
pub(crate) fn set(set: u64, core: f64, length: Duration, table: &mut Csv, played: &dyn Fn()) -> Result<(), Error> {
    let (limited, unlimited) = (bucket((core * PART) as u64, DEPTH)?, bucket(100_000_000, 1_000_000)?);
    for protocol in PROTOCOLS {
        for offered in OFFERED {
            let mut alone = 0.0;
            for (name, bucket) in [("nothing", limited), ("with", limited), ("without", unlimited)] {
                let found = quiet(|| cell(protocol, bucket, name == "nothing", (offered * core) as u64, length))?;
                if name == "nothing" {
                    alone = found.low;
                }
                // The host's core is left to the low class but for what the bucket lets through: less of what fills it, and all of what
                // does not. `alone` has the same load on the core of the guests, of packets that never leave guest 0.
                let rest = if protocol == "tcp" || name == "nothing" { 1.0 } else { 1.0 - offered.min(PART) };
                let left = alone * rest;
                let number = |number: f64| format!("{number:.3}");
                let mut row = vec![protocol.to_string(), name.to_string(), offered.to_string(), set.to_string()];
                row.extend(
                    [found.high / 1e3, found.low, left, found.low / left, found.stolen as f64 / 1e6].map(number),
                );
                table.row(&row);
                played();
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Found {
    /// Packets a second that the high class offered.
    high: f64,
    /// Packets, or bytes, a second that the low class got through.
    low: f64,
    stolen: u64,
}

/// Guest 0 sends in the high class, guest 1 what it can in the low one. `kept_in`: what guest 0 sends is dropped in guest 0.
fn cell(protocol: &str, bucket: Bucket, kept_in: bool, offered: u64, length: Duration) -> Result<(Found, u64), Error> {
    let mut host = Host::new(2, Arm::Giusto, bucket)?;
    if kept_in {
        let table = "table ip kept {\nchain sent {\ntype filter hook output priority 0\npolicy drop\n}\n}\n";
        filter(&host.stage, Place::Guest(0), table)?;
    }
    let mut flows = Vec::new();
    if protocol == "udp" {
        flows.push(Flow { from: Place::Guest(1), to: Place::Remote, rate: None, core: OTHERS });
    }
    if offered > 0 {
        flows.push(Flow { from: Place::Guest(0), to: Place::Remote, rate: Some(offered), core: OTHERS });
    }
    let stream = Stream::new(&host.stage)?;
    let flood = Flood::start(&host.stage, &flows)?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let measured = std::thread::scope(|scope| {
        if protocol == "tcp" {
            scope.spawn(|| stream.send(&stop));
            scope.spawn(|| stream.receive(&stop, &received));
        }
        let measure = || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let look = || -> Result<(u64, u64, u64), Error> {
                let low = if protocol == "tcp" { received.load(Ordering::Relaxed) } else { host.taken([1])? };
                Ok((low, if offered > 0 { flood.sent().last().copied().unwrap_or(0) } else { 0 }, steal()?))
            };
            let (before, start) = (look()?, Instant::now());
            std::thread::sleep(std::time::Duration::from_nanos(length.ns()));
            let (after, seconds) = (look()?, start.elapsed().as_secs_f64());
            let stolen = after.2 - before.2;
            let a_second = |after: u64, before: u64| (after - before) as f64 / seconds;
            Ok((Found { high: a_second(after.1, before.1), low: a_second(after.0, before.0), stolen }, stolen))
        };
        let measured = measure();
        stop.store(true, Ordering::Relaxed);
        measured
    });
    flood.end()?;
    host.proven()?;
    measured.map(|(found, stolen)| (found, stolen * 1000 / (2 * length.ns())))
}

/// Bytes a second of a gigabit.
const GIGABIT: u64 = 125_000_000;

fn pace(stream: &TcpStream) -> std::io::Result<()> {
    let rate = GIGABIT;
    // SAFETY: eight bytes that live, as told.
    let done = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
        libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const rate).cast(), 8)
    };
    if done == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// A connection from guest 1 to the remote machine, paced to the paper's gigabit.
struct Stream {
    from: TcpStream,
    to: TcpStream,
}

impl Stream {
    fn new(stage: &Stage) -> Result<Stream, Error> {
        let address = (Stage::address(Place::Remote), 5001);
        let listener = stage.inside(Place::Remote, || TcpListener::bind(address))?.map_err(Error::machine)?;
        let from = stage.inside(Place::Guest(1), || TcpStream::connect(address))?.map_err(Error::machine)?;
        let (to, _) = listener.accept().map_err(Error::machine)?;
        pace(&from).map_err(Error::machine)?;
        // Both ends look up now and then whether it is over.
        let patience = Some(std::time::Duration::from_millis(100));
        from.set_write_timeout(patience).and_then(|()| to.set_read_timeout(patience)).map_err(Error::machine)?;
        Ok(Stream { from, to })
    }

    fn send(&self, stop: &AtomicBool) {
        let data = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            let _ = (&self.from).write(&data);
        }
    }

    fn receive(&self, stop: &AtomicBool, received: &AtomicU64) {
        let mut data = vec![0; 1 << 16];
        while !stop.load(Ordering::Relaxed) {
            if let Ok(length) = (&self.to).read(&mut data) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        }
    }
}
