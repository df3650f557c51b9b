//! `giusto analyze packets`: how long packets wait for the core that processes them by priority [LiC20, chapter 3].

use crate::Error;
use giusto_analysis::packets::{busy, Ahead, Flow, Poll, THROTTLE_RUNTIME};
use giusto_model::{Bucket, Duration, Rate};
use serde::Serialize;

/// Threads of one priority.
#[derive(Clone, Debug)]
pub struct Level {
    /// What each of them processes at most.
    pub buckets: Vec<Bucket>,
    /// As it was written.
    pub text: String,
}

/// Which threads of one core.
#[derive(Clone, Debug)]
pub struct Question {
    /// From the highest priority down.
    pub levels: Vec<Level>,
    /// So many packets the core processes.
    pub capacity: Rate,
    /// So many a thread processes in a row, whatever else comes.
    pub poll: u32,
    /// So long may pass before a thread that is woken runs.
    pub latency: Duration,
}

/// What was found; `formats/analyze-packets.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    capacity: Rate,
    poll: u32,
    latency_ns: Duration,
    /// The longest that the threads run in any second.
    pub busy_ns: Duration,
    /// From the highest priority down.
    pub flows: Vec<Bound>,
}

/// No packet waits longer.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// As it was written.
    pub flow: String,
    /// Until it is processed, after it arrived.
    pub within_ns: Duration,
}

impl Question {
    /// The bounds.
    ///
    /// # Errors
    /// Threads that the kernel would stop, for they may run too long in a second; a capacity of nothing, times beyond 584 years.
    pub fn answer(&self) -> Result<Answer, Error> {
        let Question { capacity, poll, latency, .. } = *self;
        let all: Vec<Vec<Flow>> = self.levels.iter().map(|level| flows(level, capacity)).collect();
        let polled = Poll { packets: poll, capacity, late: latency };
        let busy = busy(&all.concat(), polled).map_err(Error::input)?;
        if busy > THROTTLE_RUNTIME {
            return Err(Error::does_not_fit(format!(
                "the threads of this core may run for {busy:.3} of a second, and the kernel stops all of them at \
                 {THROTTLE_RUNTIME:.3}; expected lower rates or bursts, or another core for some"
            )));
        }
        let mut found = Vec::new();
        let mut ahead = Ahead::of(&[]).map_err(Error::input)?;
        for (level, own) in self.levels.iter().zip(&all) {
            ahead = ahead.and(&Ahead::of(own).map_err(Error::input)?);
            let mut within = Duration::ZERO;
            for flow in own {
                let others = ahead.without(&Ahead::of(&[*flow]).map_err(Error::input)?);
                let bound = others.delay_bound(*flow, polled).map_err(Error::input)?;
                // As no thread is stopped, there is one.
                within = within.max(bound.ok_or_else(|| Error::running("no bound where the kernel stops no thread"))?);
            }
            found.push(Bound { flow: level.text.clone(), within_ns: within });
        }
        Ok(Answer { capacity, poll, latency_ns: latency, busy_ns: busy, flows: found })
    }
}

fn flows(level: &Level, capacity: Rate) -> Vec<Flow> {
    level.buckets.iter().map(|bucket| Flow { bucket: *bucket, capacity }).collect()
}

/// `5k/s*16` or, of threads that share a priority, `5k/s*16+2k/s*8`
///
/// # Errors
/// No rate or no burst.
pub fn level(text: &str) -> Result<Level, String> {
    let one = |part: &str| {
        let bad = |why: &str| {
            format!(
                "'{part}' are no packets: {why}; expected a rate and a burst, such as 5k/s*16, and a + between threads \
                 that share a priority"
            )
        };
        let (rate, depth) = part.rsplit_once('*').ok_or_else(|| bad("they have no burst"))?;
        let rate = rate.parse().map_err(|why: String| bad(&why))?;
        Ok(Bucket { rate, depth: depth.parse().map_err(|why: String| bad(&why))? })
    };
    Ok(Level { buckets: text.split('+').map(one).collect::<Result<_, String>>()?, text: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(levels: &[&str]) -> Result<Answer, Error> {
        let levels = levels.iter().map(|text| level(text).expect("packets")).collect();
        let capacity = "64k/s".parse().expect("a rate");
        Question { levels, capacity, poll: 64, latency: Duration::ZERO }.answer()
    }

    #[test]
    fn a_bound_counts_a_poll_what_is_above_or_beside_and_the_own_burst() {
        let found = asked(&["1k/s*32", "2k/s*16+2k/s*16"]).unwrap();
        // 64 and 32 packets take 1.5 ms.
        assert_eq!(found.flows[0].within_ns, Duration::from_us(1500));
        // 64, 32, 16 and 16 packets take 2 ms, while those above and beside it ask for 3/64 of the core.
        assert_eq!(found.flows[1].within_ns, Duration::from_ns((2_000_000u64 * 64).div_ceil(61)));
        // In a second 64 + 32 + 1000 + 2 (16 + 2000) packets.
        assert_eq!(found.busy_ns, Duration::from_ns(5128 * 15_625));
    }

    #[test]
    fn what_the_kernel_would_stop_is_refused() {
        assert!(asked(&["60k/s*600"]).is_ok());
        assert!(matches!(asked(&["60k/s*800"]), Err(Error::DoesNotFit { .. })));
        assert!(level("5k/s").is_err() && level("5k*16").is_err() && level("").is_err() && level("1k/s*2+").is_err());
    }
}
