//! The event loop.

use crate::guest::{Guests, LONGEST};
use crate::stats::Stats;
use crate::system::{Error, ServerSpec, System};
use crate::trace::Observer;
use giusto_model::{Duration, Instant, JobRecord, ServerKind};
use giusto_policy::{Id, Kind, Params, Pool};

/// One server in play.
struct Server {
    id: Id,
    guests: Option<Guests>,
    ready: bool,
    stats: Stats,
}

/// Plays `system` from 0 to `horizon` and returns the statistics of each server, in its order.
///
/// The same seed gives the same run, to the byte. O(log n) a job, n = tasks; memory grows with the backlog only. Errors: a
/// server or task that makes no sense, a horizon of 0 or beyond 73 years, an observer that cannot write.
pub fn simulate(
    system: &System,
    horizon: Duration,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Vec<Stats>, Error> {
    let horizon = horizon.ns();
    if horizon == 0 || horizon > LONGEST {
        return Err(Error::Horizon);
    }
    let mut pool = Pool::new(system.order);
    let mut servers = Vec::new();
    for (index, spec) in system.servers.iter().enumerate() {
        let id = add(&mut pool, spec).map_err(|why| Error::Server { index, why })?;
        let guests = spec.workload.as_ref().map(|workload| Guests::new(workload, index, seed)).transpose()?;
        servers.push(Server { id, guests, ready: false, stats: Stats::new() });
    }

    let (mut now, mut until, mut running) = (0, 0, None);
    loop {
        // What happens at one instant: releases, then readiness, then the decision.
        let mut decide = now >= until;
        for server in &mut servers {
            if let Some(guests) = &mut server.guests {
                guests.release(now);
            }
            let ready = server.guests.as_ref().is_none_or(|guests| guests.current().is_some());
            if ready != server.ready {
                server.ready = ready;
                pool.ready(server.id, ready, now);
                decide = true;
            }
        }
        if decide {
            until = pool.decide(now).until.unwrap_or(u64::MAX);
            let id = pool.running(0);
            running = servers.iter().position(|server| Some(server.id) == id);
        }
        if now >= horizon {
            break;
        }
        // When something happens next.
        let mut next = until.min(horizon);
        for guests in servers.iter().filter_map(|server| server.guests.as_ref()) {
            next = next.min(guests.next_release());
        }
        if let Some(index) = running {
            let server = &mut servers[index];
            let job = server.guests.as_ref().and_then(|guests| guests.current().copied());
            if let Some(job) = job {
                next = next.min(now + job.left);
            }
            let ran = next - now;
            observer.slice(index, job.map(|job| (job.task, job.number)), now, next)?;
            server.stats.consumed = server.stats.consumed.checked_add(Duration::from_ns(ran)).ok_or(Error::Horizon)?;
            if let Some(done) = server.guests.as_mut().and_then(|guests| guests.run(ran)) {
                server.stats.add(next - done.release);
                let release = Instant::from_ns(done.release);
                let finish = Some(Instant::from_ns(next));
                observer.job(index, &JobRecord { task: done.task, job: done.number, due: release, release, finish })?;
            }
        }
        now = next;
    }
    for server in &mut servers {
        server.stats.unfinished = server.guests.as_ref().map_or(0, Guests::pending);
    }
    Ok(servers.into_iter().map(|server| server.stats).collect())
}

fn add(pool: &mut Pool, spec: &ServerSpec) -> Result<Id, String> {
    let kind = match spec.kind {
        ServerKind::Deferrable => Kind::Deferrable,
        ServerKind::ConstantBandwidth => Kind::ConstantBandwidth,
        ServerKind::Unlimited => Kind::Unlimited,
    };
    let params =
        Params { budget: spec.budget.ns(), period: spec.period.ns(), first: spec.first.ns(), priority: spec.priority };
    pool.add(kind, params, 0).map_err(|why| why.to_string())
}
