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
