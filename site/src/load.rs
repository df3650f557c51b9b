//! `load:`: how Giusto can drive a service by itself.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::promises::percentiles::rate;
use crate::suggest::shown;
use crate::tree::Node;
use crate::value::{count, text};
use giusto_model::{Load, Promise};
use std::net::SocketAddr;

pub(crate) const LOAD: Grammar = Grammar {
    what: "a load",
    keys: &["redis", "memcached", "echo", "http", "fields", "value", "sort", "path", "connections", "rate"],
    later: &[],
};

/// Reads a load of a service with this promise.
pub(crate) fn read(node: &Node, promise: &Promise) -> Result<Load, Fault> {
    let fields = LOAD.read(node, node.span)?;
    if let Some(at) = fields.get("memcached") {
        for key in ["redis", "echo", "http", "fields", "sort", "path"] {
            fields.forbid(key, &format!("'{key}' does not go with 'memcached'"), "leave one of them out")?;
        }
        return memcached(address(at)?, &fields, promise);
    }
    for key in ["connections", "rate"] {
        fields.forbid(key, &format!("'{key}' goes with 'memcached' only"), "leave it out")?;
    }
    if let Promise::Supply(_) = promise {
        let found = "the requests of this load come as tasks or arrivals say, and a promise of a supply has none";
        return Err(node.fault(found, "expected load: {memcached: 127.0.0.1:11211, value: 100, rate: 3000/s}"));
    }
    for (service, others) in
        [("echo", &["redis", "http", "fields", "sort", "path"][..]), ("http", &["redis", "fields", "value", "sort"])]
    {
        let Some(at) = fields.get(service) else { continue };
        for key in others {
            fields.forbid(key, &format!("'{key}' does not go with '{service}'"), "leave one of them out")?;
        }
        let address = address(at)?;
        return match service {
            "echo" => {
                let value = count(fields.need("value", "value: 100")?, "a number of bytes a line", 1..=4096)?;
                Ok(Load::Echo { address, value })
            }
            _ => Ok(Load::Http { address, path: fields.get("path").map_or(Ok("/".into()), path)? }),
        };
    }
    fields.forbid("path", "'path' goes with 'http' only", "leave it out")?;
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

/// Of a web server, as it is sent.
fn path(node: &Node) -> Result<String, Fault> {
    let expected = "expected a path from its / on, without blanks, such as path: /search?q=1";
    path_in(node, text(node, expected)?, expected)
}

fn path_in(node: &Node, path: &str, expected: &str) -> Result<String, Fault> {
    match path.starts_with('/') && path.len() <= 1024 && path.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(path.to_string()),
        false => Err(node.fault(format!("'{}' is no path", shown(path)), expected)),
    }
}

fn memcached(address: SocketAddr, fields: &Fields, promise: &Promise) -> Result<Load, Fault> {
    let value = count(fields.need("value", "value: 100")?, "a number of bytes a value", 1..=4096)?;
    let rate = match promise {
        Promise::Supply(_) => Some(rate(fields.need("rate", "rate: 3000/s")?)?),
        _ => {
            fields.forbid("rate", "the promise says how requests come", "leave it out")?;
            None
        }
    };
    if promise.arrivals().is_none() && rate.is_none() {
        fields.forbid("connections", "each copy of a task has a connection of its own", "leave it out")?;
    }
    let connections = fields.get("connections").map(|node| count(node, "a number of connections", 1..=1000));
    Ok(Load::Memcached { address, value, connections: connections.transpose()?.unwrap_or(1), rate })
}

pub(crate) fn address(node: &Node) -> Result<SocketAddr, Fault> {
    let expected = "expected an address and port of this machine, such as 127.0.0.1:7001 or '[::1]:7001'";
    address_in(node, text(node, expected)?, expected)
}

/// An address and the path of a web server there, which is `/` where it is left out.
pub(crate) fn web(node: &Node) -> Result<(SocketAddr, String), Fault> {
    let expected =
        "expected an address and port of this machine and a path without blanks, such as 127.0.0.1:8080/orders";
    let text = text(node, expected)?;
    let (address, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let path = if path.is_empty() { "/" } else { path };
    Ok((address_in(node, address, expected)?, path_in(node, path, expected)?))
}

fn address_in(node: &Node, text: &str, expected: &str) -> Result<SocketAddr, Fault> {
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
