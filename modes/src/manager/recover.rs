//! A manager that is started again.

use super::member::Lag;
use super::{known, Change, Manager};
use crate::admission::Admission;
use crate::event::{Action, Kept, Requester};
use crate::settings::{Settings, SettingsError, Transition};
use crate::table::Table;
use giusto_model::{Duration, Instant};

/// Why a manager cannot go on where another one ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// Settings that make no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// What was kept is of another table.
    #[error("what was kept, or what is in force, is not of this table of modes; expected a local mode for each member and each of its parts. Start in a mode of this table instead")]
    Table,
}

impl<A: Admission> Manager<A> {
    /// A manager that goes on where another one ended, at `now`, knowing what that one kept and which reservations are
    /// in force: `held` has the local mode whose server each part of each member has, and no change of a reservation
    /// may be pending. Agents connect again and tell what they run.
    ///
    /// A change that was under way goes on, forward or back as it was; if there is no order for that, the other way.
    /// So it ends in the new mode or the old one, as any change does.
    ///
    /// # Errors
    /// Settings that make no sense, or a table that is not the one from before.
    pub fn recover(
        table: Table,
        settings: Settings,
        admission: A,
        kept: &Kept,
        held: &[Vec<usize>],
        now: Instant,
        out: &mut Vec<Action>,
    ) -> Result<Manager<A>, RecoverError> {
        let fits = held.len() == table.members().len()
            && held.iter().zip(table.members()).all(|(parts, member)| {
                parts.len() == member.parts.len() && parts.iter().all(|&local| local < member.locals.len())
            });
        if !fits || !known(&table, &kept.from) || !known(&table, &kept.to) {
            return Err(RecoverError::Table);
        }
        let target = if kept.back { &kept.from } else { &kept.to };
        let mut manager = Manager::new(table, settings, admission, target)?;
        manager.last_change = kept.change;
        for (member, parts) in held.iter().enumerate() {
            let state = &mut manager.members[member];
            state.told.0 = kept.change;
            (state.failed, state.heard) = (kept.unsound.contains(&member), !state.agent && !kept.open);
            state.parts.iter_mut().zip(parts).for_each(|(part, &local)| part.held = local);
        }
        let differs = (0..held.len()).any(|member| manager.needs(member, target[member]));
        if kept.open || differs {
            manager.go_on(kept, now, out);
        }
        manager.progress(now, out);
        manager.ask_to_be_woken(now, out);
        Ok(manager)
    }

    fn go_on(&mut self, kept: &Kept, now: Instant, out: &mut Vec<Action>) {
        for member in 0..self.members.len() {
            // Also of those that the change does not concern: it may have taken the place of one that did.
            self.members[member].runs = None;
            self.may_lag(member, [kept.from[member], kept.to[member]], now);
        }
        let ways = [kept.back, !kept.back];
        let found = ways.into_iter().find_map(|back| {
            let order = self.order(if back { &kept.from } else { &kept.to }).ok()?;
            Some((back, order))
        });
        let (back, order) = found.unwrap_or_else(|| (kept.back, (0..self.members.len()).collect()));
        let id = self.next_change();
        self.rested = Some(now);
        let urgent = self.table.modes().iter().any(|mode| mode.urgent && mode.locals == kept.to);
        self.urgent_rested = urgent.then_some(now);
        self.change = Some(Change {
            id,
            who: Requester::None,
            asked: now,
            from: kept.from.clone(),
            to: kept.to.clone(),
            back,
            urgent,
            boosts: false,
            order,
            silent: Vec::new(),
            stuck: Vec::new(),
            in_force: now,
            news: true,
        });
        out.push(Action::Keep(self.kept()));
        self.retarget(now, out);
    }

    /// When its reservation changed last is not known: both count for a period.
    fn may_lag(&mut self, member: usize, locals: [usize; 2], now: Instant) {
        if self.settings.transition == Transition::Fast {
            return;
        }
        for part in 0..self.members[member].parts.len() {
            let servers = locals.map(|local| self.table.server(member, local, part));
            let longest = servers.iter().flatten().map(|server| server.period).max().unwrap_or(Duration::ZERO);
            let until = now.checked_add(longest).unwrap_or(Instant::from_ns(u64::MAX));
            self.members[member].lags.extend(locals.map(|local| Lag { part, local, until }));
        }
    }
}
