//! A path as its services are surely served: how many of its messages are late, run by run (docs/decisions/0066).
//!
//! Beside others under EDF a server has had its budget by the end of each period, of the work that was there at its beginning. So
//! a message is done a period later at most than by one that has its budget at the end of each period (decision 0010), whatever
//! the others do. Services of the first host have their grids in common; where those of others lie is not known, and each message
//! finds the worst place.

use crate::guest::exponential;
use crate::passage::Passage;
use crate::system::{Between, Error, Waypoint};
use giusto_model::{Bucket, Duration, Interface, PathStage, Rate, ServiceTime, Steps};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A service of the path.
#[derive(Clone, Copy, Debug)]
pub struct Alone<'a> {
    /// Its budget and its period.
    pub server: Interface,
    /// Added to each message, beside the period.
    pub late: Duration,
    /// What a message takes.
    pub service: &'a ServiceTime,
}

/// Messages of one run. They come at random.
#[derive(Clone, Copy, Debug)]
pub struct AloneRun {
    /// How often.
    pub rate: Rate,
    /// So many come before those that count: queues are empty at the beginning.
    pub before: usize,
    /// So many count.
    pub counted: usize,
    /// The same gives the same run.
    pub seed: u64,
}

/// A message that comes to a stage, and whether it is one of the path.
type Message = (u64, bool);

/// What the counted messages took, in their order.
///
/// O(messages), and at services of other hosts times the messages that wait together. Errors: [`Error::NoJob`] where `through`
/// has other services than there are, or stages in no order that makes sense.
pub fn play_alone(through: &[PathStage], services: &[Alone<'_>], run: &AloneRun) -> Result<Vec<Duration>, Error> {
    let rng = &mut stream(run.seed, u64::MAX);
    let mean = mean(run.rate);
    let mut at = 0u64;
    let arrivals: Vec<u64> = (0..run.before + run.counted)
        .map(|_| {
            at = at.saturating_add(exponential(mean, rng).max(1));
            at
        })
        .collect();
    let all: Vec<&str> = through.iter().filter(|stage| stage.service().is_some()).map(PathStage::on).collect();
    let (Some(first), true) = (all.first(), all.len() == services.len()) else { return Err(none()) };
    // Where the first host's grids lie, for messages that come at any time.
    let play = Play { through, services, run, first, begin: rng.random_range(0..1 << 44) };
    let mut messages: Vec<Message> = arrivals.iter().map(|at| (*at, true)).collect();
    for step in Steps::of(through).0 {
        let mut ends: Option<Vec<Message>> = None;
        for branch in step {
            let mut own = messages.clone();
            for nth in branch {
                own = play.stage(nth, own)?;
            }
            // Each keeps the order of messages, so that the n-th of all branches are copies of one.
            ends = Some(match ends {
                None => own,
                Some(other) => other.iter().zip(own).map(|(one, other)| (*one).max(other)).collect(),
            });
        }
        messages = ends.ok_or_else(none)?;
    }
    let ends = messages.into_iter().filter(|(_, is_own)| *is_own).map(|(at, _)| at);
    let took = |(end, at): (u64, &u64)| Duration::from_ns(end.saturating_sub(*at));
    Ok(ends.zip(&arrivals).skip(run.before).map(took).collect())
}

fn none() -> Error {
    Error::NoJob { within: Duration::ZERO }
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

fn mean(rate: Rate) -> u64 {
    (1.0 / rate.per_ns()).round().max(1.0) as u64
}

struct Play<'a> {
    through: &'a [PathStage],
    services: &'a [Alone<'a>],
    run: &'a AloneRun,
    first: &'a str,
    begin: u64,
}

impl Play<'_> {
    /// When messages leave a stage, in the order in which they come there.
    fn stage(&self, nth: usize, mut messages: Vec<Message>) -> Result<Vec<Message>, Error> {
        let stage = &self.through[nth];
        let link = stage.link().unwrap_or(Duration::ZERO).ns();
        messages.iter_mut().for_each(|(at, _)| *at = at.saturating_add(link));
        let by = match stage {
            PathStage::Service(own) => {
                let before = self.through[..nth].iter().filter(|stage| stage.service().is_some()).count();
                let service = &self.services[before];
                let rng = &mut stream(self.run.seed, nth as u64);
                let times = Times::of(service.service);
                let work: Vec<u64> = messages.iter().map(|_| times.draw(rng)).collect();
                let served = Served::new(service.server)?;
                let ends = match own.on == self.first {
                    true => served.on_grid(&messages, &work, self.begin),
                    false => served.anywhere(&messages, &work),
                };
                let late = service.server.period.ns().saturating_add(service.late.ns());
                return Ok(ends
                    .into_iter()
                    .zip(messages)
                    .map(|(end, (_, own))| (end.saturating_add(late), own))
                    .collect());
            }
            PathStage::Tokens(stage) => {
                if let Some(rate) = stage.others.filter(|rate| !rate.is_zero()) {
                    messages = self.with_others(messages, rate, nth);
                }
                Waypoint::Tokens(stage.bucket, Duration::ZERO)
            }
            PathStage::Interface(stage) => Waypoint::Tokens(stage.bucket, stage.bound),
            PathStage::Broker(stage) => Waypoint::Drawn(stage.times()),
            PathStage::Link(stage) => Waypoint::Drawn(stage.times()),
        };
        let between = Between { by: vec![by], ..Between::default() };
        let mut passage = Passage::new(&between, &[], self.run.seed, nth as u64);
        Ok(messages.into_iter().map(|(at, own)| (passage.pass(at, &mut |_, _| ()), own)).collect())
    }

    /// Those that come from elsewhere, too, as long as messages of the path do.
    fn with_others(&self, messages: Vec<Message>, rate: Rate, nth: usize) -> Vec<Message> {
        let rng = &mut stream(self.run.seed, u64::MAX - 1 - nth as u64);
        let (mean, mut all) = (mean(rate), Vec::with_capacity(2 * messages.len()));
        let mut next = exponential(mean, rng);
        for own in messages {
            while next <= own.0 {
                all.push((next, false));
                next = next.saturating_add(exponential(mean, rng).max(1));
            }
            all.push(own);
        }
        all
    }
}

/// Times, and the probability up to each.
struct Times(Vec<(u64, f64)>);

impl Times {
    fn of(service: &ServiceTime) -> Times {
        let up_to = |sum: &mut f64, (time, p): (Duration, f64)| {
            *sum += p;
            Some((time.ns(), *sum))
        };
        Times(service.bound().into_iter().scan(0.0, up_to).collect())
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> u64 {
        let drawn: f64 = rng.random_range(0.0..1.0);
        let nth = self.0.partition_point(|(_, up_to)| *up_to <= drawn);
        self.0[nth.min(self.0.len() - 1)].0
    }
}

/// A budget at the end of each period.
struct Served {
    period: u64,
    budget: u64,
}

impl Served {
    fn new(server: Interface) -> Result<Served, Error> {
        let (period, budget) = (server.period.ns(), server.budget.ns());
        match budget > 0 && budget <= period {
            true => Ok(Served { period, budget }),
            false => Err(none()),
        }
    }

    /// What it gives in a time from the beginning of a period on.
    fn supply(&self, time: u64) -> u64 {
        time / self.period * self.budget + (time % self.period).saturating_sub(self.period - self.budget)
    }

    /// The least time in which it gives so much, more than nothing.
    fn takes(&self, work: u64) -> u64 {
        let whole = (work - 1) / self.budget;
        whole * self.period + (self.period - self.budget) + (work - whole * self.budget)
    }

    /// Where a period begins `begin` before all times.
    fn on_grid(&self, messages: &[Message], work: &[u64], begin: u64) -> Vec<u64> {
        let begin = begin % self.period;
        let mut done = 0;
        let end = |((at, _), work): (&Message, &u64)| {
            done = self.supply(at.saturating_add(begin)).max(done) + work;
            self.takes(done) - begin
        };
        messages.iter().zip(work).map(end).collect()
    }

    /// Wherever periods begin: of all times since which it may have been busy the one from which a message is done last.
    fn anywhere(&self, messages: &[Message], work: &[u64]) -> Vec<u64> {
        let mut ends: Vec<u64> = Vec::with_capacity(messages.len());
        // Whatever was before this one was done when it came.
        let mut idle = 0;
        for (nth, (at, _)) in messages.iter().enumerate() {
            if ends.last().is_none_or(|end| end <= at) {
                idle = nth;
            }
            let (mut sum, mut end) = (0, 0);
            for since in (idle..=nth).rev() {
                sum += work[since];
                end = end.max(messages[since].0 + self.takes(sum));
            }
            ends.push(end);
        }
        ends
    }
}

/// So many messages of the path come until a queue has forgotten that it was empty.
///
/// A stage's queue forgets in 2 λ E[S²] / (1 − ρ)² on average in heavy traffic (the relaxation time of a reflected Brownian
/// motion), S being the time that a message takes of the stage when it has nothing else to do. Several such times are taken, of
/// all stages; an argument, no proof.
pub fn settling(through: &[PathStage], services: &[Alone<'_>], rate: Rate) -> f64 {
    let own = rate.per_ns();
    let (mut all, mut served, mut time) = (own, services.iter(), 0.0);
    let of_bucket = |bucket: &Bucket, all: f64| relaxation(all, 1.0 / bucket.rate.per_ns(), 0.0);
    for stage in through {
        time += match stage {
            PathStage::Service(_) => served.next().map_or(0.0, |one| {
                let share = one.server.budget.ns() as f64 / one.server.period.ns().max(1) as f64;
                let bound = one.service.bound();
                let mean: f64 = bound.iter().map(|(time, p)| time.ns() as f64 * p).sum();
                let square: f64 = bound.iter().map(|(time, p)| (time.ns() as f64).powi(2) * p).sum();
                relaxation(all, mean / share, square / (mean * mean) - 1.0)
            }),
            PathStage::Tokens(stage) => {
                all += stage.others.map_or(0.0, Rate::per_ns);
                of_bucket(&stage.bucket, all)
            }
            PathStage::Interface(stage) => of_bucket(&stage.bucket, all),
            PathStage::Broker(_) | PathStage::Link(_) => 0.0,
        };
    }
    TIMES * time * own
}

/// Relaxation times that are taken.
const TIMES: f64 = 4.0;

/// Of messages that come so often and take `mean` on average, with that squared coefficient of variation; without end where they
/// are more than can be served.
fn relaxation(often: f64, mean: f64, variation: f64) -> f64 {
    let free = 1.0 - often * mean;
    if free <= 0.0 {
        return f64::INFINITY;
    }
    2.0 * often * mean * mean * (1.0 + variation.max(0.0)) / (free * free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::simulate;
    use crate::system::{Execution, Guest, Messages, ServerSpec, Sporadic, System, To, Workload};
    use crate::trace::Observer;
    use giusto_model::{Instant, JobRecord, ServerKind, ServiceStage, Task};
    use giusto_policy::Order;

    fn served(budget: u64, period: u64) -> Served {
        Served { period, budget }
    }

    #[test]
    fn what_is_given_and_how_long_it_takes_are_inverse() {
        let one = served(3, 10);
        assert_eq!([0, 7, 8, 10, 17, 20].map(|time| one.supply(time)), [0, 0, 1, 3, 3, 6]);
        assert_eq!([1, 3, 4, 6, 7].map(|work| one.takes(work)), [8, 10, 18, 20, 28]);
        for work in 1..50 {
            let time = one.takes(work);
            assert_eq!((one.supply(time), one.supply(time - 1)), (work, work - 1));
        }
    }

    /// Ends of messages of a deferrable server beside one that takes all it can get.
    fn beside(messages: &[Message], work: u64, own: (u64, u64), other: Option<(u64, u64)>) -> Vec<u64> {
        let server = |(budget, period): (u64, u64), workload| ServerSpec {
            kind: ServerKind::Deferrable,
            budget: Duration::from_ns(budget),
            period: Duration::from_ns(period),
            first: Duration::ZERO,
            priority: 0,
            vcpus: 1,
            workload,
        };
        let task = Task::sporadic("message", Duration::from_ns(1), Duration::from_ns(own.1));
        let execution = Execution::Samples([work].into());
        let workload = Workload { tasks: vec![task], guest: Guest::Fifo, execution, sporadic: Sporadic::Messages };
        let arrivals = messages.iter().map(|(at, _)| (Instant::from_ns(*at), To { server: 0, task: 0 })).collect();
        let messages = Messages { arrivals, ..Messages::default() };
        let mut servers = vec![server(own, Some(workload))];
        servers.extend(other.map(|other| server(other, None)));
        let system = System { messages, ..System::new(Order::Edf, servers) };
        struct Ends(Vec<u64>);
        impl Observer for Ends {
            fn job(&mut self, _: usize, job: &JobRecord) -> Result<(), Error> {
                self.0.extend(job.finish.map(Instant::ns));
                Ok(())
            }
        }
        let mut ends = Ends(Vec::new());
        simulate(&system, Duration::from_ns(4_000_000), 1, &mut ends).unwrap();
        ends.0
    }

    #[test]
    fn beside_others_a_message_is_a_period_later_at_most_and_more_than_that_beyond_a_server_of_its_own() {
        let mut rng = stream(5, 1);
        let mut beyond = 0;
        for _ in 0..400 {
            // Of another the rest, in short periods: it is before whatever comes late in a long one.
            let period = 1_000 * rng.random_range(4..30);
            let budget = period / rng.random_range(4..10);
            let other = period / rng.random_range(3..12);
            let company = (other * rng.random_range(30..70) / 100, other);
            let work = rng.random_range(budget / 2..3 * budget);
            let mut at = 0;
            let messages: Vec<Message> = (0..20)
                .map(|_| {
                    at += rng.random_range(0..8 * period);
                    (at, true)
                })
                .collect();
            let one = served(budget, period);
            let ends = beside(&messages, work, (budget, period), Some(company));
            let alone = beside(&messages, work, (budget, period), None);
            let sure = one.on_grid(&messages, &[work; 20], 0);
            assert_eq!(ends.len(), 20);
            for ((end, alone), sure) in ends.iter().zip(alone).zip(sure) {
                assert!(*end <= sure + period, "{end} beyond {sure} and {period}: {budget} {work} {company:?}");
                beyond += u32::from(*end > alone + period);
            }
        }
        assert!(beyond > 0, "none was more than a period later than on a server of its own");
    }

    #[test]
    fn a_service_of_another_host_is_at_the_worst_place() {
        let on = |service: &str, on: &str| {
            let (service, on) = (service.to_string(), on.to_string());
            PathStage::Service(ServiceStage { service, on, link: None, branch: None })
        };
        let service = ServiceTime::Constant { time: Duration::from_us(900) };
        let alone = |period| Alone {
            server: Interface { budget: Duration::from_ms(1), period: Duration::from_ms(period) },
            late: Duration::ZERO,
            service: &service,
        };
        let services = [alone(10), alone(7)];
        let run = AloneRun { rate: "30/s".parse().unwrap(), before: 50, counted: 500, seed: 4 };
        let near = play_alone(&[on("a", "edge-1"), on("b", "edge-1")], &services, &run).unwrap();
        let far = play_alone(&[on("a", "edge-1"), on("b", "edge-2")], &services, &run).unwrap();
        assert!(near.iter().zip(&far).all(|(near, far)| near <= far));
        assert!(near.iter().zip(&far).filter(|(near, far)| near < far).count() > 400);
    }

    #[test]
    fn wherever_periods_begin_it_is_no_later_than_at_the_worst_place() {
        let mut rng = stream(3, 1);
        for _ in 0..500 {
            let period = rng.random_range(2..60);
            let one = served(rng.random_range(1..=period), period);
            let mut at = 0;
            let messages: Vec<Message> = (0..30)
                .map(|_| {
                    at += rng.random_range(0..2 * period);
                    (at, true)
                })
                .collect();
            let work: Vec<u64> = (0..30).map(|_| rng.random_range(1..2 * one.budget + 1)).collect();
            let worst = one.anywhere(&messages, &work);
            let mut reached = vec![0; 30];
            for begin in 0..period {
                for (nth, (end, worst)) in one.on_grid(&messages, &work, begin).iter().zip(&worst).enumerate() {
                    assert!(end <= worst, "{begin}: {end} {worst}");
                    reached[nth] = reached[nth].max(*end);
                }
            }
            // The first one finds it.
            assert_eq!(reached[0], worst[0]);
        }
    }
}
