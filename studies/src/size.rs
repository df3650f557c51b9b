//! How much is played.

use crate::Error;
use giusto_model::Duration;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::fmt;

/// How much is played.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Random sets in each case.
    pub sets: u64,
    /// Simulated time of each.
    pub length: Duration,
    /// Of all randomness.
    pub seed: u64,
    /// How many of the study's cases, from the first on; `None`: all.
    pub cases: Option<u64>,
}

impl Size {
    /// From a size of a `study.toml`: `sets`, `seconds` and, if not all, `cases`. Errors: another key, or one that lacks.
    pub fn read(numbers: &BTreeMap<String, u64>, seed: u64) -> Result<Size, Error> {
        if let Some(unknown) = numbers.keys().find(|key| !["sets", "seconds", "cases"].contains(&key.as_str())) {
            return Err(Error::Size(format!("unknown key '{unknown}'")));
        }
        let number = |key: &str| match numbers.get(key) {
            Some(&number) if number > 0 && number < 1 << 30 => Ok(number),
            _ => Err(Error::Size(format!("'{key}' must be there, more than 0 and less than {}", 1u64 << 30))),
        };
        let cases = numbers.contains_key("cases").then(|| number("cases")).transpose()?;
        Ok(Size { sets: number("sets")?, length: Duration::from_ms(number("seconds")? * 1000), seed, cases })
    }

    /// The random stream of a set: sets of a case do not depend on how many there are.
    pub(crate) fn stream(&self, case: usize, set: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((case as u64) << 32 | set);
        rng
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sets a case, {} each, seed {}", self.sets, self.length, self.seed)
    }
}
