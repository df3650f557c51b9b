//! Where the site of a command is.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct SiteArg {
    /// The site file
    pub(crate) site: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HostArg {
    /// Which host of the site this machine is [default: the one with its hostname, or the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
}
