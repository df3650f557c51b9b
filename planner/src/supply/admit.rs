//! Whether a core takes one more server, in all modes; and what is lacking if none does.

use super::{Core, Entry};
use crate::backend::{at_the_tick, most_of_a_core};
use crate::critical::{self, Discord};
use crate::modes::{boost, hypothetical};
use crate::percentiles::Tail;
use crate::place::{OneHost, Unplaced};
use crate::{Cause, Miss, Missed, Refusal, Shortage};
use giusto_analysis::admission::{self, keeps_budget, Grids, Order, Refused as NotAdmitted, Window};
use giusto_analysis::criticality::{Refused, Unfit, Vm};
use giusto_analysis::Error;
use giusto_model::{Backend, Bandwidth, ChangePolicy, Interface, Promise, Server};
use std::cmp::Reverse;

/// Why a core does not take an entry.
pub(super) enum Full {
    /// What it has left for it.
    Room(Bandwidth),
    /// It has room, but its manager keeps as many servers as it can.
    Servers,
    /// It has room, but in this window its servers and this one can ask for more than there is.
    Window(Window),
    /// It has room, but whether they go together cannot be computed.
    Unknown(Error),
    /// It has servers with criticality and this has none, or the other way round.
    Apart,
    /// They all have criticality and do not go together; what is reserved without this one, and for whom.
    Discord(Bandwidth, Vec<String>, Box<Unfit>),
}

/// What `core` has reserved in each mode with this entry on it, if it takes it; else in which mode it does not.
///
/// Σ B/P is the exact test for EDF where each server is to the others a sporadic task. A deferrable one is not: it can take 2B
/// in a row, so that (4, 12) and (2, 5) fail at 11/15. Then no window may ask for more than its length of a whole core
/// ([`admission::admit`]). Real-time groups have fixed priorities, so one is alone on its core; where budgets end at the tick,
/// so is one that is promised deadlines, as the others may run over by a tick each. So is one whose percentiles were computed
/// for the highest priority. Agents that are boosted go before all servers: a deferrable one of all their work.
pub(super) fn admit(
    core: &Core,
    entries: &[Entry],
    index: usize,
    on: &OneHost,
    policy: Option<ChangePolicy>,
) -> Result<Vec<Bandwidth>, (usize, Full)> {
    let entry = &entries[index];
    let backend = entry.chosen.backend;
    let (most, _) = most_of_a_core(on.host, on.facts, backend);
    let mut others = core.on.iter().map(|&other| &entries[other]);
    let lonely = |entry: &Entry| {
        let alone = entry.tail.as_ref().is_some_and(Tail::alone);
        alone || backend == Backend::RtGroup || (entry.local(0).need.is_some() && at_the_tick(backend))
    };
    if others.any(|other| other.chosen.backend != backend || lonely(other) || lonely(entry)) {
        return Err((0, Full::Room(Bandwidth::ZERO)));
    }
    let full = backend == Backend::Manager && core.on.len() == Backend::MANAGED;
    if core.on.iter().any(|&other| entries[other].critical.is_some() != entry.critical.is_some()) {
        return Err((0, Full::Apart));
    }
    let here: Vec<&Entry> = core.on.iter().chain([&index]).map(|&at| &entries[at]).collect();
    if entry.critical.is_some() {
        let used = discord(&here, full, (most, core.used[0])).map_err(|full| (0, full))?;
        return Ok(vec![used; core.used.len()]);
    }
    let boost = boost(on, policy, here.iter().map(|entry| (entry.service.name.as_str(), entry.vcpu)));
    let in_mode = |mode: usize| {
        let servers: Vec<Server> = here.iter().map(|entry| entry.server(mode)).collect();
        let room = most.checked_sub(core.used[mode]).unwrap_or(Bandwidth::ZERO);
        fits(servers, boost, full, (most, room)).map_err(|full| (mode, full))
    };
    (0..core.used.len()).map(in_mode).collect()
}

/// What servers with criticality reserve of a core that can give `most`, if they go together by EDF-VD; `used` is without the last.
fn discord(here: &[&Entry], full: bool, (most, used): (Bandwidth, Bandwidth)) -> Result<Bandwidth, Full> {
    let names = || here[..here.len() - 1].iter().map(ToString::to_string).collect();
    match critical::together(here, most) {
        Err(Refused::Unfit(unfit)) => return Err(Full::Discord(used, names(), unfit)),
        Err(Refused::Vm { .. }) => return Err(Full::Unknown(Error::Range)),
        Ok(_) if full => return Err(Full::Servers),
        Ok(_) => {}
    }
    let vms: Vec<Vm> = here.iter().filter_map(|entry| entry.vm()).collect();
    let room = || Full::Room(most.checked_sub(used).unwrap_or(Bandwidth::ZERO));
    // A whole core is never given, as above.
    critical::reserved(&vms).filter(|used| *used <= most && *used < Bandwidth::ONE).ok_or_else(room)
}

/// Σ B/P of servers and boosts on one core that can give `most`, if they fit; `room` is what it has left without the last of them,
/// and `full` whether its manager keeps as many as it can.
fn fits(
    mut servers: Vec<Server>,
    boost: Option<Interface>,
    full: bool,
    (most, room): (Bandwidth, Bandwidth),
) -> Result<Bandwidth, Full> {
    let mut each = servers.iter().map(Server::bandwidth).chain(boost.map(|boost| boost.bandwidth()));
    let used = each.try_fold(Bandwidth::ZERO, Bandwidth::add_up);
    // A whole core is never given: those without a reservation would wait for ever.
    let Some(used) = used.filter(|used| *used <= most && *used < Bandwidth::ONE) else {
        return Err(Full::Room(room));
    };
    if full {
        return Err(Full::Servers);
    }
    servers.extend(boost.map(hypothetical));
    // Without a deferrable server the sum is the whole test.
    if servers.len() == 1 || servers.iter().all(|server| !keeps_budget(server.kind)) {
        return Ok(used);
    }
    match admission::admit(&servers, Order::Edf, Grids::Apart, Bandwidth::ONE) {
        Ok(Ok(_)) => Ok(used),
        Ok(Err(NotAdmitted::Window(window))) => Err(Full::Window(window)),
        Ok(Err(_)) => Err(Full::Room(Bandwidth::ZERO)),
        Err(why) => Err(Full::Unknown(why)),
    }
}

pub(super) fn refuse(entry: &Entry, admitted: &[Result<Vec<Bandwidth>, (usize, Full)>], on: &OneHost) -> Unplaced {
    let service = entry.service.name.clone();
    // The mode in which something does not fit, by its place.
    let fails = |cause: Cause, mode: usize| {
        let Some(modes) = on.modes else { return Unplaced::DoesNotFit { service: service.clone(), cause } };
        let mode = &modes.modes[mode];
        let own = mode.locals.iter().find(|local| local.service == service).map(|local| local.local.clone());
        Unplaced::DoesNotFit { service: service.clone(), cause: cause.within(Some(mode.name.clone()), own) }
    };
    let discords = admitted.iter().filter_map(|core| match core {
        Err((_, Full::Discord(used, beside, unfit))) => Some((used, beside, unfit)),
        _ => None,
    });
    if let Some((_, beside, unfit)) = discords.min_by_key(|(used, ..)| **used) {
        let (vcpu, beside, unfit) = (entry.vcpu, beside.clone(), (**unfit).clone());
        let discord = Discord { vcpu, beside, unfit, cores: admitted.len() };
        return Unplaced::DoesNotFit { service, cause: Cause::Discord(Box::new(discord)) };
    }
    if admitted.iter().any(|core| matches!(core, Err((_, Full::Apart)))) {
        let cause = Cause::Apart { critical: entry.critical.is_some(), cores: admitted.len() };
        return Unplaced::DoesNotFit { service, cause };
    }
    let windows = admitted.iter().filter_map(|core| match core {
        Err((mode, Full::Window(window))) => Some((*mode, *window)),
        _ => None,
    });
    if let Some((mode, window)) = windows.min_by_key(|(_, window)| window.demand.checked_sub(window.supply)) {
        let demand = entry.local(mode).interface;
        return fails(Cause::Window { vcpu: entry.vcpu, demand, window, cores: admitted.len() }, mode);
    }
    if let Some(why) = admitted.iter().find_map(|core| match core {
        Err((_, Full::Unknown(why))) => Some(why.clone()),
        _ => None,
    }) {
        return Unplaced::Other(Refusal::Tasks { service, why });
    }
    if admitted.iter().any(|core| matches!(core, Err((_, Full::Servers)))) {
        return Unplaced::DoesNotFit { service, cause: Cause::Servers { cores: admitted.len() } };
    }
    let rooms = admitted.iter().filter_map(|core| match core {
        Err((mode, Full::Room(left))) => Some((*left, *mode)),
        _ => None,
    });
    // Of equal ones the first mode.
    let (room, mode) = rooms.max_by_key(|(left, mode)| (*left, Reverse(*mode))).unwrap_or((Bandwidth::ZERO, 0));
    let (vcpu, cores, interface) = (entry.vcpu, admitted.len(), entry.local(mode).interface);
    let (whole, _) = most_of_a_core(on.host, on.facts, entry.chosen.backend);
    if let (Some(_), Promise::Percentiles { points, .. }) = (&entry.tail, &entry.service.promise) {
        let how = Missed::Room { needs: Some(interface), room, whole, cores };
        return fails(Cause::Percentiles(Box::new(Miss { points: points.clone(), how })), mode);
    }
    let Some(need) = &entry.local(mode).need else {
        return fails(Cause::Supply { vcpu, demand: interface, supply: room, whole, cores }, mode);
    };
    match need.lack(interface.period, room) {
        Ok(lack) => {
            let needs = Some(interface);
            fails(Cause::Deadlines(Box::new(Shortage { vcpu, needs, room, whole, cores, lack })), mode)
        }
        Err(why) => Unplaced::Other(Refusal::Tasks { service, why }),
    }
}
