//! Values that several verbs take.

use giusto_model::{Bandwidth, Duration, Percentile, Within};
use std::net::SocketAddr;

/// Some time.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time.is_zero() => Err("expected more than nothing, such as 5s".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// An address and its port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = || format!("'{text}' is not an address with its port; expected, for example, 127.0.0.1:7101");
    text.parse().map_err(|_| expected())
}

/// At most a whole.
pub(super) fn part(text: &str) -> Result<Bandwidth, String> {
    let share: Bandwidth = text.parse()?;
    if share <= Bandwidth::ONE {
        return Ok(share);
    }
    Err(format!("{} is more than a whole core; for {text} percent write {text}%", share.percent()))
}

/// `p99` or `99`.
pub(super) fn percentile(text: &str) -> Result<Percentile, String> {
    format!("p{}", text.strip_prefix('p').unwrap_or(text)).parse()
}

/// `p99` or `99`, with any number of decimals.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let found = text.strip_prefix('p').unwrap_or(text).parse().ok().filter(|p| *p > 0.0 && *p < 100.0);
    found.ok_or_else(|| {
        format!("'{text}' is not a percentile; expected a number between 0 and 100, such as 99.9 or p99.9")
    })
}

/// `p90=30ms`, exactly
pub(super) fn within(text: &str) -> Result<Within, String> {
    let bad = || format!("'{text}' is not a promise; expected a percentile and a latency, such as p90=30ms");
    let (percentile, within) = text.split_once('=').ok_or_else(bad)?;
    Ok(Within { percentile: self::percentile(percentile)?, within: span(within)? })
}

/// The shares of those that have none written: what is left, evenly.
pub(crate) fn shares<T: Copy>(values: &[(T, Option<Bandwidth>)]) -> Vec<(T, f64)> {
    let written: f64 = values.iter().filter_map(|(_, share)| *share).map(Bandwidth::as_f64).sum();
    let open = values.iter().filter(|(_, share)| share.is_none()).count();
    let rest = (1.0 - written) / open.max(1) as f64;
    values.iter().map(|(value, share)| (*value, share.map_or(rest, Bandwidth::as_f64))).collect()
}
