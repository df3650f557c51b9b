//! Times in words.

/// A time in ns with three digits that count and a unit that suits it: `412 us`, `1.52 ms`, `0`, `never`.
pub(crate) fn time(ns: f64) -> String {
    let (number, unit) = split(ns);
    format!("{number} {unit}").trim_end().to_string()
}

/// The same in two parts, for columns.
pub(crate) fn split(ns: f64) -> (String, &'static str) {
    if ns.is_infinite() {
        return ("never".into(), "");
    }
    if ns < 0.5 {
        return ("0".into(), "");
    }
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    // 999.6 us is 1 ms: choose the unit after rounding to three digits.
    let digits = 10f64.powf(ns.log10().floor() - 2.0).max(if ns < 1e3 { 1.0 } else { 0.0 });
    let rounded = (ns / digits).round() * digits;
    let (scale, unit) = units.into_iter().find(|(scale, _)| rounded >= 0.9999999 * scale).unwrap_or((1.0, "ns"));
    let value = rounded / scale;
    let decimals = match value {
        _ if unit == "ns" => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    (format!("{value:.decimals$}"), unit)
}

/// `1 run`, `3 runs`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit_that_suits() {
        for (ns, words) in [
            (0.0, "0"),
            (0.4, "0"),
            (7.0, "7 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 us"),
            (1_234.0, "1.23 us"),
            (12_345.0, "12.3 us"),
            (412_000.0, "412 us"),
            (999_600.0, "1.00 ms"),
            (1_520_000_000.0, "1.52 s"),
            (4e12, "4000 s"),
            (f64::INFINITY, "never"),
        ] {
            assert_eq!(time(ns), words, "{ns}");
        }
    }
}
