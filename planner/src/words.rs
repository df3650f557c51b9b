//! Times and shares in words for people. Files keep the exact numbers.

use giusto_model::{Bandwidth, Duration, Reason};

/// What the reason is called that says where measured execution times come from.
pub(crate) const EXECUTION_TIME: &str = "execution time";

/// A time with three decimals at most.
pub(crate) fn time(time: Duration) -> String {
    format!("{time:.3}")
}

/// A number's name, value and origin.
pub(crate) fn reason(what: &str, value: impl ToString, why: impl Into<String>) -> Reason {
    Reason { what: what.into(), value: value.to_string(), why: why.into() }
}

/// Cores in ascending order, three and more in a row as a range: `0, 1`, `0, 4-7`.
pub fn cores(ascending: &[u32]) -> String {
    let runs = ascending.chunk_by(|one, next| one + 1 == *next);
    let shown = runs.map(|run| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        few => few.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    });
    shown.collect::<Vec<_>>().join(", ")
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

/// How much `demand` is above `supply`; what no tenth of a percentage point shows is still said.
pub(crate) fn excess(demand: Option<Bandwidth>, supply: Bandwidth) -> String {
    let excess = demand.and_then(|demand| demand.checked_sub(supply));
    excess.filter(|e| e.as_f64() >= 0.0005).map_or("less than 0.1 %".into(), Bandwidth::percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cores_are_few_words() {
        let all: Vec<u32> = (8000..8192).collect();
        for (list, words) in
            [(&[0, 1][..], "0, 1"), (&[0, 4, 5, 6, 7], "0, 4-7"), (&all, "8000-8191"), (&[2], "2"), (&[], "")]
        {
            assert_eq!(cores(list), words);
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
