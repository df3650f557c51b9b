//! Whether servers fit together.

use giusto_model::Server;

/// The admission test of a backend, for its kinds of servers. The manager asks it for every set of reservations that a change
/// passes through, place by place.
pub trait Admission {
    /// Whether these servers fit together in this place (its index in the table), in whatever order they are named.
    ///
    /// The test must be sustainable: a set that passes still does with a server less, a smaller budget or a longer period.
    fn fits(&self, place: usize, servers: &[Server]) -> bool;
}

impl<F: Fn(usize, &[Server]) -> bool> Admission for F {
    fn fits(&self, place: usize, servers: &[Server]) -> bool {
        self(place, servers)
    }
}

/// Whether `a` needs at least what `b` needs, so that where `a` fits, `b` does too.
pub fn covers(a: Option<&Server>, b: Option<&Server>) -> bool {
    match (a, b) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(a), Some(b)) => a.kind == b.kind && a.budget >= b.budget && a.period <= b.period,
    }
}
