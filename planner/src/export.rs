//! The plan in the words of other programs: what a ZooKeeper server and a broker for NSQ's clients read.

use giusto_model::{Bucket, CoordinationPlan, Duration, Member, Places, Plan};
use serde::Serialize;
use std::fmt::Write;

/// To connect and to take over the data, and the longest session, whatever the tick: ZooKeeper's with its own tick of 2 s.
const INITIAL: Duration = Duration::from_secs(20);
const SESSION: Duration = Duration::from_secs(40);

/// What one server of the ensemble reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerFiles {
    /// The host it is on.
    pub host: String,
    /// `zoo.cfg`.
    pub config: String,
    /// `myid`, to be put into the data directory.
    pub id: String,
}

/// The files of all servers. A stock server reads the same zoo.cfg and ignores the lines of Giusto. O(servers²).
pub fn zookeeper(plan: &CoordinationPlan) -> Vec<ServerFiles> {
    let ids = || plan.servers.iter().zip(1u32..);
    let tick = plan.tick.ns() / Duration::from_ms(1).ns();
    let ticks = |time: Duration| time.ns().div_ceil(plan.tick.ns().max(1));
    let micros = |time: Duration| format!("{}us", time.ns() / 1000);
    let session = SESSION.ns() / Duration::from_ms(1).ns();
    let Places { data, quorum_port, election_port } = &plan.places;
    let line = |(member, id): (&Member, u32)| format!("server.{id}={}:{quorum_port}:{election_port}\n", member.host);
    let all: String = ids().map(line).collect();
    let files = |(member, id): (&Member, u32)| {
        let mut config = format!(
            "# Server {id} of {}, by 'giusto export zookeeper'. Another leader serves within {:.3} at most;\n\
             # 'giusto explain coordination' says why. A stock server ignores the lines with giusto.\n\
             tickTime={tick}\ninitLimit={}\nsyncLimit={}\nmaxSessionTimeout={session}\ndataDir={data}\nclientPort={}\n{all}",
            plan.servers.len(),
            plan.bound,
            ticks(INITIAL),
            plan.sync_limit,
            member.port,
        );
        let _ = writeln!(config, "giusto.epochs={}", plan.epochs);
        let wait = if plan.adaptive { "adaptive".into() } else { micros(plan.wait) };
        let (jitter, delay) = (micros(plan.times.jitter), micros(plan.times.delay));
        let _ = writeln!(config, "giusto.wait={wait}\ngiusto.jitter={jitter}\ngiusto.delay={delay}");
        ServerFiles { host: member.host.clone(), config, id: format!("{id}\n") }
    };
    ids().map(files).collect()
}

/// What the broker on one host reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokerFile {
    /// The host it is on.
    pub host: String,
    /// Its static file (messaging/README.md).
    pub config: String,
}

/// Where brokers listen, NSQ's own ports, and keep what is not delivered yet.
const LISTEN: &str = "listen: 0.0.0.0:4150\nhttp: 0.0.0.0:4151\ndata: /var/lib/giusto-broker\n";

/// The files of all brokers that carry topics, each with its share of their buckets, in the order of the site's hosts.
/// `lookupd`: TCP addresses of nsqlookupds. O(hosts · topics).
pub fn nsq(plan: &Plan, lookupd: &[String]) -> Vec<BrokerFile> {
    let carried = |host: &str| plan.topics.iter().filter(|topic| topic.brokers.iter().any(|on| on == host)).collect();
    let file = |(node, host): (usize, &str)| {
        let topics: Vec<_> = carried(host);
        let mut config = format!(
            "# The broker on {host}, by 'giusto export nsq'; 'giusto explain TOPIC' says why.\n\
             {LISTEN}announce: {host}\nnode: {node}\n"
        );
        if !lookupd.is_empty() {
            let _ = writeln!(config, "lookupd: [{}]", lookupd.join(", "));
        }
        config += "topics:\n";
        for topic in &topics {
            let Bucket { rate, depth } = topic.share;
            let _ = writeln!(config, "  {}: {{rate: {rate}, depth: {depth}, limit: {}}}", topic.name, topic.limit);
        }
        (!topics.is_empty()).then(|| BrokerFile { host: host.to_string(), config })
    };
    plan.hosts.iter().map(|host| host.name.as_str()).enumerate().filter_map(file).collect()
}
