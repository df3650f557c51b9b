//! Profiling: one request at a time, so that the processor time between two sleeps belongs to just one.

use crate::client::{prepare, Asking};
use crate::clock::now;
use crate::request::Request;
use crate::thread::{settled, threads};
use crate::{Error, Generator, Profile};
use giusto_model::Load;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

/// Requests before the profile: they warm the caches, and show which thread serves.
const WARM_UP: u32 = 200;
/// Reading, executing and answering a request takes a thread longer than this; less is no sign of serving.
const LEAST_NS: u64 = 1_000;
/// Between two requests of the profile, at least.
const PACE_NS: u64 = 1_000_000;

/// Measures `requests` requests to process `pid`, which serves `load`: closed loop, about one a millisecond, after 200
/// that warm up. Execution time is the processor time (ns, of the kernel's accounting) by which the service's busiest
/// thread grew from its sleep before a request to its sleep after; transport time is the rest of the round trip, 0 if
/// the thread worked on after it had replied. What else the thread does meanwhile (timers) counts as execution: use a
/// service that no other client loads.
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
    let address = load.address();
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
    asking: Asking,
    request: Request,
    rng: ChaCha8Rng,
}

impl Caller {
    fn new(load: &Load, seed: u64) -> Result<Caller, Error> {
        let mut request = Request::new(load)?;
        prepare(load, seed)?;
        let asking = Asking::to(load)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        request.draw(&mut rng);
        Ok(Caller { asking, request, rng })
    }

    fn call(&mut self) -> Result<(), Error> {
        self.asking.ask(self.request.bytes())?;
        self.request.draw(&mut self.rng);
        Ok(())
    }
}
