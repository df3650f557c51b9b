//! Which cores stay in use where the others are parked.

use crate::host::{OneHost, Placed};
use crate::promises::{self, Asks};
use crate::refusal::Refusal;
use giusto_model::{Bandwidth, Service, ServicePlan, Unused};

/// Finishes the plan of a host with `finish`, to which the cores are handed that services which get leftovers may use, in the order of the site.
///
/// All of them unless the site says `unused: park`. Else those that stay online anyhow ([`needed`]), and of the others one after the other
/// is added as long as floors of leftovers do not fit: to save power breaks no promise. O(cores) calls of `finish`.
pub(crate) fn fewest(
    on: &OneHost,
    services: &[ServicePlan],
    finish: &mut dyn FnMut(&[u32]) -> Result<Placed, Refusal>,
) -> Result<Placed, Refusal> {
    let all = &on.host.cores;
    if on.host.unused == Unused::Leave {
        return finish(all);
    }
    let needed = needed(on, services);
    let spare: Vec<u32> = all.iter().copied().filter(|core| !needed.contains(core)).collect();
    let asks = |service: &Service| promises::of(&service.promise).asks(service);
    let floor = |service: &Service| matches!(asks(service), Asks::Rest(floor) if floor > Bandwidth::ZERO);
    let most = if on.services.iter().any(|service| floor(service)) { spare.len() } else { 0 };
    let mut more = 0;
    loop {
        let stays = |core: &u32| needed.contains(core) || spare[..more].contains(core);
        match finish(&all.iter().copied().filter(stays).collect::<Vec<u32>>()) {
            Err(Refusal::DoesNotFit(_)) if more < most => more += 1,
            other => return other,
        }
    }
}

/// The cores of a host that stay online: those with a reservation; core 0, which few machines can do without; if there is neither, the
/// first, for leftovers. And the first unused one where the backend `deadline` isolates all others of the machine: all that is not
/// planned has to run somewhere. Packets and that have cores of their own.
fn needed(on: &OneHost, services: &[ServicePlan]) -> Vec<u32> {
    let all = &on.host.cores;
    let used = |core: &u32| *core == 0 || services.iter().any(|service| service.core == *core);
    let mut needed: Vec<u32> = all.iter().copied().filter(used).collect();
    if needed.is_empty() {
        needed.extend(all.first());
    }
    let isolated = |core: &u32| services.iter().any(|one| one.core == *core && one.backend.abilities().isolates);
    let room = |core: &u32| !isolated(core) && (needed.contains(core) || !all.contains(core));
    if services.iter().any(|service| service.backend.abilities().isolates) && !on.facts.cores.iter().any(room) {
        needed.extend(all.iter().find(|core| !needed.contains(core)).copied());
        needed.sort_unstable();
    }
    needed
}
