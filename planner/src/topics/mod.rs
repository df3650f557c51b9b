//! Topics of a site.

mod plan;
mod refusal;

pub(crate) use plan::plan;
pub use plan::unmeasured;
pub use refusal::{TopicCause, TopicFit, TopicRefusal};
