//! How often something comes.

use crate::time::unit_ns;
use crate::Duration;
use num_rational::Ratio;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Events in a time, exactly: `40/s`, `0.004/ms`. In JSON a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(Ratio<u64>);

impl Rate {
    /// Events in a nanosecond.
    pub fn per_ns(self) -> f64 {
        *self.0.numer() as f64 / *self.0.denom() as f64
    }
    /// So many events in a time; `None` in no time.
    pub fn of(events: u64, time: Duration) -> Option<Rate> {
        (!time.is_zero()).then(|| Rate(Ratio::new(events, time.ns())))
    }
    /// One of `count` equal shares; `None` of no shares, or beyond 64 bits.
    pub fn share(self, count: u32) -> Option<Rate> {
        let bottom = self.0.denom().checked_mul(count.into()).filter(|bottom| *bottom > 0)?;
        Some(Rate(Ratio::new(*self.0.numer(), bottom)))
    }
    /// So many times as often; `None` beyond 64 bits.
    pub fn times(self, count: u32) -> Option<Rate> {
        let top = self.0.numer().checked_mul(count.into())?;
        Some(Rate(Ratio::new(top, *self.0.denom())))
    }
    /// Both together; `None` beyond 64 bits.
    pub fn plus(self, other: Rate) -> Option<Rate> {
        let parts = |rate: Rate| (u128::from(*rate.0.numer()), u128::from(*rate.0.denom()));
        let ((a, b), (c, d)) = (parts(self), parts(other));
        let sum = Ratio::new(a.checked_mul(d)?.checked_add(c.checked_mul(b)?)?, b.checked_mul(d)?);
        Some(Rate(Ratio::new_raw(u64::try_from(*sum.numer()).ok()?, u64::try_from(*sum.denom()).ok()?)))
    }
    /// What is left without `other`; `None` beyond 64 bits, and where that is more.
    pub fn minus(self, other: Rate) -> Option<Rate> {
        let parts = |rate: Rate| (u128::from(*rate.0.numer()), u128::from(*rate.0.denom()));
        let ((a, b), (c, d)) = (parts(self), parts(other));
        let left = Ratio::new(a.checked_mul(d)?.checked_sub(c.checked_mul(b)?)?, b.checked_mul(d)?);
        Some(Rate(Ratio::new_raw(u64::try_from(*left.numer()).ok()?, u64::try_from(*left.denom()).ok()?)))
    }
    /// Events and the ns in which they come, in lowest terms.
    pub fn fraction(self) -> (u64, u64) {
        (*self.0.numer(), *self.0.denom())
    }
    /// Events in a second.
    pub fn per_second(self) -> f64 {
        self.per_ns() * 1e9
    }
    /// Whether nothing ever comes.
    pub fn is_zero(self) -> bool {
        *self.0.numer() == 0
    }
}

impl FromStr for Rate {
    type Err = String;

    /// A decimal number, perhaps with `k` or `M` for a thousand or a million, or a fraction; a slash, and one of ns, us, ms, s,
    /// min, h, d.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("'{text}' is not a rate; expected a number and a unit of time, such as 40/s, 20k/s or 0.004/ms");
        let (number, unit) = text.rsplit_once('/').ok_or_else(bad)?;
        let per = unit_ns(unit.trim()).ok_or_else(bad)?;
        let number = number.trim();
        if let Some((top, bottom)) = number.split_once('/') {
            let parts =
                (top.parse::<u64>().ok(), bottom.parse::<u64>().ok().and_then(|bottom| bottom.checked_mul(per)));
            return match parts {
                (Some(top), Some(bottom)) if bottom > 0 => Ok(Rate(Ratio::new(top, bottom))),
                _ => Err(bad()),
            };
        }
        let (number, scale) = match (number.strip_suffix('k'), number.strip_suffix('M')) {
            (Some(number), _) => (number, 1_000),
            (_, Some(number)) => (number, 1_000_000),
            _ => (number, 1),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let top = digits.parse::<u64>().ok().and_then(|top| top.checked_mul(scale)).ok_or_else(bad)?;
        let bottom = 10u64.checked_pow(fraction.len() as u32).and_then(|ten| ten.checked_mul(per)).ok_or_else(bad)?;
        Ok(Rate(Ratio::new(top, bottom)))
    }
}

impl fmt::Display for Rate {
    /// Exact, in events a second: a decimal number, or a fraction where that would not end (11000/3/s).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = Ratio::new(u128::from(*self.0.numer()) * 1_000_000_000, u128::from(*self.0.denom()));
        let (top, bottom) = (*a_second.numer(), *a_second.denom());
        let mut odd = bottom;
        for factor in [2, 5] {
            while odd % factor == 0 {
                odd /= factor;
            }
        }
        if odd > 1 {
            return f.pad(&format!("{a_second}/s"));
        }
        let (whole, mut rest) = (top / bottom, top % bottom);
        let mut text = whole.to_string();
        if rest > 0 {
            text.push('.');
        }
        while rest > 0 {
            rest *= 10;
            text += &(rest / bottom).to_string();
            rest %= bottom;
        }
        f.pad(&format!("{text}/s"))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_exact_and_round_trip() {
        let of = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(of("0.004/ms"), of("4/s"));
        assert_eq!(of("20k/s"), of("20/ms"));
        assert_eq!(of("240/min"), of("4/s"));
        assert_eq!(of("2/d"), of("1/12/h"));
        for text in ["11000/3/s", "4/s", "0.5/s", "10000/s", "0/s", "1.25/s", "0.000000001/s"] {
            assert_eq!(of(text).to_string(), text);
            assert_eq!(of(&of(text).to_string()), of(text));
        }
        for bad in [
            "",
            "4",
            "4/y",
            "/s",
            "-1/s",
            "1e3/s",
            ".5/s",
            "1.5.5/s",
            "1/0/s",
            "1//s",
            "1.5/2/s",
            "99999999999999999999/s",
        ] {
            assert!(bad.parse::<Rate>().unwrap_err().contains("not a rate"), "{bad}");
        }
    }
}
