//! Flags about the ensemble of coordination servers.

use super::alone::{AloneArgs, KubernetesArgs};
use super::values::span;
use clap::{Args, Subcommand};
use giusto_model::{Duration, Epochs};
use std::path::PathBuf;

/// The defaults are the paper's measurement (Table 5.3, section 5.4); it gives none for a forced write.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// Servers of the ensemble, the dead leader among them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=255))]
    pub(crate) servers: u64,
    /// How epochs reach the disk: strict, reserve or overlap
    #[arg(long, value_name = "WAY", default_value = "reserve")]
    pub(crate) epochs: Epochs,
    /// w: how long an election waits for votes [default: jitter + delay + 4ms, at most 200ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) wait: Option<Duration>,
    /// s_e: from a broken connection to the first vote
    #[arg(long, value_name = "TIME", default_value = "35ms")]
    pub(crate) leave: Duration,
    /// j: how far apart servers notice a dead leader
    #[arg(long, value_name = "TIME", default_value = "13ms")]
    pub(crate) jitter: Duration,
    /// d: how long a message takes at most
    #[arg(long, value_name = "TIME", default_value = "3ms")]
    pub(crate) delay: Duration,
    /// h: to handle one vote
    #[arg(long, value_name = "TIME", default_value = "3ms")]
    pub(crate) message: Duration,
    /// s_r: of the recovery after the election, whatever the number of servers
    #[arg(long, value_name = "TIME", default_value = "55ms")]
    pub(crate) recover: Duration,
    /// h_r: of the recovery, for each server left
    #[arg(long, value_name = "TIME", default_value = "25ms")]
    pub(crate) learner: Duration,
    /// b: a forced write of an epoch
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    pub(crate) write: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// zoo.cfg and myid of every server of the site's ensemble, each in a folder of its host's name
    #[command(after_help = "Example:\n  giusto export zookeeper sites/ensemble.yaml --out out/zookeeper")]
    Zookeeper(EnsembleArgs),
    /// The environment of every server of the site's ensemble of etcd, /etc/default/etcd, each in a folder of its host's name
    #[command(after_help = "Example:\n  giusto export etcd sites/etcd.yaml --out out/etcd")]
    Etcd(EnsembleArgs),
    /// broker.yaml of every broker that carries a topic of the site, each in a folder of its host's name
    #[command(after_help = "Example:\n  giusto export nsq sites/messages.yaml --out out/nsq")]
    Nsq(NsqArgs),
    /// What has Xen's RTDS serve the domains of each host that runs Xen: apply.sh, servers.txt and lines for NAME.cfg
    #[command(
        after_help = "Example:\n  giusto export xen sites/xen.yaml --out out/xen\n\nOn the control domain, as root:\n  \
                            sh out/xen/x1/apply.sh"
    )]
    Xen(XenArgs),
    /// A unit for what the site starts, and a drop-in for each unit: cores, quotas, real-time priorities
    ///
    /// Beside them a unit of Giusto that adopts the same units, giusto@HOST.service, for what systemd cannot keep.
    #[command(after_help = "Example:\n  giusto export systemd sites/walk.yaml --out out/systemd")]
    Systemd(AloneArgs),
    /// Flags for 'docker run', an override for Compose, and a script for containers that run
    #[command(after_help = "Example:\n  giusto export docker sites/containers.yaml --out out/docker")]
    Docker(AloneArgs),
    /// Flags for 'podman run', an override for Compose, and a script for containers that run
    #[command(after_help = "Example:\n  giusto export podman sites/containers.yaml --out out/podman")]
    Podman(AloneArgs),
    /// <cputune> of each domain, a script for those that run, and a hook by which Giusto adopts them
    #[command(after_help = "Example:\n  giusto export libvirt sites/machines.yaml --out out/libvirt")]
    Libvirt(AloneArgs),
    /// The part of a VirtualMachine of KubeVirt that is about processors
    #[command(after_help = "Example:\n  giusto export kubevirt sites/machines.yaml --out out/kubevirt")]
    Kubevirt(AloneArgs),
    /// Promises for the pods of a cluster in which Giusto runs, and what of the site they do not say
    #[command(after_help = "Example:\n  giusto export kubernetes sites/walk.yaml --out out/promises.yaml")]
    Kubernetes(KubernetesArgs),
}

#[derive(Debug, Args)]
pub(crate) struct XenArgs {
    /// The site file
    pub(crate) site: PathBuf,
    /// Where the folders go
    #[arg(long, value_name = "DIR", default_value = "out/xen")]
    pub(crate) out: PathBuf,
    /// Print JSON: the same texts; writes nothing
    #[arg(long, conflicts_with = "out")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NsqArgs {
    /// The site file
    pub(crate) site: PathBuf,
    /// Where the folders go
    #[arg(long, value_name = "DIR", default_value = "out/nsq")]
    pub(crate) out: PathBuf,
    /// TCP address of an nsqlookupd that the brokers register with; may be repeated
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub(crate) lookupd: Vec<String>,
    /// Print JSON: the same texts; writes nothing
    #[arg(long, conflicts_with = "out")]
    pub(crate) json: bool,
}

/// A host and a port that can be written into a file as they are.
fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_[]:".contains(c);
    match !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0) {
        true => Ok(text.to_string()),
        false => Err("expected a host and a port, such as edge-1:4160".to_string()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct EnsembleArgs {
    /// The site file
    pub(crate) site: PathBuf,
    /// Where the folders go [default: out/zookeeper, out/etcd]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON: the same texts; writes nothing
    #[arg(long, conflicts_with = "out")]
    pub(crate) json: bool,
}

impl EnsembleArgs {
    /// Where the folders go.
    pub(crate) fn folder(&self, engine: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("out").join(engine))
    }
}
