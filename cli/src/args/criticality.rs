//! Flags of criticality.

use super::values::part;
use clap::Args;
use giusto_analysis::criticality::Vm;
use giusto_answers::notation::vm;
use giusto_model::Bandwidth;

#[derive(Debug, Args)]
pub(crate) struct CriticalityArgs {
    /// A virtual CPU: hi:budget:worst/period, usual and worst budget of one of high criticality, or lo:budget/period; repeat it
    /// for each, in the order in which they are placed
    #[arg(long = "vm", value_name = "VM", required = true, value_parser = vm)]
    pub(crate) vms: Vec<Vm>,
    /// Most of a core that all on it may take together
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = part)]
    pub(crate) capacity: Bandwidth,
    /// Place them on so many cores, first-fit, and compare with best-fit and worst-fit; when not given, all are on one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cores: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
