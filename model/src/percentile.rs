//! Percentiles, requests that come at random, and how long each takes.

use crate::{Duration, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A part of all, in thousandths of a percent, above none and below all: `p90`, `p99.9`. In JSON a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u32);

/// Thousandths of a percent in all.
const ALL: u32 = 100_000;

impl Percentile {
    /// All: none may be beyond.
    pub const EVERY: Percentile = Percentile(ALL);

    /// In percent: 99.9.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
    /// In thousandths of a percent: 99,900.
    pub fn thousandths(self) -> u32 {
        self.0
    }
    /// This one for so many fewer of all as `other` leaves out; `None` if that leaves none. What is kept by all but 1 − q of
    /// one thing and by all but q − p of another is kept by p of both together.
    pub fn beside(self, other: Percentile) -> Option<Percentile> {
        let left_out = other.0.checked_sub(self.0).filter(|both| *both > 0)?;
        Some(Percentile(ALL - left_out))
    }
}

impl FromStr for Percentile {
    type Err = String;

    /// `p` and a number above 0 and below 100 with up to three decimals.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("'{text}' is not a percentile; expected p and a number between 0 and 100 with up to three decimals, such as p90 or p99.9")
        };
        let (whole, fraction) = match text.strip_prefix('p').ok_or_else(bad)?.split_once('.') {
            Some((_, "")) => return Err(bad()),
            Some(parts) => parts,
            None => (&text[1..], ""),
        };
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let padded = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || whole.len() > 2 || padded || fraction.len() > 3 || !digits(whole) || !digits(fraction) {
            return Err(bad());
        }
        let thousandths: u32 = format!("{whole}{fraction:0<3}").parse().map_err(|_| bad())?;
        Some(Percentile(thousandths)).filter(|p| (1..ALL).contains(&p.0)).ok_or_else(bad)
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("p{}", self.percent()))
    }
}

impl Serialize for Percentile {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percentile {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// So many of all response times are at most so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Within {
    /// How many.
    pub percentile: Percentile,
    /// How long.
    #[serde(rename = "within_ns")]
    pub within: Duration,
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ≤ {}", self.percentile, self.within)
    }
}

/// A Poisson process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// λ: how often a request comes, or, where several come at once, how often such a batch.
    pub rate: Rate,
    /// Requests that come at once, 1 or more.
    pub batch: u32,
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch {
            1 => write!(f, "{} at random", self.rate),
            batch => write!(f, "{} times {batch} at random", self.rate),
        }
    }
}

/// Processor time of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ServiceTime {
    /// Always this.
    Constant {
        /// How much.
        #[serde(rename = "ns")]
        time: Duration,
    },
    /// Never more than `wcet`, and `mean` on average.
    Bounded {
        /// On average.
        #[serde(rename = "mean_ns")]
        mean: Duration,
        /// At most.
        #[serde(rename = "wcet_ns")]
        wcet: Duration,
    },
    /// As measured.
    Measured {
        /// The profile file, as the site names it.
        from: String,
        /// Times in ns and how many requests took each, ascending; at least one.
        times: Vec<(Duration, u32)>,
    },
}

impl ServiceTime {
    /// Times and their probabilities, none of them too short: where only a bound is known, that.
    pub fn bound(&self) -> Vec<(Duration, f64)> {
        match self {
            ServiceTime::Constant { time } | ServiceTime::Bounded { wcet: time, .. } => vec![(*time, 1.0)],
            ServiceTime::Measured { times, .. } => {
                let all: f64 = times.iter().map(|(_, count)| f64::from(*count)).sum();
                times.iter().map(|(time, count)| (*time, f64::from(*count) / all)).collect()
            }
        }
    }

    /// Where only a bound and a mean are known, the mean: what to expect, but no bound on anything.
    pub fn expected(&self) -> Option<Vec<(Duration, f64)>> {
        match self {
            ServiceTime::Bounded { mean, wcet } if mean < wcet => Some(vec![(*mean, 1.0)]),
            _ => None,
        }
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        match self {
            ServiceTime::Constant { time } | ServiceTime::Bounded { wcet: time, .. } => *time,
            ServiceTime::Measured { times, .. } => times.last().map_or(Duration::ZERO, |(time, _)| *time),
        }
    }

    /// Values to draw from, all alike, with the same probabilities as [`bound`](Self::bound).
    pub fn samples(&self) -> Vec<u64> {
        match self {
            ServiceTime::Constant { time } | ServiceTime::Bounded { wcet: time, .. } => vec![time.ns()],
            ServiceTime::Measured { times, .. } => {
                times.iter().flat_map(|(time, count)| std::iter::repeat_n(time.ns(), *count as usize)).collect()
            }
        }
    }
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceTime::Constant { time } => write!(f, "{time:.3} each"),
            ServiceTime::Bounded { mean, wcet } => write!(f, "{mean:.3} each on average, at most {wcet:.3}"),
            ServiceTime::Measured { from, times } => {
                let all: u64 = times.iter().map(|(_, count)| u64::from(*count)).sum();
                write!(f, "as {all} requests of {from} took, at most {:.3}", self.longest())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_and_round_trip() {
        for (text, thousandths) in
            [("p50", 50_000), ("p99.9", 99_900), ("p99.999", 99_999), ("p0.001", 1), ("p5", 5_000), ("p33.25", 33_250)]
        {
            let p: Percentile = text.parse().unwrap();
            assert_eq!((p.thousandths(), p.to_string().as_str()), (thousandths, text));
        }
        for bad in ["", "p", "90", "p0", "p100", "p0.0001", "p99.", "p.5", "p099", "p-1", "p1e1", "p99,9", "p 90"] {
            assert!(bad.parse::<Percentile>().unwrap_err().contains("not a percentile"), "{bad}");
        }
    }

    #[test]
    fn what_is_drawn_from_has_the_probabilities_that_are_told() {
        let ms = Duration::from_ms;
        let measured = ServiceTime::Measured { from: "p.csv".into(), times: vec![(ms(1), 3), (ms(4), 1)] };
        assert_eq!(measured.bound(), [(ms(1), 0.75), (ms(4), 0.25)]);
        assert_eq!(measured.samples(), [1, 1, 1, 4].map(|ms| ms * 1_000_000));
        assert_eq!((measured.longest(), measured.expected()), (ms(4), None));
        let bounded = ServiceTime::Bounded { mean: ms(1), wcet: ms(4) };
        assert_eq!((bounded.bound(), bounded.expected()), (vec![(ms(4), 1.0)], Some(vec![(ms(1), 1.0)])));
    }
}
