//! Messages of a path played for its certificate, by code of its own: window by window, token by token (docs/decisions/0066).

use super::broken::Broken;
use super::route::{Server, Stage};
use giusto_model::{Bucket, Duration, PathPlan, PathStage, Rate, Steps, Within};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A message at a stage: when it is there, and whether it is one of the path.
#[derive(Clone, Copy)]
struct Message {
    at: u64,
    is_own: bool,
}

/// A run in which so many messages come before those that count.
pub(super) struct Run<'a> {
    pub(super) path: &'a PathPlan,
    pub(super) stages: &'a [Stage<'a>],
    pub(super) rate: Rate,
    pub(super) before: usize,
    pub(super) counted: usize,
    pub(super) seed: u64,
}

impl Run<'_> {
    /// What the counted ones took, ns.
    pub(super) fn took(&self) -> Result<Vec<u64>, Broken> {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed);
        let mut came = Vec::new();
        let mut now = 0;
        for _ in 0..self.before + self.counted {
            now += pause(self.rate, rng);
            came.push(now);
        }
        // Grids of the first host begin at multiples of their periods, and the run somewhere.
        let begin = rng.random_range(0..1u64 << 43);
        let first = self.path.through.iter().find(|stage| stage.service().is_some()).map(PathStage::on);
        let steps = Steps::of(&self.path.through);
        let mut left: Vec<Vec<Message>> = Vec::new();
        for (nth, stage) in self.stages.iter().enumerate() {
            let before = steps.before(nth);
            let mut there: Vec<Message> = match &before[..] {
                [] => came.iter().map(|at| Message { at: *at, is_own: true }).collect(),
                ends => met(&left, ends),
            };
            let through = &self.path.through[nth];
            let link = through.link().unwrap_or(Duration::ZERO).ns();
            there.iter_mut().for_each(|message| message.at += link);
            match stage {
                Stage::Service(server) => {
                    let begin = Some(begin).filter(|_| first == Some(through.on()));
                    serve(server, begin, &mut there, rng)?;
                }
                Stage::Tokens(tokens) => {
                    if let Some(rate) = tokens.others {
                        bring(&mut there, rate, rng);
                    }
                    wait(tokens.bucket, 0, &mut there);
                }
                Stage::Interface(interface) => wait(interface.bucket, interface.bound.ns(), &mut there),
                Stage::Broker(broker) => draw(&broker.latency, broker.worst, &mut there, rng),
                Stage::Link(link) => draw(&link.latency, link.worst, &mut there, rng),
                Stage::Elsewhere => return Err(Broken::new("all stages of it", "here", through)),
            }
            left.push(there);
        }
        let ends: Vec<usize> = (0..self.stages.len()).filter(|nth| steps.after(*nth).is_empty()).collect();
        let ends = met(&left, &ends).into_iter().filter(|message| message.is_own);
        Ok(ends.zip(&came).skip(self.before).map(|(end, came)| end.at - came).collect())
    }
}

/// Copies of each message, the latest of which counts.
fn met(left: &[Vec<Message>], ends: &[usize]) -> Vec<Message> {
    let mut all = left[ends[0]].clone();
    for end in &ends[1..] {
        all.iter_mut().zip(&left[*end]).for_each(|(one, other)| one.at = one.at.max(other.at));
    }
    all
}

fn pause(rate: Rate, rng: &mut ChaCha8Rng) -> u64 {
    let drawn: f64 = rng.random_range(0.0..1.0);
    (-(1.0 - drawn).ln() / rate.per_ns()).ceil() as u64
}

/// Each takes one of the service's times, from the windows at the ends of periods; what comes late, and a period, is added.
fn serve(server: &Server, begin: Option<u64>, there: &mut [Message], rng: &mut ChaCha8Rng) -> Result<(), Broken> {
    let (period, budget) = (server.period, server.budget);
    if budget == 0 || budget > period {
        return Err(Broken::new("a budget within its period", period, budget));
    }
    let times = server.service.bound();
    let mut drawn = || {
        let (mut rest, mut time) = (rng.random_range(0.0..1.0), 0);
        for (one, p) in &times {
            time = one.ns();
            rest -= p;
            if rest < 0.0 {
                break;
            }
        }
        time
    };
    let late = period + server.latency;
    match begin {
        Some(begin) => {
            let (begin, mut free) = (begin % period, 0u64);
            for message in there.iter_mut() {
                free = through_windows(free.max(message.at + begin), drawn(), (period, budget));
                message.at = free - begin + late;
            }
        }
        None => {
            // Busy since one of these, with so much work: the window before has just gone.
            let mut busy: Vec<(u64, u64)> = Vec::new();
            let mut last = 0;
            for message in there.iter_mut() {
                if last <= message.at {
                    busy.clear();
                }
                busy.push((message.at, 0));
                let work = drawn();
                last = 0;
                for (since, sum) in &mut busy {
                    *sum += work;
                    last = last.max(*since + through_windows(0, *sum, (period, budget)));
                }
                message.at = last + late;
            }
        }
    }
    Ok(())
}

/// When so much work is done that begins at `now`, where the last `budget` of each period is there for it.
fn through_windows(now: u64, work: u64, (period, budget): (u64, u64)) -> u64 {
    let (mut now, mut work) = (now, work);
    loop {
        let end = (now / period + 1) * period;
        now = now.max(end - budget);
        if work <= end - now {
            return now + work;
        }
        work -= end - now;
        now = end;
    }
}

/// Those of others, until the last of the path has come.
fn bring(there: &mut Vec<Message>, rate: Rate, rng: &mut ChaCha8Rng) {
    let end = there.last().map_or(0, |message| message.at);
    let mut now = pause(rate, rng);
    while now < end {
        there.push(Message { at: now, is_own: false });
        now += pause(rate, rng);
    }
    there.sort_by_key(|message| message.at);
}

/// Each takes a token, when there is one, and then so long.
fn wait(bucket: Bucket, then: u64, there: &mut [Message]) {
    let (rate, depth) = (bucket.rate.per_ns(), bucket.depth.as_f64());
    let (mut tokens, mut last) = (depth, 0.0f64);
    for message in there {
        let now = last.max(message.at as f64);
        tokens = (tokens + (now - last) * rate).min(depth);
        let waits = if tokens < 1.0 { (1.0 - tokens) / rate } else { 0.0 };
        (tokens, last) = (tokens.max(1.0) - 1.0, now + waits);
        message.at = (last.ceil() as u64).max(message.at) + then;
    }
}

/// The slowest times with these percentiles, none before the one in front of it.
fn draw(latency: &[Within], worst: Duration, there: &mut [Message], rng: &mut ChaCha8Rng) {
    let mut last = 0;
    for message in there {
        let percent = 100.0 * rng.random_range(0.0..1.0);
        let within = latency.iter().find(|one| percent < one.percentile.percent()).map_or(worst, |one| one.within);
        last = last.max(message.at + within.ns());
        message.at = last;
    }
}

/// So many messages until queues have forgotten how a run began: four relaxation times of each stage (heavy traffic).
pub(super) fn forgotten(path: &PathPlan, stages: &[Stage], rate: Rate) -> f64 {
    let mut often = rate.per_ns();
    let mut sum = 0.0;
    for (stage, through) in stages.iter().zip(&path.through) {
        if let PathStage::Tokens(tokens) = through {
            often += tokens.others.map_or(0.0, Rate::per_ns);
        }
        let (first, second) = match stage {
            Stage::Service(server) => {
                let slower = server.period as f64 / server.budget.max(1) as f64;
                let moment = |power| -> f64 {
                    server.service.bound().iter().map(|(time, p)| (time.ns() as f64 * slower).powi(power) * p).sum()
                };
                (moment(1), moment(2))
            }
            Stage::Tokens(tokens) => (1.0 / tokens.bucket.rate.per_ns(), tokens.bucket.rate.per_ns().powi(-2)),
            Stage::Interface(own) => (1.0 / own.bucket.rate.per_ns(), own.bucket.rate.per_ns().powi(-2)),
            Stage::Broker(_) | Stage::Link(_) | Stage::Elsewhere => continue,
        };
        let idle = 1.0 - often * first;
        sum += if idle > 0.0 { 8.0 * often * second / (idle * idle) } else { f64::INFINITY };
    }
    sum * rate.per_ns()
}
