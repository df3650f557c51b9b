//! A topic as stages of a path: the tokens of its bucket, and its broker.

use super::refusal::PathCause;
use crate::refusal::Refusal;
use crate::topics;
use crate::words::reason;
use giusto_analysis::bucket::wait;
use giusto_model::{
    Arrivals, BrokerStage, Bucket, Duration, PathStage, Rate, Reason, Site, Tokens, TokensStage, Topic, TopicLimit,
    TopicPlan,
};

/// A path counts messages as more than they are from stage to stage; the depth is for so many more, in twentieths.
const MORE: (u32, u32) = (21, 20);
/// Of the messages of a path that may be late, what may wait for a token at all: those behind them wait as well.
pub(super) const WAITING: f64 = 1e-3;
const DEEPEST: u64 = 1 << 20;

/// The topics of a site, where those on the way of a path have buckets that the site leaves to the planner: so deep that hardly
/// one of its messages waits. The services behind are planned for all messages of the topic as they come, so that a deeper bucket
/// costs them nothing.
pub(super) fn deepened(site: &Site) -> Result<Vec<Topic>, Refusal> {
    let mut topics = site.topics.clone();
    let planned = topics::plan(&site.topics).map_err(Refusal::Topic)?;
    let rarest = |name: &str| {
        let through = site.paths.all.iter().filter(|path| path.topics().any(|topic| topic == name));
        let highest = through.filter_map(|path| path.points.last());
        highest.map(|point| 1.0 - point.percentile.percent() / 100.0).reduce(f64::min)
    };
    for (topic, planned) in topics.iter_mut().zip(&planned) {
        let Some(rarest) = rarest(&topic.name) else { continue };
        if topic.bucket.is_none() && planned.brokers.len() == 1 {
            topic.bucket = Some(deeper(planned, WAITING * rarest));
        }
    }
    Ok(topics)
}

/// The planned one, deeper until no more than `waiting` of the messages wait.
fn deeper(planned: &TopicPlan, waiting: f64) -> Bucket {
    let depth = depth(planned.arrivals, planned.bucket, waiting);
    // One of it may be on its way at delivery.
    let more = u64::from(depth > planned.bucket.depth.at_once());
    Bucket { depth: Tokens::whole(depth + more), ..planned.bucket }
}

/// The least depth, that of `bucket` or more, at which no more than `waiting` of the messages wait.
pub(super) fn depth(arrivals: Arrivals, bucket: Bucket, waiting: f64) -> u64 {
    let rate = arrivals.rate.times(MORE.0).and_then(|rate| rate.share(MORE.1));
    let few = |depth: u64| {
        let bucket = Bucket { depth: Tokens::whole(depth), ..bucket };
        let arrivals = rate.map(|rate| Arrivals { rate, ..arrivals });
        arrivals.and_then(|arrivals| Some(wait(arrivals, bucket, 1, &[]).ok()?.delayed <= waiting)).unwrap_or(true)
    };
    let (mut low, mut high) = (0, bucket.depth.at_once().max(1));
    while !few(high) && high < DEEPEST {
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 && low > 0 {
        let middle = low + (high - low) / 2;
        *(if few(middle) { &mut high } else { &mut low }) = middle;
    }
    high
}

/// Says where a bucket comes from that was made deeper.
pub(crate) fn said(asked: &Site, topic: &mut TopicPlan) {
    let path = asked.paths.all.iter().find(|path| path.topics().any(|name| name == topic.name));
    let own = asked.topics.iter().find(|one| one.name == topic.name && one.bucket.is_none());
    if let (Some(path), Some(_)) = (path, own) {
        let why = format!("10 % more tokens than messages, and so deep that hardly one of path '{}' waits", path.name);
        let told: Reason = reason("bucket", topic.bucket, why);
        topic.reasons.iter_mut().filter(|one| one.what == told.what).for_each(|one| *one = told.clone());
    }
}

/// Its bucket, and its broker, unless that is a service, which is a stage of its own. `own` of its messages come from the path, and
/// reach the broker by `link` if its host is another one.
///
/// Errors: a topic whose messages are not those of one bucket and one known broker, or fewer than those of the path.
pub(super) fn stages(topic: &TopicPlan, own: Rate, link: Option<Duration>) -> Result<Vec<PathStage>, PathCause> {
    let name = topic.name.clone();
    let [on] = &topic.brokers[..] else { return Err(PathCause::Brokers { topic: name, brokers: topic.brokers.len() }) };
    if topic.arrivals.batch > 1 {
        return Err(PathCause::Batches { topic: name });
    }
    let measured = topic.measured.as_ref();
    let known = measured.and_then(|measured| {
        let (broker_of, on, latency) = (name.clone(), on.clone(), measured.latency.clone());
        Some(PathStage::Broker(BrokerStage { broker_of, on, latency, worst: measured.worst? }))
    });
    if known.is_none() && topic.service.is_none() {
        return Err(PathCause::Unmeasured { topic: name });
    }
    let all = topic.arrivals.rate;
    let others = all.minus(own).ok_or_else(|| PathCause::Fewer { topic: name.clone(), messages: all, own })?;
    let bucket = free(topic).ok_or(PathCause::Analysis(giusto_analysis::Error::Range))?;
    let others = Some(others).filter(|others| !others.is_zero());
    let tokens = TokensStage { tokens_of: name.clone(), on: on.clone(), link, bucket, others };
    Ok([PathStage::Tokens(tokens)].into_iter().chain(known).collect())
}

/// What messages can count on of its bucket: at delivery, one token may be on its way with a message.
fn free(topic: &TopicPlan) -> Option<Bucket> {
    match topic.limit {
        TopicLimit::Publishing => Some(topic.bucket),
        TopicLimit::Delivery => topic.limit.free(topic.bucket, 1).filter(|free| free.depth >= Tokens::whole(1)),
    }
}
