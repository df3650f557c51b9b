//! Why a plan cannot be read, written or explained.

/// Why a plan cannot be read, written or explained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {what} {path}: {why}")]
    Io {
        /// `read` or `write`.
        what: &'static str,
        /// Which file.
        path: String,
        /// What the system said.
        why: std::io::Error,
    },
    /// Not a plan, or one of another version.
    #[error("{path} is not a plan that this giusto can use: {why}; make it anew with `giusto plan`")]
    Format {
        /// Which file.
        path: String,
        /// What was found and what was expected.
        why: String,
    },
    /// Not a measured latency, or one of another version.
    #[error("{path} is not a latency that this giusto can use: {why}; make it anew with `giusto measure latency --out {path}`")]
    Latency {
        /// Which file.
        path: String,
        /// What was found and what was expected.
        why: String,
    },
    /// A measured latency from which nothing follows (exit 6).
    #[error("nothing follows from {path}, cannot tell: {why}; measure again, where nothing else takes the machine")]
    Void {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
    /// `explain` was asked for a name that the plan does not have.
    #[error("the plan has no '{name}'; it has {known}")]
    UnknownName {
        /// What was asked.
        name: String,
        /// What there is.
        known: String,
    },
}
