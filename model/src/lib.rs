//! The words every room speaks: instants and durations, bandwidths, tasks, servers, services, promises, plans and job
//! records.
//!
//! Called by every other Rust room; calls none. It holds data, its notation (`14ms`, `2ms/7ms@6ms+1ms`, `19/25`) and
//! checked arithmetic. It does not read site files (`site`), compute a parameter (`analysis`, `planner`) or touch a machine.

mod agent;
mod assurance;
mod backend;
mod bandwidth;
mod basis;
mod bits;
mod certificate;
mod coordination;
mod copies;
mod criticality;
mod despite;
mod etcd;
mod in_mode;
mod jobs;
mod kind;
mod latency;
mod link;
mod member;
mod modes;
mod network;
mod observation;
mod observe;
mod path;
mod percentile;
mod plan;
mod process;
mod profile;
mod promise;
mod quoted;
mod rate;
mod reason;
mod scheduler;
mod server;
mod site;
mod task;
mod time;
mod together;
mod tokens;
mod topic;
mod xen;

pub use agent::{AgentKey, Listen};
pub use assurance::{Assurance, SimulatedPath};
pub use backend::{Abilities, Backend, Periods};
pub use bandwidth::Bandwidth;
pub use basis::{Basis, MachineBasis, SiteBasis};
pub use bits::BitRate;
pub use certificate::{Admission, Certificate, Point, PredictedPercentile, RestsOn};
pub use coordination::{
    Coordination, CoordinationPlan, Engine, Epochs, Places, RecoveryTimes, SilenceAsked, SilencePlan, Ticks, ZooKeeper,
    ZooKeeperPlan, STOCK_WAIT, WAIT_MARGIN,
};
pub use copies::Copies;
pub use criticality::{Criticality, SiteCriticality};
pub use despite::{Despite, DespitePlan, Fails};
pub use etcd::{Etcd, EtcdPlaces, EtcdPlan, EtcdTimes};
pub use in_mode::longest_wait;
pub use jobs::{read_jobs, write_jobs, JobError, JobRecord, JobWriter, Lateness, JOBS_HEADER};
pub use kind::{KindFacts, Renewal, ServerKind, Supply};
pub use latency::{
    Answer, Behind, CoreLatency, Guest, HostLatency, IdleState, Latency, LatencyMachine, LatencyRun, LatencySpread,
    LatencyVerdict, ManagerLatency, ManagerRun, Stress, LATENCY_VERSION,
};
pub use link::{times_of, Link, LinkStage, LinkTimes};
pub use member::Member;
pub use modes::{
    ChangePolicy, LocalNeed, LocalPlan, LocalProof, MemberMode, MemberPlan, ModeChanges, ModePlan, ModesPlan,
    OnTimeout, Requests, ServiceMode, SiteMode, SiteModes, StaticCost, Transition, AGENT_TASK, RUNNING, STOPPED,
};
pub use network::{HostNetwork, NetworkPlan, PacketBucket, PacketClass, PacketUnit, Uplink, UplinkPlan, Vif, VifPlan};
pub use observation::{Foreign, Observation, ObservedHost, OBSERVATION_VERSION};
pub use observe::{Exporter, Observe, Reported};
pub use path::{
    BrokerStage, InterfaceStage, PacketWay, Path, PathEvery, PathLoad, PathMeet, PathObserve, PathPart, PathPlan,
    PathPoint, PathSource, PathStage, Paths, ServiceStage, Steps, Through, TokensStage,
};
pub use percentile::{Arrivals, Percentile, ServiceTime, Within};
pub use plan::{CurvePoint, HostPlan, LeftoverPlan, Plan, Prediction, ServicePlan, PLAN_VERSION};
pub use process::{Limit, Process, Restart};
pub use profile::{Profile, ProfileError};
pub use promise::{About, Promise};
pub use quoted::quoted;
pub use rate::Rate;
pub use reason::Reason;
pub use scheduler::{GuestScheduler, Scheduler};
pub use server::{Cap, Hold, Interface, InterfaceError, Server};
pub use site::{Adopt, Host, Load, Measured, Origin, Service, Site, Unused};
pub use task::{Release, Task, TaskError};
pub use time::{Duration, Instant, TimeError};
pub use together::together;
pub use tokens::Tokens;
pub use topic::{BrokerTimes, Bucket, Topic, TopicLimit, TopicPlan};
pub use xen::Xen;
