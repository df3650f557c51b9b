//! Recordings for `giusto record`: who had which core, which requests and jobs were served, what was left of budgets.
//!
//! The running giusto records ([`record`]) into a ring of bounded size ([`ring`](self)) and sends what was asked for; the client
//! writes it as a trace for Perfetto ([`write_trace`]). Nothing is recorded while no client asks.

mod form;
mod live;
mod ring;
mod sources;
mod trace;

pub use form::{RecordWish, RecordedBudget, RecordedLate, RecordedMode, RecordedService, RecordedThread, Recording};
pub(crate) use live::{record, Client};
pub use sources::{JobSource, Sources};
pub use trace::{write_trace, Drawn};
