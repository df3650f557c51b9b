//! What messages go through between two services that is no server: tokens of a bucket, a broker.

use crate::guest::exponential;
use giusto_model::{Bucket, Duration, Rate};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One of these.
#[derive(Clone, Debug)]
pub enum Waypoint {
    /// Each message takes a token, and waits for it; so do others, which come at random.
    Tokens(Bucket, Option<Rate>),
    /// So long, with these probabilities (Σ = 1); what comes first leaves first.
    Drawn(Vec<(Duration, f64)>),
}

/// Some of them, one after the other, and how it is there now. Messages come in the order of time.
pub(crate) struct Passage {
    states: Vec<State>,
    rng: ChaCha8Rng,
}

enum State {
    /// The bucket is full again at `full` if nothing else comes; each message takes it `each` ns, and `depth` of these may be
    /// missing. Others come at `next`, `between` apart on average.
    Tokens { full: f64, each: f64, depth: f64, others: Option<(u64, f64)> },
    /// Ends and the probabilities up to each; the last that left.
    Drawn { ends: Vec<(u64, f64)>, last: u64 },
}

impl Passage {
    pub(crate) fn new(way: &[Waypoint], seed: u64, stream: u64) -> Passage {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        let state = |waypoint: &Waypoint| match waypoint {
            Waypoint::Tokens(bucket, others) => State::Tokens {
                full: 0.0,
                each: 1.0 / bucket.rate.per_ns(),
                depth: bucket.depth.as_f64(),
                others: others.filter(|rate| !rate.is_zero()).map(|rate| (0, 1.0 / rate.per_ns())),
            },
            Waypoint::Drawn(times) => {
                let up_to = |sum: &mut f64, (time, p): &(Duration, f64)| {
                    *sum += p;
                    Some((time.ns(), *sum))
                };
                State::Drawn { ends: times.iter().scan(0.0, up_to).collect(), last: 0 }
            }
        };
        Passage { states: way.iter().map(state).collect(), rng }
    }

    /// When a message that comes at `at` is through. `took` is told of each waypoint how long it took.
    pub(crate) fn pass(&mut self, at: u64, took: &mut dyn FnMut(usize, u64)) -> u64 {
        let mut now = at;
        for (nth, state) in self.states.iter_mut().enumerate() {
            let through = state.pass(now, &mut self.rng);
            took(nth, through - now);
            now = through;
        }
        now
    }
}

impl State {
    fn pass(&mut self, at: u64, rng: &mut ChaCha8Rng) -> u64 {
        match self {
            State::Tokens { full, each, depth, others } => {
                if let Some((next, between)) = others {
                    while *next <= at {
                        *full = full.max(*next as f64) + *each;
                        *next = next.saturating_add(exponential(between.round() as u64, rng).max(1));
                    }
                }
                *full = full.max(at as f64) + *each;
                ((*full - *depth * *each).ceil() as u64).max(at)
            }
            State::Drawn { ends, last } => {
                let drawn: f64 = rng.random_range(0.0..1.0);
                let end = ends.iter().find(|(_, up_to)| drawn < *up_to).or(ends.last());
                *last = at.saturating_add(end.map_or(0, |(time, _)| *time)).max(*last);
                *last
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Tokens;

    #[test]
    fn tokens_pass_as_many_at_once_as_there_are_and_then_one_a_time() {
        let bucket = Bucket { rate: "1k/s".parse().unwrap(), depth: Tokens::whole(3) };
        let mut passage = Passage::new(&[Waypoint::Tokens(bucket, None)], 1, 1);
        let ms = 1_000_000;
        let mut through = |at: u64| passage.pass(at, &mut |_, _| ());
        assert_eq!([ms, ms, ms, ms, ms].map(&mut through), [ms, ms, ms, 2 * ms, 3 * ms]);
        // At 4 ms one token is there again, at 20 all three.
        assert_eq!([4 * ms, 4 * ms].map(&mut through), [4 * ms, 5 * ms]);
        assert_eq!([20 * ms; 4].map(&mut through), [20 * ms, 20 * ms, 20 * ms, 21 * ms]);
    }

    #[test]
    fn what_is_drawn_keeps_its_order_and_its_parts() {
        let times = vec![(Duration::from_us(1), 0.9), (Duration::from_us(50), 0.1)];
        let mut passage = Passage::new(&[Waypoint::Drawn(times)], 7, 1);
        let (mut last, mut late) = (0, 0);
        for nth in 0..10_000u64 {
            let through = passage.pass(nth * 1_000, &mut |_, _| ());
            assert!(through >= last, "{nth}");
            late += u32::from(through - nth * 1_000 == 50_000);
            last = through;
        }
        assert!((900..1100).contains(&late), "{late}");
    }
}
