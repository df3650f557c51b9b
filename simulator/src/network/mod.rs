//! The packets of guests in virtual time: how long they wait on a core of the host that processes them.
//!
//! Five paths: Xen's dom0 as [LiC20, section 3.2] describes it, VATC (section 3.3), and three of today's Linux: softirqs with
//! one backlog a core, threads of equal priority, threads by class. What packets cost is given; who waits for whom comes out of
//! rings, interrupts, notifications, polls and threads. Called by studies and tests. One core: cores do not share packets.

mod calibrate;
mod codel;
mod fq_codel;
mod guests;
mod host;
mod nic;
mod packet;
mod qdisc;
mod scene;
mod softirq;
mod threads;

pub use calibrate::{offered, Bench};
pub use scene::{Costs, Guest, Link, Path, Qdisc, Scene, Seen, Sends};

use crate::seeds::in_parallel;
use crate::system::Error;
use giusto_model::Duration;
use host::Host;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Plays `length` of a scene; the first tenth is not counted. The same seed gives the same numbers. O(packets).
///
/// # Errors
/// [`Error::Horizon`] for no time, a rate that is none, or costs of nothing, with which time would stand still.
pub fn play_packets(scene: &Scene, length: Duration, seed: u64) -> Result<Vec<Seen>, Error> {
    let rates = scene.guests.iter().all(|guest| match guest.sends {
        Sends::Asks { every } => !every.is_zero(),
        Sends::Streams { rate, burst, .. } => rate > 0.0 && rate.is_finite() && burst > 0,
    });
    let Costs { send, receive, deliver, .. } = scene.costs;
    if length.is_zero() || !rates || [send, receive, deliver].iter().any(|cost| cost.is_zero()) {
        return Err(Error::Horizon);
    }
    let mut host = Host::new(scene, length.ns(), ChaCha8Rng::seed_from_u64(seed));
    match scene.path {
        Path::Dom0 => softirq::play(&mut host, softirq::Kind::Interfaces),
        Path::Backlog => softirq::play(&mut host, softirq::Kind::Backlog),
        Path::Vatc => threads::play(&mut host, threads::Order::Packets),
        Path::Equal => threads::play(&mut host, threads::Order::Equal),
        Path::Classes => threads::play(&mut host, threads::Order::Polls),
    }
    Ok(host.seen())
}

/// The same once for each seed, on all processors; what was seen is put together. Errors: as [`play_packets`].
pub fn play_packets_seeds(scene: &Scene, length: Duration, seeds: &[u64]) -> Result<Vec<Seen>, Error> {
    let runs = in_parallel(seeds.len(), |index| play_packets(scene, length, seeds[index]))?;
    let mut all = vec![Seen::default(); scene.guests.len()];
    for run in runs {
        for (seen, from) in all.iter_mut().zip(run) {
            seen.times.extend(from.times);
            seen.parts.iter_mut().zip(from.parts).for_each(|(all, one)| all.extend(one));
            seen.sent += from.sent;
            seen.refused += from.refused;
            seen.dropped += from.dropped;
            seen.notifications += from.notifications;
        }
    }
    Ok(all)
}

/// A percentile of times, in ns; 0 of none.
pub fn percentile(times: &[u64], percent: f64) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let nth = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(nth.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}
