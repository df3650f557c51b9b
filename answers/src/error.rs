//! Why there is no answer.

use giusto_analysis::interface::Shortfall;
use serde_json::Value;
use thiserror::Error;

/// A question that has no answer, in a sentence for people.
#[derive(Debug, Error)]
pub enum Error {
    /// What was asked for cannot fit (exit code 1 of the command line).
    #[error("{text}")]
    DoesNotFit {
        /// What cannot fit, and why.
        text: String,
        /// The numbers that show it, where the calculator has some.
        witness: Option<Value>,
    },
    /// The question makes no sense (exit code 2).
    #[error("{0}")]
    Input(String),
    /// The calculation broke off (exit code 4).
    #[error("{0}")]
    Running(String),
    /// The simulator refuses it.
    #[error(transparent)]
    Simulated(#[from] giusto_simulator::Error),
    /// The planner refuses the site.
    #[error("{0}")]
    Refused(Box<giusto_planner::Refusal>),
    /// A file of the planner's cannot be read.
    #[error(transparent)]
    Planner(#[from] giusto_planner::Error),
}

impl Error {
    /// Without a witness in numbers.
    pub fn does_not_fit(text: impl ToString) -> Error {
        Error::DoesNotFit { text: text.to_string(), witness: None }
    }
    /// `text` is shown by a shortfall.
    pub(crate) fn short(text: String, shortfall: &Shortfall) -> Error {
        Error::DoesNotFit { text, witness: serde_json::to_value(shortfall).ok() }
    }
    /// A question that makes no sense.
    pub fn input(text: impl ToString) -> Error {
        Error::Input(text.to_string())
    }
    /// A calculation that broke off.
    pub fn running(text: impl ToString) -> Error {
        Error::Running(text.to_string())
    }
    /// The same, about `what`.
    #[must_use]
    pub fn about(self, what: &str) -> Error {
        match self {
            Error::DoesNotFit { text, witness } => Error::DoesNotFit { text: format!("{what}: {text}"), witness },
            Error::Input(text) => Error::Input(format!("{what}: {text}")),
            Error::Running(text) => Error::Running(format!("{what}: {text}")),
            other => Error::Input(format!("{what}: {other}")),
        }
    }
}
