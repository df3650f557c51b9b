//! What every promise is read into, and what it refuses beside it.

use crate::error::Fault;
use crate::fields::Fields;
use giusto_model::{Measured, Promise, ServiceMode, Task};

/// Why a share is not written beside a promise of which it follows.
pub(super) const COMPUTED: &str = "leave it out: Giusto computes the share that this promise needs";

/// Keys of a service that do not go with a promise, and what that is, in words.
pub(crate) struct Keys {
    pub(crate) foreign: &'static [&'static str],
    pub(crate) why: &'static str,
}

/// A promise, the tasks that it is about, and, where it is about several sets of them, all local modes; promise and tasks are
/// then those of the first.
pub(crate) struct Promised {
    pub(crate) promise: Promise,
    pub(crate) tasks: Vec<Task>,
    pub(crate) modes: Vec<ServiceMode>,
    pub(crate) measured: Measured,
}

impl Promised {
    pub(crate) fn of(promise: Promise) -> Self {
        Promised { promise, tasks: Vec::new(), modes: Vec::new(), measured: Measured::Declared }
    }
}

/// Refuses `modes`.
pub(super) fn one_mode(fields: &Fields<'_>, why: &str) -> Result<(), Fault> {
    let expected = format!("leave it out: {why}; it goes with every-deadline and supply");
    fields.forbid("modes", "'modes' does not go with this promise", &expected)
}

pub(super) fn not_of_leftovers(fields: &Fields<'_>, expected: &str) -> Result<(), Fault> {
    ["at-least", "at-most"]
        .into_iter()
        .try_for_each(|key| fields.forbid(key, &format!("'{key}' goes with 'promise: leftovers' only"), expected))
}
