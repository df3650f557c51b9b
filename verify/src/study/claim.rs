//! What a `study.toml` says.

use super::Error;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A published experiment: what is run, and what is claimed of what comes out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Study {
    /// Version of the form: 1.
    pub study: u32,
    /// In a few words.
    pub title: String,
    /// Paper, section, figures.
    pub reproduces: String,
    /// The command that plays it, from the root of the repository.
    pub run: String,
    /// Of all randomness.
    pub seed: u64,
    /// How much is played: numbers that the command knows, by the name of a size.
    pub size: BTreeMap<String, BTreeMap<String, u64>>,
    /// What must come out.
    pub claim: Vec<Claim>,
    /// What is drawn of it.
    #[serde(default)]
    pub figure: Vec<Figure>,
}

/// A drawing: panels with lines, see [`super::figures`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Of its file, without `.svg`.
    pub name: String,
    /// Table with the rows.
    pub table: String,
    /// Only rows that have one of these values in these columns.
    #[serde(default)]
    pub r#where: BTreeMap<String, Vec<String>>,
    /// A panel for every combination of values in these columns.
    #[serde(default)]
    pub panels: Vec<String>,
    /// A line for every combination of values in these columns.
    pub lines: Vec<String>,
    /// What grows to the right.
    pub across: Axis,
    /// What grows upward.
    pub up: Axis,
}

/// One side of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Column of numbers.
    pub column: String,
    /// What stands beside it, with the unit.
    pub says: String,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// The claim in words.
    pub says: String,
    /// Where the paper says so; or that it is ours.
    pub source: String,
    /// Table with the rows. Its column `set` tells which rows are of one random set.
    pub table: String,
    /// Only rows that have one of these values in these columns.
    #[serde(default)]
    pub r#where: BTreeMap<String, Vec<String>>,
    /// Judged once for every combination of values in these columns.
    #[serde(default)]
    pub each: Vec<String>,
    /// What is compared.
    pub measure: Measure,
    /// How.
    pub rule: Rule,
    /// The paper has it so and here it is otherwise: why. Such a claim is judged and shown, and may fail.
    pub differs: Option<String>,
}

/// A pooled mean: the sum of one column over that of another, or over the number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The dividend.
    pub sum: String,
    /// The divisor; none: rows.
    pub per: Option<String>,
}

/// When a claim holds. "Interval" is that of [`super::judge`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Rule {
    /// The measure grows from one of the `values` of column `of` to the next: the interval of each difference lies below 0.
    /// Equals do not hold.
    LeastFirst {
        /// Column.
        of: String,
        /// Its values, the one with the least measure first.
        values: Vec<String>,
    },
    /// The measure does not fall from one of the `values` of column `of` to the next: the interval of each difference lies at or
    /// below 0. Equals hold: for claims of the kind "no more than".
    NoMore {
        /// Column.
        of: String,
        /// Its values, the one with the least measure first.
        values: Vec<String>,
    },
    /// The measure is the same for all `values` of column `of`: the interval of each difference lies within ± `within`.
    Alike {
        /// Column.
        of: String,
        /// Its values.
        values: Vec<String>,
        /// Largest difference that means nothing.
        within: f64,
    },
    /// The interval of the measure lies at or above this.
    AtLeast(f64),
    /// The interval of the measure lies at or below this.
    AtMost(f64),
    /// This number lies between the measures of the least and the largest set: a single published set could be one of ours.
    /// One more of our n sets would lie outside with a probability of 2 / (n + 1). Where that is more than 1 %, below 199 sets,
    /// it could not fail, and so it cannot be told.
    Spans(f64),
    /// `sum` is 0 in every row. No interval: a law.
    Zero,
}

impl Rule {
    /// The column whose values are compared, and these.
    pub(super) fn compared(&self) -> Option<(&String, &[String])> {
        match self {
            Rule::LeastFirst { of, values } | Rule::NoMore { of, values } | Rule::Alike { of, values, .. } => {
                Some((of, values))
            }
            Rule::AtLeast(_) | Rule::AtMost(_) | Rule::Spans(_) | Rule::Zero => None,
        }
    }
}

impl Study {
    /// Reads a `study.toml`.
    ///
    /// # Errors
    /// [`Error::Form`] with the place.
    pub fn read(text: &str) -> Result<Study, Error> {
        let study: Study = toml::from_str(text).map_err(|error| Error::Form(error.to_string()))?;
        if study.study != 1 {
            return Err(Error::Form(format!("study = {}; expected 1, the only version there is", study.study)));
        }
        for claim in &study.claim {
            if let Some((_, values)) = claim.rule.compared() {
                if values.len() < 2 {
                    return Err(Error::Form(format!("claim '{}': expected two values or more to compare", claim.says)));
                }
            }
        }
        Ok(study)
    }
}
