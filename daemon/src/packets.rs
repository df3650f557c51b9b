//! The part of a deployment that gives packets their threads.

use crate::undo_entry::Change;
use crate::{Error, Journal, LinkStatus, Network};
use giusto_model::{NetworkPlan, Origin, Plan};
use std::io;
use std::time::{Duration, Instant};

/// How long a service that was just started may take until its interface is there.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often cores are looked at for a better place.
const BALANCE: Duration = Duration::from_secs(10);

/// The network of this host in force.
pub(crate) struct Packets {
    network: Network,
    plan: NetworkPlan,
    balanced: Instant,
    /// Interfaces that have their threads.
    there: usize,
    /// Whether that has just become another number.
    due: bool,
    /// What was wrong when it was looked at last.
    worries: Vec<String>,
}

impl Packets {
    /// Puts the plan in force, if it has one for this host.
    pub(crate) fn set(plan: &Plan, journal: &mut Journal) -> Result<Option<Packets>, Error> {
        let Some(goal) = plan.network.first() else { return Ok(None) };
        let begin = Instant::now();
        let mut network = Network::apply(goal, journal)?;
        // What a service that was just started makes is there in a moment, and nothing to warn of.
        let is_coming = |network: &Network| {
            network.status().iter().any(|link| link.warning.is_some() && is_started(plan, link.service.as_deref()))
        };
        while is_coming(&network) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            network.check(journal);
        }
        tell(&network);
        let mut packets =
            Packets { network, plan: goal.clone(), balanced: Instant::now(), there: 0, due: false, worries: vec![] };
        packets.look(true, journal);
        Ok(Some(packets))
    }

    /// Everything goes back.
    pub(crate) fn let_go(&mut self) -> Result<(), Error> {
        Ok(self.network.clear()?)
    }

    /// Another plan. Errors: it could not be put in force, and the old one is.
    pub(crate) fn change(&mut self, plan: &NetworkPlan, journal: &mut Journal) -> Result<(), Error> {
        if let Err(error) = self.network.set(plan, journal) {
            if let Err(again) = self.network.set(&self.plan, journal) {
                tracing::warn!("going back after a failure: {again}");
            }
            return Err(error.into());
        }
        self.plan = plan.clone();
        tell(&self.network);
        Ok(())
    }

    /// Looks after it, when something has changed or when it is `due`; returns what is wrong.
    pub(crate) fn look(&mut self, due: bool, journal: &mut Journal) -> &[String] {
        let bound = self.network.bound(journal);
        if !self.network.changed() && !due && matches!(bound, Ok(false)) {
            return &self.worries;
        }
        let mut now = self.network.check(journal);
        now.extend(bound.err().map(|error| error.to_string()));
        let there = self.network.status().iter().filter(|link| !link.threads.is_empty()).count();
        // One that came or went: a look later, as its load has to be known.
        let changed = std::mem::replace(&mut self.there, there) != there;
        if self.balanced.elapsed() >= BALANCE || self.due {
            self.balanced = Instant::now();
            match self.network.rebalance(journal) {
                Ok(moves) => moves.iter().for_each(|way| {
                    tracing::info!(
                        interface = way.name,
                        "packets of {} go from core {} to core {}",
                        way.name,
                        way.from,
                        way.to
                    );
                }),
                Err(error) => now.push(error.to_string()),
            }
        }
        self.due = changed;
        now.iter().filter(|worry| !self.worries.contains(worry)).for_each(|worry| tracing::warn!("{worry}"));
        self.worries = now;
        &self.worries
    }

    pub(crate) fn status(&self) -> Vec<LinkStatus> {
        self.network.status()
    }
}

/// Whether it is a service that this run has started.
fn is_started(plan: &Plan, service: Option<&str>) -> bool {
    let services = plan.services.iter().map(|service| (&service.name, &service.origin));
    let leftovers = plan.leftovers.iter().map(|leftover| (&leftover.name, &leftover.origin));
    services.chain(leftovers).any(|(name, origin)| Some(name.as_str()) == service && matches!(origin, Origin::Start(_)))
}

fn tell(network: &Network) {
    for link in network.status().into_iter().filter(|link| link.warning.is_none()) {
        let class = link.class.map_or("uplink".into(), |class| format!("{class} class"));
        let how = link.priority.map_or("SCHED_OTHER".into(), |priority| format!("SCHED_FIFO {priority}"));
        tracing::info!(
            interface = link.name,
            core = link.core,
            "packets of {} ({class}): {how} on core {}, threads {:?}, {}",
            link.name,
            link.core,
            link.threads,
            link.limit
        );
    }
}

impl giusto_network::Recorder<giusto_network::Undo> for Journal {
    fn intend(&mut self, undo: &giusto_network::Undo) -> io::Result<()> {
        self.write_down(Change::Network(undo.clone()))
    }
}
