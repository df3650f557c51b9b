//! What agents that are boosted take of a core.

use crate::host::OneHost;
use giusto_model::{ChangePolicy, Interface, Server, ServerKind};

/// The hypothetical server of boosts on a core with these entries of services, by name and virtual CPU: the work of
/// all agents there, once between two changes [LiH21, § 2.4.2], and once more where an urgent one may come.
pub(crate) fn boost<'a>(
    on: &OneHost,
    policy: Option<ChangePolicy>,
    here: impl Iterator<Item = (&'a str, Option<u32>)>,
) -> Option<Interface> {
    let modes = on.modes.filter(|_| policy == Some(ChangePolicy::Boost))?;
    let cost = |(name, vcpu): (&str, Option<u32>)| {
        let service = on.services.iter().find(|service| service.name == name)?;
        service.agent.as_ref().filter(|_| vcpu.unwrap_or(0) == 0).map(|agent| agent.cost)
    };
    let budget = here.filter_map(cost).reduce(|a, b| a.checked_add(b).unwrap_or(a))?;
    let budget = budget.checked_mul(modes.at_once()).unwrap_or(budget);
    Some(Interface { budget, period: modes.changes.spacing })
}

/// To the servers of its core: it goes before them, whenever it comes, and not more often than once in its period.
pub(crate) fn hypothetical(boost: Interface) -> Server {
    Server { kind: ServerKind::Deferrable, budget: boost.budget, period: boost.period }
}
