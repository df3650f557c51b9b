//! The facts of each server kind that admission rests on, and no other file of this room names a kind.

use giusto_model::ServerKind;

/// How a server's budget comes back: what more than Σ B/P it can ask for in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Whole at kP from the first replenishment; what is not used is lost when the server is idle, at the latest then.
    Grid,
    /// Whole at kP, kept while the server is idle: one budget can be used just before the next, two in a row.
    KeptOnGrid,
    /// In parts, each a period after its use began.
    Parts,
    /// As soon as its bandwidth allows.
    Steady,
    /// It has no budget, and admission does not take it.
    Unlimited,
}

/// Of each kind. A new kind states here what may be assumed of it.
pub(crate) fn renewal(kind: ServerKind) -> Renewal {
    match kind {
        ServerKind::PeriodicStrict
        | ServerKind::PeriodicConserving
        | ServerKind::PeriodicReclaiming
        | ServerKind::Polling => Renewal::Grid,
        ServerKind::Deferrable => Renewal::KeptOnGrid,
        ServerKind::Sporadic => Renewal::Parts,
        ServerKind::ConstantBandwidth => Renewal::Steady,
        ServerKind::Unlimited => Renewal::Unlimited,
    }
}

/// Whether a budget that was not used can be used beside the next one. Without such a server Σ B/P ≤ 1 is the whole test of
/// EDF on one core.
pub fn keeps_budget(kind: ServerKind) -> bool {
    match renewal(kind) {
        Renewal::KeptOnGrid => true,
        Renewal::Grid | Renewal::Parts | Renewal::Steady | Renewal::Unlimited => false,
    }
}

/// Replenished on a grid, at kP from its first replenishment.
pub(crate) fn on_grid(kind: ServerKind) -> bool {
    match renewal(kind) {
        Renewal::Grid | Renewal::KeptOnGrid => true,
        Renewal::Parts | Renewal::Steady | Renewal::Unlimited => false,
    }
}

/// Whether its budget comes in steps, not as its bandwidth allows.
pub(crate) fn steps(kind: ServerKind) -> bool {
    match renewal(kind) {
        Renewal::Grid | Renewal::KeptOnGrid | Renewal::Parts => true,
        Renewal::Steady | Renewal::Unlimited => false,
    }
}
