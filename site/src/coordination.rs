//! `coordination:`: an ensemble of ZooKeeper or etcd servers.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node};
use crate::value::{count, duration, number, scalar, text};
use giusto_model::{
    Coordination, Duration, Engine, Epochs, Etcd, EtcdPlaces, EtcdTimes, Host, Member, Places, RecoveryTimes,
    SilenceAsked, Ticks, ZooKeeper, STOCK_WAIT, WAIT_MARGIN,
};

pub(crate) const COORDINATION: Grammar = Grammar {
    what: "coordination",
    keys: &[
        "engine",
        "servers",
        "promise",
        "epochs",
        "wait",
        "measured",
        "tick",
        "sync-limit",
        "data",
        "quorum-port",
        "election-port",
    ],
    later: &[],
};
pub(crate) const ETCD: Grammar = Grammar {
    what: "coordination with engine: etcd",
    keys: &["engine", "servers", "promise", "measured", "data", "peer-port"],
    later: &[],
};
pub(crate) const ETCD_MEASURED: Grammar =
    Grammar { what: "what was measured of hosts, links and disks", keys: &["latency", "delay", "write"], later: &[] };
pub(crate) const PROMISE: Grammar =
    Grammar { what: "a promise of coordination", keys: &["recovery", "machine-loss"], later: &[] };
pub(crate) const ETCD_PROMISE: Grammar =
    Grammar { what: "a promise of coordination with engine: etcd", keys: &["recovery"], later: &[] };
pub(crate) const MEASURED: Grammar = Grammar {
    what: "what was measured of a recovery",
    keys: &["latency", "leave", "jitter", "delay", "message", "recover", "learner", "write"],
    later: &[],
};

const SERVERS: &str = "expected three servers or more, each a host of this site and the port for clients, such as \
                       [edge-1:2181, edge-2:2181, edge-3:2181]";
/// ZooKeeper's ids go to 255; etcd's own guide advises no more than seven.
const MOST: (usize, &str) = (255, "ZooKeeper has ids for 255 servers");
const MOST_ETCD: (usize, &str) =
    (7, "each write waits for more than half of them, and etcd advises seven servers at most");
const ENGINES: &str = "expected zookeeper, the default, or etcd";
/// ZooKeeper's sample configuration.
const TICK: Duration = Duration::from_secs(2);
const SYNC_LIMIT: u32 = 5;
const LONGEST_TICK: Duration = Duration::from_secs(60);
const LONGEST_PART: Duration = Duration::from_secs(3600);

/// Reads the ensemble; its servers are on `hosts`.
pub(crate) fn read(node: &Node, hosts: &[Host]) -> Result<Coordination, Fault> {
    let engine = match &node.kind {
        Kind::Map(entries) => entries.iter().find(|(key, _)| key.text == "engine").map(|(_, engine)| engine),
        _ => None,
    };
    match engine.map(|node| Ok((node, text(node, ENGINES)?))).transpose()? {
        None | Some((_, "zookeeper")) => zookeeper(node, hosts),
        Some((_, "etcd")) => etcd(node, hosts),
        Some((node, other)) => {
            let hint = did_you_mean(other, ["zookeeper", "etcd"]);
            Err(node.fault(format!("'{}' is no engine of coordination", shown(other)), format!("{ENGINES}{hint}")))
        }
    }
}

/// What every engine has: its servers, and the longest recovery.
fn promised(
    fields: &Fields<'_>,
    hosts: &[Host],
    most: (usize, &str),
    promise: &Grammar,
) -> Result<(Vec<Member>, Duration), Fault> {
    let servers = servers(fields.need("servers", "servers: [edge-1:2181, edge-2:2181, edge-3:2181]")?, hosts, most)?;
    let node = fields.need("promise", "promise: {recovery: 200ms}")?;
    let recovery = positive(promise.read(node, node.span)?.need("recovery", "recovery: 200ms")?)?;
    Ok((servers, recovery))
}

fn etcd(node: &Node, hosts: &[Host]) -> Result<Coordination, Fault> {
    let fields = ETCD.read(node, node.span)?;
    let (servers, recovery) = promised(&fields, hosts, MOST_ETCD, &ETCD_PROMISE)?;
    let mut times = EtcdTimes::default();
    if let Some(node) = fields.get("measured") {
        let measured = ETCD_MEASURED.read(node, node.span)?;
        let part = |key: &str, or: Duration| measured.get(key).map_or(Ok(or), positive);
        times = EtcdTimes {
            latency: part("latency", times.latency)?,
            delay: part("delay", times.delay)?,
            write: part("write", times.write)?,
        };
    }
    let default = EtcdPlaces::default();
    let data = fields.get("data").map_or(Ok(default.data), data)?;
    let peer_port = fields.get("peer-port").map_or(Ok(default.peer_port), port)?;
    if let Some(member) = servers.iter().find(|member| member.port == peer_port) {
        let at = fields.get("peer-port").or_else(|| fields.get("servers")).unwrap_or(node);
        let found =
            format!("port {peer_port} of '{}' is for clients, and for servers (peer-port) as well", member.host);
        return Err(at.fault(found, "expected different ports for clients and peer-port"));
    }
    Ok(Coordination { servers, recovery, engine: Engine::Etcd(Etcd { times, places: EtcdPlaces { data, peer_port } }) })
}

fn zookeeper(node: &Node, hosts: &[Host]) -> Result<Coordination, Fault> {
    let fields = COORDINATION.read(node, node.span)?;
    let (servers, recovery) = promised(&fields, hosts, MOST, &PROMISE)?;
    let times = fields.get("measured").map_or(Ok(RecoveryTimes::default()), times)?;
    let epochs = fields.get("epochs").map(epochs).transpose()?;
    let wait = fields.get("wait").map(|node| wait(node, &times)).transpose()?;
    let spread = times.jitter.checked_add(times.delay).and_then(|sum| sum.checked_add(WAIT_MARGIN));
    if wait.is_none() && spread.is_none_or(|spread| spread > STOCK_WAIT) {
        let at = fields.get("measured").unwrap_or(node);
        let found = format!(
            "jitter and delay with a margin of {WAIT_MARGIN} are more than the {STOCK_WAIT} that a stock server waits"
        );
        return Err(at.fault(found, "expected a jitter and a delay that are shorter together"));
    }
    let places = places(&fields, &servers)?;
    let own = ZooKeeper { epochs, wait, times, ticks: ticks(&fields)?, places };
    Ok(Coordination { servers, recovery, engine: Engine::ZooKeeper(own) })
}

/// Written, or planned from the latency of the hosts.
fn ticks(fields: &Fields<'_>) -> Result<Ticks, Fault> {
    let measured = fields.get("measured").map(|node| MEASURED.read(node, node.span)).transpose()?;
    let promise = fields.get("promise").map(|node| PROMISE.read(node, node.span)).transpose()?;
    let latency = measured.as_ref().and_then(|fields| fields.get("latency"));
    let lost = promise.as_ref().and_then(|fields| fields.get("machine-loss"));
    let machine_loss = lost.map(positive).transpose()?;
    let Some(latency) = latency.map(positive).transpose()? else {
        if let Some(lost) = lost {
            let expected =
                "expected measured: {latency: ...}, the largest that giusto measure latency finds on the hosts";
            return Err(lost.fault("when a lost machine is missed depends on how late servers may be", expected));
        }
        let tick = fields.get("tick").map_or(Ok(TICK), tick)?;
        let ticks = |node| count(node, "a number of ticks", 1..=1000);
        return Ok(Ticks::Written { tick, sync_limit: fields.get("sync-limit").map_or(Ok(SYNC_LIMIT), ticks)? });
    };
    for key in ["tick", "sync-limit"] {
        if let Some(node) = fields.get(key) {
            let found = format!("{key} is planned where measured has a latency");
            return Err(node.fault(found, format!("expected {key} or latency; leave one of them out")));
        }
    }
    Ok(Ticks::Planned(SilenceAsked { latency, machine_loss }))
}

/// Where servers keep their data and reach each other; three ports on each host, all different.
fn places(fields: &Fields<'_>, servers: &[Member]) -> Result<Places, Fault> {
    let default = Places::default();
    let read = |key: &str, or: u16| fields.get(key).map_or(Ok(or), port);
    let data = fields.get("data").map_or(Ok(default.data), data)?;
    let quorum_port = read("quorum-port", default.quorum_port)?;
    let election_port = read("election-port", default.election_port)?;
    let taken = |port: u16| servers.iter().find(|member| member.port == port);
    for (key, port) in [("quorum-port", quorum_port), ("election-port", election_port)] {
        let at = || fields.get(key).or_else(|| fields.get("servers"));
        if let (Some(member), Some(at)) = (taken(port), at()) {
            let found = format!("port {port} of '{}' is for clients, and for servers ({key}) as well", member.host);
            return Err(at.fault(found, "expected different ports for clients, quorum-port and election-port"));
        }
    }
    if let Some(at) =
        fields.get("election-port").or_else(|| fields.get("quorum-port")).filter(|_| quorum_port == election_port)
    {
        let found = format!("quorum-port and election-port are both {quorum_port}");
        return Err(at.fault(found, "expected different ports for clients, quorum-port and election-port"));
    }
    Ok(Places { data, quorum_port, election_port })
}

fn port(node: &Node) -> Result<u16, Fault> {
    Ok(u16::try_from(count(node, "a port", 1..=65535)?).unwrap_or(u16::MAX))
}

/// A path as both zoo.cfg and a shell's `sed` read it: zoo.cfg knows escapes, and takes spaces at its ends away.
fn data(node: &Node) -> Result<String, Fault> {
    let expected = "expected the full path of a directory, such as /var/lib/zookeeper";
    let path = text(node, expected)?;
    if !path.starts_with('/') || path.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        let found = format!("'{}' is no full path without spaces and backslashes", shown(path));
        return Err(node.fault(found, expected));
    }
    Ok(path.to_string())
}

fn servers(node: &Node, hosts: &[Host], (most, why): (usize, &str)) -> Result<Vec<Member>, Fault> {
    let Kind::List(items) = &node.kind else { return Err(node.fault(format!("found {} here", node.form()), SERVERS)) };
    if items.len() < 3 {
        let found = format!("an ensemble of {} does not survive its leader", items.len());
        return Err(node.fault(found, SERVERS));
    }
    if let Some(more) = items.get(most) {
        return Err(more.fault(why, SERVERS));
    }
    let mut members: Vec<Member> = Vec::new();
    for item in items {
        let member = member(item, hosts)?;
        if members.iter().any(|other| other.host == member.host) {
            let found = format!("two servers on '{}' would be lost together", member.host);
            return Err(item.fault(found, "expected each server on a host of its own"));
        }
        members.push(member);
    }
    Ok(members)
}

fn member(node: &Node, hosts: &[Host]) -> Result<Member, Fault> {
    let written = scalar(node, SERVERS)?.text.as_str();
    let bad = || node.fault(format!("'{}' is no server", shown(written)), SERVERS);
    let (host, port) = written.rsplit_once(':').ok_or_else(bad)?;
    let port = number(port).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).ok_or_else(bad)?;
    let names = hosts.iter().map(|host| host.name.as_str());
    if !names.clone().any(|name| name == host) {
        let hint = did_you_mean(host, names.clone());
        let known = names.collect::<Vec<_>>().join(", ");
        let expected = format!("expected one of {known}{hint}");
        return Err(node.fault(format!("the site has no host '{}'", shown(host)), expected));
    }
    Ok(Member { host: host.to_string(), port })
}

fn epochs(node: &Node) -> Result<Epochs, Fault> {
    let expected = "expected strict, reserve or overlap; when it is not written, the planner chooses";
    let written = text(node, expected)?;
    if written == "memory" {
        let found = "epochs only in memory lose acknowledged writes when machines lose power";
        return Err(node.fault(found, format!("{expected} (docs/coordination.md)")));
    }
    written.parse().map_err(|_| {
        let hint = did_you_mean(written, Epochs::ALL.map(|epochs| epochs.to_string()).iter().map(String::as_str));
        node.fault(format!("'{}' is no way to keep epochs", shown(written)), format!("{expected}{hint}"))
    })
}

/// (5.2) of LiH21: w > j + d.
fn wait(node: &Node, times: &RecoveryTimes) -> Result<Duration, Fault> {
    let wait = whole(node, Duration::from_us(1), "microseconds")?;
    let spread = times.jitter.checked_add(times.delay).filter(|spread| *spread < wait);
    if spread.is_none() || wait > STOCK_WAIT {
        let found = format!("a wait of {wait} is not between {} and {STOCK_WAIT}", shown_sum(times));
        let expected = "expected more than jitter and delay together, so that all votes are in, and at most what stock servers wait";
        return Err(node.fault(found, expected));
    }
    Ok(wait)
}

fn shown_sum(times: &RecoveryTimes) -> String {
    times.jitter.checked_add(times.delay).map_or("jitter and delay".into(), |sum| sum.to_string())
}

fn times(node: &Node) -> Result<RecoveryTimes, Fault> {
    let fields = MEASURED.read(node, node.span)?;
    let default = RecoveryTimes::default();
    // Servers read jitter and delay, in whole microseconds.
    let read = |key: &str, or: Duration| fields.get(key).map_or(Ok(or), part);
    let exact = |key: &str, or: Duration| {
        fields.get(key).map_or(Ok(or), |node| whole(node, Duration::from_us(1), "microseconds"))
    };
    Ok(RecoveryTimes {
        leave: read("leave", default.leave)?,
        jitter: exact("jitter", default.jitter)?,
        delay: exact("delay", default.delay)?,
        message: read("message", default.message)?,
        recover: read("recover", default.recover)?,
        learner: read("learner", default.learner)?,
        write: read("write", default.write)?,
    })
}

fn part(node: &Node) -> Result<Duration, Fault> {
    let time = duration(node)?;
    if time > LONGEST_PART {
        return Err(node.fault(format!("{time} is no part of a recovery"), format!("expected at most {LONGEST_PART}")));
    }
    Ok(time)
}

fn positive(node: &Node) -> Result<Duration, Fault> {
    let time = part(node)?;
    if time.is_zero() {
        return Err(node.fault("0 is no length of time here", "expected a duration above 0, such as 200ms"));
    }
    Ok(time)
}

/// A positive number of whole `unit`s.
fn whole(node: &Node, unit: Duration, name: &str) -> Result<Duration, Fault> {
    let time = positive(node)?;
    match time.ns().is_multiple_of(unit.ns()) {
        true => Ok(time),
        false => Err(node.fault(
            format!("{time} is no whole number of {name}"),
            format!("expected whole {name}, as ZooKeeper reads it"),
        )),
    }
}

fn tick(node: &Node) -> Result<Duration, Fault> {
    let tick = whole(node, Duration::from_ms(1), "milliseconds")?;
    if tick > LONGEST_TICK {
        return Err(node.fault(format!("{tick} is too long for a tick"), format!("expected at most {LONGEST_TICK}")));
    }
    Ok(tick)
}
