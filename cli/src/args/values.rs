//! Values that several verbs take.

use giusto_model::{Bandwidth, Duration, Within};

/// Some time.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time.is_zero() => Err("expected more than nothing, such as 5s".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// At most a whole.
pub(super) fn part(text: &str) -> Result<Bandwidth, String> {
    let share: Bandwidth = text.parse()?;
    if share <= Bandwidth::ONE {
        return Ok(share);
    }
    Err(format!("{} is more than a whole core; for {text} percent write {text}%", share.percent()))
}

/// `p90=30ms`, exactly
pub(super) fn within(text: &str) -> Result<Within, String> {
    let bad = || format!("'{text}' is not a promise; expected a percentile and a latency, such as p90=30ms");
    let (percentile, within) = text.split_once('=').ok_or_else(bad)?;
    Ok(Within { percentile: percentile.parse()?, within: span(within)? })
}
