//! Whether a core takes one more server, in all modes; and what is lacking if none does.

use crate::backend::{most_of_a_core, most_upkeep};
use crate::candidates::Candidate;
use crate::critical::{self, Discord};
use crate::host::OneHost;
use crate::modes::boost::{boost, hypothetical};
use crate::promises::{self, Room};
use crate::refusal::{Cause, Refusal};
use crate::together::{together, TooMuch};
use crate::xen;
use giusto_analysis::admission::Window;
use giusto_analysis::criticality::{judge_soonest, Refused, Unfit, Vm};
use giusto_analysis::Error;
use giusto_model::{Bandwidth, ChangePolicy, Interface, Server};
use std::cmp::Reverse;

/// A core and the servers on it, by their place in the list; what is used of it in each mode, boosts included.
pub(crate) struct Core {
    pub(crate) id: u32,
    pub(crate) on: Vec<usize>,
    pub(crate) used: Vec<Bandwidth>,
}

/// Why a core does not take an entry.
pub(crate) enum CoreRefusal {
    /// What it has left for it.
    Room(Bandwidth),
    /// It has room, but its manager keeps as many servers as it can.
    Servers,
    /// It has room, but for their periods its manager would take this much of it.
    Upkeep(Bandwidth),
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
/// ([`together`]). Real-time groups have fixed priorities, so one is alone on its core; where budgets end at the tick,
/// so is one that is promised deadlines, as the others may run over by a tick each. So is one whose percentiles were computed
/// for the highest priority. Agents that are boosted go before all servers: a deferrable one of all their work.
pub(crate) fn admit(
    core: &Core,
    entries: &[Candidate],
    index: usize,
    on: &OneHost,
    policy: Option<ChangePolicy>,
) -> Result<Vec<Bandwidth>, (usize, CoreRefusal)> {
    let entry = &entries[index];
    let backend = entry.vcpu.chosen.backend;
    let (most, _) = most_of_a_core(on.host, on.facts, backend);
    let mut others = core.on.iter().map(|&other| &entries[other]);
    let lonely = |entry: &Candidate| entry.vcpu.alone || backend.abilities().alone;
    if others.any(|other| other.vcpu.chosen.backend != backend || lonely(other) || lonely(entry)) {
        return Err((0, CoreRefusal::Room(Bandwidth::ZERO)));
    }
    let full = core.on.len() == backend.abilities().servers;
    if core.on.iter().any(|&other| entries[other].vcpu.critical != entry.vcpu.critical) {
        return Err((0, CoreRefusal::Apart));
    }
    let here: Vec<&Candidate> = core.on.iter().chain([&index]).map(|&at| &entries[at]).collect();
    if entry.vcpu.critical {
        let used = discord(&here, full, (most, core.used[0])).map_err(|full| (0, full))?;
        kept_up(&here, on).map_err(|full| (0, full))?;
        return Ok(vec![used; core.used.len()]);
    }
    let boost = boost(on, policy, here.iter().map(|entry| (entry.service.name.as_str(), entry.vcpu.vcpu)));
    let in_mode = |mode: usize| {
        let servers: Vec<Server> = here.iter().map(|entry| entry.server(mode)).collect();
        let room = most.checked_sub(core.used[mode]).unwrap_or(Bandwidth::ZERO);
        let rest = xen::rest(on).map(|rest| servers.iter().copied().chain([rest]).collect());
        let used = fits(servers, boost, full, (most, room));
        // What leftovers have of Xen comes out of what is kept free, and goes before who has a later deadline.
        let used = used.and_then(|used| {
            rest.map_or(Ok(used), |with| fits(with, boost, full, (Bandwidth::ONE, room)).map(|_| used))
        });
        used.map_err(|full| (mode, full))
    };
    let used = (0..core.used.len()).map(in_mode).collect::<Result<_, _>>()?;
    kept_up(&here, on).map_err(|full| (0, full))?;
    Ok(used)
}

/// Whether what no reservation gets of a core is enough for its manager to keep the periods of all that are `here`.
fn kept_up(here: &[&Candidate], on: &OneHost) -> Result<(), CoreRefusal> {
    let Some(backend) = here.first().map(|entry| entry.vcpu.chosen.backend) else { return Ok(()) };
    let all = here.iter().map(|entry| entry.upkeep(on.facts)).try_fold(Bandwidth::ZERO, Bandwidth::add_up);
    let all = all.unwrap_or(Bandwidth::ONE);
    match all <= most_upkeep(on.host.keep_free, backend, on.facts) {
        true => Ok(()),
        false => Err(CoreRefusal::Upkeep(all)),
    }
}

/// What servers with criticality reserve of a core that can give `most`, if they go together by EDF-VD; `used` is without the last.
fn discord(here: &[&Candidate], full: bool, (most, used): (Bandwidth, Bandwidth)) -> Result<Bandwidth, CoreRefusal> {
    let names = || here[..here.len() - 1].iter().map(ToString::to_string).collect();
    let vms: Vec<Vm> = here.iter().filter_map(|entry| entry.vm()).collect();
    match judge_soonest(&vms, most) {
        Err(Refused::Unfit(unfit)) => return Err(CoreRefusal::Discord(used, names(), unfit)),
        Err(Refused::Vm { .. }) => return Err(CoreRefusal::Unknown(Error::Range)),
        Ok(_) if full => return Err(CoreRefusal::Servers),
        Ok(_) => {}
    }
    let room = || CoreRefusal::Room(most.checked_sub(used).unwrap_or(Bandwidth::ZERO));
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
) -> Result<Bandwidth, CoreRefusal> {
    servers.extend(boost.map(hypothetical));
    match together(&servers, most) {
        // A sum beyond 64 bits is no room either.
        Err(TooMuch::Room(_) | TooMuch::Unknown(Error::Range)) => Err(CoreRefusal::Room(room)),
        _ if full => Err(CoreRefusal::Servers),
        Ok(used) => Ok(used),
        Err(TooMuch::Window(window)) => Err(CoreRefusal::Window(window)),
        Err(TooMuch::Unknown(why)) => Err(CoreRefusal::Unknown(why)),
    }
}

/// Of what `admitted` says of each core the cause that tells most.
pub(crate) fn refuse(
    entry: &Candidate,
    admitted: &[Result<Vec<Bandwidth>, (usize, CoreRefusal)>],
    on: &OneHost,
) -> Refusal {
    let (service, vcpu) = (&entry.service.name, entry.vcpu.vcpu);
    // The mode in which something does not fit, by its place.
    let fails = |cause: Cause, mode: usize| {
        let Some(modes) = on.modes else { return Refusal::does_not_fit(service, cause) };
        let mode = &modes.modes[mode];
        let own = mode.locals.iter().find(|local| local.service == *service).map(|local| local.local.clone());
        Refusal::does_not_fit(service, cause.within(Some(mode.name.clone()), own))
    };
    let discords = admitted.iter().filter_map(|core| match core {
        Err((_, CoreRefusal::Discord(used, beside, unfit))) => Some((used, beside, unfit)),
        _ => None,
    });
    if let Some((_, beside, unfit)) = discords.min_by_key(|(used, ..)| **used) {
        let (beside, unfit) = (beside.clone(), (**unfit).clone());
        let discord = Discord { vcpu, beside, unfit, cores: admitted.len() };
        return Refusal::does_not_fit(service, Cause::Discord(Box::new(discord)));
    }
    if admitted.iter().any(|core| matches!(core, Err((_, CoreRefusal::Apart)))) {
        let cause = Cause::Apart { critical: entry.vcpu.critical, cores: admitted.len() };
        return Refusal::does_not_fit(service, cause);
    }
    let windows = admitted.iter().filter_map(|core| match core {
        Err((mode, CoreRefusal::Window(window))) => Some((*mode, *window)),
        _ => None,
    });
    if let Some((mode, window)) = windows.min_by_key(|(_, window)| window.demand.checked_sub(window.supply)) {
        let demand = entry.need(mode).interface;
        return fails(Cause::Window { vcpu, demand, window, cores: admitted.len() }, mode);
    }
    if let Some(why) = admitted.iter().find_map(|core| match core {
        Err((_, CoreRefusal::Unknown(why))) => Some(why.clone()),
        _ => None,
    }) {
        return Refusal::tasks(service, why);
    }
    if admitted.iter().any(|core| matches!(core, Err((_, CoreRefusal::Servers)))) {
        return Refusal::does_not_fit(service, Cause::Servers { cores: admitted.len() });
    }
    let upkeep = admitted.iter().filter_map(|core| match core {
        Err((_, CoreRefusal::Upkeep(all))) => Some(*all),
        _ => None,
    });
    if let Some(needs) = upkeep.min() {
        let has = most_upkeep(on.host.keep_free, entry.vcpu.chosen.backend, on.facts);
        return Refusal::does_not_fit(service, Cause::Upkeep { needs, has, cores: admitted.len() });
    }
    let rooms = admitted.iter().filter_map(|core| match core {
        Err((mode, CoreRefusal::Room(left))) => Some((*left, *mode)),
        _ => None,
    });
    // Of equal ones the first mode.
    let (left, mode) = rooms.max_by_key(|(left, mode)| (*left, Reverse(*mode))).unwrap_or((Bandwidth::ZERO, 0));
    let (whole, _) = most_of_a_core(on.host, on.facts, entry.vcpu.chosen.backend);
    let room = Room { left, whole, cores: admitted.len() };
    let method = promises::of(&entry.service.promise);
    match method.no_room(entry.service, &entry.vcpu, entry.need(mode), &room, on.facts) {
        Ok(cause) => fails(cause, mode),
        Err(why) => Refusal::tasks(service, why),
    }
}
