//! Who runs on which core, who burns, and until when.

use super::server::Server;
use super::{Burner, Case, Oracle};
use giusto_policy::{Kind, Order};

impl Oracle {
    /// Until when, and the mask of the cores that changed hands.
    pub(crate) fn decide(&mut self, now: u64) -> (Option<u64>, u64) {
        self.charge_all(now);
        for s in &mut self.servers {
            s.boosted = s.boosted.filter(|&until| until > now);
            // An idle constant bandwidth server is booked when it wakes or is looked at.
            if s.kind != Kind::ConstantBandwidth || s.ready || s.pending.is_some() {
                s.settle(now);
            }
        }
        self.boosted.retain(|&b| self.servers[b].boosted.is_some());
        let chosen = self.choose();
        let changed = self.assign(&chosen);
        (self.until(), changed)
    }

    /// All servers, the first to be served first.
    fn in_order(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.servers.len()).collect();
        all.sort_by_key(|&i| self.rank(i, self.servers[i].deadline()));
        all
    }

    /// Who is to run and whether it pays, and the burners.
    fn choose(&mut self) -> Vec<(usize, bool)> {
        let (servers, now, cores) = (&self.servers, self.now, self.cores.len());
        let boosted: Vec<usize> = self.boosted.iter().copied().filter(|&b| servers[b].ready).take(cores).collect();
        let may_run = |i: &usize| servers[*i].ready && servers[*i].boosted.is_none() && servers[*i].has_budget(now);
        let may_burn = |i: &usize| !servers[*i].ready && servers[*i].is_periodic() && servers[*i].left(now) > 0;
        let order = self.in_order();
        let mut first: Vec<usize> = order.iter().copied().filter(|i| may_run(i) || may_burn(i)).collect();
        first.truncate(cores - boosted.len());

        let mut others: Vec<usize> = order.iter().copied().filter(may_run).filter(|i| !first.contains(i)).collect();
        let reclaiming = |i: usize| servers[i].kind == Kind::PeriodicReclaiming;
        let without_budget =
            |i: &usize| servers[*i].ready && servers[*i].boosted.is_none() && !servers[*i].has_budget(now);
        let mut poor: Vec<usize> = order.into_iter().filter(|&i| reclaiming(i) && without_budget(&i)).collect();

        let mut lent = vec![];
        self.burners.clear();
        for &slot in first.iter().filter(|&&i| !servers[i].ready) {
            self.burners.push(Burner { server: slot, end: servers[slot].deadline() });
            self.counts.add(match servers[slot].kind {
                Kind::PeriodicStrict => Case::StrictBurner,
                Kind::PeriodicConserving => Case::ConservingBurner,
                _ => Case::ReclaimingBurner,
            });
            if servers[slot].kind == Kind::PeriodicStrict {
                continue;
            }
            if !others.is_empty() {
                let user = others.remove(0);
                let pays = !(reclaiming(slot) && reclaiming(user));
                self.counts.add(if pays { Case::LentToPayer } else { Case::LentWithoutPaying });
                lent.push((user, pays));
            } else if reclaiming(slot) && !poor.is_empty() {
                lent.push((poor.remove(0), false));
                self.counts.add(Case::LentWithoutBudget);
            }
        }
        if !boosted.is_empty() {
            self.counts.add(Case::Boost);
        }
        self.lent = lent.iter().map(|&(user, _)| user).collect();
        let ready_first = first.iter().copied().filter(|&i| servers[i].ready);
        boosted.into_iter().chain(ready_first).map(|i| (i, true)).chain(lent).collect()
    }

    /// Who may run, highest first, and whether it keeps a core although it is idle: by the text, after a decision.
    pub(crate) fn order(&self) -> Vec<(usize, bool)> {
        let now = self.now;
        // Who idles is seen as one who looks would see it.
        let seen: Vec<Server> = self
            .servers
            .iter()
            .map(|s| {
                let mut s = s.clone();
                if !s.ready {
                    s.settle(now);
                }
                s
            })
            .collect();
        let first = |i: &usize| seen[*i].ready && seen[*i].boosted.is_some();
        let mut order: Vec<usize> = self.boosted.iter().copied().filter(first).collect();
        let has_place = |&i: &usize| !seen[i].gone && seen[i].has_budget(now) && !first(&i);
        let mut others: Vec<usize> = (0..seen.len()).filter(has_place).collect();
        others.sort_by_key(|&i| self.rank(i, seen[i].deadline()));
        order.extend(others);
        let on_a_lent_budget = self.lent.iter().copied().filter(|&i| !seen[i].has_budget(now));
        order.extend(on_a_lent_budget);
        let keeps = |i: usize| {
            seen[i].kind == Kind::PeriodicStrict && !seen[i].ready && self.burners.iter().any(|b| b.server == i)
        };
        let mut cores = self.cores.len();
        let mut places = vec![];
        for i in order {
            if cores > 0 {
                places.push((i, keeps(i)));
                cores -= usize::from(keeps(i));
            }
        }
        places
    }

    /// Who ran keeps its core, the others take free cores in their order.
    fn assign(&mut self, chosen: &[(usize, bool)]) -> u64 {
        let before: Vec<Option<usize>> = (0..self.cores.len()).map(|core| self.running(core)).collect();
        for (core, &ran) in self.cores.iter_mut().zip(&before) {
            core.runs = chosen.iter().copied().find(|&(i, _)| Some(i) == ran);
        }
        for &(i, pays) in chosen.iter().filter(|&&(i, _)| !before.contains(&Some(i))) {
            let free = self.cores.iter_mut().find(|core| core.runs.is_none()).expect("as many cores as are chosen");
            free.runs = Some((i, pays));
        }
        let vacated = std::mem::take(&mut self.vacated);
        let moved = |&core: &usize| self.running(core) != before[core] || vacated.contains(&core);
        (0..self.cores.len()).filter(moved).map(|core| 1 << core).sum()
    }

    /// The next instant at which something changes by itself.
    fn until(&self) -> Option<u64> {
        let now = self.now;
        let mut events = vec![];
        for (i, s) in self.servers.iter().enumerate() {
            let burns = self.burners.iter().any(|b| b.server == i);
            let pays = self.cores.iter().any(|core| core.runs == Some((i, true)));
            if self.is_replenished(s, burns) {
                events.push(s.deadline());
            }
            if s.pending.is_some() {
                events.push(if s.kind == Kind::Sporadic { s.pending_at } else { s.deadline() });
            }
            if s.kind == Kind::Sporadic && s.ready && s.left(now) <= 0 {
                events.push(s.chunks[0].time);
            }
            if s.kind == Kind::Sporadic && pays && s.boosted.is_none() && self.order == Order::Edf {
                events.push(now + (s.chunks[0].amount - s.used) as u64); // then its deadline moves on
            }
            events.extend(s.boosted);
            if burns || (pays && s.boosted.is_none() && s.kind != Kind::Unlimited) {
                events.push(now + s.left(now) as u64);
            }
        }
        events.into_iter().min()
    }

    /// Whether the deadline is a replenishment that matters.
    fn is_replenished(&self, s: &Server, burns: bool) -> bool {
        let full = self.order == Order::FixedPriority && s.left(self.now) == s.budget && !burns;
        match s.kind {
            Kind::ConstantBandwidth => s.ready && s.left(self.now) <= 0,
            Kind::Sporadic | Kind::Unlimited => false,
            _ if s.ready => true,
            _ => s.is_periodic() && !full,
        }
    }
}
