//! `network:` of hosts and of services: whose packets are processed before whose.

use crate::cores::cores;
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::promises::percentiles::{is_percentile, points_of};
use crate::suggest::shown;
use crate::tree::{Kind, Node};
use crate::value::{choice, count, parsed, scalar};
use giusto_model::{
    BitRate, Bucket, Duration, Host, HostNetwork, PacketBucket, PacketClass, PacketUnit, Rate, Tokens, Uplink, Vif,
};
use std::collections::BTreeSet;

pub(crate) const HOST: Grammar =
    Grammar { what: "a host's network", keys: &["cores", "uplinks", "capacity", "poll", "count"], later: &[] };
pub(crate) const UPLINK: Grammar = Grammar { what: "an uplink", keys: &["name", "rate", "burst"], later: &[] };
pub(crate) const VIF: Grammar =
    Grammar { what: "a virtual interface", keys: &["vif", "class", "rate", "burst", "receive"], later: &[] };
pub(crate) const RECEIVE: Grammar =
    Grammar { what: "what an interface receives", keys: &["rate", "burst"], later: &[] };

const UPLINKS: &str = "expected interfaces to the outside, such as uplinks: [{name: eth0, rate: 10k/s, burst: 64}]";
const VIFS: &str =
    "expected virtual interfaces, such as network: [{vif: vnet3, class: high, rate: 20k/s, burst: 64, p99: 1ms}]";
const CAPACITY: &str =
    "expected packets that one core processes, as 'giusto measure packets' says, such as capacity: 65k/s";
const PACKETS: &str = "expected how many packets may come, such as rate: 20k/s";
const RATES: &str = "expected a rate of packets, one of bits, or both, such as rate: 20k/s, rate: 200Mbit/s or \
                     rate: [20k/s, 200Mbit/s]";
/// Longest name of an interface (IFNAMSIZ without its end).
const LONGEST: usize = 15;
/// Packets that one thread processes in a row: 64 for every driver known.
const POLL: u32 = 64;
/// Most packets that come at once.
const MOST: u32 = 1_000_000;

/// Interfaces that have a place, as host and name.
pub(crate) type Taken = BTreeSet<(String, String)>;

/// All uplinks.
pub(crate) fn uplinks(hosts: &[Host]) -> Taken {
    let of = |host: &Host| {
        let names = host.network.iter().flat_map(|network| &network.uplinks).map(|uplink| uplink.name.clone());
        names.map(|name| (host.name.clone(), name)).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of).collect()
}

/// What a host whose services may use `services` gives to packets.
pub(crate) fn host(node: &Node, services: &[u32]) -> Result<HostNetwork, Fault> {
    let fields = HOST.read(node, node.span)?;
    let cores_node = fields.need("cores", "cores: 0")?;
    let cores = cores(cores_node)?;
    if let Some(both) = cores.iter().find(|core| services.contains(core)) {
        let found = format!("core {both} is one of those that services may use");
        return Err(
            cores_node.fault(found, "expected cores for packets alone: leave them out of the host's own 'cores'")
        );
    }
    Ok(HostNetwork {
        cores,
        uplinks: fields.get("uplinks").map_or(Ok(Vec::new()), all_uplinks)?,
        capacity: rate(fields.need("capacity", "capacity: 65k/s")?, CAPACITY)?,
        poll: fields.get("poll").map_or(Ok(POLL), |node| count(node, "a number of packets", 1..=1024))?,
        count: fields.get("count").map_or(Ok(PacketUnit::default()), unit)?,
    })
}

fn all_uplinks(node: &Node) -> Result<Vec<Uplink>, Fault> {
    let mut found: Vec<Uplink> = Vec::new();
    for item in list(node, UPLINKS)? {
        let fields = UPLINK.read(item, item.span)?;
        let name_node = fields.need("name", "name: eth0")?;
        let name = interface(name_node)?;
        if found.iter().any(|other| other.name == name) {
            return Err(twice(name_node, &name));
        }
        found.push(Uplink { name, bucket: bucket(&fields)? });
    }
    Ok(found)
}

/// The virtual interfaces of a service on the host `on`, or the only one; of a stage of paths these say what it needs.
pub(crate) fn vifs(
    node: &Node,
    hosts: &[Host],
    (on, is_stage): (Option<&str>, bool),
    taken: &mut Taken,
) -> Result<Vec<Vif>, Fault> {
    let host = match (on, hosts) {
        (Some(on), _) => hosts.iter().find(|host| host.name == on),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let Some(host) = host else {
        let expected =
            format!("expected the host beside it, such as on: {}", hosts.first().map_or("edge-1", |host| &host.name));
        return Err(node.fault("it is not said which of the hosts has these interfaces", expected));
    };
    if host.network.is_none() {
        let found = format!("host {} gives nothing to packets", host.name);
        return Err(node.fault(found, "expected at the host, for example, network: {cores: 0, capacity: 65k/s}"));
    }
    let one = |item: &Node| {
        let fields = VIF.read_beside(item, item.span, is_percentile)?;
        let name_node = fields.need("vif", "vif: vnet3")?;
        let name = interface(name_node)?;
        if !taken.insert((host.name.clone(), name.clone())) {
            return Err(twice(name_node, &name));
        }
        vif(item, &fields, name, is_stage)
    };
    list(node, VIFS)?.iter().map(one).collect()
}

fn vif(item: &Node, fields: &Fields<'_>, name: String, is_stage: bool) -> Result<Vif, Fault> {
    let promised = || item.entries().unwrap_or_default().iter().filter(|(key, _)| is_percentile(&key.text));
    let any = ["rate", "burst", "receive"].into_iter().any(|key| fields.get(key).is_some());
    let class = match fields.get("class") {
        None if is_stage => PacketClass::High,
        _ => class(fields.need("class", "class: high")?)?,
    };
    let bucket = match class {
        PacketClass::High if is_stage && !any => None,
        PacketClass::High => Some(packets(fields)?),
        PacketClass::Low => {
            if let Some((key, _)) = promised().next() {
                let found = format!("'{}' goes with 'class: high' only", shown(&key.text));
                return Err(Fault::new(
                    key.span,
                    found,
                    "leave it out: low packets wait for as long as there are high ones",
                ));
            }
            any.then(|| packets(fields)).transpose()?
        }
    };
    let receive = |node: &Node| packets(&RECEIVE.read(node, node.span)?);
    let received = fields.get("receive").map(receive).transpose()?;
    Ok(Vif { name, class, bucket, received, promise: points_of(promised())? })
}

fn list<'a>(node: &'a Node, expected: &str) -> Result<&'a [Node], Fault> {
    match &node.kind {
        Kind::List(items) if items.is_empty() => Err(node.fault("there is no interface", expected)),
        Kind::List(items) => Ok(items),
        _ => Err(node.fault(format!("found {} here", node.form()), expected)),
    }
}

/// The name of a network interface, as the kernel takes it.
fn interface(node: &Node) -> Result<String, Fault> {
    let expected = "expected 1 to 15 characters without '/', ':' and blanks, such as vnet3";
    let name = scalar(node, expected)?.text.as_str();
    let foreign = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control() || !c.is_ascii();
    if name.is_empty() || name.len() > LONGEST || name.contains(foreign) || [".", ".."].contains(&name) {
        return Err(node.fault(format!("'{}' is not a name for an interface", shown(name)), expected));
    }
    Ok(name.to_string())
}

fn twice(node: &Node, name: &str) -> Fault {
    node.fault(format!("'{name}' is named twice on one host"), "expected each interface once")
}

/// Rate and burst, both of them.
fn bucket(fields: &Fields<'_>) -> Result<Bucket, Fault> {
    let rate_node = fields.need("rate", "rate: 20k/s")?;
    let depth = burst(fields)?;
    Ok(Bucket { rate: rate(rate_node, PACKETS)?, depth })
}

fn burst(fields: &Fields<'_>) -> Result<Tokens, Fault> {
    let burst = count(fields.need("burst", "burst: 64")?, "a number of packets that may come at once", 1..=MOST)?;
    Ok(Tokens::whole(burst.into()))
}

/// The same of a virtual interface, whose rate may be one of packets, of bits, or both. Bits alone are as many packets as the
/// smallest would be.
fn packets(fields: &Fields<'_>) -> Result<PacketBucket, Fault> {
    let node = fields.need("rate", "rate: 20k/s")?;
    let depth = burst(fields)?;
    let (mut packets, mut bits) = (None, None);
    let all = match &node.kind {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    for item in all {
        let text = scalar(item, RATES)?.text.as_str();
        let is_new = match BitRate::is_meant(text) {
            true => bits.replace(bit_rate(item)?).is_none(),
            false => packets.replace(rate(item, PACKETS)?).is_none(),
        };
        if !is_new {
            return Err(item.fault("there is another rate of the same kind", RATES));
        }
    }
    let smallest = bits.and_then(|bits: BitRate| {
        Rate::of(bits.bits(), Duration::from_secs(1)).and_then(|rate| rate.share(PacketBucket::SMALLEST as u32 * 8))
    });
    match packets.into_iter().chain(smallest).min() {
        Some(rate) => Ok(PacketBucket { rate, depth, bits }),
        None => Err(node.fault("there is no rate", RATES)),
    }
}

fn bit_rate(node: &Node) -> Result<BitRate, Fault> {
    let rate: BitRate = parsed(node, RATES)?;
    match rate.bits() {
        0 => Err(node.fault("this is no packet, ever", RATES)),
        _ => Ok(rate),
    }
}

fn rate(node: &Node, expected: &str) -> Result<Rate, Fault> {
    let rate: Rate = parsed(node, expected)?;
    match rate.is_zero() {
        true => Err(node.fault("this is no packet, ever", expected)),
        false => Ok(rate),
    }
}

fn class(node: &Node) -> Result<PacketClass, Fault> {
    choice(node, "a class", &[PacketClass::High, PacketClass::Low])
}

fn unit(node: &Node) -> Result<PacketUnit, Fault> {
    choice(node, "what is counted", &[PacketUnit::Skb, PacketUnit::Segment])
}
