//! A topic's promise: the law of the wait for tokens, by another way than the planner's, and what its brokers carry.

use super::broken::Broken;
use super::excess::{first_and_after, Counted, LEFT_OUT};
use giusto_model::{Bucket, Duration, PathPart, Plan, Rate, TopicLimit, TopicPlan, Within};
use serde::Serialize;
use std::collections::BTreeSet;

/// A topic that keeps its promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedTopic {
    /// Its name.
    pub name: String,
    /// How many brokers carry it.
    pub brokers: usize,
    /// What is proven of its latency.
    pub predicted: Vec<Within>,
}

/// Longer queues are not looked at: it would take more than some seconds.
const LONGEST: usize = 8000;
/// Time beyond d is summed up by steps of so much of a token's time, and so small that no more than 0.4 % of the sum is added.
const STEP: f64 = 1.0 / 16.0;
const STEP_OF_DECAY: f64 = 0.008;
/// What probabilities may differ by, as times are rounded to a ns.
const ROUNDED: f64 = 1e-6;

pub(super) fn check(plan: &Plan, topic: &TopicPlan) -> Result<CheckedTopic, Broken> {
    let named = |broken: Broken| Broken { what: format!("topic '{}': {}", topic.name, broken.what), ..broken };
    one(plan, topic).map_err(named)
}

fn one(plan: &Plan, topic: &TopicPlan) -> Result<CheckedTopic, Broken> {
    let brokers: BTreeSet<&String> = topic.brokers.iter().collect();
    if brokers.is_empty() || brokers.len() != topic.brokers.len() {
        return Err(Broken::new("brokers, each once", topic.brokers.len().max(1), brokers.len()));
    }
    if topic.bucket.share(topic.brokers.len() as u32) != Some(topic.share) {
        return Err(Broken::new("shares that make the bucket", topic.bucket, topic.share));
    }
    room(plan, topic)?;
    let law = Law::new(topic)?;
    let delayed = law.later(0.0);
    if f64::from(topic.delayed_ppm) + 1.0 < 1e6 * delayed {
        return Err(Broken::new("millionths of its messages that wait", (1e6 * delayed).ceil(), topic.delayed_ppm));
    }
    if topic.predicted.len() != topic.promise.len() {
        return Err(Broken::new("one prediction a promise", topic.promise.len(), topic.predicted.len()));
    }
    for (promised, predicted) in topic.promise.iter().zip(&topic.predicted) {
        if promised.percentile != predicted.percentile || predicted.within > promised.within {
            return Err(Broken::new("its promise", promised, predicted));
        }
        holds(topic, &law, predicted)?;
    }
    Ok(CheckedTopic { name: topic.name.clone(), brokers: topic.brokers.len(), predicted: topic.predicted.clone() })
}

/// What its brokers carry, with all topics; those of the hosts that the plan is for.
fn room(plan: &Plan, topic: &TopicPlan) -> Result<(), Broken> {
    let Some(measured) = &topic.measured else { return Ok(()) };
    let beyond = || Broken::new("messages of its broker", measured.capacity, "more than 64 bits");
    for broker in topic.brokers.iter().filter(|broker| plan.hosts.iter().any(|host| host.name == **broker)) {
        let mut load: Option<Rate> = None;
        for other in plan.topics.iter().filter(|other| other.brokers.contains(broker)) {
            let messages = other.arrivals.rate.times(other.arrivals.batch);
            let part = messages.and_then(|all| all.share(other.brokers.len() as u32)).ok_or_else(beyond)?;
            load = Some(load.map_or(Some(part), |load| load.plus(part)).ok_or_else(beyond)?);
        }
        if let Some(load) = load.filter(|load| *load > measured.capacity) {
            return Err(Broken::new(format!("messages that {broker} can carry"), load, measured.capacity));
        }
    }
    Ok(())
}

/// Whether so many messages are in time: those that are late at the broker, and those that wait for long, are few enough
/// together.
fn holds(topic: &TopicPlan, law: &Law, claim: &Within) -> Result<(), Broken> {
    let late = 1.0 - claim.percentile.percent() / 100.0;
    let time = claim.within.ns() as f64;
    let ways: Vec<(f64, f64)> = match &topic.measured {
        None => vec![(0.0, 0.0)],
        Some(measured) => {
            let way = |point: &Within| (1.0 - point.percentile.percent() / 100.0, point.within.ns() as f64);
            measured.latency.iter().map(way).filter(|(_, broker)| *broker <= time).collect()
        }
    };
    let mut least = 1.0_f64;
    for (at_broker, broker) in ways {
        least = least.min(at_broker + law.later(time - broker));
    }
    match least <= late + ROUNDED {
        true => Ok(()),
        false => Err(Broken::new(
            format!("of its messages are later than {}, at most", claim.within),
            format!("{:.4} %", 100.0 * late),
            format!("{:.4} %", 100.0 * least),
        )),
    }
}

/// Batches at one broker, served in one unit of time each: M/D/1 by the number of those that are there.
struct Law {
    load: f64,
    batch: u32,
    depth: f64,
    /// Tokens a ns.
    rate: f64,
    /// P(so many batches or fewer are there), from 0.
    there: Vec<f64>,
}

impl Law {
    fn new(topic: &TopicPlan) -> Result<Law, Broken> {
        // At delivery one token of each share may be on its way to a socket.
        let taken = if topic.limit == TopicLimit::Delivery { 1.0 } else { 0.0 };
        let (batch, depth) = (topic.arrivals.batch, topic.share.depth.as_f64() - taken);
        let rate = topic.share.rate.per_ns();
        let load = topic.arrivals.rate.per_ns() / topic.brokers.len() as f64 * f64::from(batch) / rate;
        if !(load > 0.0 && load < 1.0 && depth >= 1.0) {
            return Err(Broken::new("a bucket with more tokens than messages, and one at least", "load below 1", load));
        }
        let longest = topic.predicted.iter().map(|claim| claim.within.ns()).max().unwrap_or(0);
        Law::up_to(load, (batch, depth), rate, longest as f64)
    }

    /// For times up to `longest`, in ns.
    fn up_to(load: f64, (batch, depth): (u32, f64), rate: f64, longest: f64) -> Result<Law, Broken> {
        let most = (depth + rate * longest) / f64::from(batch);
        if most >= LONGEST as f64 {
            return Err(Broken::new("a queue that can be looked at", format!("{LONGEST} batches"), most.ceil()));
        }
        Ok(Law { load, batch, depth, rate, there: numbers(load, most as usize + 3) })
    }

    /// The part of messages that wait for more than `time` ns.
    fn later(&self, time: f64) -> f64 {
        let mut sum = 0.0;
        for place in 1..=self.batch {
            let x = (self.depth - f64::from(place) + self.rate * time) / f64::from(self.batch);
            sum += if x < 0.0 { 1.0 } else { 1.0 - self.within(x) };
        }
        sum / f64::from(self.batch)
    }

    /// P(W ≤ x) in M/D/1 (Franx, Operations Research Letters 29, 2001, for one server): after the k-th end of a service from
    /// now on, k − 1 ≤ x < k, those that are waiting came later than x ago. All terms are positive.
    fn within(&self, x: f64) -> f64 {
        let k = x as usize + 1;
        let mean = self.load * (k as f64 - x);
        let (mut term, mut sum) = ((-mean).exp(), 0.0);
        for j in 0..k {
            sum += self.there[k - j] * term;
            term *= mean / (j + 1) as f64;
        }
        sum
    }
}

/// Of messages of a path that wait for tokens with others, of which `often` come, in 1/ns: P(W > d) + (λ/x)·E(W − d)⁺.
pub(super) fn late(bucket: Bucket, part: &PathPart, often: f64, counted: Counted) -> Result<f64, Broken> {
    let (rate, depth, load) = stable(bucket, often)?;
    let claimed = f64::from(part.beyond_ppb) / 1e9;
    let Counted { once, each } = counted;
    let d = part.within.ns() as f64;
    let decay = decay(load);
    let step = STEP.min(STEP_OF_DECAY / decay) / rate;
    // Beyond that hardly any message is later.
    let tokens = (claimed * LEFT_OUT / (1.0 + each / rate / decay)).max(1e-14).ln() / -decay;
    let longest = d + (tokens + 2.0) / rate;
    let law = Law::up_to(load, (1, depth), rate, longest + step * 100.0)?;
    let all = first_and_after(d, step, (each, claimed), |times| {
        times.iter().map(|time| if *time > longest { 0.0 } else { law.later(*time) }).collect()
    })?;
    Ok(if once { all } else { (all - law.later(d)).max(0.0) })
}

/// Tokens in a ns, how many are kept, and the load.
fn stable(bucket: Bucket, often: f64) -> Result<(f64, f64, f64), Broken> {
    let (rate, depth) = (bucket.rate.per_ns(), bucket.depth.as_f64());
    let load = often / rate;
    match load > 0.0 && load < 1.0 - 1e-6 && depth >= 1.0 {
        true => Ok((rate, depth, load)),
        false => Err(Broken::new("more tokens than messages, and one at least", "load below 1", load)),
    }
}

/// Of messages of which `often` come in a ns, and all of a time `at_once` in ns may come at once, what finds no token: those that
/// came before that time have taken some of the depth, by the law of the wait for tokens in a bucket of what the others leave.
pub(super) fn dropped(bucket: Bucket, often: f64, at_once: f64) -> Result<f64, Broken> {
    let (rate, depth, load) = stable(bucket, often)?;
    let mean = often * at_once;
    let law = Law::up_to(load, (1, depth), rate, 0.0)?;
    // The logarithm of a probability of many messages that the probability of none is too small for.
    let (mut log, mut sum, mut rest, mut left) = (-mean, 0.0, 1.0_f64, depth - 1.0);
    let mut count = 0.0;
    while left >= 0.0 {
        let p = log.exp();
        sum += p * (1.0 - law.within(left));
        (rest, left, count) = (rest - p, left - 1.0, count + 1.0);
        log += (mean / count).ln();
    }
    Ok(sum + rest.max(0.0))
}

/// The same sum of the slowest law that has these percentiles and is nowhere beyond `worst`, whatever comes.
pub(super) fn measured(latency: &[Within], worst: Duration, part: &PathPart, counted: Counted) -> f64 {
    let once = if counted.once { 1.0 } else { 0.0 };
    let (mut below, mut late) = (0.0, 0.0);
    for (time, up_to) in latency.iter().map(|one| (one.within, one.percentile.percent() / 100.0)).chain([(worst, 1.0)])
    {
        if time > part.within {
            late += (up_to - below) * (once + counted.each * (time.ns() - part.within.ns()) as f64);
        }
        below = up_to;
    }
    late
}

/// A θ with P(U > x) ≤ e^(−θx) in M/D/1, in units of the service time: the root of ρ(e^θ − 1) = θ, by halving from below.
fn decay(load: f64) -> f64 {
    let (mut low, mut high) = (0.0, 2.0 - 2.0 * load.ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *(if load * f64::exp_m1(middle) <= middle { &mut low } else { &mut high }) = middle;
    }
    low
}

/// P(N ≤ n) for n below `count`, by equal crossings of each level, up by arrivals in a service and down by its end. O(count²).
fn numbers(load: f64, count: usize) -> Vec<f64> {
    // More than n arrivals in a service.
    let mut more = Vec::new();
    let (mut term, mut sum) = ((-load).exp(), 0.0);
    for n in 0..count {
        sum += term;
        more.push((1.0_f64 - sum).max(0.0));
        term *= load / (n + 1) as f64;
    }
    let mut at = vec![1.0 - load];
    for n in 0..count - 1 {
        let crossed = at[0] * more[n] + (1..=n).map(|k| at[k] * more[n + 1 - k]).sum::<f64>();
        at.push(crossed / (-load).exp());
    }
    at.iter()
        .scan(0.0, |sum, p| {
            *sum += p;
            Some(*sum)
        })
        .collect()
}
