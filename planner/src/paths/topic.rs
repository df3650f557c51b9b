//! A topic as stages of a path: the tokens of its bucket, and its broker.

use super::refusal::PathCause;
use giusto_model::{BrokerStage, Bucket, Duration, PathStage, Rate, Tokens, TokensStage, TopicLimit, TopicPlan};

/// `own` of its messages come from the path, and reach the broker by `link` if its host is another one.
///
/// Errors: a topic whose messages are not those of one bucket and one known broker, or fewer than those of the path.
pub(super) fn stages(topic: &TopicPlan, own: Rate, link: Option<Duration>) -> Result<[PathStage; 2], PathCause> {
    let name = topic.name.clone();
    let [on] = &topic.brokers[..] else { return Err(PathCause::Brokers { topic: name, brokers: topic.brokers.len() }) };
    if topic.arrivals.batch > 1 {
        return Err(PathCause::Batches { topic: name });
    }
    let measured = topic.measured.as_ref();
    let known = measured.and_then(|measured| Some((measured.latency.clone(), measured.worst?)));
    let (latency, worst) = known.ok_or_else(|| PathCause::Unmeasured { topic: name.clone() })?;
    let all = topic.arrivals.rate;
    let others = all.minus(own).ok_or_else(|| PathCause::Fewer { topic: name.clone(), messages: all, own })?;
    let bucket = free(topic).ok_or_else(|| PathCause::Analysis(giusto_analysis::Error::Range))?;
    let others = Some(others).filter(|others| !others.is_zero());
    let tokens = TokensStage { tokens_of: name.clone(), on: on.clone(), link, bucket, others };
    Ok([PathStage::Tokens(tokens), PathStage::Broker(BrokerStage { broker_of: name, on: on.clone(), latency, worst })])
}

/// What messages can count on of its bucket: at delivery, one token may be on its way with a message.
fn free(topic: &TopicPlan) -> Option<Bucket> {
    match topic.limit {
        TopicLimit::Publishing => Some(topic.bucket),
        TopicLimit::Delivery => topic.limit.free(topic.bucket, 1).filter(|free| free.depth >= Tokens::whole(1)),
    }
}
