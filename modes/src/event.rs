//! What the manager is told, and what it wants done.

use crate::message::{Answered, FromAgent, ToAgent};
use giusto_model::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// What the manager is told. Members, modes and places are indices of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The operator wants another mode. Requests of members come as [`FromAgent::Ask`].
    Request {
        /// To tell answers apart.
        request: u64,
        /// Which mode.
        target: Target,
    },
    /// A member's agent says something, in a session that [`crate::wire`] has opened. Its first word is a Hello.
    Message {
        /// Whose session.
        member: usize,
        /// What it says.
        message: FromAgent,
    },
    /// The session with a member's agent ended. Told before the first word of its next session.
    Lost {
        /// Whose.
        member: usize,
    },
    /// A member without an agent runs the tasks of its new local mode, or could not be made to.
    Carried {
        /// Which.
        member: usize,
        /// As in [`Action::Carry`].
        change: u64,
        /// Whether it worked.
        done: bool,
    },
    /// A reservation was changed. Each [`Action::Set`] is answered once, by this or by [`Event::SetFailed`].
    SetDone {
        /// As in the action.
        set: u64,
        /// From when on the new servers count, and they alone: for those that shrink their zero-lag time (on a fixed grid the next
        /// replenishment), for those that grow the replenishment that brought or brings the new budget. The latest of its parts.
        in_force: Instant,
    },
    /// A reservation could not be changed; all of its parts are as before.
    SetFailed {
        /// As in the action.
        set: u64,
    },
    /// It is as late as was asked for with [`Action::Wake`].
    Tick,
}

/// Which mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Of the table.
    Mode(usize),
    /// A local mode for each member, whether or not the table has it.
    Locals(Vec<usize>),
}

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// With [`Event::Request`].
    Operator(u64),
    /// A member, with the number of its request.
    Member(usize, u32),
    /// No requester any more: a change that was under way when the manager was restarted.
    None,
}

/// Some parts of a member, as a mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts(pub u64);

impl Parts {
    /// Their indices, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (next < 64).then_some(next)
        })
    }
    /// None of them.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Whether this one is among them.
    pub fn has(self, part: usize) -> bool {
        part < 64 && self.0 >> part & 1 == 1
    }
    pub(crate) fn add(&mut self, part: usize) {
        self.0 |= 1 << part;
    }
}

/// When a reservation is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// At the server's own first replenishment that is later than now and not before this.
    Replenishment(Instant),
}

/// What the manager wants done. The caller does it in the order of the list; each is finished, or on its way, before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To a member's agent, in its present session. If there is none any more, nothing is sent.
    Send {
        /// To whom.
        member: usize,
        /// What.
        message: ToAgent,
    },
    /// Give these parts of a member the reservations of one of its local modes. None of them has a change pending.
    Set {
        /// To be answered with.
        set: u64,
        /// Whose.
        member: usize,
        /// Which of its parts.
        parts: Parts,
        /// The local mode that has the servers; none of them: take the reservation away.
        local: usize,
        /// When.
        when: When,
    },
    /// Let the first part of a member go before all others until then, at the latest. It ends by itself.
    Boost {
        /// Whose.
        member: usize,
        /// The end.
        until: Instant,
    },
    /// End that now. Also of one that has ended by itself.
    EndBoost {
        /// Whose.
        member: usize,
    },
    /// Make a member without an agent run the tasks of a local mode; answered by [`Event::Carried`]. A later one replaces it.
    Carry {
        /// Which.
        member: usize,
        /// To be answered with.
        change: u64,
        /// The local mode.
        local: usize,
    },
    /// Send an [`Event::Tick`] then. Replaces what was asked for before.
    Wake(Instant),
    /// Write this down, safely, before what follows.
    Keep(Kept),
    /// A change has ended, no matter who asked for it. For logs and status; the requester is answered besides.
    Ended {
        /// Who asked.
        who: Requester,
        /// How it ended.
        outcome: Outcome,
    },
    /// To [`Event::Request`].
    Answer {
        /// As it was asked.
        request: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// What the change of a member took.
    Record(Step),
}

/// What a manager that is restarted must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Of the last change that began.
    pub change: u64,
    /// The local mode of each member before it.
    pub from: Vec<usize>,
    /// And after it.
    pub to: Vec<usize>,
    /// It is on its way back.
    pub back: bool,
    /// It has not ended.
    pub open: bool,
    /// Who did not run what it was told.
    pub unsound: Vec<usize>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every member is in the new mode.
    Done {
        /// From the request to now.
        took: Duration,
        /// From when on all reservations are in force. Until then a `fast` change may make one budget late.
        settled: Instant,
    },
    /// The others are; these did not acknowledge and have lost their own guarantee until they do.
    Degraded {
        /// Who.
        silent: Vec<usize>,
        /// From the request to now.
        took: Duration,
    },
    /// It is in force already.
    Unchanged,
    /// Nothing was changed, and why.
    Refused(Refusal),
    /// Everyone is in the old mode again, as these did not acknowledge, or their reservation could not be changed.
    RolledBack {
        /// Who.
        silent: Vec<usize>,
    },
    /// Another request took its place.
    Preempted,
    /// Reservations of these could be changed neither to the new mode nor back: the machine refuses.
    Stuck {
        /// Who is in neither.
        members: Vec<usize>,
    },
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such mode.
    #[error("no such mode")]
    Unknown,
    /// That member may not ask for it.
    #[error("this member may not ask for that mode")]
    NotAllowed,
    /// A change is under way.
    #[error("a change is under way")]
    Busy,
    /// The last one ended a short time ago.
    #[error("too soon after the last change: not before {until_ns} ns", until_ns = until.ns())]
    TooSoon {
        /// When the next may begin.
        until: Instant,
    },
    /// So many wait already.
    #[error("{0} requests wait already")]
    QueueFull(usize),
    /// The mode itself does not pass the admission test.
    #[error("the mode does not fit in place {place}")]
    DoesNotFit {
        /// Where.
        place: usize,
    },
    /// Old and new mode fit, but there is no order in which these members can change.
    #[error("no order of changes passes the admission test on the way: in place {place}, members {members:?} wait for each other")]
    NoOrder {
        /// Where it fails.
        place: usize,
        /// Who.
        members: Vec<usize>,
    },
}

impl Outcome {
    /// In a word, for a member that asked.
    pub fn word(&self) -> Answered {
        match self {
            Outcome::Done { .. } | Outcome::Unchanged => Answered::Done,
            Outcome::Degraded { .. } => Answered::Degraded,
            Outcome::Refused(_) => Answered::Refused,
            Outcome::RolledBack { .. } => Answered::RolledBack,
            Outcome::Preempted => Answered::Preempted,
            Outcome::Stuck { .. } => Answered::Stuck,
        }
    }
}

/// What the change of a member took [LiH21, Fig. 2.5]: *send* is `sent` to `received_ns`, *signal* from there to
/// `switched_ns`, *receive* from there
/// to `done`, *change* the reservation. The agent's clock is its own; where it is not the host's, only its difference counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub member: usize,
    /// The command.
    pub change: u64,
    /// Its reservation was to grow, and did.
    pub raised: Option<(Instant, Instant)>,
    /// The command was sent.
    pub sent: Instant,
    /// It came and was carried out, in ns of the agent's clock.
    pub agent_ns: Option<(u64, u64)>,
    /// The acknowledgement came; none: it did not.
    pub done: Option<Instant>,
    /// Its reservation was to shrink, and did.
    pub lowered: Option<(Instant, Instant)>,
}

impl Step {
    /// A command that was just sent.
    pub(crate) fn sent(member: usize, change: u64, sent: Instant) -> Step {
        Step { member, change, raised: None, sent, agent_ns: None, done: None, lowered: None }
    }
}
