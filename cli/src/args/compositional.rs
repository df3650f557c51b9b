//! Flags of compositional analysis: task sets, who schedules inside, and which servers share a core.

use super::values::{part, span};
use clap::{Args, ValueEnum};
use giusto_analysis::admission::{Fit, Order};
use giusto_analysis::interface::{Resource, Scheduler};
use giusto_answers::notation::{resource, server};
use giusto_answers::vcpus::GLOBAL_EDF;
use giusto_model::{Bandwidth, Duration, Server, Task};
use giusto_site::carts::Unit;
use std::path::PathBuf;

/// Who schedules tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// On one processor.
    One(Scheduler),
    /// Earliest deadline first on several virtual CPUs.
    Global,
}

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

/// Which core a server is placed on, of those that have room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Room {
    /// The first
    First,
    /// The fullest
    Best,
    /// The emptiest
    Worst,
}

impl From<Room> for Fit {
    fn from(room: Room) -> Fit {
        match room {
            Room::First => Fit::First,
            Room::Best => Fit::Best,
            Room::Worst => Fit::Worst,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct InterfaceArgs {
    /// Who schedules the tasks: rm, dm, edf, or global-edf on several virtual CPUs
    #[arg(long, value_name = "NAME", required_unless_present = "carts", conflicts_with = "carts", value_parser = inside)]
    pub(crate) scheduler: Option<Inside>,
    /// With global-edf: how many virtual CPUs share the tasks [default: the fewest for --period]
    #[arg(long, value_name = "N", requires = "scheduler", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) vcpus: Option<u32>,
    /// What is known of the supply
    #[arg(long, value_enum, default_value = "general")]
    pub(crate) supply: Supply,
    /// A task, wcet/period[@deadline][+offset]; repeat it for each. Offsets are not counted on
    #[arg(long = "task", value_name = "TASK", required_unless_present = "carts", conflicts_with = "carts")]
    pub(crate) tasks: Vec<Task>,
    /// Budgets, and periods that are searched, are whole multiples of this [default: 1ms, or less where periods are below 10ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) quantum: Option<Duration>,
    /// The server's period; when not given, the one that needs least bandwidth
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) period: Option<Duration>,
    /// With --supply edp and --period: the budget comes within this time of every period, and the least one is looked for
    #[arg(long, value_name = "TIME", requires = "period", conflicts_with_all = ["carts", "overhead"], value_parser = span)]
    pub(crate) deadline: Option<Duration>,
    /// Ask instead whether this is enough: budget/period (with --supply aligned: on boundaries), budget/period@deadline,
    /// share+delay such as 40%+6ms, or the slots of a table and its length such as 0ms-2ms,5ms-7ms/10ms
    #[arg(long, value_name = "RESOURCE", value_parser = resource,
          conflicts_with_all = ["carts", "period", "quantum", "overhead", "vcpus", "deadline"])]
    pub(crate) given: Option<Resource>,
    /// Cost of one preemption, added to every job and to every budget
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub(crate) overhead: Duration,
    /// How late the host's supply may come once in any window
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub(crate) latency: Duration,
    /// Tell how far each number may be off, and what breaks first
    #[arg(long, conflicts_with = "carts")]
    pub(crate) sensitivity: bool,
    /// A system in the XML of CARTS instead of tasks: an interface for each component, from the leaves up
    #[arg(long, value_name = "FILE")]
    pub(crate) carts: Option<PathBuf>,
    /// Write the system with its interfaces to this file
    #[arg(long, value_name = "FILE", requires = "carts")]
    pub(crate) carts_out: Option<PathBuf>,
    /// Unit of the numbers in that file: ns, us, ms or s
    #[arg(long, value_name = "UNIT", default_value = "ms", requires = "carts")]
    pub(crate) unit: Unit,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is known of a supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Supply {
    /// A budget somewhere in every period
    General,
    /// The same, all periods dividing each other and all releases on the server's boundaries (ARINC 653); you assert that
    #[value(alias = "harmonic")]
    Aligned,
    /// A budget within a deadline in every period (EDP)
    #[value(alias = "explicit-deadline")]
    Edp,
}

#[derive(Debug, Args)]
pub(crate) struct PlaneArgs {
    /// Who schedules the tasks: rm, dm or edf
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Scheduler,
    /// A task, wcet/period[@deadline][+offset]; repeat it for each. Offsets are not counted on
    #[arg(long = "task", value_name = "TASK", required = true)]
    pub(crate) tasks: Vec<Task>,
    /// Least bandwidth to begin with; when not given, the least that can be enough
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub(crate) from: Option<Bandwidth>,
    /// Find the least budget of a server of this period
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) period: Option<Duration>,
    /// Budgets are whole multiples of this
    #[arg(long, value_name = "TIME", default_value = "1us", requires = "period", value_parser = span)]
    pub(crate) quantum: Duration,
    /// Draw it (SVG)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Most of a core that all on it may take together
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = part)]
    pub(crate) capacity: Bandwidth,
    /// So many cores that all servers share: whichever core is free runs the next (global EDF, global fixed priority)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) cores: Option<u32>,
    /// With --cores: place each server on a core of its own choice instead, the largest first
    #[arg(long, value_name = "CORE", value_enum, requires = "cores")]
    pub(crate) fit: Option<Room>,
    /// Tell how much more each server may take, the tightest first
    #[arg(long, conflicts_with = "cores")]
    pub(crate) sensitivity: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
