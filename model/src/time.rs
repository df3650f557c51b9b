//! Time as integer nanoseconds. No floats: an hour of rounding is a missed deadline.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A length of time, in integer nanoseconds. In JSON a bare integer; fields are named `…_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(u64);

/// A point in time: nanoseconds since the origin of the clock in use (virtual time 0, or CLOCK_MONOTONIC's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instant(u64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// A number without a unit.
    #[error("'{0}' has no unit; write it with one of ns, us, ms, s, min, h, d (for example {0}ms)")]
    NoUnit(String),
    /// Not a number, or an unknown unit.
    #[error("'{0}' is not a duration; expected a number and one of ns, us, ms, s, min, h, d (for example 1.5ms)")]
    Malformed(String),
    /// More digits than whole nanoseconds can hold.
    #[error("'{0}' is not a whole number of nanoseconds, or is longer than 584 years")]
    Range(String),
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Duration(ns)
    }
    /// `us` microseconds. Panics beyond 584 years: for constants only.
    pub const fn from_us(us: u64) -> Self {
        Duration(us * 1_000)
    }
    /// `ms` milliseconds. Panics beyond 584 years: for constants only.
    pub const fn from_ms(ms: u64) -> Self {
        Duration(ms * 1_000_000)
    }
    /// `s` seconds. Panics beyond 584 years: for constants only.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s * 1_000_000_000)
    }
    /// As nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }
    /// `self + other`, or `None` beyond 584 years.
    pub fn checked_add(self, other: Duration) -> Option<Duration> {
        self.0.checked_add(other.0).map(Duration)
    }
    /// `self - other`, or `None` if `other` is longer.
    pub fn checked_sub(self, other: Duration) -> Option<Duration> {
        self.0.checked_sub(other.0).map(Duration)
    }
    /// `self * k`, or `None` beyond 584 years.
    pub fn checked_mul(self, k: u64) -> Option<Duration> {
        self.0.checked_mul(k).map(Duration)
    }
    /// True for a length of nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// As the standard library's duration, for clocks and sleeps.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl Instant {
    /// The clock's origin.
    pub const ZERO: Instant = Instant(0);

    /// `ns` nanoseconds after the clock's origin.
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }
    /// Nanoseconds since the clock's origin.
    pub const fn ns(self) -> u64 {
        self.0
    }
    /// `self + d`, or `None` beyond the clock's range.
    pub fn checked_add(self, d: Duration) -> Option<Instant> {
        self.0.checked_add(d.ns()).map(Instant)
    }
    /// Time from `earlier` to `self`, or `None` if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration)
    }
}

impl fmt::Display for Duration {
    /// Exact, in the largest unit that needs at most three decimals: `14 ms`, `1.52 s`, `200.001 us`, `1000001 ns`. With a
    /// precision, rounded to so many (at most three) in the largest unit that is not larger: `{:.3}` shows `4193.912 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |unit: u64| (self.0 % unit).is_multiple_of((unit / 1000).max(1));
        if let Some(decimals) = f.precision().filter(|_| !exact(1_000_000)) {
            let units = [(1_000_000u64, "ms"), (1_000, "us")];
            if let Some((unit, name)) = units.into_iter().find(|&(unit, _)| self.0 >= unit) {
                return write!(f, "{:.*} {name}", decimals.min(3), self.0 as f64 / unit as f64);
            }
        }
        for (unit, name) in [(1_000_000_000u64, "s"), (1_000_000, "ms"), (1_000, "us")] {
            // At least one whole unit, and a remainder that three decimals can hold.
            if self.0 >= unit && exact(unit) {
                let decimals = format!("{:03}", (self.0 % unit) / (unit / 1000).max(1));
                let decimals = decimals.trim_end_matches('0');
                let point = if decimals.is_empty() { "" } else { "." };
                return pad(f, &format!("{}{point}{decimals} {name}", self.0 / unit));
            }
        }
        pad(f, &format!("{} ns", self.0))
    }
}

/// As `Formatter::pad`, which would cut to the precision.
fn pad(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if f.precision().is_some() {
        f.write_str(text)
    } else {
        f.pad(text)
    }
}

/// A unit of time in ns, by its name.
pub(crate) fn unit_ns(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

impl FromStr for Duration {
    type Err = TimeError;

    /// `40ms`, `1.5 s`, `200us`, `2h`, `0ns`: a decimal number and a unit, exact to the nanosecond.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        let malformed = || TimeError::Malformed(text.to_string());
        let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        if number.is_empty() {
            return Err(malformed());
        }
        if unit.is_empty() {
            return Err(TimeError::NoUnit(text.to_string()));
        }
        let unit = unit_ns(unit).ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(malformed());
        }
        let fraction = fraction.trim_end_matches('0');
        let range = || TimeError::Range(text.to_string());
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| range())?;
        let scale = 10u128.checked_pow(fraction.len() as u32).ok_or_else(range)?;
        let scaled = digits.checked_mul(unit.into()).filter(|scaled| scaled % scale == 0).ok_or_else(range)?;
        u64::try_from(scaled / scale).map(Duration).map_err(|_| range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_is_exact_and_round_trips() {
        for (text, ns) in
            [("40ms", 40_000_000), ("1.5 s", 1_500_000_000), ("0.001us", 1), ("7ns", 7), ("2.50ms", 2_500_000)]
        {
            assert_eq!(text.parse(), Ok(Duration::from_ns(ns)), "{text}");
        }
        let long = [("1min", 60), ("0.05min", 3), ("1.5 h", 5_400), ("2d", 172_800), ("213503d", 213_503 * 86_400)];
        for (text, s) in long {
            let ns = s * 1_000_000_000;
            assert_eq!(text.parse(), Ok(Duration::from_ns(ns)), "{text}");
        }
        for ns in [0, 1, 999, 1_000, 1_001, 1_000_000, 1_000_001, 14_000_000, 1_520_000_000, u64::MAX] {
            let shown = Duration::from_ns(ns).to_string();
            assert_eq!(shown.parse(), Ok(Duration::from_ns(ns)), "{shown}");
        }
        assert_eq!(Duration::from_ms(1520).to_string(), "1.52 s");
        assert_eq!(Duration::from_ns(1_000_001).to_string(), "1000.001 us");
    }

    #[test]
    fn a_duration_needs_a_unit_and_whole_nanoseconds() {
        assert_eq!("40".parse::<Duration>(), Err(TimeError::NoUnit("40".into())));
        for bad in ["", "ms", "-1ms", "1m", "1..2ms", ".5ms", "1.ms", "1e3ms", "4 0ms"] {
            assert!(matches!(bad.parse::<Duration>(), Err(TimeError::Malformed(_))), "{bad}");
        }
        for bad in ["0.5ns", "20000000000s", "1.0000000001s", "99999999999999999999ns", "0.00000000001min", "213504d"] {
            assert!(matches!(bad.parse::<Duration>(), Err(TimeError::Range(_))), "{bad}");
        }
    }
}
