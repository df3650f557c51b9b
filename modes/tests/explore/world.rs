//! The world as it really is: reservations in force with their zero-lag times, tasks that run, boosts. It knows of the library the
//! table and nothing else.

use crate::scene::{in_us, passes, Scene, LONGEST_US};
use giusto_modes::{Parts, Transition, When};

pub(crate) const US: u64 = 1000;

/// A server on its grid.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub(crate) local: usize,
    /// A replenishment, in ns.
    anchor: u64,
    /// Comes into force then.
    next: Option<(usize, u64)>,
    lags: Vec<(usize, u64)>,
}

pub(crate) struct World {
    pub(crate) reserved: Vec<Vec<Reserved>>,
    /// Local modes whose tasks may run.
    pub(crate) tasks: Vec<Vec<usize>>,
    pub(crate) boosts: Vec<(usize, u64)>,
}

impl World {
    pub(crate) fn new(scene: &Scene, local: usize, mut anchor: impl FnMut() -> u64) -> World {
        let members = scene.table.members();
        let reserved = members.iter().map(|member| {
            let part = |_| Reserved { local, anchor: anchor(), next: None, lags: Vec::new() };
            (0..member.parts.len()).map(part).collect()
        });
        World { reserved: reserved.collect(), tasks: vec![vec![local]; members.len()], boosts: Vec::new() }
    }

    /// Applies a Set; from when on it, and it alone, counts. All parts at once.
    pub(crate) fn set(&mut self, scene: &Scene, m: usize, parts: Parts, local: usize, when: When, now: u64) -> u64 {
        parts.iter().map(|p| self.set_part(scene, m, p, local, when, now)).max().unwrap_or(now)
    }

    fn set_part(&mut self, scene: &Scene, m: usize, p: usize, local: usize, when: When, now: u64) -> u64 {
        let server = |local: usize| scene.table.members()[m].locals[local].servers.get(p).map(in_us);
        let it = &mut self.reserved[m][p];
        assert!(it.next.is_none(), "vm{m}.{p} is set while a change of it is pending");
        let old = server(it.local);
        let after = |at: u64| match old {
            // The first replenishment that is later than now and not before `at`.
            Some((_, period)) => {
                let (period, least) = (period * US, at.max(now + 1));
                it.anchor + (least.saturating_sub(it.anchor)).div_ceil(period) * period
            }
            None => at.max(now),
        };
        match when {
            When::Replenishment(at) => {
                let at = after(at.ns());
                it.next = Some((local, at));
                at
            }
            When::Now => {
                let shrinks = match (old, server(local)) {
                    (Some((b, t)), Some((c, u))) => c < b || u > t,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                let zero_lag = if shrinks { after(now) } else { now };
                if shrinks {
                    it.lags.push((it.local, zero_lag));
                }
                if old.map(|o| o.1) != server(local).map(|o| o.1) {
                    it.anchor = now;
                }
                it.local = local;
                zero_lag
            }
        }
    }

    /// What time does by itself.
    pub(crate) fn pass(&mut self, now: u64) {
        for it in self.reserved.iter_mut().flatten() {
            if let Some((local, at)) = it.next.filter(|&(_, at)| at <= now) {
                (it.local, it.anchor, it.next) = (local, at, None);
            }
            it.lags.retain(|&(_, until)| until > now);
        }
        self.boosts.retain(|&(_, until)| until > now);
    }

    /// When it does so next.
    pub(crate) fn next(&self) -> Option<u64> {
        let of = |it: &Reserved| it.next.iter().map(|n| n.1).chain(it.lags.iter().map(|l| l.1)).min();
        self.reserved.iter().flatten().filter_map(of).min()
    }

    /// A change is on its way.
    pub(crate) fn pending(&self) -> Option<u64> {
        self.reserved.iter().flatten().filter_map(|it| it.next.map(|n| n.1)).max()
    }

    /// The invariants of the specification, at this instant. `sound`: who is to be covered.
    pub(crate) fn check(&self, scene: &Scene, sound: &[bool]) -> Result<(), String> {
        let members = scene.table.members();
        let server = |m: usize, p: usize, local: usize| members[m].locals[local].servers.get(p).map(in_us);
        let guaranteed = scene.settings.transition == Transition::Guaranteed;
        for (place, &test) in scene.tests.iter().enumerate() {
            let mut servers = Vec::new();
            for (m, member) in members.iter().enumerate() {
                for (p, _) in member.parts.iter().enumerate().filter(|&(_, &at)| at == place) {
                    let it = &self.reserved[m][p];
                    let old = it.lags.iter().filter(|_| guaranteed).filter_map(|lag| server(m, p, lag.0));
                    // Of what still counts the largest share does: one server, whatever it is called.
                    let all = server(m, p, it.local).into_iter().chain(old);
                    servers.extend(all.max_by_key(|&(b, t)| b * (LONGEST_US / t)));
                }
            }
            if !passes(test, &servers) {
                return Err(format!("1: place {place} ({test:?}) does not pass: {servers:?}"));
            }
            let on = |m: usize| members[m].parts[0] == place;
            let boosted = self.boosts.iter().filter(|&&(m, _)| on(m)).count();
            if boosted > scene.table.places()[place].boosts {
                return Err(format!("3: {boosted} boosted in place {place}"));
            }
        }
        for (m, member) in members.iter().enumerate().filter(|&(m, _)| sound[m]) {
            for &local in &self.tasks[m] {
                for p in 0..member.parts.len() {
                    let share = |s: Option<(u64, u64)>| s.map_or(0, |(b, t)| b * (LONGEST_US / t));
                    let (needs, has) = (share(server(m, p, local)), share(server(m, p, self.reserved[m][p].local)));
                    if needs > has {
                        return Err(format!("2: vm{m}.{p} may run m{local} and needs {needs}, has {has}"));
                    }
                }
            }
        }
        Ok(())
    }
}
