//! Why there is no plan: who does not fit, by how much, and what would.

use crate::coordination::SlowRecovery;
use crate::critical::Discord;
use crate::modes::ModeRefusal;
use crate::network::PacketRefusal;
use crate::topics::TopicRefusal;
use crate::words::{share, time};
use giusto_analysis::admission::Window;
use giusto_model::{Backend, Bandwidth, Duration, Interface, ServerKind, Within};
use std::fmt;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The services ask for more than there is (exit 1).
    #[error("{0}")]
    DoesNotFit(Box<Witness>),
    /// The machine cannot do what the site or the method wants (exit 3).
    #[error("{lacks}; {remedy}")]
    Machine {
        /// What is missing.
        lacks: String,
        /// How to get it.
        remedy: String,
    },
    /// What was asked for cannot be had this way (exit 2).
    #[error("service '{service}': {why}; {instead}")]
    Asked {
        /// Whose.
        service: String,
        /// Why not.
        why: String,
        /// What to write instead.
        instead: String,
    },
    /// Execution times are to be measured and are not (exit 2).
    #[error("service '{service}': its execution times are to be measured, and {why}; measure them with 'giusto measure execution SITE {service}' while it runs, or try the site with 'giusto run SITE --trial', which does it first")]
    Unmeasured {
        /// Whose.
        service: String,
        /// Why.
        why: String,
    },
    /// The tasks of a service cannot be analysed (exit 2).
    #[error("service '{service}': {why}")]
    Tasks {
        /// Whose.
        service: String,
        /// Why.
        why: giusto_analysis::Error,
    },
    /// One of several hosts has such a refusal (exit code as that).
    #[error("on {host}: {refusal}")]
    On {
        /// Which host.
        host: String,
        /// What it has.
        refusal: Box<Refusal>,
    },
    /// No host takes a service, and on none it is for want of room (exit 2).
    #[error("service '{service}' has a place on no host{}", lacks.iter().map(|lack| format!("; {lack}")).collect::<String>())]
    Nowhere {
        /// Which service.
        service: String,
        /// What each host lacks.
        lacks: Vec<Elsewhere>,
    },
    /// An ensemble recovers too slowly (exit 1).
    #[error("{0}")]
    Recovery(Box<SlowRecovery>),
    /// A recovery that cannot be computed (exit 2).
    #[error("coordination: {0}")]
    NoRecovery(giusto_analysis::Error),
    /// A topic does not keep its promise (exit 1).
    #[error("{0}")]
    Topic(Box<TopicRefusal>),
    /// An interface has no place among those whose packets go first (exit 1).
    #[error("{0}")]
    Packets(Box<PacketRefusal>),
    /// A mode cannot be changed to as promised (exit 1).
    #[error("{0}")]
    Modes(Box<ModeRefusal>),
    /// A refusal that the host's measured latency has a part in (exit code as that).
    #[error(
        "{refusal}; all this with {} of the host's latency (--latency) on top of {} that are always allowed for; {}",
        time(*latency),
        time(*allowance),
        if *without { "without it would fit" } else { "without it something else would not fit" }
    )]
    Late {
        /// L.
        latency: Duration,
        /// What is allowed for in any case.
        allowance: Duration,
        /// Whether there is a plan without it.
        without: bool,
        /// What it has a part in.
        refusal: Box<Refusal>,
    },
    /// A measured latency is not that of what is planned (exit 2).
    #[error("--latency: {why}; {remedy}")]
    Latency {
        /// What is missing in it.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The machine is said to be a host that the site does not have (exit 2).
    #[error("the site has no host '{named}'; it has {}", known.join(", "))]
    Host {
        /// Which host.
        named: String,
        /// Those it has.
        known: Vec<String>,
    },
}

/// What a host lacks for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Which host.
    pub host: String,
    /// What, in words.
    pub why: String,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {}: {}", self.host, self.why)
    }
}

/// A service that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Which.
    pub service: String,
    /// On which host; the one that lacks least where it could be on any. `None`: the site has one host.
    pub host: Option<String>,
    /// Whom it would leave no place there; `None`: it has none itself.
    pub displaced: Option<String>,
    /// Why.
    pub cause: Cause,
    /// Why on no other host, where it could be on any.
    pub elsewhere: Vec<Elsewhere>,
    /// What would make it fit, each by itself; may be empty. With any of them this service is no longer refused, on a site with
    /// one host for this cause (another service may then turn out not to fit either).
    pub nearest: Vec<NearestFit>,
}

/// What does not fit: demand against supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// One core cannot hold the reservation.
    Core {
        /// Σ C/T.
        utilization: Bandwidth,
        /// W(P) at the best period allowed, and that period; `None` if U > 1.
        required: Option<(Bandwidth, Duration)>,
        /// Added to it.
        margin: Bandwidth,
        /// Most that a reservation may take of one core: the kernel's limit, or 1 − keep-free.
        supply: Bandwidth,
    },
    /// More time-sensitive services than cores.
    Cores {
        /// Time-sensitive services.
        demand: usize,
        /// Cores of the host.
        supply: usize,
    },
    /// No core has room for a supply.
    Supply {
        /// The virtual CPU that has no place.
        vcpu: Option<u32>,
        /// What it was promised.
        demand: Interface,
        /// The most that a core has left for it.
        supply: Bandwidth,
        /// Of a core without reservations.
        whole: Bandwidth,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// A core has room for a server, but not in every window, as a deferrable server keeps its budget while it is idle.
    Window {
        /// The virtual CPU that has no place.
        vcpu: Option<u32>,
        /// What it was promised, or needs.
        demand: Interface,
        /// Of the cores that have room, where least is lacking: how much can be asked for in which time.
        window: Window,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// No core has room for a server that keeps all deadlines.
    Deadlines(Box<Shortage>),
    /// No core has room for a server that keeps all percentiles.
    Percentiles(Box<Miss>),
    /// No core has room for a supply whose manager does not keep as many servers as it can ([`Backend::MANAGED`]).
    Servers {
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// In one of the modes.
    Mode {
        /// Of the site; `None`: in whatever mode of the site.
        mode: Option<String>,
        /// Of the service; `None`: it always does the same.
        local: Option<String>,
        /// What does not fit there.
        cause: Box<Cause>,
    },
    /// No core has servers with criticality with which it goes together.
    Discord(Box<Discord>),
    /// Every core has servers with criticality where this one has none, or the other way round.
    Apart {
        /// Whether this one has.
        critical: bool,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
    /// With the worst execution times of its tasks.
    AtWorst(Box<Cause>),
    /// The reservations leave too little for the floors.
    Floors {
        /// Sum of all `at-least`.
        demand: Bandwidth,
        /// What is left on all cores together.
        supply: Bandwidth,
    },
}

/// A server that keeps all deadlines of one virtual CPU, and what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The virtual CPU that has no place.
    pub vcpu: Option<u32>,
    /// The cheapest server that is enough; `None`: not even whole cores are.
    pub needs: Option<Interface>,
    /// The most that a core has left for it.
    pub room: Bandwidth,
    /// Of a core without reservations.
    pub whole: Bandwidth,
    /// Cores that no as-if-alone service has to itself.
    pub cores: usize,
    /// What goes wrong in that room.
    pub lack: Lack,
}

/// Percentiles that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What was promised.
    pub points: Vec<Within>,
    /// What is in the way.
    pub how: Missed,
}

/// Why percentiles cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// All requests together need a whole core or more.
    Overload {
        /// U in percent of a core, rounded up.
        percent: u64,
    },
    /// Not even a whole core keeps one of them (M/G/1).
    WholeCore {
        /// Which.
        point: Within,
        /// What part of all it serves within that, in thousandths of a percent.
        thousandths: u32,
        /// What the percentile is there.
        at: Duration,
        /// What comes on top on a real machine.
        latency: Duration,
    },
    /// There is no room for a server that is enough.
    Room {
        /// The cheapest; `None`: of the periods that can be enforced none.
        needs: Option<Interface>,
        /// The most that a core has left for it.
        room: Bandwidth,
        /// Of a core without reservations.
        whole: Bandwidth,
        /// Cores that no as-if-alone service has to itself.
        cores: usize,
    },
}

/// Work that comes too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// With this server, the largest that there is room for.
    pub given: Interface,
    /// A task that misses a deadline.
    pub task: String,
    /// In a window of this length ...
    pub at: Duration,
    /// ... so much may be asked for ...
    pub demand: Duration,
    /// ... and only this much is sure to be supplied.
    pub supply: Duration,
}

/// A change of the site with which it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearestFit {
    /// A shorter execution time of one task.
    Wcet {
        /// Which task of the witness's.
        task: String,
        /// The longest that fits.
        at_most: Duration,
    },
    /// A shorter worst execution time of one task.
    WorstWcet {
        /// Which task of the witness's.
        task: String,
        /// The longest that fits.
        at_most: Duration,
    },
    /// A smaller worst budget.
    Worst {
        /// Of which virtual CPU.
        vcpu: Option<u32>,
        /// The largest that fits.
        at_most: Duration,
    },
    /// A smaller margin for the witness.
    Margin(Bandwidth),
    /// A smaller supply, of the same period.
    Supply {
        /// Of which virtual CPU.
        vcpu: Option<u32>,
        /// The largest that fits.
        at_most: Interface,
    },
    /// Another server algorithm for the witness.
    Kind(ServerKind),
    /// So many cores more.
    MoreCores(usize),
    /// A longer latency for a percentile of the witness.
    Within(Within),
    /// A lower floor for the witness.
    AtLeast(Bandwidth),
    /// Another host, where it then fits together with all others.
    On(String),
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Witness { service, host, displaced, cause, elsewhere, nearest } = self;
        let on = host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
        write!(f, "service '{service}' does not fit{on}: ")?;
        if let Some(other) = displaced {
            write!(f, "it would leave no place for '{other}': ")?;
        }
        write!(f, "{cause}")?;
        elsewhere.iter().try_for_each(|lack| write!(f, "; nor {lack}"))?;
        if nearest.is_empty() {
            return write!(
                f,
                "; no single change of its tasks, its margin, its supply, a latency or the cores makes it fit"
            );
        }
        let words = nearest.iter().map(|fit| match fit {
            NearestFit::MoreCores(_) => format!("{fit}{on}"),
            _ => fit.to_string(),
        });
        write!(f, "; it fits with {}", words.collect::<Vec<_>>().join(", or with "))
    }
}

impl Cause {
    /// The same, in a mode if there are several.
    pub(crate) fn within(self, mode: Option<String>, local: Option<String>) -> Self {
        match (mode, local) {
            (None, None) => self,
            (mode, local) => Cause::Mode { mode, local, cause: Box::new(self) },
        }
    }

    /// The same, in whatever mode.
    pub(crate) fn itself(&self) -> &Cause {
        match self {
            Cause::Mode { cause, .. } | Cause::AtWorst(cause) => cause.itself(),
            cause => cause,
        }
    }

    /// How much is missing, in cores; what no exact fraction tells is much.
    pub(crate) fn missing(&self) -> Bandwidth {
        let much = Bandwidth::new(u64::MAX, 1).unwrap_or(Bandwidth::ONE);
        let missing = match self {
            Cause::Core { utilization, required: None, supply, .. } => utilization.checked_sub(*supply),
            Cause::Core { required: Some((required, _)), margin, supply, .. } => {
                required.checked_add(*margin).and_then(|demand| demand.checked_sub(*supply))
            }
            Cause::Cores { demand, supply } => Bandwidth::new((demand - supply) as u64, 1),
            Cause::Supply { demand, supply, .. } => demand.bandwidth().checked_sub(*supply),
            Cause::Window { window, .. } => {
                let over = window.demand.checked_sub(window.supply);
                over.and_then(|over| Bandwidth::of(over, window.at))
            }
            Cause::Deadlines(shortage) => shortage.needs.and_then(|needs| needs.bandwidth().checked_sub(shortage.room)),
            Cause::Percentiles(miss) => match &miss.how {
                Missed::Room { needs: Some(needs), room, .. } => needs.bandwidth().checked_sub(*room),
                _ => None,
            },
            Cause::Servers { .. } => Bandwidth::new(1, Backend::MANAGED as u64),
            Cause::Floors { demand, supply } => demand.checked_sub(*supply),
            Cause::Discord(_) | Cause::Apart { .. } => Bandwidth::new(1, Backend::MANAGED as u64),
            Cause::Mode { cause, .. } | Cause::AtWorst(cause) => return cause.missing(),
        };
        missing.unwrap_or(much)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Core { utilization, required: None, .. } => {
                write!(f, "its tasks alone need U = {} of one core", share(*utilization))
            }
            Cause::Core { utilization, required: Some((required, period)), margin, supply } => write!(
                f,
                "it needs {} of one core every {} (U = {}) and a margin of {}, and one core can reserve {}: {} too much",
                share(*required),
                time(*period),
                share(*utilization),
                share(*margin),
                share(*supply),
                excess(required.checked_add(*margin), *supply)
            ),
            Cause::Cores { demand, supply } => write!(
                f,
                "{demand} services are promised as-if-alone, each needs a core to itself, and the host has {supply}"
            ),
            Cause::Supply { vcpu, demand, cores: 0, .. } => {
                write!(f, "{}promised {demand}, and as-if-alone services have every core to themselves", subject(*vcpu))
            }
            Cause::Supply { vcpu, demand, supply, whole, cores } => {
                let room = match cores {
                    1 => format!("the one core for it can give {} and has {} left", share(*whole), share(*supply)),
                    _ => format!(
                        "of {cores} cores that can give {} each none has more than {} left",
                        share(*whole),
                        share(*supply)
                    ),
                };
                let (subject, bandwidth) = (subject(*vcpu), demand.bandwidth());
                let excess = excess(Some(bandwidth), *supply);
                write!(f, "{subject}promised {demand} ({} of a core), and {room}: {excess} too much", share(bandwidth))
            }
            Cause::Window { vcpu, demand, window, cores } => {
                let subject = vcpu.map_or("it has".into(), |vcpu| format!("its virtual CPU {vcpu} has"));
                let room = match cores {
                    1 => "the one core for it has room, but",
                    _ => "there are cores with room, but with it on any of them",
                };
                let Window { at, demand: asked, supply, .. } = window;
                let excess = asked.checked_sub(*supply).unwrap_or(Duration::ZERO);
                let (at, asked, excess) = (time(*at), time(*asked), time(excess));
                write!(
                    f,
                    "{subject} a server of {demand}, and {room} {asked} can be asked for within {at}, as a deferrable \
                     server can use its budget up just before it gets the next: {excess} too much"
                )
            }
            Cause::Deadlines(shortage) => shortage.fmt(f),
            Cause::Percentiles(miss) => miss.fmt(f),
            Cause::Servers { cores } => {
                let (most, cores) = (Backend::MANAGED, if *cores == 1 { "the one core" } else { "every core" });
                write!(f, "a manager keeps {most} servers at most, and {cores} with room for its supply has {most} already")
            }
            Cause::Mode { mode, local, cause } => {
                let words = match (mode, local) {
                    (Some(mode), Some(local)) => format!("in mode '{mode}', with it in '{local}'"),
                    (Some(mode), None) => format!("in mode '{mode}'"),
                    (None, Some(local)) => format!("in its mode '{local}'"),
                    (None, None) => "in some mode".into(),
                };
                write!(f, "{words} {cause}")
            }
            Cause::Discord(discord) => discord.fmt(f),
            Cause::Apart { critical, cores } => {
                let (own, others) = if *critical { ("a", "none") } else { ("no", "one") };
                let cores = if *cores == 1 { "the one core for it has".into() } else { format!("each of {cores} cores has") };
                write!(
                    f,
                    "it has {own} criticality, and {cores} services that have {others}: a core is under one order; say of all \
                     services of a core which criticality they have, or of none"
                )
            }
            Cause::AtWorst(cause) => write!(f, "at its worst {cause}"),
            Cause::Floors { demand, supply } => write!(
                f,
                "all floors together ask for {} of a core, and the reservations leave {}: {} too much",
                share(*demand),
                share(*supply),
                excess(Some(*demand), *supply)
            ),
        }
    }
}

impl fmt::Display for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Discord { vcpu, beside, unfit, cores } = self;
        let subject = vcpu.map_or("it".into(), |vcpu| format!("its virtual CPU {vcpu}"));
        match (cores, &beside[..]) {
            (1, []) => write!(f, "{subject} does not go on the one core for it by itself: {unfit}"),
            (1, _) => {
                write!(f, "{subject} does not go together with {} on the one core for it: {unfit}", beside.join(", "))
            }
            (_, []) => write!(f, "{subject} goes on none of {cores} cores; by itself on one: {unfit}"),
            _ => write!(f, "{subject} goes on none of {cores} cores; beside {}: {unfit}", beside.join(", ")),
        }?;
        match unfit.less_strict {
            true => f.write_str(
                "; usual budgets alone would fit (EDF, the less strict test, which promises nothing in HI mode)",
            ),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            Missed::Overload { percent } => {
                write!(f, "its requests alone need {percent} % of one core, so that they would wait ever longer")
            }
            Missed::WholeCore { point, thousandths, at, latency } => write!(
                f,
                "{point} is out of reach: even a whole core serves only {} % within it (M/G/1), as {} is {} there, and {} of \
                 latency come on top: {} too much",
                f64::from(*thousandths) / 1000.0,
                point.percentile,
                time(*at),
                time(*latency),
                at.checked_add(*latency).and_then(|all| all.checked_sub(point.within)).map_or("much".into(), time)
            ),
            Missed::Room { needs, room, whole, cores } => {
                let points: Vec<String> = self.points.iter().map(ToString::to_string).collect();
                let points = points.join(", ");
                let Some(needs) = needs else {
                    return write!(
                        f,
                        "for {points} it needs nearly a whole core, and of the servers that can be enforced, which give up to {} \
                         of one, none is enough",
                        share(*whole)
                    );
                };
                write!(f, "it needs {needs} ({} of a core) for {points}, and ", share(needs.bandwidth()))?;
                match cores {
                    0 => write!(f, "as-if-alone services have every core to themselves"),
                    _ if needs.bandwidth() > *whole => write!(f, "a core can give {}", share(*whole)),
                    1 => write!(f, "the one core for it has {} of {} left", share(*room), share(*whole)),
                    _ => write!(f, "of {cores} cores none has more than {} of {} left", share(*room), share(*whole)),
                }
            }
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { vcpu, needs, room, whole, cores, lack } = self;
        let subject = vcpu.map_or("it needs".into(), |vcpu| format!("its virtual CPU {vcpu} needs"));
        match needs {
            None => write!(f, "{subject} more than a whole core for its deadlines")?,
            Some(needs) => {
                write!(f, "{subject} {needs} ({} of a core) for its deadlines, and ", share(needs.bandwidth()))?;
                match cores {
                    0 => return write!(f, "as-if-alone services have every core to themselves"),
                    _ if needs.bandwidth() > *whole => write!(f, "a core can give {}", share(*whole))?,
                    1 => write!(f, "the one core for it has {} of {} left", share(*room), share(*whole))?,
                    _ => write!(f, "of {cores} cores none has more than {} of {} left", share(*room), share(*whole))?,
                }
            }
        }
        let Lack { given, task, at, demand, supply } = lack;
        let given = if given.budget.is_zero() { "nothing".into() } else { given.to_string() };
        write!(
            f,
            ": with {given} task '{task}' can be late, as in {} up to {} may be asked for and {} is sure to be supplied",
            time(*at),
            time(*demand),
            time(*supply)
        )
    }
}

fn subject(vcpu: Option<u32>) -> String {
    vcpu.map_or("it is ".into(), |vcpu| format!("its virtual CPU {vcpu} is "))
}

/// How much `demand` is above `supply`; what no tenth of a percentage point shows is still said.
fn excess(demand: Option<Bandwidth>, supply: Bandwidth) -> String {
    let excess = demand.and_then(|demand| demand.checked_sub(supply));
    excess.filter(|e| e.as_f64() >= 0.0005).map_or("less than 0.1 %".into(), Bandwidth::percent)
}

impl fmt::Display for NearestFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NearestFit::Wcet { task, at_most } => write!(f, "wcet ≤ {at_most} for task '{task}'"),
            NearestFit::WorstWcet { task, at_most } => write!(f, "worst-wcet ≤ {at_most} for task '{task}'"),
            NearestFit::Worst { vcpu: None, at_most } => write!(f, "worst: {at_most}"),
            NearestFit::Worst { vcpu: Some(vcpu), at_most } => write!(f, "worst: {at_most} for virtual CPU {vcpu}"),
            NearestFit::Margin(margin) => write!(f, "margin {}", share(*margin)),
            NearestFit::Supply { vcpu: None, at_most } => write!(f, "a supply of {at_most}"),
            NearestFit::Supply { vcpu: Some(vcpu), at_most } => {
                write!(f, "a supply of {at_most} for virtual CPU {vcpu}")
            }
            NearestFit::Kind(kind) => write!(f, "server: {kind}"),
            NearestFit::MoreCores(1) => write!(f, "one core more"),
            NearestFit::MoreCores(more) => write!(f, "{more} cores more"),
            NearestFit::Within(within) => write!(f, "{within}"),
            NearestFit::AtLeast(floor) => write!(f, "at-least {}", share(*floor)),
            NearestFit::On(host) => write!(f, "on: {host}"),
        }
    }
}
