//! Why a study cannot be judged.

/// Why a study cannot be judged. What is said of a `claim` is said of a figure too, by its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `study.toml` is not of its form.
    #[error("{0}")]
    Form(String),
    /// A table is not one.
    #[error("table '{table}': {why}; expected comma-separated values below one line of column names")]
    Table {
        /// Its name.
        table: String,
        /// What is wrong, with the line.
        why: String,
    },
    /// A claim about a table that is not there.
    #[error("'{claim}': there is no table '{table}'; expected one of {known}")]
    NoTable {
        /// What is claimed.
        claim: String,
        /// The table's name.
        table: String,
        /// Those that are there.
        known: String,
    },
    /// A claim about, or a figure of, a column that is not there.
    #[error("'{claim}': table '{table}' has no column '{column}'; expected one of {known}")]
    NoColumn {
        /// What is claimed.
        claim: String,
        /// The table's name.
        table: String,
        /// The column's name.
        column: String,
        /// Those that are there.
        known: String,
    },
    /// A column that must hold numbers holds something else.
    #[error("table '{table}', column '{column}': '{text}' is no number")]
    NoNumber {
        /// The table's name.
        table: String,
        /// The column's name.
        column: String,
        /// What stands there.
        text: String,
    },
    /// A claim about nothing.
    #[error("'{claim}': no row of table '{table}' is meant{of}; check 'where' and 'values'")]
    NoRow {
        /// What is claimed.
        claim: String,
        /// The table's name.
        table: String,
        /// Where the claim compares: the value without a row, and the set.
        of: String,
    },
    /// A mean over nothing.
    #[error("'{claim}': the column '{column}' adds up to 0 in {case}, so there is no mean")]
    NoMean {
        /// What is claimed.
        claim: String,
        /// The divisor.
        column: String,
        /// Of which rows.
        case: String,
    },
}
