//! The ensemble of a site.

mod plan;
mod refusal;

pub(crate) use plan::plan;
pub use plan::slow_to_see;
pub use refusal::{Faster, SlowRecovery};
