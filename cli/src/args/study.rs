//! Flags of published experiments, repeated.

use clap::{Args, Subcommand};
use giusto_studies::Name;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Study {
    /// The studies there are, what they play again, and what they need
    #[command(after_help = "Example, in a checkout of the source:\n  giusto study list")]
    List(StudyListArgs),
    /// Play a study, write its tables and figures, and judge its claims
    ///
    /// Ends with 0 if all claims hold but those known to differ from the paper, with 5 if another fails, with 6 if one cannot be
    /// told from so many sets, and with 3 if this machine lacks what is to be measured.
    #[command(after_help = "Example, in a checkout of the source:\n  giusto study run mdds1-select --quick --html")]
    Run(StudyRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StudyListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StudyRunArgs {
    /// Its folder in studies/
    #[arg(hide_possible_values = true)]
    pub(crate) name: Name,
    /// Few sets: seconds instead of minutes, and not every claim can be told
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a report too: report.html beside the tables, one page with everything in it
    #[arg(long)]
    pub(crate) html: bool,
    /// Where tables and figures go, in a folder of the study's name
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub(crate) out: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
