//! Where services run now.

use giusto_model::{Bandwidth, Plan};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// The hosts and cores of a plan that is in force: services stay there where they can. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements(Arc<HashMap<String, Placement>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Placement {
    on: String,
    /// The largest first.
    servers: Vec<Placed>,
    /// Of leftovers, which have no server.
    floor: Bandwidth,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    vcpu: Option<u32>,
    core: u32,
    reserved: Bandwidth,
}

impl Placements {
    /// Those of `plan`. O(services).
    pub fn of(plan: &Plan) -> Self {
        let mut all: HashMap<String, Placement> = HashMap::new();
        for service in &plan.services {
            let new = || Placement { on: service.on.clone(), servers: Vec::new(), floor: Bandwidth::ZERO };
            let placement = all.entry(service.name.clone()).or_insert_with(new);
            let (vcpu, core, reserved) = (service.vcpu, service.core, service.server.bandwidth());
            placement.servers.push(Placed { vcpu, core, reserved });
        }
        for leftover in &plan.leftovers {
            let new = Placement { on: leftover.on.clone(), servers: Vec::new(), floor: leftover.at_least };
            all.insert(leftover.name.clone(), new);
        }
        all.values_mut().for_each(|placement| placement.servers.sort_by_key(|server| Reverse(server.reserved)));
        Placements(Arc::new(all))
    }

    /// The same where each server of a service has one of `cores` of a host, and `each` reserved there.
    pub(crate) fn with(&self, host: &str, service: &str, cores: &[u32], each: Bandwidth) -> Self {
        let server = |(at, &core): (u32, &u32)| Placed { vcpu: Some(at), core, reserved: each };
        let servers = (0..).zip(cores).map(server).collect();
        let placement = Placement { on: host.into(), servers, floor: Bandwidth::ZERO };
        let mut all: HashMap<String, Placement> = (*self.0).clone();
        all.insert(service.into(), placement);
        Placements(Arc::new(all))
    }

    /// The host of a service.
    pub(crate) fn host(&self, service: &str) -> Option<&str> {
        self.0.get(service).map(|placement| placement.on.as_str())
    }

    /// The cores of all servers of a service, of the largest first, if it is on this host.
    pub(crate) fn cores(&self, host: &str, service: &str) -> Vec<u32> {
        let placement = self.0.get(service).filter(|placement| placement.on == host);
        placement.map_or(Vec::new(), |placement| placement.servers.iter().map(|server| server.core).collect())
    }

    /// The core of a virtual CPU of a service, if it is on this host, and what it had reserved there.
    pub(crate) fn core(&self, host: &str, service: &str, vcpu: Option<u32>) -> Option<(u32, Bandwidth)> {
        let placement = self.0.get(service).filter(|placement| placement.on == host)?;
        let server = placement.servers.iter().find(|server| server.vcpu == vcpu)?;
        Some((server.core, server.reserved))
    }

    /// Whether servers of these bandwidths, the largest first, or a floor are no more than a service has now.
    pub(crate) fn covers(&self, service: &str, servers: &[Bandwidth], floor: Bandwidth) -> bool {
        self.0.get(service).is_some_and(|placement| {
            let each = servers.iter().zip(&placement.servers).all(|(own, server)| *own <= server.reserved);
            each && servers.len() <= placement.servers.len() && floor <= placement.floor
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The services of `plan` that are elsewhere than here, with both places in words: `'a' from h1, core 2, to h3, core 0`.
    /// Those that are new, and cores of leftovers, do not count. O(services).
    pub fn moved(&self, plan: &Plan) -> Vec<String> {
        let there = Placements::of(plan);
        let words = |name: &String| format!("'{name}' from {} to {}", self.0[name].words(), there.0[name].words());
        self.moves(&there).into_iter().map(words).collect()
    }

    /// The services that are elsewhere `there` than here, in alphabetical order.
    pub(crate) fn moves<'a>(&self, there: &'a Placements) -> Vec<&'a String> {
        let stays = |from: &Placement, to: &Placed| {
            let before = from.servers.iter().find(|before| before.vcpu == to.vcpu);
            before.is_none_or(|before| before.core == to.core)
        };
        let moved = there.0.iter().filter(|(name, to)| {
            self.0
                .get(*name)
                .is_some_and(|from| from.on != to.on || !to.servers.iter().all(|server| stays(from, server)))
        });
        let mut names: Vec<&String> = moved.map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }
}

impl Placement {
    fn words(&self) -> String {
        let cores: Vec<u32> = self.servers.iter().map(|server| server.core).collect();
        match cores.as_slice() {
            [] => self.on.clone(),
            [core] => format!("{}, core {core}", self.on),
            several => format!("{}, cores {}", self.on, crate::words::cores(several)),
        }
    }
}
