//! How long packets wait for a core that processes them by priority ([LiC20, chapter 3], on stock Linux).
//!
//! Each interface has a thread of its own, and each thread a priority. A thread processes up to a poll of packets before one
//! with a higher priority gets the core, so that a packet that arrives waits for one poll of the lower ones, then for what
//! those above may send, then for its own. Of threads that share a priority the one that runs goes on until it has nothing
//! left, and which is next is not known: so for each of them all the others count as above. Nothing more has to be counted:
//! while a packet of i waits, only what is above i, or shares its priority, is processed.
//!
//! With r, b and c the rate, the burst and the time of a packet: D_i is the least t with
//! L + maxpoll + sum over j ahead of i of (b_j + r_j t) c_j + b_i c_i <= t, with L the latency of the host. Why later packets
//! of i wait no longer: x after the start of a busy period r_i x more packets of i are there, and it takes less than x to
//! process them and what comes meanwhile, as the load of i and all ahead of it is less than the core.

use crate::Error;
use giusto_model::{Bucket, Duration, Rate};
use num_bigint::BigUint;
use num_rational::Ratio;

/// The kernel stops all threads with real-time priorities of a core that run for longer than this in a
/// [`THROTTLE_PERIOD`], all of them and until the period ends (sched_rt_runtime_us).
pub const THROTTLE_RUNTIME: Duration = Duration::from_ms(950);
/// sched_rt_period_us.
pub const THROTTLE_PERIOD: Duration = Duration::from_ms(1000);

/// Packets that one thread processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// (r, b)
    pub bucket: Bucket,
    /// 1/c: such packets that a core processes.
    pub capacity: Rate,
}

/// What is processed in a row whatever else comes: maxpoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// So many packets.
    pub packets: u32,
    /// Of the kind that takes longest.
    pub capacity: Rate,
    /// The latency of the host: so long may pass before a thread that is woken runs.
    pub late: Duration,
}

type Exact = Ratio<BigUint>;

/// What may be ahead of a packet on its core: all that threads with higher priorities process, and all others of its own
/// priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Sum of b c, in ns.
    burst: Exact,
    /// Sum of r c.
    load: Exact,
}

impl Ahead {
    /// What is in `flows`, in any order. O(flows).
    ///
    /// # Errors
    /// [`Error::NoCapacity`].
    pub fn of(flows: &[Flow]) -> Result<Ahead, Error> {
        flows.iter().try_fold(Ahead { burst: zero(), load: zero() }, |sum, one| {
            Ok(Ahead { burst: sum.burst + burst(*one)?, load: sum.load + share(*one)? })
        })
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Ahead) -> Ahead {
        Ahead { burst: &self.burst + &other.burst, load: &self.load + &other.load }
    }

    /// Without a part of it.
    #[must_use]
    pub fn without(&self, part: &Ahead) -> Ahead {
        Ahead { burst: &self.burst - &part.burst, load: &self.load - &part.load }
    }

    /// D of `own`, rounded up to a whole ns. `None`: no bound, as what is ahead and itself use as much of the core as makes the
    /// kernel stop them ([`THROTTLE_RUNTIME`]).
    ///
    /// It holds while the kernel stops no thread ([`busy`]) and does nothing else on the core; of the time to wake a thread only
    /// [`Poll::late`] is in it.
    ///
    /// # Errors
    /// [`Error::NoCapacity`]; [`Error::Wait`] beyond 584 years.
    pub fn delay_bound(&self, own: Flow, poll: Poll) -> Result<Option<Duration>, Error> {
        let wait = exact(poll.late) + time(poll.packets.into(), poll.capacity)? + burst(own)? + &self.burst;
        if &self.load + share(own)? >= exact(THROTTLE_RUNTIME) / exact(THROTTLE_PERIOD) {
            return Ok(None);
        }
        let left = Exact::from_integer(1u32.into()) - &self.load;
        rounded(wait / left).map(Some)
    }
}

/// [`Ahead::delay_bound`] of those `above`. O(above).
///
/// # Errors
/// As it.
pub fn delay_bound(above: &[Flow], own: Flow, poll: Poll) -> Result<Option<Duration>, Error> {
    Ahead::of(above)?.delay_bound(own, poll)
}

/// The longest that the threads of these flows can run in any [`THROTTLE_PERIOD`] p: maxpoll + sum (b + r p) c, rounded up. The
/// kernel never stops them where that is at most [`THROTTLE_RUNTIME`]. (A burst may be kept waiting by a lower poll from before
/// the period on; all else that is processed in it came in it, or there was no idle time since it came.) O(flows).
///
/// # Errors
/// As [`delay_bound`].
pub fn busy(flows: &[Flow], poll: Poll) -> Result<Duration, Error> {
    let mut sum = time(poll.packets.into(), poll.capacity)?;
    for flow in flows {
        sum += burst(*flow)? + share(*flow)? * exact(THROTTLE_PERIOD);
    }
    rounded(sum)
}

/// b c, in ns.
fn burst(flow: Flow) -> Result<Exact, Error> {
    let (parts, whole) = flow.bucket.depth.fraction();
    Ok(time(parts, flow.capacity)? / Exact::from_integer(whole.into()))
}

/// r c.
fn share(flow: Flow) -> Result<Exact, Error> {
    let (packets, ns) = flow.bucket.rate.fraction();
    Ok(time(packets, flow.capacity)? / Exact::from_integer(ns.into()))
}

/// What so many packets take, in ns.
fn time(packets: u64, capacity: Rate) -> Result<Exact, Error> {
    let (done, ns) = capacity.fraction();
    match done {
        0 => Err(Error::NoCapacity),
        done => Ok(Exact::new(BigUint::from(packets) * ns, done.into())),
    }
}

fn exact(time: Duration) -> Exact {
    Exact::from_integer(time.ns().into())
}

fn zero() -> Exact {
    Exact::from_integer(0u32.into())
}

fn rounded(ns: Exact) -> Result<Duration, Error> {
    u64::try_from(ns.ceil().to_integer()).map(Duration::from_ns).map_err(|_| Error::Wait)
}
