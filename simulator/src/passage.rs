//! What messages go through between services that is no server: tokens of a bucket, a broker.

use crate::guest::exponential;
use crate::system::{Between, Stop, Waypoint};
use giusto_model::Duration;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A [`Between`], and how it is there now.
pub(crate) struct Passage {
    states: Vec<State>,
    /// Time between others that come from outside, on average.
    apart: Option<u64>,
    /// By way, how many copies have come that others have still to come to.
    come: Vec<u64>,
    rng: ChaCha8Rng,
    /// When its clock stands still, by the time of all others: from, until, and whether all tokens are gone then.
    stops: Vec<(u64, u64, bool)>,
    /// So many of those have been.
    lost: usize,
}

enum State {
    /// The bucket is full again at `full` if nothing else comes; each message takes it `each` ns, and `depth` of these may be
    /// missing. What has its token takes `then`.
    Tokens { full: f64, each: f64, depth: f64, then: u64 },
    /// Times and the probabilities up to each; the last that left.
    Drawn { times: Vec<(u64, f64)>, last: u64 },
}

impl Passage {
    pub(crate) fn new(between: &Between, stops: &[Stop], seed: u64, stream: u64) -> Passage {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        let state = |waypoint: &Waypoint| match waypoint {
            Waypoint::Tokens(bucket, then) => {
                let (each, depth) = (1.0 / bucket.rate.per_ns(), bucket.depth.as_f64());
                State::Tokens { full: 0.0, each, depth, then: then.ns() }
            }
            Waypoint::Drawn(times) => {
                let up_to = |sum: &mut f64, (time, p): &(Duration, f64)| {
                    *sum += p;
                    Some((time.ns(), *sum))
                };
                State::Drawn { times: times.iter().scan(0.0, up_to).collect(), last: 0 }
            }
        };
        let others = between.others.map(|(rate, _)| rate).filter(|rate| !rate.is_zero());
        let apart = others.map(|rate| (1.0 / rate.per_ns()).round().max(1.0) as u64);
        let come = vec![0; between.waits as usize];
        let mut stops: Vec<_> = stops.iter().map(|stop| (stop.from.ns(), stop.until.ns(), stop.lost)).collect();
        stops.sort_unstable();
        Passage { states: between.by.iter().map(state).collect(), apart, come, rng, stops, lost: 0 }
    }

    /// When the next of the others comes, if there are any.
    pub(crate) fn next(&mut self, now: u64) -> Option<u64> {
        Some(now.saturating_add(exponential(self.apart?, &mut self.rng).max(1)))
    }

    /// Whether the copy that comes by way `task` is the last of its message. Copies come in the order of their messages.
    pub(crate) fn is_whole(&mut self, task: u32) -> bool {
        if let Some(come) = self.come.get_mut(task as usize) {
            *come += 1;
        }
        let whole = self.come.iter().all(|come| *come > 0);
        self.come.iter_mut().filter(|_| whole).for_each(|come| *come -= 1);
        whole
    }

    /// When a message that comes at `at` is through, no sooner than those that came before. `took` is told of each waypoint how
    /// long it took.
    pub(crate) fn pass(&mut self, at: u64, took: &mut dyn FnMut(usize, u64)) -> u64 {
        let (mut now, mut own) = (at, self.own(at));
        while let Some((from, _, lost)) = self.stops.get(self.lost).copied().filter(|(from, ..)| *from <= at) {
            let from = self.own(from);
            self.states.iter_mut().filter(|_| lost).for_each(|state| state.empty(from));
            self.lost += 1;
        }
        for nth in 0..self.states.len() {
            own = self.states[nth].pass(own, &mut self.rng);
            let through = self.of_others(own).max(now);
            took(nth, through - now);
            now = through;
        }
        now
    }

    /// By its own clock.
    fn own(&self, at: u64) -> u64 {
        at - self.stops.iter().map(|(from, until, _)| at.clamp(*from, *until) - from).sum::<u64>()
    }

    fn of_others(&self, own: u64) -> u64 {
        let later = |at: u64, (from, until, _): &(u64, u64, bool)| if at >= *from { at + (until - from) } else { at };
        self.stops.iter().fold(own, later)
    }
}

impl State {
    /// No token is there.
    fn empty(&mut self, at: u64) {
        if let State::Tokens { full, each, depth, .. } = self {
            *full = full.max(at as f64 + *depth * *each);
        }
    }

    fn pass(&mut self, at: u64, rng: &mut ChaCha8Rng) -> u64 {
        match self {
            State::Tokens { full, each, depth, then } => {
                *full = full.max(at as f64) + *each;
                ((*full - *depth * *each).ceil() as u64).max(at).saturating_add(*then)
            }
            State::Drawn { times, last } => {
                let drawn: f64 = rng.random_range(0.0..1.0);
                let time = times.iter().find(|(_, up_to)| drawn < *up_to).or(times.last());
                *last = at.saturating_add(time.map_or(0, |(time, _)| *time)).max(*last);
                *last
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::{Bucket, Tokens};

    fn passage(waypoint: Waypoint) -> Passage {
        Passage::new(&Between { by: vec![waypoint], ..Between::default() }, &[], 7, 1)
    }

    #[test]
    fn tokens_pass_as_many_at_once_as_there_are_and_then_one_a_time() {
        let bucket = Bucket { rate: "1k/s".parse().unwrap(), depth: Tokens::whole(3) };
        let mut passage = passage(Waypoint::Tokens(bucket, Duration::ZERO));
        let ms = 1_000_000;
        let mut through = |at: u64| passage.pass(at, &mut |_, _| ());
        assert_eq!([ms, ms, ms, ms, ms].map(&mut through), [ms, ms, ms, 2 * ms, 3 * ms]);
        // At 4 ms one token is there again, at 20 all three.
        assert_eq!([4 * ms, 4 * ms].map(&mut through), [4 * ms, 5 * ms]);
        assert_eq!([20 * ms; 4].map(&mut through), [20 * ms, 20 * ms, 20 * ms, 21 * ms]);
        let mut later = self::passage(Waypoint::Tokens(bucket, Duration::from_ms(2)));
        assert_eq!([ms, ms, ms, ms].map(|at| later.pass(at, &mut |_, _| ())), [3 * ms, 3 * ms, 3 * ms, 4 * ms]);
    }

    #[test]
    fn what_is_drawn_keeps_its_order_and_its_parts() {
        let mut passage = passage(Waypoint::Drawn(vec![(Duration::from_us(1), 0.9), (Duration::from_us(50), 0.1)]));
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
