//! Why there is no plan: who does not fit, by how much, and what would.

mod cause;
mod fit;

pub use cause::Cause;
pub use fit::NearestFit;

use crate::coordination::SlowRecovery;
use crate::modes::ModeRefusal;
use crate::network::PacketRefusal;
use crate::paths::PathRefusal;
use crate::topics::TopicRefusal;
use crate::words::time;
use giusto_model::Duration;
use serde::Serialize;
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
    /// A path does not keep its promise (exit 1).
    #[error("{0}")]
    Path(Box<PathRefusal>),
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
    /// Servers notice a silent leader too far apart for an election (exit 1).
    #[error(
        "coordination: with a latency of {} five servers or more leave a silent leader further apart than they wait for votes \
         ({}); it would fit with a smaller latency, or with four servers or fewer",
        time(*latency),
        time(*most)
    )]
    Apart {
        /// L.
        latency: Duration,
        /// w, at most.
        most: Duration,
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

impl Refusal {
    /// A service that does not fit a host, before it is known which one, and what would fit.
    pub(crate) fn does_not_fit(service: &str, cause: Cause) -> Self {
        let (service, host, displaced) = (service.into(), None, None);
        let (elsewhere, beside, nearest, places) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Refusal::DoesNotFit(Box::new(Witness { service, host, displaced, cause, elsewhere, beside, nearest, places }))
    }

    /// Says for each change that would help, and for the service, where in the site's file it is written; returns the place of
    /// the first. `find` knows the place, as line and column, of what keys from the root lead to.
    pub fn locate(&mut self, find: &dyn Fn(&[&str]) -> Option<Place>) -> Option<Place> {
        match self {
            Refusal::On { refusal, .. } | Refusal::Late { refusal, .. } => refusal.locate(find),
            Refusal::DoesNotFit(witness) => witness.locate(find),
            Refusal::Path(refusal) => find(&["paths", &refusal.path]),
            other => other.service().and_then(|service| find(&["services", service])),
        }
    }

    /// The service that does not fit, if that is why.
    fn witness(&self) -> Option<&Witness> {
        match self {
            Refusal::DoesNotFit(witness) => Some(witness),
            Refusal::On { refusal, .. } | Refusal::Late { refusal, .. } => refusal.witness(),
            _ => None,
        }
    }

    /// The service that is refused, if it is one.
    pub(crate) fn service(&self) -> Option<&str> {
        match self {
            Refusal::Asked { service, .. }
            | Refusal::Unmeasured { service, .. }
            | Refusal::Tasks { service, .. }
            | Refusal::Nowhere { service, .. } => Some(service),
            Refusal::On { refusal, .. } | Refusal::Late { refusal, .. } => refusal.service(),
            _ => self.witness().map(|witness| witness.service.as_str()),
        }
    }

    /// Tasks that cannot be analysed.
    pub(crate) fn tasks(service: &str, why: giusto_analysis::Error) -> Self {
        Refusal::Tasks { service: service.into(), why }
    }
}

/// The refusals of so many other hosts are shown.
const TOLD: usize = 3;

/// What a host lacks for a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// A refusal for programs, as formats/refusal.schema.json says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The version of this form.
    pub giusto_refusal: u32,
    /// The exit code.
    pub exit: u8,
    /// All of it, in words.
    pub text: String,
    /// The service that is refused, where it is one.
    pub service: Option<String>,
    /// The host on which it lacks least, where the site has several.
    pub host: Option<String>,
    /// What it lacks, in words.
    pub cause: Option<String>,
    /// What each other host lacks, in words.
    pub elsewhere: Vec<Elsewhere>,
    /// Where in the site's file the first of the changes below is made, or the service is.
    pub place: Option<Place>,
    /// Changes of the site with which it fits, each by itself.
    pub nearest: Vec<Change>,
}

/// A place in a site's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

/// A change of the site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// In words.
    pub change: String,
    /// The key that changes, by the keys that lead to it from the root.
    pub key: Vec<String>,
    /// Where that is, or, if it is not written, what it belongs to.
    pub place: Option<Place>,
}

impl Refused {
    /// For programs.
    pub fn new(refusal: &Refusal, place: Option<Place>, exit: u8) -> Self {
        let witness = refusal.witness();
        Refused {
            giusto_refusal: 2,
            exit,
            text: refusal.to_string(),
            service: refusal.service().map(String::from),
            host: witness.and_then(|witness| witness.host.clone()),
            cause: witness.map(|witness| witness.cause.to_string()),
            elsewhere: witness.map(|witness| witness.elsewhere.clone()).unwrap_or_default(),
            place,
            nearest: witness.map(Witness::changes).unwrap_or_default(),
        }
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
    /// The services that had their places on that host before it, where hosts were chosen.
    pub beside: Vec<String>,
    /// What would make it fit, each by itself; may be empty. With any of them all fits, but for what does not without this
    /// service either.
    pub nearest: Vec<NearestFit>,
    /// Where in the site's file each of these is made, once that is known.
    pub places: Vec<Option<Place>>,
}

impl Witness {
    /// The keys from the root to what `fit` changes.
    fn keys<'w>(&'w self, fit: &'w NearestFit) -> Vec<&'w str> {
        let host = || vec!["hosts", self.host.as_deref().unwrap_or(""), "cores"];
        fit.key().map_or_else(host, |own| ["services", self.service.as_str()].into_iter().chain(own).collect())
    }

    fn locate(&mut self, find: &dyn Fn(&[&str]) -> Option<Place>) -> Option<Place> {
        self.places = self.nearest.iter().map(|fit| find(&self.keys(fit))).collect();
        self.places.first().copied().flatten().or_else(|| find(&["services", &self.service]))
    }

    fn place(&self, at: usize) -> Option<Place> {
        self.places.get(at).copied().flatten()
    }

    fn changes(&self) -> Vec<Change> {
        let change = |(at, fit): (usize, &NearestFit)| {
            let key = self.keys(fit).into_iter().map(String::from).collect();
            Change { change: fit.to_string(), key, place: self.place(at) }
        };
        self.nearest.iter().enumerate().map(change).collect()
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Witness { service, host, displaced, cause, elsewhere, nearest, .. } = self;
        let on = host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
        write!(f, "service '{service}' does not fit{on}: ")?;
        if let Some(other) = displaced {
            write!(f, "it would leave no place for '{other}': ")?;
        }
        write!(f, "{cause}")?;
        elsewhere.iter().take(TOLD).try_for_each(|lack| write!(f, "; nor {lack}"))?;
        if let Some(more) = elsewhere.len().checked_sub(TOLD).filter(|more| *more > 0) {
            write!(f, "; nor on {more} others")?;
        }
        if nearest.is_empty() {
            return write!(
                f,
                "; no single change of its tasks, requests, promise, server or host, or of the cores makes it fit"
            );
        }
        // The first place is where the whole message points to.
        let first = self.place(0).map(|place| place.line);
        let words = nearest.iter().enumerate().map(|(at, fit)| {
            let on = if matches!(fit, NearestFit::MoreCores(_)) { &on } else { "" };
            match self.place(at).map(|place| place.line).filter(|line| Some(*line) != first) {
                Some(line) => format!("{fit}{on} (line {line})"),
                None => format!("{fit}{on}"),
            }
        });
        write!(f, "; it fits with {}", words.collect::<Vec<_>>().join(", or with "))
    }
}
