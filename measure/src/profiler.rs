//! Profiling: one request at a time, so that the processor time between two sleeps belongs to just one.

use crate::client::connect;
use crate::clock::now;
use crate::reply::{Reply, ReplyParser};
use crate::request::{address, Request};
use crate::thread::{settled, threads};
use crate::{Error, Generator, Profile};
use giusto_model::Load;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// Requests before the profile: they warm the caches, and show which thread serves.
const WARM_UP: u32 = 200;
/// Reading, executing and answering a request takes a thread longer than this; less is no sign of serving.
const LEAST_NS: u64 = 1_000;
/// Between two requests of the profile, at least.
const PACE_NS: u64 = 1_000_000;
/// A reply that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Measures `requests` requests to process `pid`, which serves `load`: closed loop, about one a millisecond, after 200
/// that warm up. Execution time is the processor time (ns, of the kernel's accounting) by which the service's busiest
/// thread grew from its sleep before a request to its sleep after; transport time is the rest of the round trip, 0 if
/// the thread worked on after it had replied. What else the thread does meanwhile (timers) counts as execution: use a
/// service that nobody else loads.
///
/// # Errors
/// [`Error::Process`] if `pid` is not there, [`Error::Idle`] if none of its threads served (or not this
/// request), [`Error::Refused`] for an
/// error as reply, and those of a connection.
pub fn profile(load: &Load, pid: u32, requests: u32, seed: u64, generator: &Generator) -> Result<Profile, Error> {
    let gone = |why| Error::Process { pid, why };
    let mut caller = Caller::new(load, seed)?;
    let _applied = generator.apply()?;

    let before: HashMap<u32, u64> = threads(pid).map_err(gone)?.into_iter().collect();
    for _ in 0..WARM_UP {
        caller.call()?;
    }
    // The last request's time shows once the threads sleep; the others' suffices to tell them apart.
    let grown = |(tid, ns): (u32, u64)| (ns.saturating_sub(before.get(&tid).copied().unwrap_or(0)), tid);
    let busiest = threads(pid).map_err(gone)?.into_iter().map(grown).max();
    let serving = busiest.filter(|&(ns, _)| ns >= u64::from(WARM_UP) * LEAST_NS);
    let address = caller.address;
    let idle = |requests| Error::Idle { pid, requests, address };
    let (_, thread) = serving.ok_or_else(|| idle(WARM_UP))?;

    let mut profile = Profile::default();
    let mut due = now();
    for _ in 0..requests {
        sleep(Duration::from_nanos(due.saturating_sub(now())));
        let before = settled(pid, thread, None).map_err(gone)?;
        let sent = now();
        caller.call()?;
        let round_trip = now() - sent;
        let execution = settled(pid, thread, Some(before)).map_err(gone)?.saturating_sub(before);
        if execution == 0 {
            return Err(idle(1));
        }
        profile.execution.push(execution);
        profile.transport.push(round_trip.saturating_sub(execution));
        due = sent + PACE_NS;
    }
    Ok(profile)
}

/// Sends a request and waits for its reply.
struct Caller {
    stream: TcpStream,
    address: SocketAddr,
    request: Request,
    rng: ChaCha8Rng,
    replies: ReplyParser,
}

impl Caller {
    fn new(load: &Load, seed: u64) -> Result<Caller, Error> {
        let (address, mut request) = (address(load), Request::new(load)?);
        let stream = connect(address)?;
        let patience = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
        patience.map_err(|why| Error::Connection { address, why })?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        request.draw(&mut rng);
        Ok(Caller { stream, address, request, rng, replies: ReplyParser::default() })
    }

    fn call(&mut self) -> Result<(), Error> {
        let address = self.address;
        let failed = |why: std::io::Error| match why.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::Closed { address, client: 0 },
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Error::Connection { address, why: std::io::Error::new(ErrorKind::TimedOut, "no reply within 2 s") }
            }
            _ => Error::Connection { address, why },
        };
        self.stream.write_all(self.request.bytes()).map_err(failed)?;
        let mut reply = None;
        let mut buffer = [0; 512];
        while reply.is_none() {
            let bytes = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Error::Closed { address, client: 0 }),
                Ok(bytes) => bytes,
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) => return Err(failed(why)),
            };
            let parsed = self.replies.feed(&buffer[..bytes], |r| reply = Some(r));
            parsed.map_err(|found| Error::Protocol { address, found })?;
        }
        self.request.draw(&mut self.rng);
        match reply {
            Some(Reply::Refused(text)) => Err(Error::Refused { address, text }),
            _ => Ok(()),
        }
    }
}
