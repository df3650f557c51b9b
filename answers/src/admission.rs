//! `giusto analyze admission`: whether servers fit on a core, on several that all share, or core by core.

use crate::Error;
use giusto_analysis::admission::{
    admit, admit_global, place, sensitivity, Admitted, Fit, Grids, OnAll, Order, PlacementRefusal, Refused, Room,
};
use giusto_model::{Bandwidth, Server, ServerKind};
use serde::Serialize;

/// Which servers, and where.
#[derive(Clone, Debug)]
pub struct Question {
    /// Under fixed priorities the highest first.
    pub servers: Vec<Server>,
    /// In which order they run.
    pub scheduler: Order,
    /// Whether all periods are counted from one instant.
    pub grids: Grids,
    /// Most of a core that all on it may take together.
    pub capacity: Bandwidth,
    /// `None`: one.
    pub cores: Option<u32>,
    /// Core by core; `None`: whichever core is free runs the next.
    pub fit: Option<Fit>,
    /// Whether it is asked how much more each server may take.
    pub sensitivity: bool,
}

/// What was found; `formats/admission.schema.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    scheduler: Order,
    grids: Grids,
    capacity: Bandwidth,
    /// That all share; `None`: one.
    cores: Option<u32>,
    /// How they were placed core by core.
    fit: Option<Fit>,
    servers: Vec<Server>,
    /// They fit; else why not.
    pub admitted: Option<Fits>,
    /// They do not.
    pub refused: Option<Not>,
    /// Where it was asked for, of what fits.
    pub sensitivity: Option<Vec<Room>>,
}

/// That they fit.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Fits {
    /// On one core.
    One(Admitted),
    /// On cores that all share.
    Shared(OnAll),
    /// Each on a core.
    Placed {
        /// Of each server.
        cores: Vec<usize>,
    },
}

/// That they do not, or that it is not known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Not {
    /// One found no core.
    Unplaced(PlacementRefusal),
    /// Together they do not fit.
    #[serde(untagged)]
    Together(Refused),
}

impl Question {
    /// Whether they fit.
    ///
    /// # Errors
    /// Servers that make no sense.
    pub fn answer(&self) -> Result<Answer, Error> {
        let Question { servers, scheduler, grids, capacity, cores, fit, .. } = self;
        let (scheduler, grids, capacity) = (*scheduler, *grids, *capacity);
        let found = match (*cores, *fit) {
            (None, _) => {
                admit(servers, scheduler, grids, capacity).map(|found| found.map(Fits::One).map_err(Not::Together))
            }
            (Some(cores), None) => admit_global(servers, scheduler, cores, capacity)
                .map(|found| found.map(Fits::Shared).map_err(Not::Together)),
            (Some(cores), Some(fit)) => place(servers, scheduler, grids, capacity, cores, fit)
                .map(|found| found.map(|cores| Fits::Placed { cores }).map_err(Not::Unplaced)),
        };
        let found = found.map_err(Error::input)?;
        let sensitivity = match (&found, self.sensitivity) {
            (Ok(_), true) => sensitivity(servers, scheduler, grids, capacity).map_err(Error::input)?.ok(),
            _ => None,
        };
        let (admitted, refused) = match found {
            Ok(admitted) => (Some(admitted), None),
            Err(refused) => (None, Some(refused)),
        };
        let (cores, fit, servers) = (*cores, *fit, servers.clone());
        Ok(Answer { scheduler, grids, capacity, cores, fit, servers, admitted, refused, sensitivity })
    }

    /// Why not, and what to change.
    pub fn refused(&self, why: &Not) -> Error {
        const LESS: &str = "give less budget or a longer period";
        let text = match why {
            Not::Together(refused) if self.cores.is_some() => format!(
                "refused: {refused}; place servers core by core (--fit first), make them periodic_strict or polling, give more \
                 cores, or {LESS}"
            ),
            Not::Together(refused) => {
                let strict = |server: &Server| Server { kind: ServerKind::PeriodicStrict, ..*server };
                let periodic: Vec<Server> = self.servers.iter().map(strict).collect();
                let kinds = match admit(&periodic, self.scheduler, self.grids, self.capacity) {
                    Ok(Ok(_)) => "make them periodic_strict or polling, as which they would fit, or ",
                    _ => "",
                };
                format!("refused: {refused}; {kinds}{LESS}")
            }
            Not::Unplaced(PlacementRefusal { server, refused }) => {
                let why = |(core, why): (usize, &Refused)| format!("core {core}: {why}");
                let cores: Vec<String> = refused.iter().enumerate().map(why).collect();
                let cores = cores.join("; ");
                format!("refused: no core has room for server {}; {cores}; {LESS}", server + 1)
            }
        };
        Error::DoesNotFit { text, witness: serde_json::to_value(why).ok() }
    }
}
