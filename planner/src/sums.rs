//! Sums of shares that stay within 64 bits: exact where they fit, else rounded to the side that is safe.

use giusto_model::Bandwidth;

/// Denominators beyond this are rounded away: sums with a few more shares still fit then.
const FINEST: u64 = 1_000_000_000_000;

/// a + b, or up to two millionths of a millionth more. `None` beyond 10 million cores.
pub(crate) fn add_up(a: Bandwidth, b: Bandwidth) -> Option<Bandwidth> {
    exact(a, b).or_else(|| rounded(a, b, u128::div_ceil))
}

/// a + b, or up to two millionths of a millionth less. `None` beyond 10 million cores.
pub(crate) fn add_down(a: Bandwidth, b: Bandwidth) -> Option<Bandwidth> {
    exact(a, b).or_else(|| rounded(a, b, |top, bottom| top / bottom))
}

fn exact(a: Bandwidth, b: Bandwidth) -> Option<Bandwidth> {
    a.checked_add(b).filter(|sum| sum.denom() <= FINEST)
}

fn rounded(a: Bandwidth, b: Bandwidth, round: impl Fn(u128, u128) -> u128) -> Option<Bandwidth> {
    let parts = |share: Bandwidth| round(u128::from(share.numer()) * u128::from(FINEST), u128::from(share.denom()));
    Bandwidth::new(u64::try_from(parts(a) + parts(b)).ok()?, FINEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_needs_too_many_digits_is_rounded_to_the_side_that_was_asked_for() {
        let share = |top, bottom| Bandwidth::new(top, bottom).unwrap();
        assert_eq!(add_up(share(1, 3), share(1, 6)), Some(share(1, 2)));
        assert_eq!(add_down(share(1, 3), share(1, 6)), Some(share(1, 2)));
        let (a, b) = (share(1, 4_000_037), share(1, 3_999_971)); // primes
        let third = share(1, 999_983);
        for (sum, above) in
            [(add_up(add_up(a, b).unwrap(), third), true), (add_down(add_down(a, b).unwrap(), third), false)]
        {
            let exact = 1.0 / 4_000_037.0 + 1.0 / 3_999_971.0 + 1.0 / 999_983.0;
            let difference = sum.unwrap().as_f64() - exact;
            assert!(difference.abs() < 5e-12 && (difference > 0.0) == above, "{difference}");
        }
    }
}
