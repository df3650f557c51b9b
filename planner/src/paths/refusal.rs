//! Why a path does not keep its promise, and what would.

use crate::words::{share, time};
use giusto_analysis::path::PathError;
use giusto_model::{Bandwidth, Duration, Fails, PacketBucket, PacketWay, Percentile, Rate};
use std::fmt;

/// A path that does not keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRefusal {
    /// Which path.
    pub path: String,
    /// Why not.
    pub cause: PathCause,
    /// What would keep it, each by itself: planned, and as it would be written in the site.
    pub nearest: Vec<String>,
}

/// What a path cannot have that shares services with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlike {
    /// Messages in periods where those of the others come at random, or the other way round.
    Mixed,
    /// A promise that simulation decides.
    Simulated,
    /// Branches, of messages in periods.
    Fork,
    /// An interface in the high class, of messages in periods.
    Interface,
    /// So many others, and how many it may be with itself.
    Many(usize, usize),
}

/// Why a path does not keep its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathCause {
    /// Two stages one after the other on different hosts, and nothing between them.
    NoLink {
        /// From this host
        from: String,
        /// to this one.
        to: String,
    },
    /// A topic that other paths go through as well, which go on to other services, or over other topics.
    Shared {
        /// Which.
        topic: String,
        /// The other path.
        other: String,
    },
    /// It shares services with others, and is none of those that can.
    Unlike {
        /// What it has.
        unlike: Unlike,
        /// One of the others.
        other: String,
    },
    /// It shares services with others in a way that has no bound.
    Tangled {
        /// The others.
        others: Vec<String>,
        /// At this service, where it is at one.
        service: Option<String>,
        /// Why not.
        why: PathError,
    },
    /// A topic over several brokers.
    Brokers {
        /// The topic.
        topic: String,
        /// How many.
        brokers: usize,
    },
    /// A topic whose messages come several at once.
    Batches {
        /// The topic.
        topic: String,
    },
    /// A topic of whose broker it is not known how long it takes at most.
    Unmeasured {
        /// The topic.
        topic: String,
    },
    /// More messages than its topic has.
    Fewer {
        /// The topic.
        topic: String,
        /// What its publishers send.
        messages: Rate,
        /// What comes from the path.
        own: Rate,
    },
    /// A fork behind a topic that brings messages of others.
    Fork {
        /// Its first stage.
        first: String,
    },
    /// A service with several interfaces.
    Interfaces {
        /// Which.
        service: String,
    },
    /// An interface whose packets may wait for any time.
    LowClass {
        /// Which.
        interface: String,
    },
    /// An interface without tokens for all messages.
    Burst {
        /// Which.
        interface: String,
        /// Which of its buckets.
        way: PacketWay,
        /// As the site has it.
        bucket: PacketBucket,
        /// Packets at once that would be enough,
        burst: u64,
        /// and a second.
        rate: u64,
    },
    /// A stage that cannot serve all messages.
    Overload {
        /// The service.
        service: String,
        /// What its messages ask of a core.
        load: Bandwidth,
        /// What it can have of one.
        most: Bandwidth,
    },
    /// Too late even with as much of a core for each stage as there is.
    TooSlow {
        /// What was promised; `None`: the longest time.
        percentile: Option<Percentile>,
        /// So long.
        within: Duration,
        /// What it takes at least.
        least: Duration,
        /// Of it so much where this has failed, which it is to bear.
        later: Option<(Fails, Duration)>,
        /// The stage whose part of it is largest.
        dear: String,
        /// That part.
        part: Duration,
    },
    /// A failure that cannot be borne.
    Fails {
        /// What fails.
        fails: Fails,
        /// Why not.
        why: &'static str,
    },
    /// The servers of its stages find no place on their hosts.
    NoRoom {
        /// The stage without a place, and what it needs of a core.
        service: String,
        /// Its bandwidth.
        needs: Bandwidth,
        /// Why it has none, in words.
        why: String,
    },
    /// It cannot be computed.
    Analysis(giusto_analysis::Error),
}

impl PathRefusal {
    /// Whether the site says too little, or what cannot be planned; else it asks for more than there is.
    pub fn is_input(&self) -> bool {
        match self.cause {
            PathCause::NoLink { .. }
            | PathCause::Shared { .. }
            | PathCause::Unlike { .. }
            | PathCause::Tangled { .. }
            | PathCause::Brokers { .. }
            | PathCause::Batches { .. }
            | PathCause::Unmeasured { .. }
            | PathCause::Fewer { .. }
            | PathCause::Fork { .. }
            | PathCause::Interfaces { .. }
            | PathCause::LowClass { .. }
            | PathCause::Burst { .. }
            | PathCause::Fails { .. }
            | PathCause::Analysis(_) => true,
            PathCause::Overload { .. } | PathCause::TooSlow { .. } | PathCause::NoRoom { .. } => false,
        }
    }
}

impl fmt::Display for PathCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathCause::NoLink { from, to } => write!(
                f,
                "it goes from {from} to {to}, and the site says nothing of the time that this takes; expected, for example, \
                 links: {{{from} to {to}: {{worst: 300us}}}}"
            ),
            PathCause::Shared { topic, other } => write!(
                f,
                "its {topic} is one of path '{other}' as well, and what reads it gets the messages of both: that is planned \
                 where both go on to the same service, and over no other topic; expected that, or a topic of its own for each \
                 path"
            ),
            PathCause::Unlike { unlike, other } => {
                let has = match unlike {
                    Unlike::Mixed => {
                        return write!(
                            f,
                            "it shares services with path '{other}', and of one of them, or of others that share some with them, \
                             messages come in periods, of the other at random: no law is known for messages that queue \
                             behind periodic ones, and no longest time for messages that queue behind random ones; expected \
                             services of its own, or the same kind of source"
                        )
                    }
                    Unlike::Simulated => "'assurance: simulated'",
                    Unlike::Fork => "a fork whose messages come in periods",
                    Unlike::Interface => "interfaces whose messages come in periods",
                    Unlike::Many(all, most) => {
                        return write!(
                            f,
                            "it shares services with path '{other}' and others, {all} together, and at most {most} are planned \
                             together; expected services of its own for some of them"
                        )
                    }
                };
                write!(
                    f,
                    "it shares services with path '{other}', which is not planned yet for a path with {has}; expected services \
                     of its own"
                )
            }
            PathCause::Tangled { others, service, why } => {
                let at = service.as_ref().map_or(String::new(), |service| format!(" '{service}'"));
                let how = match why {
                    PathError::Cycle { .. } => format!("of which some go through{at} and other services in another order"),
                    PathError::Parted { .. } => format!("of which some part behind{at} and meet again"),
                    PathError::Branches { .. } => format!("of which some come to{at} by several ways"),
                    PathError::TooMany { limit, .. } => {
                        format!("and a proof of so many stages that meet would have more than {limit} parts")
                    }
                    why => format!("and {why}"),
                };
                write!(
                    f,
                    "it shares services with '{}', {how}; expected services of its own where that is",
                    others.join("', '")
                )
            }
            PathCause::Brokers { topic, brokers } => write!(
                f,
                "its topic '{topic}' needs {brokers} brokers, which do not keep the order of its messages; expected a topic that \
                 one broker carries: fewer messages, or more capacity"
            ),
            PathCause::Batches { topic } => write!(
                f,
                "messages of its topic '{topic}' come several at once, which is not planned for in a path yet; expected batch: 1"
            ),
            PathCause::Unmeasured { topic } => write!(
                f,
                "its topic '{topic}' goes through a broker of which the site does not say how long it takes at most; \
                 expected 'service', the one of this site that is its broker, whose share then follows, or, for example, \
                 measured: {{capacity: 10k/s, latency: {{p99: 500us, p99.9: 800us}}, worst: 20ms}}"
            ),
            PathCause::Fewer { topic, messages, own } => write!(
                f,
                "{own} of its messages come to topic '{topic}', all of whose publishers send {messages} together; expected \
                 publishers that are more, those of the path among them"
            ),
            PathCause::Fork { first } => write!(
                f,
                "it forks at '{first}', and messages of others that a topic before it brings would part and meet again with its \
                 own, which is not planned for yet; expected the fork before the topic, or one path for each branch"
            ),
            PathCause::Interfaces { service } => write!(
                f,
                "its stage '{service}' has several interfaces, and by which of them messages go is not known; expected one"
            ),
            PathCause::LowClass { interface } => write!(
                f,
                "its messages go over {interface}, whose packets wait for all of the high class, for any time; expected, for \
                 example, {{vif: {interface}, class: high, rate: 5k/s, burst: 64}}"
            ),
            PathCause::Burst { interface, way, bucket, burst, rate } => write!(
                f,
                "the bucket of {interface} for what is {way}, {bucket}, has no token for some of its messages, which may be \
                 dropped; expected burst: {burst} or more, rate: {rate}/s or more, and no less in bits"
            ),
            PathCause::Overload { service, load, most } => write!(
                f,
                "the messages of its stage '{service}' ask for {} of a core, and it can have {} at most",
                share(*load),
                share(*most)
            ),
            PathCause::TooSlow { percentile, within, least, later, dear, part } => {
                match percentile {
                    Some(percentile) => write!(f, "{percentile} ≤ {within} is not kept")?,
                    None => write!(f, "every message within {within} is not kept")?,
                }
                write!(
                    f,
                    ", with as much of a core for each stage as there is: it takes {}, {} of it at '{dear}'",
                    time(later.as_ref().and_then(|(_, later)| least.checked_sub(*later)).unwrap_or(*least)),
                    time(*part)
                )?;
                match later {
                    None => Ok(()),
                    Some((fails, later)) => write!(f, ", and {} more when {fails} has failed", time(*later)),
                }
            }
            PathCause::NoRoom { service, needs, why } => {
                write!(f, "its stage '{service}' needs {} of a core, and has no place: {why}", share(*needs))
            }
            PathCause::Fails { fails, why } => {
                write!(f, "its promise cannot be kept despite the loss of {fails}: {why}")
            }
            PathCause::Analysis(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for PathRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path '{}': {}", self.path, self.cause)?;
        match self.nearest.is_empty() {
            true => Ok(()),
            false => write!(f, "; it would fit with {}", self.nearest.join(", or with ")),
        }
    }
}
