//! What goes wrong, and when.

use crate::play::{Fault, Next, Play};
use crate::scene::one_of;
use crate::world::US;
use rand::RngExt;

impl Play<'_> {
    pub(crate) fn fault_now(&mut self, m: usize, fault: Fault, p: f64) -> bool {
        if self.faults == 0 || !self.rng.random_bool(p) {
            return false;
        }
        self.count(m, fault);
        true
    }

    pub(crate) fn count(&mut self, m: usize, fault: Fault) {
        self.faults -= 1;
        if !matches!(fault, Fault::Repeated | Fault::Request | Fault::SetFails) {
            self.touched[m] = true;
        }
        if fault == Fault::ManagerCrash {
            self.touched.fill(true);
        }
        self.log.push(format!("{:>12} FAULT {fault:?} of {m}", ""));
        *self.counts.cells.entry((self.seen[m], fault)).or_default() += 1;
    }

    pub(crate) fn maybe_fault(&mut self) {
        if self.quiet || self.faults == 0 || !self.rng.random_bool(0.05) {
            return;
        }
        let m = self.rng.random_range(0..self.agents.len());
        let fault = one_of(
            &[Fault::Lost, Fault::AgentCrash, Fault::ManagerCrash, Fault::Frozen, Fault::Request],
            &mut self.rng,
        );
        let agent = self.scene.table.members()[m].agent && self.agents[m].machine.is_some();
        match fault {
            Fault::Lost if agent && self.agents[m].connected => self.at(self.now, Next::Lose(m)),
            Fault::AgentCrash if agent => {
                self.agents[m].life += 1;
                self.at(self.now, Next::Lose(m));
                self.agents[m].machine = None;
                let most = if self.rng.random_bool(0.5) { 1500 } else { 30_000 };
                self.after(100, most, Next::Restart(m));
            }
            Fault::ManagerCrash if self.manager.is_some() => {
                self.manager = None;
                self.life += 1;
                self.tick += 1;
                self.open.clear();
                // What it had asked of the machine and is not done is not done any more.
                let dropped: Vec<u64> =
                    self.what.iter().filter(|(_, next)| matches!(next, Next::Set(..))).map(|(seq, _)| *seq).collect();
                dropped.into_iter().for_each(|seq| _ = self.what.insert(seq, Next::Time));
                self.world.boosts.clear();
                for m in 0..self.agents.len() {
                    if self.agents[m].connected {
                        self.at(self.now, Next::Lose(m));
                    }
                }
                self.after(50, 5000, Next::Manager);
            }
            Fault::Frozen if agent => {
                let most = if self.rng.random_bool(0.5) { 1_000 } else { 20_000 };
                self.agents[m].frozen = self.now + self.rng.random_range(100..most) * US;
            }
            Fault::Request => self.at(self.now, Next::Request),
            _ => return,
        }
        self.count(m, fault);
    }
}
