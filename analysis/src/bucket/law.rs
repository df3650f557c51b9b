//! Unfinished work U of M/D/1, in units of the service time.

use super::error::BucketError;

/// From here on P(U > x) is C·e^(−θx) to ten digits: the next root of its transform has a real part of 2 or more.
const FAR: f64 = 12.0;
/// Above this load the series has thousands of terms and more.
const HIGH: f64 = 0.8;
/// Terms of the series that are looked at.
const MOST_TERMS: usize = 2_000_000;
/// Gauss-Legendre on [−1, 1], eight points: half of the places, and their weights.
const PLACES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// M/D/1 at one load.
pub(super) struct Law {
    load: f64,
    /// θ > 0 with ρ(e^θ − 1) = θ.
    decay: f64,
    /// C = (1 − ρ)/(ρe^θ − 1) (Cramér and Lundberg).
    height: f64,
}

impl Law {
    /// At ρ = `load` in (0, 1). Errors: so near to 1 that the series does not end.
    pub(super) fn new(load: f64) -> Result<Law, BucketError> {
        // Terms fall like e^(−n(ρ − 1 − ln ρ)).
        let fall = load - 1.0 - load.ln();
        if !(load > 0.0 && load < 1.0) || 40.0 / fall > MOST_TERMS as f64 {
            return Err(BucketError::Load { hundredths: (10_000.0 * load).round() as u64 });
        }
        // ρ(e^θ − 1) − θ is convex, 0 at 0 with a negative slope, and positive at −2 ln ρ + 2: Newton from above.
        let mut decay = 2.0 - 2.0 * load.ln();
        for _ in 0..200 {
            let step = (load * decay.exp_m1() - decay) / (load * decay.exp() - 1.0);
            decay -= step;
            if step.abs() <= 1e-15 * decay {
                break;
            }
        }
        Ok(Law { load, decay, height: (1.0 - load) / (load * decay.exp() - 1.0) })
    }

    /// θ.
    pub(super) fn decay(&self) -> f64 {
        self.decay
    }

    /// P(U > x). O(1).
    pub(super) fn beyond(&self, x: f64) -> f64 {
        if x < 0.0 {
            1.0
        } else if x < FAR && self.load > HIGH {
            self.textbook(x)
        } else if x < FAR {
            self.series(x)
        } else {
            self.height * (-self.decay * x).exp()
        }
    }

    /// P(U > x), by the last time that the work to come has been x ahead of the time: at n − x with n arrivals by then, for
    /// some n > x, after which it never is again, (1 − ρ): (1 − ρ) Σ e^(n ln m − m − ln n!), m = ρ(n − x). All terms are
    /// positive.
    fn series(&self, x: f64) -> f64 {
        let first = x as usize + 1;
        let mut factorial: f64 = (1..first).map(|n| (n as f64).ln()).sum();
        let (mut sum, mut before) = (0.0, 0.0);
        for n in first..first + MOST_TERMS {
            let count = n as f64;
            factorial += count.ln();
            let mean = self.load * (count - x);
            let term = (count * mean.ln() - mean - factorial).exp();
            sum += term;
            if term < before && term < 1e-17 * sum {
                break;
            }
            before = term;
        }
        ((1.0 - self.load) * sum).min(1.0)
    }

    /// P(U > x), Erlang's form: 1 − (1 − ρ) Σ (ρ(n − x))^n e^(ρ(x − n))/n! for n up to x. Its terms alternate, and below 12
    /// ten digits are left of them; that is enough where P(U > x) is not small.
    fn textbook(&self, x: f64) -> f64 {
        let (mut power, mut sum) = (1.0, 0.0);
        for n in 0..=x as i32 {
            let far = x - f64::from(n);
            sum += (-self.load * far).powi(n) / power * (self.load * far).exp();
            power *= f64::from(n + 1);
        }
        (1.0 - (1.0 - self.load) * sum).clamp(0.0, 1.0)
    }

    /// ∫ P(U > u) du from x on; E[U] − x where x < 0. P(U > x) has its kinks at whole numbers, between which it is smooth.
    pub(super) fn excess(&self, x: f64) -> f64 {
        if x < 0.0 {
            return -x + self.excess(0.0);
        }
        let tail = |x: f64| self.height / self.decay * (-self.decay * x).exp();
        let (mut sum, mut from) = (0.0, x);
        while from < FAR {
            let to = (from.floor() + 1.0).min(FAR);
            let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
            let two =
                |(at, weight): (f64, f64)| weight * (self.beyond(middle - half * at) + self.beyond(middle + half * at));
            sum += half * PLACES.into_iter().map(two).sum::<f64>();
            from = to;
        }
        sum + tail(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_one_law() {
        for load in [0.5, 0.81, 0.9, 0.98] {
            let law = Law::new(load).unwrap();
            for x in (0..120).map(|tenths| f64::from(tenths) / 10.0) {
                let (series, textbook) = (law.series(x), law.textbook(x));
                assert!((series - textbook).abs() < 1e-10, "{load} {x}: {series} {textbook}");
            }
        }
    }

    #[test]
    fn far_out_the_series_is_exponential_and_its_integral_is_that_of_pollaczek_and_khinchine() {
        for load in [0.05, 0.3, 0.7, 0.9, 0.98] {
            let law = Law::new(load).unwrap();
            for x in [FAR, FAR + 0.5, FAR + 3.3] {
                let (series, line) = (law.series(x), law.height * (-law.decay * x).exp());
                assert!((series - line).abs() <= 1e-9 * line + 1e-15, "{load} {x}: {series} {line}");
            }
            // The server is busy for a part of ρ of all time, and E[U] = ρ/2(1 − ρ).
            assert!((law.beyond(0.0) - load).abs() < 1e-10, "{load}: {}", law.beyond(0.0));
            let mean = load / 2.0 / (1.0 - load);
            assert!((law.excess(0.0) - mean).abs() < 1e-8 * (1.0 + mean), "{load}: {} {mean}", law.excess(0.0));
        }
        for load in [0.0, 1.0, 1.5, 0.999, -0.5, f64::NAN] {
            assert!(Law::new(load).is_err(), "{load}");
        }
    }
}
