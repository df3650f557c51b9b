//! What is known of a machine.

use crate::placements::Placements;
use crate::refusal::Refusal;
use crate::words::{share, time};
use giusto_model::{Backend, Bandwidth, Duration, Host, Latency, ManagerLatency, Site, Xen};
use serde::{Deserialize, Serialize};

/// What a plan has to know about the machine; `compute` probes it. As JSON it goes to a planner elsewhere, by names of fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Which host of the site it is. `None`: the only one, or none of several.
    pub host: Option<String>,
    /// The kernel's tick: budgets of SCHED_DEADLINE are enforced no finer. 0 where a timer enforces them exactly.
    #[serde(rename = "tick_ns")]
    pub tick: Duration,
    /// `sched_deadline_period_max_us`.
    #[serde(rename = "deadline_period_max_ns")]
    pub deadline_period_max: Duration,
    /// `sched_deadline_period_min_us`.
    #[serde(rename = "deadline_period_min_ns")]
    pub deadline_period_min: Duration,
    /// What the kernel admits of a core.
    pub deadline_bandwidth_cap: Bandwidth,
    /// What the manager itself takes of each core that it manages.
    pub manager_cost: Bandwidth,
    /// What it takes for each period of a server, unless [`Facts::manager`] tells. All of that together may take what keep-free
    /// leaves, too.
    #[serde(rename = "period_cost_ns")]
    pub period_cost: Duration,
    /// Of each budget what a program may not see of it, on top of the tick's overrun: interrupts, and being stopped and let
    /// go on. Promises of deadlines do without it.
    #[serde(rename = "loss_ns")]
    pub loss: Duration,
    /// By how much a supply may come late, once in any window: timers, wake-ups, work of the kernel. Promises of deadlines
    /// wait for it.
    #[serde(rename = "lateness_ns")]
    pub lateness: Duration,
    /// The same two of servers under the manager, where they were measured here.
    pub manager: Option<ManagerLatency>,
    /// What `giusto measure latency` found of it, which comes on top of that; `None`: not measured.
    pub latency: Option<Latency>,
    /// Cores that are online, ascending.
    pub cores: Vec<u32>,
    /// Which mechanisms there are; one that is not listed is not there.
    pub backends: Vec<BackendFact>,
    /// Cores that the backend `deadline` cannot have for itself.
    pub held: Vec<Held>,
    /// The backend to use for all services with a reservation, if the caller insists on one.
    pub insist: Option<Backend>,
    /// Where services run now, if that is to be kept. Cores are; of hosts only where a plan is made of all of them, since
    /// machines that plan for themselves choose alike.
    #[serde(skip)]
    pub placed: Placements,
}

/// Whether this machine has a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendFact {
    /// Which.
    pub backend: Backend,
    /// Whether `giusto run` could use it now.
    pub available: bool,
    /// What is missing and how to get it; empty where it is available.
    pub why_not: String,
}

/// Cores that cannot all be had exclusively, as others keep them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// All of these.
    pub cores: Vec<u32>,
    /// Who keeps them, and what to do.
    pub why: String,
}

impl Facts {
    /// 24 to 48 us a period were missing on average under the manager, with a deviation of 13 to 29 us (measured on one
    /// virtual machine).
    pub const LOSS: Duration = Duration::from_us(100);
    /// In the worst of 7,200 periods 530 us were missing; jobs came up to 240 us late (measured on one virtual machine).
    pub const LATENESS: Duration = Duration::from_us(500);

    /// 22 to 45 us a period of servers at work were measured on two virtual machines, where waking up a thread that does nothing
    /// takes 13 to 21 us.
    pub const PERIOD_COST: Duration = Duration::from_us(45);

    /// What the host needs for one service at a change of mode: to send a command, to receive an answer and to change a
    /// reservation, each within 100 us most of the time [LiH21, § 2.5.3].
    pub const SIGNALLING: Duration = Duration::from_us(300);

    /// A stock Linux machine with these `cores`, for planning without one: 250 Hz, periods from 100 us to 4.194304 s,
    /// 95 % of a core, every backend but real-time groups.
    pub fn typical(cores: Vec<u32>) -> Self {
        let there = |backend: Backend| {
            let lacks = backend.abilities().beyond_stock;
            BackendFact { backend, available: lacks.is_none(), why_not: lacks.unwrap_or_default().into() }
        };
        Facts {
            host: None,
            tick: Duration::from_ms(4),
            deadline_period_max: Duration::from_us(4_194_304),
            deadline_period_min: Duration::from_us(100),
            deadline_bandwidth_cap: Bandwidth::new(19, 20).unwrap_or(Bandwidth::ONE),
            manager_cost: Facts::manager_cost(),
            period_cost: Facts::PERIOD_COST,
            loss: Facts::LOSS,
            lateness: Facts::LATENESS,
            manager: None,
            latency: None,
            cores,
            backends: Backend::ALL.map(there).to_vec(),
            held: Vec::new(),
            insist: None,
            placed: Placements::default(),
        }
    }

    /// A host that runs Xen: RTDS, and nothing that Linux has. The hypervisor admits whatever it is told.
    pub(crate) fn xen(cores: Vec<u32>) -> Self {
        let there = |backend: Backend| BackendFact {
            backend,
            available: backend == Backend::Rtds,
            why_not: "the host runs Xen, whose domains RTDS serves".into(),
        };
        Facts {
            tick: Duration::ZERO,
            deadline_bandwidth_cap: Bandwidth::ONE,
            backends: Backend::ALL.map(there).to_vec(),
            insist: Some(Backend::Rtds),
            ..Facts::typical(cores)
        }
    }

    /// 2 % of a core: 1.1 to 1.3 % were measured for three servers at a period of 10 ms, 2.5 % at 5 ms (docs/decisions/0005).
    pub fn manager_cost() -> Bandwidth {
        Bandwidth::new(1, 50).unwrap_or(Bandwidth::ZERO)
    }

    /// The place in `site` of the host that these facts are of. Errors: the site has no such host.
    pub(crate) fn place(&self, site: &Site) -> Result<Option<usize>, Refusal> {
        match &self.host {
            None => Ok((site.hosts.len() == 1).then_some(0)),
            Some(name) => index(site, name).map(Some),
        }
    }

    /// What is assumed of `host`, about which no facts were given: a stock machine; and that in words.
    pub(crate) fn assumed(&self, host: &Host) -> (Facts, String) {
        if let Some(xen) = &host.xen {
            let placed = self.placed.with(&host.name, &Xen::service(&host.name), &xen.dom0, xen.reserve.bandwidth());
            let words = "a hypervisor with RTDS, which admits any budget of whole microseconds from 10us on".into();
            return (
                Facts { insist: self.insist.or(Some(Backend::Rtds)), placed, ..Facts::xen(host.cores.clone()) },
                words,
            );
        }
        let stock = Facts { insist: self.insist, placed: self.placed.clone(), ..Facts::typical(host.cores.clone()) };
        let there: Vec<String> =
            stock.backends.iter().filter(|fact| fact.available).map(|fact| fact.backend.to_string()).collect();
        let words = format!(
            "a stock kernel: tick {}, SCHED_DEADLINE with periods from {} to {} and {} of a core, backends {}",
            time(stock.tick),
            time(stock.deadline_period_min),
            time(stock.deadline_period_max),
            share(stock.deadline_bandwidth_cap),
            there.join(", ")
        );
        (stock, words)
    }

    /// The same machine where `cores` cannot be had exclusively, so that it has no backend `deadline`; `None` where they can.
    pub(crate) fn without(&self, cores: &[u32]) -> Option<Facts> {
        let held = self.held.iter().find(|held| held.cores.iter().all(|core| cores.contains(core)))?;
        let mut facts = self.clone();
        for fact in facts.backends.iter_mut().filter(|fact| fact.backend.abilities().isolates && fact.available) {
            (fact.available, fact.why_not) = (false, held.why.clone());
        }
        Some(facts)
    }

    /// What `backend` lacks here; `None` where it is available.
    pub(crate) fn lacks(&self, backend: Backend) -> Option<&str> {
        match self.backends.iter().find(|fact| fact.backend == backend) {
            Some(fact) if fact.available => None,
            Some(fact) => Some(&fact.why_not),
            None => Some("no probe has looked for it"),
        }
    }
}

/// The place of the host `name` in `site`.
pub(crate) fn index(site: &Site, name: &str) -> Result<usize, Refusal> {
    site.hosts.iter().position(|host| host.name == name).ok_or_else(|| Refusal::Host {
        named: name.into(),
        known: site.hosts.iter().map(|host| host.name.clone()).collect(),
    })
}

/// What is known of a host, and what was assumed if it is not this machine.
pub(crate) fn known(site: &Site, facts: &Facts, here: Option<usize>, index: usize) -> (Facts, Option<String>) {
    if here == Some(index) && site.hosts[index].xen.is_none() {
        return (facts.clone(), None);
    }
    let (assumed, words) = facts.assumed(&site.hosts[index]);
    (assumed, Some(words))
}

/// Which of the hosts called `names` a machine is: the one that was `named`, whether there is one or not; else the one
/// with its `hostname`, up to the first dot; else the only one. `None`: none of several.
pub fn which_host(names: &[&str], named: Option<&str>, hostname: &str) -> Option<String> {
    let short = hostname.split('.').next().unwrap_or_default();
    let only = names.first().filter(|_| names.len() == 1);
    named.or_else(|| names.iter().find(|name| **name == short).or(only).copied()).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::Unused;

    #[test]
    fn a_machine_is_who_it_is_said_to_be_else_who_it_is_called_else_the_only_one() {
        let (one, two): (&[&str], &[&str]) = (&["a"], &["a", "b"]);
        for (names, named, hostname, expected) in [
            (one, None, "elsewhere", Some("a")),
            (one, Some("z"), "a", Some("z")), // is refused later, and not taken for another
            (two, None, "b", Some("b")),
            (two, None, "b.example.org", Some("b")),
            (two, Some("a"), "b", Some("a")),
            (two, None, "elsewhere", None),
            (two, None, "", None),
        ] {
            assert_eq!(which_host(names, named, hostname).as_deref(), expected, "{named:?} {hostname}");
        }
    }

    #[test]
    fn a_host_that_the_site_does_not_have_is_told_with_those_it_has() {
        let host = |name: &str| Host {
            name: name.into(),
            cores: vec![0],
            keep_free: Bandwidth::ZERO,
            network: None,
            unused: Unused::Leave,
            xen: None,
        };
        let hosts = vec![host("a"), host("b")];
        let two = Site {
            hosts,
            services: Vec::new(),
            topics: Vec::new(),
            coordination: None,
            paths: Default::default(),
            modes: None,
        };
        let told = index(&two, "z").unwrap_err().to_string();
        assert_eq!(told, "the site has no host 'z'; it has a, b");
    }
}
