//! How much a token bucket holds.

use num_rational::Ratio;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Tokens, exactly: `26`, `4.5`; a share of a split bucket may be any fraction, `13/3`. In JSON a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(Ratio<u64>);

impl Tokens {
    /// Whole tokens.
    pub fn whole(count: u64) -> Tokens {
        Tokens(Ratio::from_integer(count))
    }
    /// `parts` of which `in_one` are a token; `None` of no parts in one.
    pub fn of(parts: u64, in_one: u64) -> Option<Tokens> {
        (in_one > 0).then(|| Tokens(Ratio::new(parts, in_one)))
    }
    /// Parts, and how many of them are a token, in lowest terms.
    pub fn fraction(self) -> (u64, u64) {
        (*self.0.numer(), *self.0.denom())
    }
    /// A number.
    pub fn as_f64(self) -> f64 {
        *self.0.numer() as f64 / *self.0.denom() as f64
    }
    /// The whole ones: as many messages may come at once and not wait.
    pub fn at_once(self) -> u64 {
        self.0.to_integer()
    }
    /// One of `count` equal shares; `None` of no shares, or beyond 64 bits.
    pub fn share(self, count: u32) -> Option<Tokens> {
        let in_one = self.0.denom().checked_mul(count.into())?;
        Tokens::of(*self.0.numer(), in_one)
    }
}

impl FromStr for Tokens {
    type Err = String;

    /// A decimal number or a fraction.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a number of tokens; expected a number such as 26 or 4.5");
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (top, bottom) = if let Some((top, bottom)) = text.split_once('/') {
            let bottom = bottom.parse::<u64>().ok().filter(|_| digits(bottom)).ok_or_else(bad)?;
            (top.to_string(), bottom)
        } else {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let bottom = 10u64.checked_pow(fraction.len() as u32).ok_or_else(bad)?;
            (format!("{whole}{fraction}"), bottom)
        };
        let top = top.parse().ok().filter(|_| digits(&top)).ok_or_else(bad)?;
        Tokens::of(top, bottom).ok_or_else(bad)
    }
}

impl fmt::Display for Tokens {
    /// Exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_shares_add_up() {
        for (text, told) in [("26", "26"), ("4.5", "9/2"), ("13/3", "13/3"), ("0.250", "1/4")] {
            let tokens: Tokens = text.parse().unwrap();
            assert_eq!(tokens.to_string(), told);
            assert_eq!(told.parse(), Ok(tokens));
        }
        let share = Tokens::whole(26).share(6).unwrap();
        assert_eq!((share.to_string().as_str(), share.at_once()), ("13/3", 4));
        for text in ["", "-1", "1e3", "1/0", "4.", "1.5/2", ".5", "99999999999999999999"] {
            let fine = text == "4." || text == ".5";
            assert_eq!(text.parse::<Tokens>().is_ok(), fine, "{text}");
        }
    }
}
