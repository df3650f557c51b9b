//! One host's plan, asked for again and again as its site changes: what was found for one plan is kept for the next.

use crate::facts::{index, Facts};
use crate::known::Alike;
use crate::plan::told;
use crate::promises::percentiles::Answers;
use crate::refusal::Refusal;
use giusto_model::{Plan, Site};
use std::sync::{Mutex, PoisonError};

/// So many searches are kept; then all are forgotten.
const MOST: usize = 10_000;

/// Plans of one host. Each is that of [`crate::plan_on`].
pub struct Replanner {
    facts: Facts,
    host: String,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Whose needs are known.
    site: Option<Site>,
    answers: Answers,
    alike: Alike,
}

impl Replanner {
    /// Of the `host` that `facts` are of.
    pub fn new(facts: Facts, host: String) -> Replanner {
        Replanner { facts, host, memory: Mutex::default() }
    }

    /// As [`crate::plan_on`]. Time: of a site that differs from the last one by a service, what that service needs, and the
    /// placement of all.
    pub fn plan(&self, site: &Site) -> Result<Plan, Refusal> {
        let only = index(site, &self.host)?;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.prepare(site);
        told(site, &self.facts, Some(only), &memory.answers, &memory.alike)
    }
}

impl Memory {
    /// Forgets what is not so in `site`.
    fn prepare(&mut self, site: &Site) {
        if self.answers.count() > MOST {
            self.answers = Answers::default();
        }
        match &mut self.site {
            Some(old) if like(old, site) => {
                for (old, new) in old.services.iter_mut().zip(&site.services).filter(|(old, new)| old != new) {
                    self.alike.forget(&old.name);
                    self.alike.forget(&new.name);
                    old.clone_from(new);
                }
            }
            _ => {
                self.alike = Alike::default();
                self.site = Some(site.clone());
            }
        }
    }
}

/// Whether they differ by what services are at most. Of sites with paths that is not asked: what a stage needs is a matter of
/// other services, too.
fn like(one: &Site, other: &Site) -> bool {
    let Site { hosts, services, topics, coordination, paths, modes } = one;
    *hosts == other.hosts
        && services.len() == other.services.len()
        && *topics == other.topics
        && *coordination == other.coordination
        && paths.all.is_empty()
        && other.paths.all.is_empty()
        && *modes == other.modes
}
