//! Flags of what a newcomer types first.

use super::values::span;
use clap::Args;
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
pub(crate) struct InitArgs {
    /// What to watch: a unit such as redis.service, a process id, or the name or id of a container
    #[arg(long, value_name = "SERVICE")]
    pub(crate) adopt: String,
    /// How long
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = span)]
    pub(crate) length: Duration,
    /// The site file to write
    #[arg(long, value_name = "FILE", default_value = "site.yaml")]
    pub(crate) out: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
