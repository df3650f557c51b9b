//! Pools side by side: each core has one of its own, and servers never leave their core.

use crate::system::Error;
use crate::Scheduler;
use giusto_model::Duration;
use giusto_policy::{CoreMode, Id, Pool};

/// Cores that are scheduled apart (mixed criticality), each by a pool of one core. A server is one virtual CPU.
///
/// Every call costs what it costs in one pool; a decision besides O(cores).
pub struct Partitioned {
    parts: Vec<Part>,
    /// By server: its core, and who it is there.
    servers: Vec<(usize, Id)>,
}

struct Part {
    pool: Pool,
    /// By index in the pool.
    members: Vec<usize>,
    /// Decide again at this time.
    until: u64,
    /// Since the last decision, when it was, a server woke or went idle.
    touched: bool,
    decided: u64,
    mode: CoreMode,
    critical: Critical,
}

/// How a core was in its critical mode (HI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Critical {
    /// How long, until the last decision about the core.
    pub time: Duration,
    /// How often it began.
    pub times: u64,
}

impl Partitioned {
    /// Cores with these pools of one core each, without servers.
    pub fn new(pools: impl IntoIterator<Item = Pool>) -> Partitioned {
        let part = |pool: Pool| Part {
            mode: pool.core_mode(0),
            pool,
            members: Vec::new(),
            until: u64::MAX,
            touched: true,
            decided: 0,
            critical: Critical::default(),
        };
        Partitioned { parts: pools.into_iter().map(part).collect(), servers: Vec::new() }
    }

    /// Adds the next server, to the pool of `core`; `add` adds it there and nothing else. Errors: no such core, or what the pool
    /// refuses.
    pub fn add(
        &mut self,
        core: u32,
        add: impl FnOnce(&mut Pool) -> Result<Id, giusto_policy::Error>,
    ) -> Result<(), Error> {
        let index = self.servers.len();
        let cores = self.parts.len();
        let refused = |why: String| Error::Server { index, why };
        let part = self.parts.get_mut(core as usize);
        let part = part.ok_or_else(|| refused(format!("core {core}; expected one of {cores}, from 0")))?;
        let id = add(&mut part.pool).map_err(|why| refused(why.to_string()))?;
        if id.index() != part.members.len() {
            return Err(refused("the pool has other servers too; expected only what is added here".into()));
        }
        part.members.push(index);
        self.servers.push((core as usize, id));
        Ok(())
    }

    /// How each core was in its critical mode.
    pub fn critical(&self) -> Vec<Critical> {
        self.parts.iter().map(|part| part.critical).collect()
    }
}

impl Part {
    fn decide(&mut self, now: u64) {
        self.until = self.pool.decide(now).until.unwrap_or(u64::MAX);
        self.touched = false;
        // A mode changes only at a time at which something is decided.
        let mode = self.pool.core_mode(0);
        if self.mode == CoreMode::Hi {
            let time = self.critical.time.ns() + (now - self.decided);
            self.critical.time = Duration::from_ns(time);
        } else if mode == CoreMode::Hi {
            self.critical.times += 1;
        }
        (self.mode, self.decided) = (mode, now);
    }
}

impl Scheduler for Partitioned {
    fn charge(&mut self, _core: u32, _ran: u64, _now: u64) {
        // Nothing is stolen in virtual time: a pool charges its core for all the time that has passed by itself.
    }

    fn ready(&mut self, server: usize, is_ready: bool, now: u64) {
        let (core, id) = self.servers[server];
        self.parts[core].pool.ready(id, is_ready, now);
        self.parts[core].touched = true;
    }

    fn decide(&mut self, now: u64) -> Option<u64> {
        self.parts.iter_mut().filter(|part| part.touched || part.until <= now).for_each(|part| part.decide(now));
        let until = self.parts.iter().map(|part| part.until).min().unwrap_or(u64::MAX);
        (until < u64::MAX).then_some(until)
    }

    fn running(&self, core: u32) -> Option<usize> {
        let part = self.parts.get(core as usize)?;
        part.pool.running(0).map(|id| part.members[id.index()])
    }

    fn left(&self, server: usize) -> Option<i64> {
        let &(core, id) = self.servers.get(server)?;
        Some(self.parts[core].pool.left_ns(id))
    }
}
