//! Where a member stands.

use crate::event::{Parts, Step};
use crate::table::Member;
use giusto_model::Instant;

/// One server of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The local mode whose server is set.
    pub(super) held: usize,
    /// The one that was asked for, until that is answered.
    pub(super) coming: Option<usize>,
    /// The one before that.
    pub(super) was: usize,
    /// When `held` comes into force, or came.
    pub(super) from: Instant,
}

/// A server that is gone and counts until its zero-lag time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    pub(super) part: usize,
    pub(super) local: usize,
    pub(super) until: Instant,
}

/// How far a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not part of the change, or done.
    Settled,
    /// Its turn has not come.
    Waiting,
    /// What grows is being set.
    Raising { set: u64, asked: Instant },
    /// It is set, and in force from then on.
    Raised { at: Instant },
    /// It was told, and has time until then.
    Commanded { until: Instant },
    /// It runs the new tasks, or the change no longer waits for it.
    Switched,
    /// What shrinks is being set.
    Lowering { set: u64, asked: Instant },
}

/// A member.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) parts: Vec<Part>,
    pub(super) lags: Vec<Lag>,
    /// When all of its parts are in force; nothing else is asked for before.
    pub(super) pending: Instant,
    pub(super) agent: bool,
    pub(super) connected: bool,
    /// What it acknowledged last; `None`: unknown.
    pub(super) runs: Option<usize>,
    /// The last command: its change and local mode.
    pub(super) told: (u64, usize),
    /// It is silent, or does not run what it was told; it has lost its own guarantee.
    pub(super) failed: bool,
    /// It has said what it runs, or is known to run what it was started with.
    pub(super) heard: bool,
    pub(super) phase: Phase,
    /// When the change began, or turned: it needs nothing that it does not have; or what it needs and gives is not the same.
    pub(super) shrinks: bool,
    pub(super) mixed: bool,
    pub(super) boosted: bool,
    pub(super) step: Step,
    /// Changes of its reservation that the machine refused in a row, and the parts of the one under way.
    pub(super) tries: u32,
    pub(super) setting: Parts,
}

impl State {
    pub(super) fn new(member: &Member, local: usize) -> State {
        State {
            parts: member
                .parts
                .iter()
                .map(|_| Part { held: local, was: local, coming: None, from: Instant::ZERO })
                .collect(),
            lags: Vec::new(),
            pending: Instant::ZERO,
            agent: member.agent,
            // The host itself is always there.
            connected: !member.agent,
            runs: Some(local),
            told: (0, local),
            failed: false,
            heard: true,
            phase: Phase::Settled,
            shrinks: false,
            mixed: false,
            boosted: false,
            step: Step::sent(0, 0, Instant::ZERO),
            tries: 0,
            setting: Parts::default(),
        }
    }

    /// Neither waiting for its turn nor done.
    pub(super) fn busy(&self) -> bool {
        !matches!(self.phase, Phase::Settled | Phase::Waiting)
    }

    /// Something will come of it by itself: an answer, or a time.
    pub(super) fn moves(&self) -> bool {
        self.busy() && self.phase != Phase::Switched
    }

    /// When what was asked for is in force, if that is yet to come and it waits for that.
    pub(super) fn waits_until(&self, now: Instant) -> Option<Instant> {
        let waits = matches!(self.phase, Phase::Waiting | Phase::Switched);
        (waits && self.pending > now).then_some(self.pending)
    }

    /// A change of its reservation is under way; nothing else can be decided for it.
    pub(super) fn being_set(&self) -> bool {
        matches!(self.phase, Phase::Raising { .. } | Phase::Lowering { .. })
    }
}
