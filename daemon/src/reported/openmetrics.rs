//! One histogram in the text of Prometheus (0.0.4) or OpenMetrics (1.0): all its series together.

use giusto_measure::passive::LONGEST_NS;
use std::collections::BTreeMap;

/// Buckets of one histogram.
const BUCKETS: usize = 1000;
/// Counts beyond are no whole numbers of a double any more.
const MOST: f64 = 9_007_199_254_740_992.0;

/// A histogram as it is shown: since the service began.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shown {
    /// How many took at most so many ns, and more than the one before.
    pub(super) buckets: BTreeMap<u64, u64>,
    /// What all took, in ns.
    pub(super) total_ns: u64,
}

impl Shown {
    fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// What has come since `before`; all of it where the service began anew.
    pub(super) fn since(&self, before: &Shown) -> Shown {
        let grew = |(end, count): (&u64, &u64)| self.buckets.get(end).is_some_and(|now| now >= count);
        if self.count() < before.count() || !before.buckets.iter().all(grew) {
            return self.clone();
        }
        let more = self.buckets.iter().map(|(end, now)| (*end, now - before.buckets.get(end).copied().unwrap_or(0)));
        Shown {
            buckets: more.filter(|(_, count)| *count > 0).collect(),
            total_ns: self.total_ns.saturating_sub(before.total_ns),
        }
    }
}

/// Reads it. Errors: it is not there, or not as it should be. O(text).
pub(super) fn histogram(text: &str, name: &str) -> Result<Shown, String> {
    let unit_ns = unit(name);
    // By the bits of their ends in ns, which are in the order of positive numbers.
    let mut ends: BTreeMap<u64, f64> = BTreeMap::new();
    let mut total_ns = 0.0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(rest) = line.strip_prefix(name) else { continue };
        let is_sum = rest.starts_with("_sum{") || rest.starts_with("_sum ");
        if !is_sum && !rest.starts_with("_bucket{") {
            continue;
        }
        let bad = || format!("its line '{}' is not one of a histogram", line.chars().take(100).collect::<String>());
        let (end, value) = sample(rest).ok_or_else(bad)?;
        if is_sum {
            total_ns += value * unit_ns;
            continue;
        }
        let end = (end.filter(|end| *end >= 0.0).ok_or_else(bad)? * unit_ns).to_bits();
        if ends.len() >= BUCKETS && !ends.contains_key(&end) {
            return Err(format!("{name} has more than {BUCKETS} buckets"));
        }
        *ends.entry(end).or_default() += value;
    }
    if ends.is_empty() {
        return Err(format!("there is no histogram {name} in it"));
    }
    let (mut below, mut buckets) = (0.0, BTreeMap::new());
    for (end, value) in ends {
        if value < below || value > MOST {
            return Err(format!("the buckets of {name} do not add up"));
        }
        let end = f64::from_bits(end);
        let end = if end < LONGEST_NS as f64 { (end.round() as u64).max(1) } else { LONGEST_NS };
        *buckets.entry(end).or_default() += (value - below) as u64;
        below = value;
    }
    buckets.retain(|_, count| *count > 0);
    Ok(Shown { buckets, total_ns: total_ns.max(0.0) as u64 })
}

/// In ns: seconds, as they are to be, unless the name ends in another one.
fn unit(name: &str) -> f64 {
    let ends = |suffixes: [&str; 2]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    match () {
        () if ends(["_milliseconds", "_ms"]) => 1e6,
        () if ends(["_microseconds", "_us"]) => 1e3,
        () if ends(["_nanoseconds", "_ns"]) => 1.0,
        () => 1e9,
    }
}

/// `_bucket{a="b",le="0.5"} 17 1700000000 # {...} 0.3`: the value of `le`, and the sample's.
fn sample(rest: &str) -> Option<(Option<f64>, f64)> {
    let (labels, mut value) = rest.split_at(rest.find(['{', ' '])?);
    debug_assert!(labels.starts_with('_'));
    let mut end = None;
    if let Some(mut inside) = value.strip_prefix('{') {
        loop {
            inside = inside.trim_start_matches([',', ' ']);
            if let Some(rest) = inside.strip_prefix('}') {
                value = rest;
                break;
            }
            let (key, quoted) = inside.split_once("=\"")?;
            let close = closing(quoted)?;
            if key == "le" {
                end = Some(number(&quoted[..close])?);
            }
            inside = &quoted[close + 1..];
        }
    }
    let value = number(value.split_ascii_whitespace().next()?)?;
    (value.is_finite() && value >= 0.0).then_some((end, value))
}

/// Where the quotation mark is that ends a label's value.
fn closing(quoted: &str) -> Option<usize> {
    let mut escaped = false;
    quoted.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        text => text.parse().ok().filter(|number: &f64| !number.is_nan()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        "# HELP http_seconds x\n# TYPE http_seconds histogram\n",
        "http_seconds_bucket{path=\"/a,\\\"}\",le=\"0.005\"} 3\n",
        "http_seconds_bucket{path=\"/a,\\\"}\",le=\"0.01\"} 5 1700000000\n",
        "http_seconds_bucket{path=\"/a,\\\"}\",le=\"+Inf\"} 6 # {trace=\"x\"} 0.3 1\n",
        "http_seconds_bucket{path=\"/b\",le=\"0.005\",} 1e0\n",
        "http_seconds_bucket{path=\"/b\",le=\"0.01\"} 1\n",
        "http_seconds_bucket{path=\"/b\",le=\"+Inf\"} 1\n",
        "http_seconds_sum{path=\"/b\"} 0.5\nhttp_seconds_sum 0.25\nhttp_seconds_count 7\n",
        "http_seconds_bucket_more{le=\"1\"} 9\nother 1\n# EOF\n",
    );

    #[test]
    fn all_series_of_a_histogram_are_one_and_what_came_since_is_told() {
        let shown = histogram(TEXT, "http_seconds").unwrap();
        let buckets = BTreeMap::from([(5_000_000, 4), (10_000_000, 2), (LONGEST_NS, 1)]);
        assert_eq!(shown, Shown { buckets, total_ns: 750_000_000 });
        let more = histogram(&TEXT.replace("} 6 #", "} 8 #"), "http_seconds").unwrap();
        assert_eq!(more.since(&shown).buckets, BTreeMap::from([(LONGEST_NS, 2)]));
        let anew = histogram("http_seconds_bucket{le=\"0.005\"} 2\n", "http_seconds").unwrap();
        assert_eq!(anew.since(&shown), anew, "the service began anew");
        let long = "a_bucket{le=\"300\"} 2\na_bucket{le=\"+Inf\"} 3\n";
        assert_eq!(histogram(long, "a").unwrap().buckets, BTreeMap::from([(LONGEST_NS, 3)]));
        let ms = histogram("a_ms_bucket{le=\"2.5\"} 2\n", "a_ms").unwrap();
        assert_eq!(ms.buckets, BTreeMap::from([(2_500_000, 2)]));
    }

    #[test]
    fn what_is_no_histogram_is_told_with_its_line() {
        for (bad, told) in [
            ("", "there is no histogram a"),
            ("a_bucket{le=\"x\"} 1\n", "'a_bucket{le=\"x\"} 1'"),
            ("a_bucket{le=\"1\" 1\n", "is not one of a histogram"),
            ("a_bucket{le=\"1\"}\n", "is not one of a histogram"),
            ("a_bucket{le=\"1\"} -1\n", "is not one of a histogram"),
            ("a_bucket{le=\"1\"} NaN\n", "is not one of a histogram"),
            ("a_bucket{b=\"1\"} 1\n", "is not one of a histogram"),
            ("a_bucket{le=\"1\"} 5\na_bucket{le=\"2\"} 4\n", "do not add up"),
            ("a_bucket{le=\"1\"} 1e300\n", "do not add up"),
        ] {
            let why = histogram(bad, "a").unwrap_err();
            assert!(why.contains(told), "{bad}: {why}");
        }
        let many: String = (0..2000).map(|n| format!("a_bucket{{le=\"{n}e-4\"}} 1\n")).collect();
        assert!(histogram(&many, "a").unwrap_err().contains("more than 1000 buckets"));
    }
}
