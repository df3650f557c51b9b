//! `load:`: how Giusto can drive a service by itself.

use crate::error::Fault;
use crate::fields::Grammar;
use crate::tree::Node;
use crate::value::{count, shown, text};
use giusto_model::Load;
use std::net::SocketAddr;

pub(crate) const LOAD: Grammar = Grammar { what: "a load", keys: &["redis", "fields", "value", "sort"], later: &[] };

/// Reads a load.
pub(crate) fn read(node: &Node) -> Result<Load, Fault> {
    let fields = LOAD.read(node, node.span)?;
    let address = address(fields.need("redis", "redis: 127.0.0.1:7001")?)?;
    if let Some(items) = fields.get("sort") {
        for key in ["fields", "value"] {
            fields.forbid(key, &format!("'{key}' does not go with 'sort'"), "leave one of them out")?;
        }
        return Ok(Load::RedisSort { address, items: count(items, "a length of a list", 1..=1_000_000)? });
    }
    Ok(Load::Redis {
        address,
        fields: count(fields.need("fields", "fields: 80")?, "a number of fields a request", 1..=1000)?,
        value: count(fields.need("value", "value: 8")?, "a number of bytes a value", 1..=4096)?,
    })
}

fn address(node: &Node) -> Result<SocketAddr, Fault> {
    let expected = "expected an address and port of this machine, such as 127.0.0.1:7001 or '[::1]:7001'";
    let text = text(node, expected)?;
    let found = |why: &str| node.fault(format!("'{}' {why}", shown(text)), expected);
    let address: SocketAddr = text.parse().map_err(|_| found("is not a numeric address and port"))?;
    if !address.ip().is_loopback() {
        return Err(found("is not a loopback address: Giusto never loads other machines"));
    }
    if address.port() == 0 {
        return Err(found("has no port"));
    }
    Ok(address)
}
