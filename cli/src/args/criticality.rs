//! Flags of criticality.

use super::values::{part, span};
use clap::Args;
use giusto_analysis::criticality::Vm;
use giusto_model::{Bandwidth, Duration};

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

/// `hi:5ms:25ms/100ms`, `hi:5ms/100ms`, which never takes more, or `lo:25ms/100ms`
fn vm(text: &str) -> Result<Vm, String> {
    let bad =
        || format!("'{text}' is no VM; expected hi:budget:worst/period, such as hi:5ms:25ms/100ms, or lo:25ms/100ms");
    let (level, rest) = text.split_once(':').ok_or_else(bad)?;
    let (budgets, period) = rest.split_once('/').ok_or_else(bad)?;
    let (usual, worst) = budgets.split_once(':').map_or((budgets, None), |(usual, worst)| (usual, Some(worst)));
    let (period, usual): (Duration, Duration) = (span(period)?, span(usual)?);
    let vm = match (level, worst) {
        ("hi", worst) => Vm::high(usual, worst.map_or(Ok(usual), span)?, period),
        ("lo", None) => Vm::low(usual, period),
        ("lo", Some(_)) => return Err("a low one has one budget; expected lo:budget/period, or hi".into()),
        _ => return Err(bad()),
    };
    vm.validate().map_err(|why| why.to_string())?;
    Ok(vm)
}
