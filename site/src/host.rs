//! `hosts:`: the machines of the site.

use crate::cores::cores;
use crate::error::Fault;
use crate::fields::Grammar;
use crate::network;
use crate::suggest::shown;
use crate::tree::{Node, Text};
use crate::value::{choice, name, share};
use crate::xen;
use giusto_model::{Bandwidth, Host, Unused};

pub(crate) const HOST: Grammar =
    Grammar { what: "a host", keys: &["cores", "keep-free", "network", "unused", "hypervisor", "dom0"], later: &[] };
const HOSTS: &str = "expected hosts by their names, such as hosts: {edge-1: {cores: 0-3}}";

/// Reads all hosts, in the order of the file.
pub(crate) fn read_all(node: &Node) -> Result<Vec<Host>, Fault> {
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), HOSTS))?;
    if entries.is_empty() {
        return Err(node.fault("there is no host", HOSTS));
    }
    entries.iter().map(|(key, value)| host(key, value)).collect()
}

fn host(key: &Text, value: &Node) -> Result<Host, Fault> {
    let name = name(key, "a host")?;
    comma_in_braces(value)?;
    let fields = HOST.read(value, key.span)?;
    let cores = cores(fields.need("cores", "cores: 0-3")?)?;
    Ok(Host {
        name,
        xen: xen::of_host(&fields, &cores)?,
        network: fields.get("network").map(|node| network::host(node, &cores)).transpose()?,
        cores,
        // 5 %: what `formats/site.md` promises.
        keep_free: fields.get("keep-free").map_or(Ok(five_percent()), |node| share(node, "keep-free: 5%"))?,
        unused: fields
            .get("unused")
            .map_or(Ok(Unused::Leave), |node| choice(node, "what becomes of unused cores", &Unused::ALL))?,
    })
}

/// 5 %.
pub(crate) fn five_percent() -> Bandwidth {
    Bandwidth::new(1, 20).unwrap_or(Bandwidth::ZERO)
}

/// `{cores: 0-1,3}` has two keys for YAML: `cores` and `3`.
fn comma_in_braces(host: &Node) -> Result<(), Fault> {
    let is_range = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(char::is_alphabetic);
    match host.entries().and_then(|entries| entries.iter().find(|(key, _)| is_range(&key.text))) {
        Some((key, _)) => {
            let found = format!("'{}' is not a key: inside braces a comma ends a value", shown(&key.text));
            Err(Fault::new(
                key.span,
                found,
                "expected core numbers with a comma in quotes or brackets: '0-1,3' or [1, 3]",
            ))
        }
        None => Ok(()),
    }
}
