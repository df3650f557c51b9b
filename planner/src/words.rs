//! Times and shares in words for people. Files keep the exact numbers.

use giusto_model::{Bandwidth, Duration};

/// A time as it is written where three decimals of its unit hold it (`14 ms`, `1.52 s`), else rounded to three decimals of
/// the largest unit of which it has ten: `838.796 ms`, `4193.912 ms`.
pub fn time(time: Duration) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let exact =
        units.iter().find(|(unit, _)| time.ns() >= *unit).is_none_or(|(unit, _)| time.ns().is_multiple_of(unit / 1000));
    match units.into_iter().find(|(unit, _)| time.ns() / unit >= 10) {
        Some((unit, name)) if !exact => {
            format!("{:.3}", time.ns() as f64 / unit as f64).trim_end_matches('0').trim_end_matches('.').to_string()
                + " "
                + name
        }
        _ => time.to_string(),
    }
}

/// A share in percent, to a tenth; a smaller one with the two digits that count: `30 %`, `33.3 %`, `0.0025 %`.
pub fn share(share: Bandwidth) -> String {
    let percent = share.as_f64() * 100.0;
    if percent == 0.0 || percent >= 0.1 {
        return share.percent();
    }
    let digits = 1 - percent.log10().floor() as i32;
    let text = format!("{percent:.*}", digits as usize);
    format!("{} %", text.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_of_their_own_and_three_decimals_at_most() {
        for (ns, words) in [
            (838_795_597, "838.796 ms"),
            (4_193_911_926, "4193.912 ms"),
            (14_000_000, "14 ms"),
            (1_520_000_000, "1.52 s"),
            (1_234_567, "1234.567 us"),
            (12_345_678_901, "12.346 s"),
            (10_000_000_001, "10 s"),
            (1024, "1.024 us"),
            (999, "999 ns"),
            (0, "0 ns"),
        ] {
            assert_eq!(time(Duration::from_ns(ns)), words);
        }
    }

    #[test]
    fn a_share_of_something_is_never_shown_as_nothing() {
        for (top, bottom, words) in [
            (0, 1, "0 %"),
            (3, 10, "30 %"),
            (1, 3, "33.3 %"),
            (1, 1000, "0.1 %"),
            (1, 40_000, "0.0025 %"),
            (1, 30_000_000, "0.0000033 %"),
            (1, u64::MAX, "0.0000000000000000054 %"),
        ] {
            assert_eq!(share(Bandwidth::new(top, bottom).unwrap()), words);
        }
    }
}
