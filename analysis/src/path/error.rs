//! What makes no path. Each text says what was expected.

use giusto_model::Duration;

/// Why a net of stages and flows has no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No stage at all.
    #[error("flow {flow} goes through no stage; expected at least one")]
    NoStage {
        /// Which, from 1.
        flow: usize,
    },
    /// A percentile of messages that do not come at random.
    #[error("flow {flow} is no Poisson source; expected a rate for a percentile, as percentiles of other arrivals are not known")]
    NotRandom {
        /// Which, from 1.
        flow: usize,
    },
    /// A bound for messages of which any number may come at once.
    #[error("flow {flow} comes at random, so that no time is enough for every message; expected a period, or a rate and a burst")]
    NoCurve {
        /// Which, from 1.
        flow: usize,
    },
    /// A bound for every message where some may be lost.
    #[error("stage {stage} may lose what finds no token, so that no time is enough for every message; expected one that waits")]
    Policed {
        /// Which, from 1.
        stage: usize,
    },
    /// A damper on the way of a flow with an arrival curve.
    #[error("flow {flow} is held at a damper, which is for messages that come at random; expected none beside arrival curves")]
    Held {
        /// Which, from 1.
        flow: usize,
    },
    /// An arrival curve that makes no sense.
    #[error("messages {0}; expected more than none in more than no time")]
    Arrival(&'static str),
    /// A stage that is asked for as much as it gives, or more.
    #[error("stage {stage} is asked for {asked} of what it gives: what waits there grows without end; expected less than 100 %")]
    Full {
        /// Which, from 1.
        stage: usize,
        /// In percent.
        asked: String,
    },
    /// A busy period that does not end in reasonable time.
    #[error("stage {stage} has {messages} messages before it is idle again, and that is too many to look at; expected less load")]
    Busy {
        /// Which, from 1.
        stage: usize,
        /// The most.
        messages: usize,
    },
    /// A stage that does not exist.
    #[error("flow {flow} names stage {stage}, and there are {stages}")]
    Unknown {
        /// Which, from 1.
        flow: usize,
        /// Which, from 1.
        stage: usize,
        /// How many there are.
        stages: usize,
    },
    /// A server whose periods begin with wake-ups.
    #[error(
        "stage {stage} begins its periods when a request comes after a rest, as SCHED_DEADLINE does: there an earlier \
         arrival can make a departure later, and no path can be bounded through it; expected a deferrable or a periodic \
         server on a fixed grid"
    )]
    Reanchored {
        /// Which, from 1.
        stage: usize,
    },
    /// A stage twice in one flow.
    #[error("flow {flow} comes to stage {stage} twice; expected each stage once")]
    Twice {
        /// Which, from 1.
        flow: usize,
        /// Which, from 1.
        stage: usize,
    },
    /// A cycle.
    #[error("the flows go round in a circle through stage {stage}; expected an order of stages in which all flows go forward")]
    Cycle {
        /// One of it, from 1.
        stage: usize,
    },
    /// More of the path in all than can be looked at.
    #[error("the flows that meet have {terms} parts, and the limit is {limit}; expected fewer flows that share several stages")]
    TooMany {
        /// Of the sum.
        terms: usize,
        /// The most.
        limit: usize,
    },
    /// Two branches of one fork meet in a stage.
    #[error(
        "stage {stage} serves branches of one source: they are not independent; expected it before the fork or after the \
         join"
    )]
    Branches {
        /// Which, from 1.
        stage: usize,
    },
    /// The flow meets messages that its own message may have delayed.
    #[error(
        "flows part and meet again at stage {stage}, so that a message may meet what it delayed itself; expected flows that stay \
         together from where they meet, or apart from where they part"
    )]
    Parted {
        /// Which, from 1.
        stage: usize,
    },
    /// A probability that is none.
    #[error("{beyond} is no probability; expected more than 0 and less than 1")]
    Probability {
        /// What was asked.
        beyond: String,
    },
    /// Less time than the bounded stages and the service take by themselves.
    #[error("{within} is not enough for any probability: the stages alone may take {least}; expected more")]
    TooShort {
        /// What was asked.
        within: Duration,
        /// What is taken.
        least: Duration,
    },
    /// A stage that nothing can be promised of.
    #[error("stage {stage}: {why}")]
    Stage {
        /// Which, from 1.
        stage: usize,
        /// What is wrong.
        why: String,
        /// Whether it is asked for more than it gives.
        full: bool,
    },
}
