//! Topics: on how few brokers, with which token bucket, and what latency that makes.

use super::refusal::{self, TopicCause, TopicFit, TopicRefusal};
use crate::words::{reason, time};
use giusto_analysis::bucket::{wait, BucketError, Wait};
use giusto_analysis::Error;
use giusto_model::{
    Arrivals, BrokerTimes, Bucket, Duration, Percentile, Rate, Reason, Tokens, Topic, TopicLimit, TopicPlan, Within,
};
use std::collections::BTreeMap;

/// Tokens come by this part more often than messages, by default: as in [LiC20, section 2.2.1]. Eleven tenths.
const HEADROOM: (u32, u32) = (11, 10);
/// The deepest bucket that is tried.
const DEEPEST: u64 = 1 << 32;

/// What a host's broker carries already, and the least that any topic there says of it.
#[derive(Clone, Copy, Default)]
struct Carried {
    load: Option<Rate>,
    capacity: Option<Rate>,
}

impl Carried {
    /// With a part of another topic; `None` if that is too much.
    fn with(self, part: Rate, capacity: Option<Rate>) -> Option<Carried> {
        let load = self.load.map_or(Some(part), |load| load.plus(part))?;
        let capacity = self.capacity.into_iter().chain(capacity).min();
        capacity.is_none_or(|capacity| load <= capacity).then_some(Carried { load: Some(load), capacity })
    }
}

/// Plans topic after topic: each on as few of its brokers as can carry it, since splitting a bucket makes messages wait, and
/// among those with room on the least loaded. O(topics · brokers² log brokers), and some ms of analysis a topic.
pub(crate) fn plan(topics: &[Topic]) -> Result<Vec<TopicPlan>, Box<TopicRefusal>> {
    let mut carried = BTreeMap::new();
    topics.iter().map(|topic| one(topic, &mut carried)).collect()
}

fn one<'a>(topic: &'a Topic, carried: &mut BTreeMap<&'a str, Carried>) -> Result<TopicPlan, Box<TopicRefusal>> {
    let refused = |cause, nearest| Box::new(TopicRefusal { topic: topic.name.clone(), cause, nearest });
    let failed = |why: Error| refused(TopicCause::Analysis(why), Vec::new());
    let arrivals = topic.arrivals().ok_or_else(|| failed(Error::Range))?;
    let messages = topic.messages().ok_or_else(|| failed(Error::Range))?;
    let Some(brokers) = fewest(topic, messages, carried) else {
        let nearest = refusal::more_room(topic, |topic| Some(fewest(topic, topic.messages()?, carried)?.len()));
        return Err(refused(TopicCause::Capacity { messages, brokers: topic.brokers.len() }, nearest));
    };
    let count = brokers.len() as u32;
    let part = messages.share(count).ok_or_else(|| failed(Error::Range))?;
    for broker in &brokers {
        let broker = carried.entry(broker).or_default();
        *broker = broker.with(part, capacity(topic)).ok_or_else(|| failed(Error::Range))?;
    }
    let question = Question { topic, arrivals, brokers: count };
    if let Some((promised, best)) = question.too_slow() {
        let nearest = vec![TopicFit::Promise(Within { within: best, ..promised })];
        return Err(refused(TopicCause::Broker { promised, best }, nearest));
    }
    let headroom = messages.times(HEADROOM.0).and_then(|rate| rate.share(HEADROOM.1));
    let (bucket, why) = match topic.bucket {
        Some(bucket) => (bucket, "from the site".to_string()),
        None => {
            let rate = headroom.ok_or_else(|| failed(Error::Range))?;
            let depth = question.least_depth(rate).map_err(failed)?;
            (
                Bucket { rate, depth },
                "the least depth that keeps the promise with 10 % more tokens than messages".into(),
            )
        }
    };
    let nearest = || question.nearest(bucket, headroom);
    let (waits, predicted) =
        question.answer(bucket).map_err(|why| refused(TopicCause::Bucket { bucket, why }, nearest()))?;
    if let Some((promised, found)) =
        topic.promise.iter().zip(&predicted).find(|(promised, found)| found.within > promised.within)
    {
        let mut nearest = nearest();
        nearest.push(TopicFit::Promise(*found));
        return Err(refused(TopicCause::Wait { bucket, promised: *promised, predicted: found.within }, nearest));
    }
    let brokers: Vec<String> = brokers.into_iter().map(String::from).collect();
    let share = bucket.share(count).ok_or_else(|| failed(Error::Range))?;
    let reasons = reasons(topic, messages, &brokers, (bucket, share, why), &waits, &predicted);
    Ok(TopicPlan {
        name: topic.name.clone(),
        arrivals,
        promise: topic.promise.clone(),
        brokers,
        service: topic.service.clone(),
        limit: topic.limit,
        bucket,
        share,
        measured: topic.measured.clone(),
        delayed_ppm: (waits.delayed * 1e6).ceil() as u32,
        predicted,
        reasons,
    })
}

fn capacity(topic: &Topic) -> Option<Rate> {
    topic.measured.as_ref().map(|measured| measured.capacity)
}

/// The fewest brokers that carry equal parts of it, in the order of the site.
fn fewest<'a>(topic: &'a Topic, messages: Rate, carried: &BTreeMap<&str, Carried>) -> Option<Vec<&'a str>> {
    let so_far = |broker: &str| carried.get(broker).copied().unwrap_or_default();
    (1..=topic.brokers.len()).find_map(|count| {
        let part = messages.share(u32::try_from(count).ok()?)?;
        let mut room: Vec<&str> = topic.brokers.iter().map(String::as_str).collect();
        room.retain(|broker| so_far(broker).with(part, capacity(topic)).is_some());
        room.sort_by_key(|broker| so_far(broker).load);
        room.truncate(count);
        room.sort_by_key(|broker| topic.brokers.iter().position(|other| other == broker));
        (room.len() == count).then_some(room)
    })
}

/// A topic on so many brokers.
struct Question<'a> {
    topic: &'a Topic,
    arrivals: Arrivals,
    brokers: u32,
}

impl Question<'_> {
    /// For one percentile of the whole: percentiles of the wait for a token, and what the broker adds to each. A part of
    /// messages is late at the broker, another waits for long, and both together are no more than what p leaves out.
    fn parts(&self, p: Percentile) -> Vec<(Percentile, Duration)> {
        let Some(BrokerTimes { latency, .. }) = &self.topic.measured else { return vec![(p, Duration::ZERO)] };
        latency.iter().filter_map(|point| Some((p.beside(point.percentile)?, point.within))).collect()
    }

    /// The first promise that is not kept even if no message waits for a token, and what would be.
    fn too_slow(&self) -> Option<(Within, Duration)> {
        self.topic.promise.iter().find_map(|promised| {
            let best = self.parts(promised.percentile).into_iter().map(|(_, broker)| broker).min()?;
            (best > promised.within).then_some((*promised, best))
        })
    }

    /// How long messages wait with `bucket`, and what follows for each percentile that is promised.
    fn answer(&self, bucket: Bucket) -> Result<(Wait, Vec<Within>), Error> {
        let all: Vec<(Within, Percentile, Duration)> = (self.topic.promise.iter())
            .flat_map(|promised| self.parts(promised.percentile).into_iter().map(|(p, broker)| (*promised, p, broker)))
            .collect();
        let percentiles: Vec<Percentile> = all.iter().map(|(_, p, _)| *p).collect();
        let (depth, shares) = (bucket.depth, self.brokers);
        let free = self.topic.limit.free(bucket, shares).filter(|free| free.depth >= Tokens::whole(shares.into()));
        let free = match self.topic.limit {
            TopicLimit::Publishing => bucket, // what is wrong with it is told by the law
            TopicLimit::Delivery => free.ok_or(BucketError::OnTheWay { depth, shares })?,
        };
        let waits = wait(self.arrivals, free, shares, &percentiles)?;
        let predicted = self.topic.promise.iter().map(|promised| -> Result<Within, Error> {
            let of_it = all.iter().zip(&waits.percentiles).filter(|((of, ..), _)| of == promised);
            let sums = of_it.map(|((_, _, broker), wait)| broker.checked_add(*wait).ok_or(Error::Range));
            let within = sums.collect::<Result<Vec<_>, _>>()?.into_iter().min().ok_or(Error::Range)?;
            Ok(Within { within, ..*promised })
        });
        let predicted = predicted.collect::<Result<_, _>>()?;
        Ok((waits, predicted))
    }

    /// The least whole depth that keeps the promise. O(log b) answers.
    fn least_depth(&self, rate: Rate) -> Result<Tokens, Error> {
        let enough = |depth: u64| -> Result<bool, Error> {
            let (_, predicted) = self.answer(Bucket { rate, depth: Tokens::whole(depth) })?;
            Ok(predicted.iter().zip(&self.topic.promise).all(|(found, promised)| found.within <= promised.within))
        };
        let least = match self.topic.limit {
            TopicLimit::Publishing => u64::from(self.brokers),
            TopicLimit::Delivery => 2 * u64::from(self.brokers),
        };
        let (mut low, mut high) = (least - 1, least);
        while !enough(high)? {
            (low, high) = (high, 2 * high);
            if high > DEEPEST {
                return Err(Error::Bucket(BucketError::TooDeep { most: DEEPEST }));
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            *(if enough(middle)? { &mut high } else { &mut low }) = middle;
        }
        Ok(Tokens::whole(high))
    }

    /// Buckets that would do: at the same rate, else at the planner's own.
    fn nearest(&self, bucket: Bucket, headroom: Option<Rate>) -> Vec<TopicFit> {
        let fit = |rate| Some(TopicFit::Bucket(Bucket { rate, depth: self.least_depth(rate).ok()? }));
        fit(bucket.rate).or_else(|| fit(headroom?)).into_iter().collect()
    }
}

/// What is not known of the brokers of `topic`, and what that means: what to know and to write.
pub fn unmeasured(topic: &Topic) -> Option<String> {
    (topic.measured.is_none() && topic.service.is_none()).then(|| {
        format!(
            "topic '{}': the site does not say what its brokers can do, so that its promise is about the wait for \
             tokens alone, and one broker \
             is taken to be enough; write what was measured, such as measured: {{capacity: 10k/s, latency: {{p99.9: 800us}}}}",
            topic.name
        )
    })
}

fn reasons(
    topic: &Topic,
    messages: Rate,
    brokers: &[String],
    (bucket, share, why): (Bucket, Bucket, String),
    waits: &Wait,
    predicted: &[Within],
) -> Vec<Reason> {
    let all = format!("{} publishers of {} each, in batches of {}", topic.publishers, topic.each, topic.batch);
    let few = match (&topic.measured, &topic.service) {
        (Some(BrokerTimes { capacity, .. }), _) => {
            format!("the fewest that carry it, each up to {capacity}: splitting a bucket makes messages wait (LiC20, 2.2.1)")
        }
        (None, Some(service)) => {
            format!("from the site: it is service '{service}', whose share the paths over it decide")
        }
        (None, None) => "one, as the site does not say what a broker can carry".to_string(),
    };
    let split = match topic.limit {
        TopicLimit::Delivery => {
            "what each broker sends to the consumers of each channel, by giusto-broker ('giusto export nsq')"
        }
        TopicLimit::Publishing => "what each broker lets publishers send, by giusto-broker ('giusto export nsq')",
    };
    let limit = match topic.limit {
        TopicLimit::Delivery => {
            "what enters consumers' sockets is within the bucket, over restarts and backlogs; one token of each share is on \
             its way with a message, so that the wait is that with one less; consumers are ready, and finish what they get"
        }
        TopicLimit::Publishing => {
            "what is published is within the bucket; what consumers get after a restart or from a backlog is not"
        },
    };
    let law = format!("of all messages wait for a token, {} on average over all: M/D/1 (2.1), exact", time(waits.mean));
    let mut reasons = vec![
        reason("messages", messages, all),
        reason("brokers", brokers.join(", "), few),
        reason("limit", topic.limit, limit),
        reason("bucket", bucket, why),
        reason("share", share, split),
        reason("waiting", format!("{:.3} %", 100.0 * waits.delayed), law),
    ];
    let rests = match (&topic.measured, &topic.service) {
        (Some(_), _) => "the broker's measured latency at a higher percentile, and the wait of the rest",
        (None, Some(_)) => "the wait for tokens alone: what the broker takes is part of the paths over the topic",
        (None, None) => "the wait for tokens alone: the site does not say how long the broker takes",
    };
    reasons.extend(
        predicted.iter().map(|found| reason(&format!("predicted {}", found.percentile), time(found.within), rests)),
    );
    reasons
}
