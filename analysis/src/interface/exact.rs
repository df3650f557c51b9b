//! U of any number of tasks, exactly: a fraction of as many digits as it takes.

use super::demand::work;
use giusto_model::{Bandwidth, Task};
use num_bigint::BigUint;
use num_rational::Ratio;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// An exact share of a core; unlike [`Bandwidth`] of any number of digits. In JSON a text such as `"143/280"`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(Ratio<BigUint>);

impl Fraction {
    /// `top` / `bottom`, reduced; `None` if the bottom is 0.
    fn new(top: BigUint, bottom: BigUint) -> Option<Self> {
        (bottom != BigUint::ZERO).then(|| Fraction(Ratio::new(top, bottom)))
    }

    /// `top` / `bottom`, reduced; `None` if the bottom is 0.
    pub(super) fn ratio(top: u128, bottom: u128) -> Option<Self> {
        Fraction::new(top.into(), bottom.into())
    }

    /// Of tasks; the same as their hyperperiod's work over the hyperperiod. Copies counted.
    pub(super) fn of(load: &Load) -> Self {
        Fraction(Ratio::new(load.work.clone(), load.period.clone()))
    }

    /// The same as a fraction of at most 61 bits, rounded down where it has more.
    pub(super) fn floor(&self) -> (u64, u64) {
        const ONE: u64 = 1 << 61;
        match (u64::try_from(self.0.numer()), u64::try_from(self.0.denom())) {
            (Ok(top), Ok(bottom)) if bottom <= ONE => (top, bottom),
            _ => (u64::try_from(self.0.numer() * ONE / self.0.denom()).unwrap_or(u64::MAX), ONE),
        }
    }

    /// α − U; `None` if that is negative.
    pub(super) fn beyond(share: Bandwidth, load: &Load) -> Option<Self> {
        let (gain, cost) = load.crossed(share.numer().into(), share.denom().into());
        (gain >= cost).then(|| Fraction(Ratio::new(gain - cost, &load.period * share.denom())))
    }

    /// `51.1 %`: for people, rounded to a tenth of a percentage point.
    pub fn percent(&self) -> String {
        let tenths = (self.0.numer() * 2000u32 + self.0.denom()) / (self.0.denom() * 2u32);
        let (whole, rest) = (&tenths / 10u32, &tenths % 10u32);
        match rest == BigUint::ZERO {
            true => format!("{whole} %"),
            false => format!("{whole}.{rest} %"),
        }
    }
}

impl From<Bandwidth> for Fraction {
    fn from(share: Bandwidth) -> Self {
        Fraction(Ratio::new_raw(share.numer().into(), share.denom().into()))
    }
}

impl From<Ratio<BigUint>> for Fraction {
    fn from(fraction: Ratio<BigUint>) -> Self {
        Fraction(fraction)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl FromStr for Fraction {
    type Err = String;

    /// `143/280`, `1`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a fraction; expected one such as 19/25");
        let (top, bottom) = text.split_once('/').unwrap_or((text, "1"));
        let part = |digits: &str| digits.parse::<BigUint>().map_err(|_| bad());
        Fraction::new(part(top)?, part(bottom)?).ok_or_else(bad)
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Σ C/T and Σ (C/T)(T − D) over one denominator, not reduced.
#[derive(Debug)]
pub(super) struct Load {
    work: BigUint,
    /// Σ U_i (T_i − D_i) · `period`.
    early: BigUint,
    /// lcm of the periods.
    period: BigUint,
}

/// α as a fraction.
pub(super) type Share = (u128, u128);

/// The same from a [`Bandwidth`].
pub(super) fn as_share(bandwidth: Bandwidth) -> Share {
    (bandwidth.numer().into(), bandwidth.denom().into())
}

impl Load {
    /// Of checked tasks. O(n) operations on numbers of at most the digits of all periods together.
    pub(super) fn new(tasks: &[Task]) -> Self {
        let mut period = BigUint::from(1u32);
        for task in tasks {
            let own = task.period.ns();
            let rest = u64::try_from(&period % own).unwrap_or(0); // less than `own`
            period *= own / num_integer::gcd(rest, own);
        }
        let (mut load, mut early) = (BigUint::ZERO, BigUint::ZERO);
        for task in tasks {
            let part = &period / task.period.ns() * work(task);
            if task.deadline < task.period {
                early += &part * (task.period.ns() - task.deadline.ns());
            }
            load += part;
        }
        Load { work: load, early, period }
    }

    /// α and U over one denominator.
    fn crossed(&self, top: u128, bottom: u128) -> (BigUint, BigUint) {
        (&self.period * top, &self.work * bottom)
    }

    /// α compared with U.
    pub(super) fn compare(&self, (top, bottom): Share) -> Ordering {
        let (gain, cost) = self.crossed(top, bottom);
        gain.cmp(&cost)
    }

    /// ⌈U · `period`⌉, and whether that is exact; `None` beyond 64 bits.
    pub(super) fn times(&self, period: u64) -> Option<(u64, bool)> {
        let product = &self.work * period;
        let rest = &product % &self.period == BigUint::ZERO;
        let floor = u64::try_from(product / &self.period).ok()?;
        Some((floor.checked_add(u64::from(!rest))?, rest))
    }

    /// U·t + Σ U_i (T_i − D_i), which dbf(t) never passes, rounded up; `None` beyond 64 bits.
    pub(super) fn line(&self, t: u64) -> Option<u64> {
        let top = &self.work * t + &self.early;
        u64::try_from((top + &self.period - 1u32) / &self.period).ok()
    }

    /// No t ≥ this has dbf(t) > α(t − lag): the least whole t with α(t − lag) ≥ U·t + Σ U_i (T_i − D_i), the line that no dbf
    /// passes. `None` if there is none, or beyond 584 years.
    pub(super) fn crossing(&self, (top, bottom): Share, lag: u128) -> Option<u64> {
        let (gain, cost) = self.crossed(top, bottom);
        let behind = &gain * lag + &self.early * bottom;
        if gain < cost {
            return None;
        }
        if behind == BigUint::ZERO {
            return Some(0);
        }
        let apart = gain - cost;
        if apart == BigUint::ZERO {
            return None;
        }
        u64::try_from((behind + &apart - 1u32) / apart).ok()
    }

    /// A t by which dbf(t) > αt for sure, since dbf(t) > Σ U_i (t − D_i) once each task had a deadline. `None` if α ≥ U or it is
    /// beyond 584 years.
    pub(super) fn overtaken(&self, (top, bottom): Share, tasks: &[Task]) -> Option<u64> {
        let (gain, cost) = self.crossed(top, bottom);
        if gain >= cost {
            return None;
        }
        let due = tasks.iter().map(|task| &self.period / task.period.ns() * work(task) * task.deadline.ns());
        let behind = due.sum::<BigUint>() * bottom;
        let apart = cost - gain;
        let after = u64::try_from((behind + &apart - 1u32) / apart).ok()?;
        Some(tasks.iter().map(|task| task.deadline.ns()).fold(after, u64::max))
    }

    /// lcm of the task periods, if that fits in 64 bits.
    pub(super) fn hyperperiod(&self) -> Option<u64> {
        u64::try_from(&self.period).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_reduced_and_round_trip_whatever_their_length() {
        for text in
            ["143/280", "1", "0", "340282366920938463463374607431768211457/340282366920938463463374607431768211459"]
        {
            assert_eq!(text.parse::<Fraction>().unwrap().to_string(), text);
        }
        assert_eq!("286/560".parse::<Fraction>().unwrap().to_string(), "143/280");
        assert_eq!("143/280".parse::<Fraction>().unwrap().percent(), "51.1 %");
        assert_eq!("1/2".parse::<Fraction>().unwrap().percent(), "50 %");
        for bad in ["", "1/0", "-1/2", "1.5", "1/2/3"] {
            assert!(bad.parse::<Fraction>().is_err(), "{bad}");
        }
    }
}
