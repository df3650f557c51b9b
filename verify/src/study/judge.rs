//! Claims against tables, by resampling sets.

use super::{Claim, Error, Rule, Study, Table};
use crate::bootstrap::{stream, Estimate, CLAIMS};
use crate::words::count;
use rand::RngExt;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Resamples behind every interval of a claim.
pub const RESAMPLES: usize = 10_000;

/// Share of them that lies within the interval.
pub const CONFIDENCE: f64 = 0.99;

/// With fewer sets there is no such interval, only their range: even that of seven holds a median in 98 of 100 cases only.
pub const FEW: usize = 8;

/// What the interval of a judgement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// The middle [`CONFIDENCE`] of resampled sets.
    Resampled,
    /// From the least set to the largest.
    Range,
    /// There is none: every row counts.
    Whole,
}

/// What the numbers say of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The whole interval is where the claim has it.
    Holds,
    /// The whole interval is elsewhere.
    Fails,
    /// The interval straddles the border: more sets would tell.
    CannotTell,
}

/// One comparison that a claim asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// Which claim, by its place in the study.
    pub claim: usize,
    /// Values of the columns in `each`: `range=100-1100 load=0.9`.
    pub case: String,
    /// What is estimated: `a - b` for two values of the compared column, or the measure.
    pub of: String,
    /// Sets behind it.
    pub sets: usize,
    /// The estimate with its interval; for [`Rule::Zero`] the sum.
    pub estimate: Estimate,
    /// What that interval is.
    pub interval: Interval,
    /// What follows.
    pub finding: Finding,
}

/// Judges all claims of `study` on its tables, each once for every combination of values in `each`.
///
/// Intervals are percentile intervals of the paired bootstrap: sets are drawn with replacement ([`RESAMPLES`] times, seeded),
/// all rows of a set together, so that the arms of a comparison are resampled alike; the middle [`CONFIDENCE`] of the pooled
/// measures counts. With few sets it is somewhat too short (Efron and Tibshirani 1993, § 13.3), and below [`FEW`] the range of
/// the sets stands for it. The same seed gives the same numbers. O(resamples · sets) a comparison. Errors: see [`Error`].
pub fn judge(study: &Study, tables: &BTreeMap<String, Table>) -> Result<Vec<Judgement>, Error> {
    let mut all = Vec::new();
    for (index, claim) in study.claim.iter().enumerate() {
        let table = super::named(&claim.says, &claim.table, tables)?;
        let rows = Rows::of(claim, table)?;
        for (case, rows) in rows.cases() {
            rows.judge(claim, &case, study.seed, |of, estimate, finding| {
                let (sets, case) = (rows.sets(), case.clone());
                let interval = match claim.rule {
                    Rule::Zero => Interval::Whole,
                    Rule::Spans(_) => Interval::Range,
                    _ if sets < FEW => Interval::Range,
                    _ => Interval::Resampled,
                };
                all.push(Judgement { claim: index, case, of, sets, estimate, interval, finding });
            })?;
        }
    }
    Ok(all)
}

/// One row as a claim sees it.
#[derive(Clone)]
struct Row {
    set: String,
    case: String,
    /// Value of the compared column.
    value: String,
    sum: f64,
    per: f64,
}

/// Rows of one case, or of all.
struct Rows(Vec<Row>);

impl Rows {
    fn of(claim: &Claim, table: &Table) -> Result<Rows, Error> {
        let place = |column: &String| table.place(&claim.says, &claim.table, column);
        let number = |row: &[String], at| table.number(&claim.table, row, at);
        let wanted = claim.r#where.iter().map(|(column, values)| Ok((place(column)?, values)));
        let wanted = wanted.collect::<Result<Vec<_>, Error>>()?;
        let each = claim.each.iter().map(&place).collect::<Result<Vec<_>, _>>()?;
        let (set, sum) = (place(&"set".to_string())?, place(&claim.measure.sum)?);
        let per = claim.measure.per.as_ref().map(&place).transpose()?;
        let compared = claim.rule.compared().map(|(of, values)| Ok::<_, Error>((place(of)?, values))).transpose()?;
        let mut rows = Vec::new();
        for row in table.rows() {
            let meant = wanted.iter().all(|(at, values)| values.contains(&row[*at]))
                && compared.is_none_or(|(at, values)| values.contains(&row[at]));
            if !meant {
                continue;
            }
            let case: Vec<String> =
                claim.each.iter().zip(&each).map(|(name, &at)| format!("{name}={}", row[at])).collect();
            rows.push(Row {
                set: row[set].clone(),
                case: case.join(" "),
                value: compared.map_or(String::new(), |(at, _)| row[at].clone()),
                sum: number(row, sum)?,
                per: per.map_or(Ok(1.0), |at| number(row, at))?,
            });
        }
        match rows.is_empty() {
            true => Err(none(claim, String::new())),
            false => Ok(Rows(rows)),
        }
    }

    /// By case, in the order of the table.
    fn cases(&self) -> Vec<(String, Rows)> {
        let mut cases: Vec<(String, Rows)> = Vec::new();
        for row in &self.0 {
            match cases.iter_mut().find(|(case, _)| *case == row.case) {
                Some((_, rows)) => rows.0.push(row.clone()),
                None => cases.push((row.case.clone(), Rows(vec![row.clone()]))),
            }
        }
        cases
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|row| row.set.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn sets(&self) -> usize {
        self.names().len()
    }

    /// Sum and divisor of each set, in the order of names, of the rows with `value`.
    fn pooled(&self, claim: &Claim, case: &str, value: &str) -> Result<Vec<(f64, f64)>, Error> {
        let names = self.names();
        let mut sets = vec![None; names.len()];
        for row in self.0.iter().filter(|row| row.value == value) {
            let at = names.binary_search(&row.set.as_str()).expect("every row's set has a name");
            let (sum, per) = sets[at].unwrap_or((0.0, 0.0));
            sets[at] = Some((sum + row.sum, per + row.per));
        }
        let missing = |at: usize| none(claim, format!(" of '{value}' in set {}, {case}", names[at]));
        let sets: Vec<(f64, f64)> =
            sets.into_iter().enumerate().map(|(at, set)| set.ok_or_else(|| missing(at))).collect::<Result<_, _>>()?;
        match sets.iter().all(|&(_, per)| per > 0.0) {
            true => Ok(sets),
            false => Err(Error::NoMean {
                claim: claim.says.clone(),
                column: claim.measure.per.clone().unwrap_or_default(),
                case: if case.is_empty() { "a set".into() } else { format!("a set of {case}") },
            }),
        }
    }

    fn judge(
        &self,
        claim: &Claim,
        case: &str,
        seed: u64,
        mut tell: impl FnMut(String, Estimate, Finding),
    ) -> Result<(), Error> {
        let measure = match &claim.measure.per {
            Some(per) => format!("{} / {per}", claim.measure.sum),
            None => claim.measure.sum.clone(),
        };
        match &claim.rule {
            Rule::LeastFirst { values, .. } | Rule::NoMore { values, .. } => {
                let equals_hold = matches!(claim.rule, Rule::NoMore { .. });
                for pair in values.windows(2) {
                    let [a, b] = [self.pooled(claim, case, &pair[0])?, self.pooled(claim, case, &pair[1])?];
                    let estimate = interval(&a, Some(&b), seed);
                    let below = |end: f64| end < 0.0 || equals_hold && end == 0.0;
                    tell(
                        format!("{} - {}", pair[0], pair[1]),
                        estimate,
                        side(below(estimate.high), !below(estimate.low)),
                    );
                }
            }
            Rule::Alike { values, within, .. } => {
                let first = self.pooled(claim, case, &values[0])?;
                for value in &values[1..] {
                    let estimate = interval(&self.pooled(claim, case, value)?, Some(&first), seed);
                    let inside = estimate.low >= -within && estimate.high <= *within;
                    let outside = estimate.low > *within || estimate.high < -within;
                    tell(format!("{value} - {}", values[0]), estimate, side(inside, outside));
                }
            }
            Rule::AtLeast(least) => {
                let estimate = interval(&self.pooled(claim, case, "")?, None, seed);
                tell(measure, estimate, side(estimate.low >= *least, estimate.high < *least));
            }
            Rule::AtMost(most) => {
                let estimate = interval(&self.pooled(claim, case, "")?, None, seed);
                tell(measure, estimate, side(estimate.high <= *most, estimate.low > *most));
            }
            Rule::Spans(number) => {
                let sets = self.pooled(claim, case, "")?;
                let estimate = range(sets.len(), |of| mean(&sets, of.iter().copied()));
                let inside = (estimate.low..=estimate.high).contains(number);
                // One more set of the same kind lies outside with probability 2 / (n + 1).
                let rare = 2.0 / (sets.len() + 1) as f64 <= 1.0 - CONFIDENCE + f64::EPSILON;
                tell(measure, estimate, side(inside && rare, !inside && rare));
            }
            Rule::Zero => {
                let sum: f64 = self.0.iter().map(|row| row.sum).sum();
                let zero = self.0.iter().all(|row| row.sum == 0.0);
                tell(claim.measure.sum.clone(), Estimate { value: sum, low: sum, high: sum }, side(zero, !zero));
            }
        }
        Ok(())
    }
}

fn none(claim: &Claim, of: String) -> Error {
    Error::NoRow { claim: claim.says.clone(), table: claim.table.clone(), of }
}

fn side(holds: bool, fails: bool) -> Finding {
    match (holds, fails) {
        (true, _) => Finding::Holds,
        (_, true) => Finding::Fails,
        _ => Finding::CannotTell,
    }
}

/// Pooled measure of these sets.
fn mean(sets: &[(f64, f64)], of: impl Iterator<Item = usize>) -> f64 {
    let (sum, per) = of.fold((0.0, 0.0), |(sum, per), set| (sum + sets[set].0, per + sets[set].1));
    sum / per
}

/// The measure of `a`, less that of `b` if there is one, with its interval.
fn interval(a: &[(f64, f64)], b: Option<&[(f64, f64)]>, seed: u64) -> Estimate {
    let of = |sets: &[usize]| mean(a, sets.iter().copied()) - b.map_or(0.0, |b| mean(b, sets.iter().copied()));
    let Estimate { value, low, high } = range(a.len(), of);
    if a.len() < FEW {
        return Estimate { value, low, high };
    }
    let mut rng = stream(seed, CLAIMS, 0);
    let mut drawn = vec![0; a.len()];
    let mut resample = || {
        drawn.iter_mut().for_each(|set| *set = rng.random_range(0..a.len()));
        of(&drawn)
    };
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let end = |share: f64| crate::bootstrap::quantile(&values, share);
    Estimate { value, low: end(tail).min(value), high: end(1.0 - tail).max(value) }
}

/// A measure of so many sets together, and of the least and the largest of them.
fn range(sets: usize, of: impl Fn(&[usize]) -> f64) -> Estimate {
    let value = of(&(0..sets).collect::<Vec<_>>());
    let each = (0..sets).map(|set| of(&[set]));
    let (low, high) = each.fold((value, value), |(low, high), one| (low.min(one), high.max(one)));
    Estimate { value, low, high }
}

impl Judgement {
    /// What its interval is, for people.
    pub fn words(&self) -> String {
        match self.interval {
            Interval::Resampled => format!("99 % of {}", count(self.sets, "set")),
            Interval::Range if self.sets == 1 => "of one set".into(),
            Interval::Range => format!("range of {}", self.sets),
            Interval::Whole => format!("all of {}", count(self.sets, "set")),
        }
    }

    /// Its ends; none of a single set, which says nothing of others.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        (self.interval != Interval::Range || self.sets > 1).then_some((self.estimate.low, self.estimate.high))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Finding::Holds => "holds",
            Finding::Fails => "FAILS",
            Finding::CannotTell => "cannot tell",
        })
    }
}

/// Judgements against a claim that is not known to differ: the study does not come out.
pub fn failures<'a>(study: &Study, judgements: &'a [Judgement]) -> Vec<&'a Judgement> {
    let meant = |judgement: &&Judgement| study.claim[judgement.claim].differs.is_none();
    judgements.iter().filter(|judgement| judgement.finding == Finding::Fails).filter(meant).collect()
}

/// The judgements below their claims, and how many of each there are, for people. Ends with a line feed.
pub fn findings(study: &Study, judgements: &[Judgement]) -> String {
    let cells = |judgement: &Judgement| {
        let Judgement { case, of, estimate: Estimate { value, .. }, .. } = judgement;
        let interval = judgement.ends().map_or(String::new(), |(low, high)| format!("[{low:.4}, {high:.4}]"));
        [case.clone(), of.clone(), format!("{value:.4}"), interval, judgement.words()]
    };
    let mut widths = [0; 5];
    for cell in judgements.iter().map(cells) {
        widths.iter_mut().zip(cell).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    let [w_case, w_of, w_value, w_interval, w_words] = widths;
    let mut text = String::new();
    for (index, claim) in study.claim.iter().enumerate() {
        text += &format!("{}  [{}]\n", claim.says, claim.source);
        if let Some(why) = &claim.differs {
            text += &format!("  known to differ: {why}\n");
        }
        for judgement in judgements.iter().filter(|judgement| judgement.claim == index) {
            let [case, of, value, interval, words] = cells(judgement);
            let found = match judgement.finding {
                Finding::Fails if claim.differs.is_some() => "differs".to_string(),
                found => found.to_string(),
            };
            text += &format!(
                "  {found:<11}  {case:<w_case$}  {of:<w_of$}  {value:>w_value$}  {interval:>w_interval$}  {words:>w_words$}\n",
            );
        }
    }
    let found = |finding| judgements.iter().filter(|judgement| judgement.finding == finding).count();
    let failed = failures(study, judgements).len();
    text + &format!(
        "{} of {} hold, {} cannot be told, {} are known to differ and do, {failed} FAIL\n",
        found(Finding::Holds),
        judgements.len(),
        found(Finding::CannotTell),
        found(Finding::Fails) - failed,
    )
}
