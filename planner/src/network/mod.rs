//! Packets of hosts.

mod assign;
mod nearest;
mod plan;
mod refusal;

pub(crate) use plan::plan;
pub use refusal::{PacketCause, PacketFit, PacketRefusal};
