//! The plan in the words of other programs: what a ZooKeeper or etcd server and a broker for NSQ's clients read.

use giusto_model::{Bucket, Duration, EtcdPlaces, EtcdPlan, Member, Places, Plan, ZooKeeperPlan};
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
pub fn zookeeper(plan: &ZooKeeperPlan) -> Vec<ServerFiles> {
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
        if let Some(silence) = &plan.silence {
            let _ = writeln!(config, "giusto.step-down={}", micros(silence.step_down));
        }
        ServerFiles { host: member.host.clone(), config, id: format!("{id}\n") }
    };
    ids().map(files).collect()
}

/// What one etcd server of the ensemble reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EtcdFile {
    /// The host it is on.
    pub host: String,
    /// Its environment, one variable a line: `/etc/default/etcd` of Debian's package, or a container's.
    pub environment: String,
}

/// The environments of all etcd servers. O(servers²).
pub fn etcd(plan: &EtcdPlan) -> Vec<EtcdFile> {
    let EtcdPlaces { data, peer_port } = &plan.places;
    let ms = |time: Duration| time.ns() / Duration::from_ms(1).ns();
    let peer = |member: &Member| format!("http://{}:{peer_port}", member.host);
    let all: Vec<String> = plan.servers.iter().map(|one| format!("{}={}", one.host, peer(one))).collect();
    let file = |member: &Member| {
        let Member { host, port } = member;
        let environment = format!(
            "# One of {} servers, by 'giusto export etcd'. Another leader serves within {:.3} at most;\n\
             # 'giusto explain coordination' says why.\n\
             ETCD_NAME={host}\nETCD_DATA_DIR={data}\nETCD_HEARTBEAT_INTERVAL={}\nETCD_ELECTION_TIMEOUT={}\nETCD_PRE_VOTE=true\n\
             ETCD_LISTEN_PEER_URLS=http://0.0.0.0:{peer_port}\nETCD_INITIAL_ADVERTISE_PEER_URLS={}\n\
             ETCD_LISTEN_CLIENT_URLS=http://0.0.0.0:{port}\nETCD_ADVERTISE_CLIENT_URLS=http://{host}:{port}\n\
             ETCD_INITIAL_CLUSTER={}\nETCD_INITIAL_CLUSTER_STATE=new\n",
            plan.servers.len(),
            plan.bound,
            ms(plan.heartbeat),
            ms(plan.election),
            peer(member),
            all.join(","),
        );
        EtcdFile { host: host.clone(), environment }
    };
    plan.servers.iter().map(file).collect()
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
