//! How a manager and its servers stand.

use super::super::report::{ModeReport, Report, ServerReport};
use super::{own_ns, Engine};
use giusto_policy::Order;
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    pub(super) fn report(&mut self) -> Report {
        let servers = self.servers.iter_mut().enumerate().filter_map(|(slot, server)| {
            let server = server.as_mut()?;
            let account = self.watch.account(slot);
            Some(ServerReport {
                server: slot,
                name: server.managed.name.clone(),
                reservation: server.managed.server,
                threads: server.threads.iter().copied().collect(),
                supplied_ns: account.ran.load(Relaxed).saturating_sub(server.base),
                left_ns: self.pool.left_ns(server.id),
                boost_ns: self.pool.boost_ns(server.id),
                is_ready: server.is_ready,
                is_throttled: server.priority.is_none(),
                throttled: server.throttled,
                overrun_max_ns: server.overrun_max,
                late_stops: server.late_stops,
                replenished: server.periods.replenished,
                full: server.periods.full,
                missed: server.periods.missed,
                lost: account.lost.load(Relaxed),
                moved: std::mem::take(&mut server.strays.moved).into_iter().collect(),
            })
        });
        let late = std::mem::take(&mut self.late);
        Report {
            core: self.core,
            core_mode: (self.order == Order::MixedCriticality).then(|| ModeReport {
                is_hi: self.mode.since.is_some(),
                hi_ns: self.mode.hi_ns + self.mode.since.map_or(0, |since| self.at - since),
                switches: self.mode.switches,
            }),
            servers: servers.collect(),
            for_ns: self.at - self.started.0,
            own_ns: own_ns() - self.started.1,
            wakeups: self.wakeups,
            late_mean_ns: late.1 / late.0.max(1),
            late_max_ns: late.2,
            guarded: self.stops / 2,
            tells_moves: self.watch.tells_moves,
            warnings: std::mem::take(&mut self.warnings),
        }
    }
}
