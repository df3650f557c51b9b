//! Plain numbers: a file of CARTS says no unit.

use giusto_model::{Duration, TimeError};
use std::fmt;
use std::str::FromStr;

/// What 1 means in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

const NAMES: [(&str, Unit); 4] = [("ns", Unit::Ns), ("us", Unit::Us), ("ms", Unit::Ms), ("s", Unit::S)];

impl Unit {
    /// One of it.
    pub fn one(self) -> Duration {
        Duration::from_ns(match self {
            Unit::Ns => 1,
            Unit::Us => 1_000,
            Unit::Ms => 1_000_000,
            Unit::S => 1_000_000_000,
        })
    }

    /// The exact time that the decimal `number` of this unit is.
    pub(super) fn time(self, number: &str) -> Result<Duration, TimeError> {
        format!("{number}{self}").parse()
    }

    /// `time` as an exact decimal number of this unit.
    pub(super) fn number(self, time: Duration) -> String {
        decimal(u128::from(time.ns()), u128::from(self.one().ns()))
    }
}

/// `top / bottom` as a decimal number without idle zeros; `bottom` is a power of ten.
pub(super) fn decimal(top: u128, bottom: u128) -> String {
    let digits = bottom.ilog10() as usize;
    if digits == 0 {
        return top.to_string();
    }
    let text = format!("{}.{:0digits$}", top / bottom, top % bottom);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NAMES.iter().filter(|(_, unit)| unit == self).try_for_each(|(name, _)| f.pad(name))
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|&(_, unit)| unit);
        found.ok_or_else(|| format!("'{text}' is not a unit of time; expected one of ns, us, ms, s"))
    }
}
