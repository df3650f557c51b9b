//! The order in which members change [LiH21, section 2.4.1], such that every set of reservations on the way passes.

use super::Manager;
use crate::admission::{covers, Admission};
use crate::event::Refusal;
use giusto_model::Server;
use std::collections::HashSet;

/// So many sets of members that have changed are looked at before a change is refused.
const LOOKED_AT: usize = 4096;

/// What the reservation of a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Every part shrinks or stays: possible at any time, and can only help others.
    Down,
    /// Some parts grow and some shrink, or one changes such that neither server covers the other.
    Mixed,
    /// Every part grows or stays: possible at the latest when all others are done, and can only hinder them.
    Up,
}

impl<A: Admission> Manager<A> {
    /// Whether a member has anything to do on the way to a local mode.
    pub(super) fn needs(&self, member: usize, local: usize) -> bool {
        let state = &self.members[member];
        let (up, down) = self.differences(member, local);
        state.told.1 != local || !up.is_empty() || !down.is_empty() || state.runs != Some(local) && !state.failed
    }

    /// Whether a member needs nothing that it does not have before it is told.
    pub(super) fn only_shrinks(&self, member: usize, local: usize) -> bool {
        self.class(member, local) == Class::Down
    }

    /// Whether a member gives up nothing of what it has.
    pub(super) fn only_grows(&self, member: usize, local: usize) -> bool {
        self.class(member, local) == Class::Up
    }

    /// All members, first those that change, in which order: those that only shrink, those that are of neither class, those that
    /// only grow; in each the largest decrease first. Those in the middle are put such that each passes with those before it
    /// done: a search that tries everything up to 12 of them, and gives up on some sets of more. O(members · parts) without them.
    ///
    /// # Errors
    /// The modes do not fit, or there is no such order.
    pub(super) fn order(&mut self, to: &[usize]) -> Result<Vec<usize>, Refusal> {
        let who: Vec<usize> = (0..self.members.len()).filter(|&member| self.needs(member, to[member])).collect();
        let mut sorted: Vec<(Class, i64, usize)> =
            who.iter().map(|&m| (self.class(m, to[m]), self.difference(m, to[m]), m)).collect();
        sorted.sort_unstable_by_key(|&(class, difference, member)| (class as u8, difference, member));
        for place in 0..self.on.len() {
            if !self.would_pass(place, |member, _| [to[member]; 2]) {
                return Err(Refusal::DoesNotFit { place });
            }
        }
        let mixed: Vec<usize> = sorted.iter().filter(|one| one.0 == Class::Mixed).map(|one| one.2).collect();
        let downs = sorted.iter().filter(|one| one.0 == Class::Down).map(|one| one.2).collect::<Vec<_>>();
        let middle = self.search(&mixed, &downs, to)?;
        let ups = sorted.iter().filter(|one| one.0 == Class::Up).map(|one| one.2);
        let others = (0..self.members.len()).filter(|member| !who.contains(member));
        Ok(downs.into_iter().chain(middle).chain(ups).chain(others).collect())
    }

    fn search(&mut self, mixed: &[usize], downs: &[usize], to: &[usize]) -> Result<Vec<usize>, Refusal> {
        let mut order: Vec<usize> = Vec::with_capacity(mixed.len());
        if mixed.is_empty() {
            return Ok(order);
        }
        let mut done = vec![false; self.members.len()];
        downs.iter().for_each(|&member| done[member] = true);
        let mut dead: HashSet<Vec<bool>> = HashSet::new();
        // Where to go on in `mixed` at each depth.
        let mut next = vec![0];
        let mut refusal = None;
        while let Some(&from) = next.last() {
            if order.len() == mixed.len() {
                return Ok(order);
            }
            let mut failed = None;
            let step = (from..mixed.len()).find(|&nth| {
                let member = mixed[nth];
                if done[member] {
                    return false;
                }
                done[member] = true;
                let was_dead = dead.contains(&done);
                done[member] = false;
                if was_dead {
                    return false;
                }
                let place = self.blocks(member, &done, to);
                failed = failed.or(place);
                place.is_none()
            });
            match step {
                Some(nth) => {
                    if let Some(last) = next.last_mut() {
                        *last = nth + 1;
                    }
                    next.push(0);
                    done[mixed[nth]] = true;
                    order.push(mixed[nth]);
                }
                None => {
                    if let Some(place) = failed {
                        let members = mixed.iter().copied().filter(|&member| !done[member]).collect();
                        refusal.get_or_insert(Refusal::NoOrder { place, members });
                    }
                    dead.insert(done.clone());
                    if dead.len() > LOOKED_AT {
                        break;
                    }
                    next.pop();
                    if let Some(last) = order.pop() {
                        done[last] = false;
                    }
                }
            }
        }
        Err(refusal.unwrap_or(Refusal::NoOrder { place: 0, members: mixed.to_vec() }))
    }

    /// A place that does not pass while this member changes and those are done.
    fn blocks(&mut self, who: usize, done: &[bool], to: &[usize]) -> Option<usize> {
        let mut places: Vec<usize> = self.table.members()[who].parts.clone();
        places.sort_unstable();
        places.dedup();
        let now: Vec<Vec<usize>> = (0..self.members.len())
            .map(|member| (0..self.members[member].parts.len()).map(|part| self.effective(member, part)).collect())
            .collect();
        places.into_iter().find(|&place| {
            !self.would_pass(place, |member, part| match member {
                _ if member == who => [now[member][part], to[member]],
                _ if done[member] => [to[member]; 2],
                _ => [now[member][part]; 2],
            })
        })
    }

    fn class(&self, member: usize, local: usize) -> Class {
        let server = |local, part| self.table.server(member, local, part);
        let parts = 0..self.members[member].parts.len();
        let of = |part| (server(self.effective(member, part), part), server(local, part));
        if parts.clone().all(|part| covers(of(part).0, of(part).1)) {
            return Class::Down;
        }
        if parts.clone().all(|part| covers(of(part).1, of(part).0)) {
            return Class::Up;
        }
        Class::Mixed
    }

    /// By how much its bandwidth grows, in 10^-9 of a core. Rounded: it decides an order and nothing else.
    fn difference(&self, member: usize, local: usize) -> i64 {
        let share = |server: Option<&Server>| {
            let server = server.map(|s| (s.budget.ns(), s.period.ns().max(1)));
            let share = server.map_or(0, |(budget, period)| match budget.checked_mul(1_000_000_000) {
                Some(billions) => billions / period,
                None => (u128::from(budget) * 1_000_000_000 / u128::from(period)) as u64,
            });
            share as i64
        };
        (0..self.members[member].parts.len())
            .map(|part| {
                let now = self.table.server(member, self.effective(member, part), part);
                share(self.table.server(member, local, part)) - share(now)
            })
            .sum()
    }
}
