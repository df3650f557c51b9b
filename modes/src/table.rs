//! The table of modes.

use giusto_model::{Bandwidth, Server};
use sha2::{Digest, Sha256};

/// Where servers compete: a core, or a pool of cores that are scheduled together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// For people: `core 3`.
    pub name: String,
    /// How many servers may be boosted at once: its cores, or 0 where nothing can be boosted.
    pub boosts: usize,
}

/// A local mode: a task set and a reservation for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// As in the site file.
    pub name: String,
    /// What its tasks may need; 0 where nothing was promised.
    pub utilization: Bandwidth,
    /// One for each part of the member. Empty: no reservation, as for a service that is stopped or runs on leftovers.
    pub servers: Vec<Server>,
}

/// A virtual machine or service with local modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// As in the site file.
    pub name: String,
    /// An agent inside switches its tasks; else the host itself does.
    pub agent: bool,
    /// The place of each of its servers (each vCPU of a VM). The agent runs on the first, which is the one that is
    /// boosted. At most 64.
    pub parts: Vec<usize>,
    /// Its local modes. At least one.
    pub locals: Vec<Local>,
    /// The global modes that it may ask for.
    pub asks: Vec<usize>,
}

/// A global mode: a local mode for each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// As in the site file.
    pub name: String,
    /// Index of its local mode, member by member.
    pub locals: Vec<usize>,
    /// A change to it does not wait for `spacing`, other than after another such change, and takes over from one that
    /// is not.
    pub urgent: bool,
}

/// All of it, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    places: Vec<Place>,
    members: Vec<Member>,
    modes: Vec<Mode>,
}

/// Why a table makes no sense. Each names what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Too many to count in the protocol.
    #[error("{what}: {count}; expected 1 to {most}")]
    Count {
        /// Of what.
        what: String,
        /// So many.
        count: usize,
        /// At most.
        most: usize,
    },
    /// An index that points nowhere.
    #[error("{what} {index} is not in the table; expected less than {count}")]
    Unknown {
        /// Which index.
        what: String,
        /// Its value.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Neither none nor one a part.
    #[error("'{member}' in '{local}': {servers} servers for {parts} parts; expected one for each, or none")]
    Servers {
        /// Whose.
        member: String,
        /// In which local mode.
        local: String,
        /// So many.
        servers: usize,
        /// So many.
        parts: usize,
    },
    /// A server that is none.
    #[error("'{member}' in '{local}': a budget of {budget_ns} ns in {period_ns} ns; expected 0 < budget <= period")]
    Server {
        /// Whose.
        member: String,
        /// In which local mode.
        local: String,
        /// B.
        budget_ns: u64,
        /// P.
        period_ns: u64,
    },
    /// The tasks of a local mode need more than it reserves, or bandwidths that no 64-bit fraction can hold.
    #[error("'{member}' in '{local}': its tasks need {need} of a core and its servers give {given}; expected at least as much")]
    Overload {
        /// Whose.
        member: String,
        /// In which local mode.
        local: String,
        /// U.
        need: Bandwidth,
        /// W, or what is wrong with it.
        given: String,
    },
}

impl Table {
    /// Checks all indices, that each server is one, and that each local mode reserves at least what its tasks need
    /// [LiH21, section 2.2]. Whether the servers of a mode fit together is for the planner, and is asked again by
    /// the manager.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn new(places: Vec<Place>, members: Vec<Member>, modes: Vec<Mode>) -> Result<Table, TableError> {
        count("places", places.len(), 4096)?;
        count("members", members.len(), 4096)?;
        count("modes", modes.len(), 4096)?;
        for member in &members {
            let of = |what: &str| format!("{what} of '{}'", member.name);
            count(&of("length of the name"), member.name.len(), 255)?;
            // What the host itself stops may have no reservation at all.
            if member.agent || !member.parts.is_empty() {
                count(&of("parts"), member.parts.len(), 64)?;
            }
            count(&of("local modes"), member.locals.len(), 4096)?;
            member.parts.iter().try_for_each(|&place| known(&of("place"), place, places.len()))?;
            member.asks.iter().try_for_each(|&mode| known(&of("mode to ask for"), mode, modes.len()))?;
            member.locals.iter().try_for_each(|local| member.check(local))?;
        }
        for mode in &modes {
            let of = |what: &str| format!("{what} of mode '{}'", mode.name);
            count(&of("length of the name"), mode.name.len(), 255)?;
            if mode.locals.len() != members.len() {
                return Err(TableError::Count { what: of("members"), count: mode.locals.len(), most: members.len() });
            }
            let mut locals = mode.locals.iter().zip(&members);
            locals.try_for_each(|(&local, member)| {
                known(&of(&format!("local mode of '{}'", member.name)), local, member.locals.len())
            })?;
        }
        Ok(Table { places, members, modes })
    }

    /// Cores and pools.
    pub fn places(&self) -> &[Place] {
        &self.places
    }
    /// Virtual machines and services.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
    /// Global modes.
    pub fn modes(&self) -> &[Mode] {
        &self.modes
    }
    /// How many changes there may be in one `spacing`: one, and one that is urgent.
    pub fn at_once(&self) -> u64 {
        1 + u64::from(self.modes.iter().any(|mode| mode.urgent))
    }
    /// The index of a global mode.
    pub fn mode(&self, name: &str) -> Option<usize> {
        self.modes.iter().position(|mode| mode.name == name)
    }
    /// The index of a member.
    pub fn member(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }
    /// The reservation of a member's part in a local mode.
    pub fn server(&self, member: usize, local: usize, part: usize) -> Option<&Server> {
        self.members.get(member)?.locals.get(local)?.servers.get(part)
    }
}

impl Member {
    /// Of the names of its local modes, in their order: the first 8 bytes (big endian) of SHA-256 over each name,
    /// preceded by its length in 4 bytes (big endian).
    pub fn digest(&self) -> u64 {
        digest(self.locals.iter().map(|local| local.name.as_str()))
    }

    /// Σ B/P of a local mode; `None` if no 64-bit fraction can hold it, which no checked table has.
    pub fn bandwidth(&self, local: usize) -> Option<Bandwidth> {
        sum(&self.locals.get(local)?.servers)
    }

    fn check(&self, local: &Local) -> Result<(), TableError> {
        let (member, name) = (self.name.clone(), local.name.clone());
        let (servers, parts) = (local.servers.len(), self.parts.len());
        if servers != 0 && servers != parts {
            return Err(TableError::Servers { member, local: name, servers, parts });
        }
        if let Some(bad) = local.servers.iter().find(|server| server.budget.is_zero() || server.budget > server.period)
        {
            let (budget_ns, period_ns) = (bad.budget.ns(), bad.period.ns());
            return Err(TableError::Server { member, local: name, budget_ns, period_ns });
        }
        let given = sum(&local.servers);
        if given.is_none_or(|given| given < local.utilization) {
            let given = given.map_or("no exact fraction".into(), |given| given.to_string());
            return Err(TableError::Overload { member, local: name, need: local.utilization, given });
        }
        Ok(())
    }
}

/// [`Member::digest`], for an agent that knows the names alone.
pub(crate) fn digest<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    let mut hash = Sha256::new();
    for name in names {
        hash.update((name.len() as u32).to_be_bytes());
        hash.update(name);
    }
    hash.finalize().iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte))
}

fn sum(servers: &[Server]) -> Option<Bandwidth> {
    servers.iter().try_fold(Bandwidth::ZERO, |all, server| all.checked_add(server.bandwidth()))
}

fn count(what: &str, count: usize, most: usize) -> Result<(), TableError> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(TableError::Count { what: what.into(), count, most })
}

fn known(what: &str, index: usize, count: usize) -> Result<(), TableError> {
    if index < count {
        return Ok(());
    }
    Err(TableError::Unknown { what: what.into(), index, count })
}
