//! Whole numbers between two lines through the origin.

use num_integer::Integer;

/// The first p in from..=last with a whole b so that low · p ≤ b < high · p, where low = 1 − `above` and high = 1 − `below`
/// (fractions of at most 61 bits): so with ⌊above · p⌋ > ⌊below · p⌋. `None` if there is none.
///
/// Looks at some one by one, then counts such p in ranges that double, and halves the first range that has one.
/// O(log²).
pub(super) fn first_between(from: u64, last: u64, above: (u64, u64), below: (u64, u64)) -> Option<u64> {
    const ONE_BY_ONE: u64 = 32;
    let wide = |(n, d): (u64, u64)| (u128::from(n), u128::from(d));
    let (above, below) = (wide(above), wide(below));
    if above.0 * below.1 <= below.0 * above.1 {
        return None;
    }
    let floor = |(n, d): (u128, u128), p: u64| match (u64::try_from(n * u128::from(p)), u64::try_from(d)) {
        (Ok(product), Ok(d)) => u128::from(product / d), // much quicker
        _ => n * u128::from(p) / d,
    };
    let soon = last.min(from.saturating_add(ONE_BY_ONE));
    if let Some(p) = (from..=soon).find(|p| floor(above, *p) > floor(below, *p)) {
        return Some(p);
    }
    // From here on ⌊above · p⌋ − ⌊below · p⌋ is never negative, and 0 where there is none: its sum tells.
    let any = |start: u64, count: u64| {
        let sum = |(n, d): (u128, u128)| floor_sum(u128::from(count), d, n, n * u128::from(start));
        sum(above) > sum(below)
    };
    let (mut start, mut count) = (soon.checked_add(1)?, ONE_BY_ONE);
    loop {
        if start > last {
            return None;
        }
        count = count.min(last - start + 1);
        if any(start, count) {
            break;
        }
        start += count;
        count *= 2;
    }
    while count > 1 {
        let half = count / 2;
        if any(start, half) {
            count = half;
        } else {
            start += half;
            count -= half;
        }
    }
    Some(start)
}

/// The largest fraction with a denominator up to `most` that is less than `top`/`bottom`; 0 < top < bottom ≤ most.
pub(super) fn before(top: u64, bottom: u64, most: u64) -> (u64, u64) {
    let common = num_integer::gcd(top, bottom);
    let (top, bottom) = (i128::from(top / common), i128::from(bottom / common));
    // Neighbours have x·bottom = y·top − 1, and of all such y the largest is nearest.
    let inverse = top.extended_gcd(&bottom).x.rem_euclid(bottom);
    let y = inverse + (i128::from(most) - inverse) / bottom * bottom;
    ((((y * top) - 1) / bottom) as u64, y as u64)
}

/// Σ ⌊(a·i + b)/m⌋ over 0 ≤ i < n, by Euclid's steps: whole parts are summed at once, what is left is the same sum with the axes
/// exchanged.
fn floor_sum(mut n: u128, mut m: u128, mut a: u128, mut b: u128) -> u128 {
    let mut sum = 0;
    loop {
        sum += n * (n.saturating_sub(1)) / 2 * (a / m) + n * (b / m);
        (a, b) = (a % m, b % m);
        let top = a * n + b;
        if top < m {
            return sum;
        }
        (n, b) = (top / m, top % m);
        (m, a) = (a, m);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn the_first_whole_number_between_two_lines_is_found() {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut far, mut none, mut near) = (0, 0, 0);
        for _ in 0..2000 {
            let mut line = |most: u64| {
                let bottom = rng.random_range(1..=most);
                (rng.random_range(0..=bottom), bottom)
            };
            let above = line(300);
            let times = if rng.random_bool(0.5) { rng.random_range(1..300) } else { 1 };
            let below = ((above.0 * times).saturating_sub(1), above.1 * times); // close below
            let from = rng.random_range(1..100);
            let last = from + rng.random_range(0..400);
            let fits = |p: &u64| {
                let (low, high) = ((above.1 - above.0) * p, (below.1 - below.0) * p);
                (0..=*p).any(|b| low <= b * above.1 && b * below.1 < high)
            };
            let found = first_between(from, last, above, below);
            assert_eq!(found, (from..=last).find(fits), "{from}..={last} {above:?} {below:?}");
            match found {
                Some(p) if p > from + 34 => far += 1,
                Some(_) => near += 1,
                None => none += 1,
            }
        }
        assert!(far > 100 && none > 100 && near > 500, "{far} {none} {near}");
    }

    #[test]
    fn the_fraction_before_is_the_largest_that_is_less() {
        let mut reducible = 0;
        for bottom in 2..=24u64 {
            for top in 1..bottom {
                for most in bottom..40 {
                    let less = (1..=most).map(|y| ((y * top - 1) / bottom, y));
                    let largest = less.reduce(|a, b| if a.0 * b.1 < b.0 * a.1 { b } else { a }).unwrap();
                    let found = before(top, bottom, most);
                    assert_eq!(found.0 * largest.1, largest.0 * found.1, "{top}/{bottom} up to {most}");
                    assert!(found.1 <= most);
                    reducible += u32::from(top.gcd(&bottom) > 1);
                }
            }
        }
        assert!(reducible > 1000, "{reducible}");
    }

    #[test]
    fn numbers_of_61_bits_do_not_overflow() {
        let most = (1 << 61) - 1;
        let p = first_between(1, most, (1, most), (0, 1));
        assert_eq!(p, Some(most));
        assert_eq!(first_between(1, most, (2, most), (1, most)), Some(most / 2 + 1));
    }
}
