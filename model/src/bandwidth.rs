//! Shares of a core as exact fractions: what decides must not round.

use crate::Duration;
use num_rational::Ratio;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Denominators beyond this are rounded away in sums that may be: sums with a few more shares still fit then.
const FINEST: u64 = 1_000_000_000_000;

/// A share of processor time: 1 is one whole core. Exact; in JSON a text such as `"19/25"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(Ratio<u64>);

impl Bandwidth {
    /// Nothing.
    pub const ZERO: Bandwidth = Bandwidth(Ratio::new_raw(0, 1));
    /// One whole core.
    pub const ONE: Bandwidth = Bandwidth(Ratio::new_raw(1, 1));

    /// `numerator / denominator`; `None` if the denominator is 0.
    pub fn new(numerator: u64, denominator: u64) -> Option<Self> {
        (denominator != 0).then(|| Bandwidth(Ratio::new(numerator, denominator)))
    }
    /// `budget / period`; `None` if the period is 0.
    pub fn of(budget: Duration, period: Duration) -> Option<Self> {
        Self::new(budget.ns(), period.ns())
    }
    /// Numerator of the reduced fraction.
    pub fn numer(self) -> u64 {
        *self.0.numer()
    }
    /// Denominator of the reduced fraction, never 0.
    pub fn denom(self) -> u64 {
        *self.0.denom()
    }
    /// Exact sum, or `None` if the reduced fraction needs more than 64 bits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.wide(other, |a, b| a.checked_add(b))
    }
    /// Exact difference, or `None` if it would be negative or needs more than 64 bits.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.wide(other, |a, b| a.checked_sub(b))
    }
    /// The sum, exact where it fits, or up to two millionths of a millionth more. `None` beyond 10 million cores.
    pub fn add_up(self, other: Self) -> Option<Self> {
        self.add_exactly(other).or_else(|| self.add_rounded(other, u128::div_ceil))
    }
    /// The sum, exact where it fits, or up to two millionths of a millionth less. `None` beyond 10 million cores.
    pub fn add_down(self, other: Self) -> Option<Self> {
        self.add_exactly(other).or_else(|| self.add_rounded(other, |top, bottom| top / bottom))
    }
    /// Time this share gives in `period`, rounded up to a whole nanosecond; `None` beyond 584 years.
    pub fn times_ceil(self, period: Duration) -> Option<Duration> {
        let product = u128::from(self.numer()) * u128::from(period.ns());
        u64::try_from(product.div_ceil(u128::from(self.denom()))).ok().map(Duration::from_ns)
    }
    /// For showing only, never for deciding.
    pub fn as_f64(self) -> f64 {
        self.numer() as f64 / self.denom() as f64
    }
    /// `30 %`, `33.3 %`: for people, rounded to a tenth of a percentage point; `< 0.1 %` for what would show as nothing.
    pub fn percent(self) -> String {
        if self > Bandwidth::ZERO && self.as_f64() < 0.0005 {
            return "< 0.1 %".into();
        }
        let tenths = (self.as_f64() * 1000.0).round() / 10.0;
        format!("{tenths} %")
    }

    fn add_exactly(self, other: Self) -> Option<Self> {
        self.checked_add(other).filter(|sum| sum.denom() <= FINEST)
    }

    fn add_rounded(self, other: Self, round: impl Fn(u128, u128) -> u128) -> Option<Self> {
        let parts = |share: Self| round(u128::from(share.numer()) * u128::from(FINEST), u128::from(share.denom()));
        Self::new(u64::try_from(parts(self) + parts(other)).ok()?, FINEST)
    }

    fn wide(self, other: Self, op: impl Fn(u128, u128) -> Option<u128>) -> Option<Self> {
        let (a, b) = (u128::from(self.numer()), u128::from(self.denom()));
        let (c, d) = (u128::from(other.numer()), u128::from(other.denom()));
        let top = op(a.checked_mul(d)?, c.checked_mul(b)?)?;
        let reduced = Ratio::new(top, b.checked_mul(d)?);
        Some(Bandwidth(Ratio::new_raw(u64::try_from(*reduced.numer()).ok()?, u64::try_from(*reduced.denom()).ok()?)))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denom() == 1 {
            return f.pad(&self.numer().to_string());
        }
        f.pad(&format!("{}/{}", self.numer(), self.denom()))
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    /// `19/25`, `1`, `5%`, `12.5 %`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a share; expected a percentage such as 5% or a fraction such as 19/25");
        if let Some(percent) = text.strip_suffix('%') {
            let (whole, fraction) = percent.trim().split_once('.').unwrap_or((percent.trim(), ""));
            let digits = format!("{whole}{fraction}");
            if whole.is_empty() || fraction.len() > 6 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad());
            }
            let numerator = digits.parse().map_err(|_| bad())?;
            return Self::new(numerator, 100 * 10u64.pow(fraction.len() as u32)).ok_or_else(bad);
        }
        let (top, bottom) = text.split_once('/').unwrap_or((text, "1"));
        let parse = |part: &str| part.trim().parse::<u64>().map_err(|_| bad());
        Self::new(parse(top)?, parse(bottom)?).ok_or_else(bad)
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bandwidth {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact() {
        let of = |text: &str| text.parse::<Bandwidth>().unwrap();
        assert_eq!(of("76%"), of("19/25"));
        assert_eq!(of("12.5 %"), of("1/8"));
        assert_eq!(of("1/3").checked_add(of("1/6")), Some(of("1/2")));
        assert_eq!(of("1/3").checked_sub(of("1/2")), None);
        assert_eq!(of("1/3").times_ceil(Duration::from_ns(10)), Some(Duration::from_ns(4)));
        assert_eq!(of("19/25").to_string(), "19/25");
        assert_eq!(of("1/3").percent(), "33.3 %");
        for bad in ["", "1/0", "-5%", "5 percent", "1.5", "%", "1/2/3"] {
            assert!(bad.parse::<Bandwidth>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sum_that_needs_too_many_digits_is_rounded_to_the_side_that_was_asked_for() {
        let share = |top, bottom| Bandwidth::new(top, bottom).unwrap();
        assert_eq!(share(1, 3).add_up(share(1, 6)), Some(share(1, 2)));
        assert_eq!(share(1, 3).add_down(share(1, 6)), Some(share(1, 2)));
        let (a, b) = (share(1, 4_000_037), share(1, 3_999_971)); // primes
        let third = share(1, 999_983);
        for (sum, above) in
            [(a.add_up(b).unwrap().add_up(third), true), (a.add_down(b).unwrap().add_down(third), false)]
        {
            let exact = 1.0 / 4_000_037.0 + 1.0 / 3_999_971.0 + 1.0 / 999_983.0;
            let difference = sum.unwrap().as_f64() - exact;
            assert!(difference.abs() < 5e-12 && (difference > 0.0) == above, "{difference}");
        }
    }
}
