//! Flags of exports that stand alone.

use super::measure::{LatencyArg, ProfilesArg};
use super::site::HostArg;
use clap::Args;
use giusto_answers::plan::Asked;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct AloneArgs {
    /// The site file
    pub(crate) site: PathBuf,
    /// Where the files go, a folder a host [default: out/systemd, out/docker, ...]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) known: KnownArgs,
    /// Print JSON: the same texts; writes nothing
    #[arg(long, conflicts_with = "out")]
    pub(crate) json: bool,
}

impl AloneArgs {
    /// Where the folders go.
    pub(crate) fn folder(&self, target: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("out").join(target))
    }
}

#[derive(Debug, Args)]
pub(crate) struct KubernetesArgs {
    /// The site file
    pub(crate) site: PathBuf,
    /// The file to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) known: KnownArgs,
}

/// What an export is planned with.
#[derive(Debug, Args)]
pub(crate) struct KnownArgs {
    #[command(flatten)]
    this: HostArg,
    #[command(flatten)]
    latency: LatencyArg,
    #[command(flatten)]
    profiles: ProfilesArg,
}

impl KnownArgs {
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked {
            host: self.this.host.as_deref(),
            latency: self.latency.file.as_deref(),
            profiles: Some(self.profiles.folder.as_path()),
            ..Asked::default()
        }
    }
}
