//! Flags of what a newcomer types first.

use super::values::span;
use clap::{ArgGroup, Args};
use giusto_model::Duration;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where the page goes; where that cannot be written, into the folder for temporary files
    #[arg(long, value_name = "FILE", default_value = "out/demo.html")]
    pub(crate) out: PathBuf,
    /// Seed of everything random; the same seed gives the same numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whom").args(["adopt", "kubernetes"]).required(true))]
pub(crate) struct InitArgs {
    /// What to watch: a unit such as redis.service, a process id, or the name or id of a container
    #[arg(long, value_name = "SERVICE")]
    pub(crate) adopt: Option<String>,
    /// Instead, one after the other, the pods of this machine in what 'kubectl get pods -o json' printed (-: standard
    /// input): writes promises for them
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) kubernetes: Option<PathBuf>,
    /// Of each pod the container of this name; needed where a pod has several
    #[arg(long, value_name = "NAME", requires = "kubernetes")]
    pub(crate) container: Option<String>,
    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = span)]
    pub(crate) length: Duration,
    /// The file to write [default: site.yaml; of promises standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
