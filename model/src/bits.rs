//! How many bits a second.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Whole bits in a second, on the wire: `200Mbit/s`, `1.5Gbit/s`. In JSON a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

/// From the largest to the smallest.
const UNITS: [(&str, u64); 4] = [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)];

impl BitRate {
    /// So many bits a second.
    pub fn of(bits: u64) -> BitRate {
        BitRate(bits)
    }
    /// Bits a second.
    pub fn bits(self) -> u64 {
        self.0
    }
    /// Whether a text ends as one does: what else it says may be wrong.
    pub fn is_meant(text: &str) -> bool {
        text.trim_end().ends_with("bit/s")
    }
}

impl FromStr for BitRate {
    type Err = String;

    /// A decimal number and one of bit/s, kbit/s, Mbit/s, Gbit/s.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("'{text}' is not a rate of bits; expected a number of whole bits a second, such as 200Mbit/s");
        let (number, unit) =
            UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?.trim(), *scale))).ok_or_else(bad)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let parts = 10u64.checked_pow(fraction.len() as u32).ok_or_else(bad)?;
        let scaled = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(bad)?;
        scaled.is_multiple_of(parts).then(|| BitRate(scaled / parts)).ok_or_else(bad)
    }
}

impl fmt::Display for BitRate {
    /// In the largest unit of which it is a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = UNITS.iter().find(|(_, scale)| self.0.is_multiple_of(*scale) && self.0 >= *scale);
        let (unit, scale) = fits.unwrap_or(&UNITS[3]);
        f.pad(&format!("{}{unit}", self.0 / scale))
    }
}

impl Serialize for BitRate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_bits_are_exact_and_round_trip() {
        for (text, bits) in
            [("200Mbit/s", 200_000_000), ("1500kbit/s", 1_500_000), ("1Gbit/s", 1_000_000_000), ("7bit/s", 7)]
        {
            let rate: BitRate = text.parse().unwrap();
            assert_eq!((rate.bits(), rate.to_string().as_str()), (bits, text));
        }
        assert_eq!("1.5 Mbit/s".parse(), Ok(BitRate::of(1_500_000)));
        assert_eq!("0bit/s".parse::<BitRate>().unwrap().to_string(), "0bit/s");
        for bad in [
            "",
            "200",
            "200M/s",
            "200Mbit",
            "-1Mbit/s",
            "1e3bit/s",
            "0.5bit/s",
            ".5Mbit/s",
            "20000000000Gbit/s",
            "200mbit/s",
        ] {
            assert!(bad.parse::<BitRate>().is_err(), "{bad}");
        }
    }
}
