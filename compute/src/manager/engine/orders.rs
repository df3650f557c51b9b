//! Carrying out what a manager is told to do: servers come, change, are boosted and go.

use super::super::command::Command;
use super::super::group::Group;
use super::super::managed::Managed;
use super::super::watch;
use super::served::{give, Periods, Served};
use super::strays::Strays;
use super::{monotonic, Engine};
use crate::Error;
use giusto_model::{Criticality, Server};
use giusto_policy::{Mixed, Params, When};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    /// Carries commands out; `false`: stop.
    pub(super) fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            self.drain();
            self.settle(monotonic());
            match command {
                Command::Add { wanted, threads, answer } => _ = answer.send(self.add(wanted.0, wanted.1, threads)),
                Command::Regroup { server, group } => self.regroup(server, *group),
                Command::TakeIn { server, threads } => {
                    if let Some(Some(server)) = self.servers.get_mut(server) {
                        threads.iter().for_each(|tid| _ = server.parted.remove(tid));
                    }
                    self.take_in(server, &threads);
                }
                Command::PartWith { server, threads, answer } => {
                    self.part_with(server, &threads);
                    let _ = answer.send(());
                }
                Command::Prefer { server, thread } => self.prefer(server, thread),
                Command::Set { server, wanted, criticality, when, answer } => {
                    _ = answer.send(self.set(server, wanted, criticality, when));
                }
                Command::Look { server, answer } => {
                    _ = answer.send(self.server(server).map(|one| one.id).map(|id| self.pool.deadline_ns(id)));
                }
                Command::Boost { server, until } => {
                    if let Err(why) = self.boost(server, until) {
                        self.warnings.push(format!("a boost is refused: {why}"));
                    }
                }
                Command::Remove { server, answer } => {
                    self.remove(server);
                    let _ = answer.send(());
                }
                Command::Report { answer } => _ = answer.send(self.report()),
                Command::Stop => return false,
            }
        }
        true
    }

    fn add(&mut self, managed: Managed, group: Group, threads: Vec<u32>) -> Result<usize, Error> {
        let server = managed.server;
        let free = self.free_from(&managed);
        // Grids of equal periods coincide.
        let period = server.period.ns().max(1);
        let first = if server.kind.renewal().on_grid() && managed.criticality.is_none() {
            let first = managed.first.unwrap_or((self.at / period + 1) * period);
            first + free.saturating_sub(first).div_ceil(period) * period
        } else {
            free
        };
        let slot = self.servers.iter().position(Option::is_none).unwrap_or(self.servers.len());
        if slot >= watch::SERVERS {
            let why = format!("a core has at most {} servers; use another core", watch::SERVERS);
            return Err(Error::Kernel { doing: format!("manage {}", managed.name), why });
        }
        let params =
            Params { budget: server.budget.ns(), period: server.period.ns(), first, priority: managed.priority };
        let id = match managed.criticality {
            Some(criticality) => self.pool.add_mixed(mixed(server, criticality), first, self.at),
            None => self.pool.add(server.kind, params, self.at),
        };
        let id = id.map_err(|why| refused(&managed.name, &why))?;
        let base = self.watch.account(slot).ran.load(Relaxed);
        let _ = group.freeze(false); // the guard may have stopped it just when it was removed before
        let shown = self.show(&group);
        let served = Served {
            id,
            managed,
            group,
            threads: BTreeSet::new(),
            parted: BTreeSet::new(),
            priority: None,
            frozen: false,
            first: 0,
            preferred: None,
            is_ready: false,
            looked: (0, 0, true),
            boost: None,
            base,
            charged: base as i64,
            throttled: 0,
            overrun_max: 0,
            late_stops: 0,
            beyond: 0,
            periods: Periods::default(),
            lost: self.watch.account(slot).lost.load(Relaxed),
            shown,
            strays: Strays::default(),
        };
        if slot == self.servers.len() {
            self.servers.push(None);
        }
        self.servers[slot] = Some(served);
        self.take_in(slot, &threads);
        Ok(slot)
    }

    pub(super) fn take_in(&mut self, slot: usize, threads: &[u32]) {
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        for &tid in threads {
            if server.threads.contains(&tid) {
                continue;
            }
            if let Err(why) = self.watch.add(tid, slot) {
                self.warnings.push(why.to_string());
                continue;
            }
            server.threads.insert(tid);
            server.give(tid);
        }
        server.go_on_inside(&self.beats);
    }

    /// Shows the cgroups of a server to the guard.
    fn show(&self, group: &Group) -> Vec<usize> {
        group.folders().filter_map(|folder| self.beats.show(self.core, folder)).collect()
    }

    fn regroup(&mut self, slot: usize, group: Group) {
        let shown = self.show(&group);
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        std::mem::replace(&mut server.shown, shown).into_iter().for_each(|place| self.beats.hide(place));
        server.group = group;
        if server.frozen {
            server.frozen = server.group.freeze(true).is_ok();
        }
    }

    /// Forgets threads that another server of their service takes; until it has, they are in the group.
    fn part_with(&mut self, slot: usize, threads: &[u32]) {
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        for &tid in threads {
            server.parted.insert(tid);
            if server.threads.remove(&tid) {
                self.watch.part_with(tid, slot);
                give(tid, None);
            }
        }
    }

    fn prefer(&mut self, slot: usize, thread: u32) {
        let Some(Some(server)) = self.servers.get_mut(slot) else { return };
        let before = server.preferred.replace(thread);
        before.into_iter().chain([thread]).filter(|tid| server.threads.contains(tid)).for_each(|tid| server.give(tid));
    }

    fn set(&mut self, slot: usize, wanted: Server, criticality: Option<Criticality>, when: When) -> Result<u64, Error> {
        let server = self.server(slot)?;
        let (id, name, priority) = (server.id, server.managed.name.clone(), server.managed.priority);
        let (budget, period) = (wanted.budget.ns(), wanted.period.ns());
        let set = match criticality {
            Some(criticality) => self.pool.set_mixed(id, mixed(wanted, criticality), when, self.at),
            None => self.pool.set(id, budget, period, priority, when, self.at),
        };
        set.map_err(|why| refused(&name, &why))?;
        let managed = &mut self.server(slot)?.managed;
        (managed.server, managed.criticality) = (wanted, criticality);
        Ok(match when {
            When::Now => self.at,
            When::NextPeriod => self.pool.deadline_ns(id).max(self.at),
        })
    }

    fn boost(&mut self, slot: usize, until: u64) -> Result<(), Error> {
        let server = self.server(slot)?;
        let (id, name) = (server.id, server.managed.name.clone());
        self.pool.boost(id, until, self.at).map_err(|why| refused(&name, &why))?;
        let at = self.at;
        self.server(slot)?.boost = Some(until).filter(|&until| until > at);
        Ok(())
    }

    fn remove(&mut self, slot: usize) {
        let Some(mut server) = self.servers.get_mut(slot).and_then(Option::take) else { return };
        server.shown.into_iter().for_each(|place| self.beats.hide(place));
        let _ = server.group.freeze(false);
        server.strays.let_go(&self.beats, |_| true);
        self.watch.account(slot).parked.store(0, Relaxed);
        // Also those of which nothing was told: they would be taken for watched when they come again, and never be counted.
        let threads: BTreeSet<u32> = server.threads.iter().copied().chain(server.group.threads()).collect();
        threads.iter().for_each(|&tid| give(tid, None));
        threads.iter().for_each(|&tid| self.watch.remove(tid));
        self.watch.account(slot).awake.store(0, Relaxed);
        if let Ok(free) = self.pool.remove(server.id, self.at) {
            let before = self.free_from(&server.managed);
            self.freed.insert((server.managed.name, server.managed.part), free.max(before));
        }
        self.freed.retain(|_, free| *free > self.at);
    }

    /// From when on the bandwidth of an earlier server of this service is free: before, it would have two budgets in one
    /// period; 0: already.
    fn free_from(&self, managed: &Managed) -> u64 {
        let free = self.freed.get(&(managed.name.clone(), managed.part)).copied();
        free.filter(|&free| free > self.at).unwrap_or(0)
    }

    fn server(&mut self, slot: usize) -> Result<&mut Served, Error> {
        let missing = || Error::Kernel {
            doing: "change a server".into(),
            why: format!("there is no server {slot} on this core"),
        };
        self.servers.get_mut(slot).and_then(Option::as_mut).ok_or_else(missing)
    }
}

fn refused(name: &str, why: &giusto_policy::Error) -> Error {
    Error::Kernel { doing: format!("manage {name}"), why: why.to_string() }
}

fn mixed(server: Server, criticality: Criticality) -> Mixed {
    let (optimistic, period) = (server.budget.ns(), server.period.ns());
    let (worst, virtual_deadline) = match criticality {
        Criticality::Low => (None, period),
        Criticality::High { worst, virtual_deadline } => (Some(worst.ns()), virtual_deadline.ns()),
    };
    Mixed { optimistic, worst, period, virtual_deadline }
}
