//! Values that several verbs take.

pub(super) use giusto_answers::notation::{part, percent, percentile, span};
use giusto_model::Within;
use std::net::SocketAddr;

/// An address and its port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = || format!("'{text}' is not an address with its port; expected, for example, 127.0.0.1:7101");
    text.parse().map_err(|_| expected())
}

/// `p90=30ms`, exactly
pub(super) fn within(text: &str) -> Result<Within, String> {
    let bad = || format!("'{text}' is not a promise; expected a percentile and a latency, such as p90=30ms");
    let (percentile, within) = text.split_once('=').ok_or_else(bad)?;
    Ok(Within { percentile: self::percentile(percentile)?, within: span(within)? })
}
