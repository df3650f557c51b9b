//! Which host and which core each service gets.

pub(crate) mod choice;
mod cores;
mod entry;
pub(crate) mod host;
mod index;
mod park;
mod room;
