//! Flags of compositional analysis: who schedules inside, and which servers share a core.

use super::{part, span};
use clap::{Args, ValueEnum};
use giusto_analysis::admission::Order;
use giusto_analysis::interface::Scheduler;
use giusto_model::{Bandwidth, Duration, Server, ServerKind};

/// Who schedules tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// On one processor.
    One(Scheduler),
    /// Earliest deadline first on several virtual CPUs.
    Global,
}

/// What `--scheduler` calls it.
pub(crate) const GLOBAL_EDF: &str = "global-edf";

/// `rm`, `dm`, `edf` or `global-edf`
pub(crate) fn inside(text: &str) -> Result<Inside, String> {
    match text {
        GLOBAL_EDF => Ok(Inside::Global),
        _ => text.parse().map(Inside::One).map_err(|why: String| format!("{why}, {GLOBAL_EDF}")),
    }
}

/// In which order servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerOrder {
    /// In the order given, the first above all others
    FixedPriority,
    /// Earliest deadline first
    Edf,
}

impl From<ServerOrder> for Order {
    fn from(order: ServerOrder) -> Order {
        match order {
            ServerOrder::FixedPriority => Order::FixedPriority,
            ServerOrder::Edf => Order::Edf,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AdmissionArgs {
    /// In which order they run
    #[arg(long, value_enum)]
    pub(crate) scheduler: ServerOrder,
    /// A server, kind:budget/period; repeat it for each, under fixed priorities the highest first. Kinds: periodic_strict,
    /// periodic_conserving, periodic_reclaiming, polling, deferrable, sporadic, constant_bandwidth
    #[arg(long = "server", value_name = "SERVER", required = true, value_parser = server)]
    pub(crate) servers: Vec<Server>,
    /// All periods are counted from one instant (not those of sporadic and constant_bandwidth servers); you assert that
    #[arg(long)]
    pub(crate) aligned: bool,
    /// Most of the core that all may take together
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = part)]
    pub(crate) capacity: Bandwidth,
    /// Tell how much more each server may take, the tightest first
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `deferrable:2ms/5ms`
fn server(text: &str) -> Result<Server, String> {
    let bad = || format!("'{text}' is no server; expected kind:budget/period, such as deferrable:2ms/5ms");
    let (name, resource) = text.split_once(':').ok_or_else(bad)?;
    let (budget, period) = resource.split_once('/').ok_or_else(bad)?;
    let kinds = || ServerKind::ALL.into_iter().filter(|kind| *kind != ServerKind::Unlimited);
    let kind = kinds().find(|kind| kind.to_string() == name).ok_or_else(|| {
        let names: Vec<String> = kinds().map(|kind| kind.to_string()).collect();
        format!("'{name}' is not a kind of server with a budget; expected one of {}", names.join(", "))
    })?;
    let (budget, period): (Duration, Duration) = (span(budget)?, span(period)?);
    if budget > period {
        return Err(format!(
            "a budget of {budget} does not fit into its period of {period}; expected budget <= period"
        ));
    }
    Ok(Server { kind, budget, period })
}
