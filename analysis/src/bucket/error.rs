//! What makes no sense of a bucket.

use giusto_model::Tokens;

/// What makes no sense of a bucket. Each text says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// ρ is not below 1, or so near that nothing can be computed, or nothing comes.
    #[error("messages take {:.2} % of the tokens; expected more than 0 and less than 99 %: give tokens at a higher rate",
             *.hundredths as f64 / 100.0)]
    Load {
        /// 10,000 ρ
        hundredths: u64,
    },
    /// Fewer tokens than one are kept, so that no message is ever let through.
    #[error("a depth of {0} tokens lets no message through; expected at least 1")]
    Depth(Tokens),
    /// More shares than whole tokens.
    #[error(
        "{depth} tokens cannot be split over {shares} brokers: each needs at least one; split over at most {most}"
    )]
    Shares {
        /// b
        depth: Tokens,
        /// k
        shares: u32,
        /// ⌊b⌋
        most: u64,
    },
    /// At delivery, a share in which nothing is left beside the token of a message that is on its way.
    #[error(
        "at delivery {depth} tokens over {shares} brokers leave no whole one beside that of a message on its way to a consumer: \
         each needs at least two"
    )]
    OnTheWay {
        /// b
        depth: Tokens,
        /// k
        shares: u32,
    },
    /// No depth within reason.
    #[error("no depth up to {most} tokens is enough; give tokens at a higher rate")]
    TooDeep {
        /// The largest that was tried.
        most: u64,
    },
    /// Of a trace.
    #[error("{0}")]
    Trace(&'static str),
}
