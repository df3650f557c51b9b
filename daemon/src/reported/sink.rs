//! Who is told of spans that were received.

use giusto_traces::Span;

pub(super) trait Sink: Send + Sync {
    /// Takes those of a message, and says what is wrong with them if it is; returns how many it could not understand.
    fn take(&self, spans: Vec<Span>) -> u64;
    /// A message was refused.
    fn is_wrong(&self, why: String);
}
