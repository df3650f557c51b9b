//! Modes of hosts.

mod admit;
pub(crate) mod boost;
mod change;
mod nearest;
mod plan;
mod refusal;

pub use admit::{admit_core, admit_modes, ModesRefusal};
pub(crate) use nearest::promised;
pub(crate) use plan::of_host;
pub use refusal::{ModeCause, ModeFit, ModeRefusal};
