//! Why a topic does not keep its promise, and what would.

use crate::words::time;
use giusto_model::{Bucket, Duration, Rate, Topic, Within};
use std::fmt;

/// A topic that does not keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRefusal {
    /// Which topic.
    pub topic: String,
    /// Why not.
    pub cause: TopicCause,
    /// What would keep it, each by itself.
    pub nearest: Vec<TopicFit>,
}

/// Why a topic does not keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicCause {
    /// Its brokers, with what they carry for other topics, have no room for it.
    Capacity {
        /// All its messages.
        messages: Rate,
        /// How many brokers it may use.
        brokers: usize,
    },
    /// Too late even if no message waits for a token.
    Broker {
        /// What was promised.
        promised: Within,
        /// What the broker alone takes.
        best: Duration,
    },
    /// The bucket of the site makes no sense here.
    Bucket {
        /// The bucket.
        bucket: Bucket,
        /// What is wrong with it.
        why: giusto_analysis::Error,
    },
    /// Too late with the bucket of the site.
    Wait {
        /// The bucket.
        bucket: Bucket,
        /// What was promised.
        promised: Within,
        /// What can be.
        predicted: Duration,
    },
    /// It cannot be computed.
    Analysis(giusto_analysis::Error),
}

/// A change with which a topic keeps its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicFit {
    /// So many brokers, the further ones empty.
    Brokers(usize),
    /// Fewer publishers.
    Publishers(u32),
    /// Another bucket.
    Bucket(Bucket),
    /// What can be promised.
    Promise(Within),
}

/// A topic needs no more brokers than this, or a broker carries next to nothing.
const MOST: usize = 1000;

/// How many brokers, or how few publishers, would do; `count` says how many brokers a topic takes.
pub(super) fn more_room(topic: &Topic, count: impl Fn(&Topic) -> Option<usize>) -> Vec<TopicFit> {
    let more = (1..=MOST).find_map(|more| {
        let empty = (0..more).map(|number| format!(" {number}")); // no host has such a name
        let brokers = topic.brokers.iter().cloned().chain(empty).collect();
        count(&Topic { brokers, ..topic.clone() }).map(|_| TopicFit::Brokers(topic.brokers.len() + more))
    });
    let (mut most, mut too_many) = (0, topic.publishers);
    while too_many - most > 1 {
        let publishers = most + (too_many - most) / 2;
        let fits = count(&Topic { publishers, ..topic.clone() }).is_some();
        *(if fits { &mut most } else { &mut too_many }) = publishers;
    }
    more.into_iter().chain((most > 0).then_some(TopicFit::Publishers(most))).collect()
}

impl fmt::Display for TopicFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicFit::Brokers(brokers) => write!(f, "{brokers} brokers"),
            TopicFit::Publishers(publishers) => write!(f, "publishers: {publishers}"),
            TopicFit::Bucket(bucket) => write!(f, "bucket: {bucket}"),
            TopicFit::Promise(Within { percentile, within }) => {
                write!(f, "promise: {{{percentile}: {}}}", within.to_string().replace(' ', ""))
            }
        }
    }
}

impl fmt::Display for TopicCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicCause::Capacity { messages, brokers } => {
                let brokers = if *brokers == 1 { "its broker".into() } else { format!("its {brokers} brokers") };
                write!(f, "{brokers} cannot carry {messages} beside what else they carry")
            }
            TopicCause::Broker { promised, best } => {
                write!(
                    f,
                    "{promised} is not kept even if no message waits for a token: a broker alone takes {}",
                    time(*best)
                )
            }
            TopicCause::Bucket { bucket, why } => write!(f, "bucket: {bucket}: {why}"),
            TopicCause::Wait { bucket, promised, predicted } => {
                let predicted = time(*predicted);
                write!(
                    f,
                    "{promised} is not kept with bucket: {bucket}, which makes {} {predicted}",
                    promised.percentile
                )
            }
            TopicCause::Analysis(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for TopicRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic '{}': {}", self.topic, self.cause)?;
        let nearest: Vec<String> = self.nearest.iter().map(TopicFit::to_string).collect();
        match nearest.is_empty() {
            true => Ok(()),
            false => write!(f, "; it would fit with {}", nearest.join(", or with ")),
        }
    }
}
