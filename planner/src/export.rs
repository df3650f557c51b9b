//! The plan in the words of stock software: what a ZooKeeper server reads.

use giusto_model::{CoordinationPlan, Duration, Member, Places};
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
