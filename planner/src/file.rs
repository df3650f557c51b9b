//! plan.json.

use crate::error::Error;
use crate::promises;
use giusto_model::{LeftoverPlan, Plan, ServicePlan, PLAN_VERSION};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Reads a plan. Before it is enforced its promises are proven once more, and [`crate::differences`] tells whether
/// it fits the machine.
/// Checks that it is one that [`crate::plan`] can have made: its version, hosts with names of their own, services on these
/// hosts and on their cores, interfaces too, a core to each service that needs one alone, one backend a core, and 0 < budget ≤ period.
/// Errors name the file.
pub fn read(path: &Path) -> Result<Plan, Error> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|why| Error::Io { what: "read", path: name.clone(), why })?;
    parse(&text).map_err(|why| Error::Format { path: name, why })
}

/// Writes a plan. Errors name the file.
pub fn write(plan: &Plan, path: &Path) -> Result<(), Error> {
    let name = path.display().to_string();
    let text = text(plan).map_err(|e| Error::Format { path: name.clone(), why: e.to_string() })?;
    fs::write(path, text + "\n").map_err(|why| Error::Io { what: "write", path: name, why })
}

/// The reasons of services are two thirds of a file. Of more services than this, deadlines with all their proofs, they are not
/// written: [`with_reasons`] finds those of one again.
const TOLD: usize = 5_000;

/// A plan as a file has it: each field of a service, and each reason, has a line. That of more than 5,000 services is without
/// their reasons. O(plan).
pub fn text(plan: &Plan) -> Result<String, serde_json::Error> {
    if plan.services.len() + plan.leftovers.len() > TOLD {
        let services = plan.services.iter().map(|one| ServicePlan { reasons: Vec::new(), ..one.clone() }).collect();
        let leftovers = plan.leftovers.iter().map(|one| LeftoverPlan { reasons: Vec::new(), ..one.clone() }).collect();
        return lines(&Plan { services, leftovers, ..plan.clone() });
    }
    lines(plan)
}

/// Puts the reasons of the service `name` into a `plan` that was written without, from the same plan made `again`. `false`: it
/// is another plan, of that service. O(services).
pub fn with_reasons(plan: &mut Plan, again: &Plan, name: &str) -> bool {
    let bare = |one: &ServicePlan| ServicePlan { reasons: Vec::new(), prediction: None, ..one.clone() };
    let rest = |one: &LeftoverPlan| LeftoverPlan { reasons: Vec::new(), ..one.clone() };
    let services: Vec<&ServicePlan> = again.services.iter().filter(|one| one.name == name).collect();
    let leftovers: Vec<&LeftoverPlan> = again.leftovers.iter().filter(|one| one.name == name).collect();
    let own = plan.services.iter().filter(|one| one.name == name).map(bare);
    let left = plan.leftovers.iter().filter(|one| one.name == name).map(rest);
    if !own.eq(services.iter().map(|one| bare(one))) || !left.eq(leftovers.iter().map(|one| rest(one))) {
        return false;
    }
    let all = plan.services.iter_mut().filter(|one| one.name == name);
    all.zip(services).for_each(|(one, again)| one.reasons.clone_from(&again.reasons));
    let all = plan.leftovers.iter_mut().filter(|one| one.name == name);
    all.zip(leftovers).for_each(|(one, again)| one.reasons.clone_from(&again.reasons));
    true
}

fn lines(plan: &Plan) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    plan.serialize(&mut Serializer::with_formatter(&mut text, Lines::default()))?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}

/// Lines for what is inside of this many lists and objects at most; deeper ones are on one line. Pretty printing of all makes
/// the plan of 10,000 services a quarter larger.
const LINES: usize = 4;

/// How JSON is laid out.
#[derive(Default)]
struct Lines {
    depth: usize,
    /// Whether something is in the list or object that was begun last.
    filled: bool,
}

impl Lines {
    fn begin<W: Write + ?Sized>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        to.write_all(bracket)
    }

    fn next<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        match (first, self.depth <= LINES) {
            (true, true) => write!(to, "\n{:width$}", "", width = self.depth),
            (false, true) => write!(to, ",\n{:width$}", "", width = self.depth),
            (true, false) => Ok(()),
            (false, false) => to.write_all(b", "),
        }
    }

    fn end<W: Write + ?Sized>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled && self.depth < LINES {
            write!(to, "\n{:width$}", "", width = self.depth)?;
        }
        self.filled = true;
        to.write_all(bracket)
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.begin(to, b"[")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn end_array<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.end(to, b"]")
    }

    fn begin_object<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.begin(to, b"{")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn end_object<W: Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.end(to, b"}")
    }
}

fn parse(text: &str) -> Result<Plan, String> {
    // The version first: a newer plan has fields that this one would only call unknown.
    #[derive(Deserialize)]
    struct Version {
        giusto_plan: u64,
    }
    let Version { giusto_plan } = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if giusto_plan != u64::from(PLAN_VERSION) {
        return Err(format!("it has version {giusto_plan}, expected {PLAN_VERSION}"));
    }
    let plan: Plan = serde_json::from_str(text).map_err(|e| e.to_string())?;
    check(&plan)?;
    Ok(plan)
}

/// What the types do not say.
fn check(plan: &Plan) -> Result<(), String> {
    if plan.hosts.is_empty() {
        return Err("it is for no host".into());
    }
    let mut hosts = BTreeMap::new();
    for host in &plan.hosts {
        if hosts.insert(host.name.as_str(), host).is_some() {
            return Err(format!("host '{}' is there twice", host.name));
        }
        if let Some(core) = host.parked.iter().find(|&&core| core == 0 || !host.cores.contains(&core)) {
            return Err(format!(
                "host '{}': core {core} cannot be parked: it is core 0 or not one of its cores",
                host.name
            ));
        }
    }
    let host =
        |name: &str, on: &str| hosts.get(on).ok_or_else(|| format!("'{name}' is on '{on}', which is no host of it"));
    for leftover in &plan.leftovers {
        let cores = host(&leftover.name, &leftover.on)?.open_cores();
        if let Some(core) = leftover.cores.iter().find(|core| !cores.contains(core)) {
            return Err(format!("service '{}': core {core} is parked or not one of its host's cores", leftover.name));
        }
    }
    for network in &plan.network {
        if !hosts.contains_key(network.on.as_str()) {
            return Err(format!("packets of '{}', which is no host of it", network.on));
        }
        let uplinks = network.uplinks.iter().map(|one| (&one.uplink.name, one.core));
        let mut all = uplinks.chain(network.vifs.iter().map(|vif| (&vif.name, vif.core)));
        if let Some((name, core)) = all.find(|(_, core)| !network.cores.contains(core)) {
            return Err(format!("interface '{name}': core {core} is not one of its host's cores for packets"));
        }
    }
    let (mut homes, mut cores): (HashMap<&str, &str>, HashMap<_, Vec<&ServicePlan>>) = Default::default();
    for service in &plan.services {
        let (name, on, core, server) = (&service.name, &service.on, service.core, service.server);
        if server.budget.is_zero() || server.budget > server.period {
            return Err(format!("service '{name}': expected 0 < budget_ns ≤ period_ns"));
        }
        if !host(name, on)?.open_cores().contains(&core) {
            return Err(format!("service '{name}': core {core} is parked or not one of its host's cores"));
        }
        let alone = |service: &ServicePlan| promises::of(&service.promise).alone(service);
        let clash = |s: &&&ServicePlan| alone(s) || alone(service) || s.backend != service.backend;
        let home = homes.entry(name).or_insert(on);
        if home != on {
            return Err(format!("service '{name}' is on '{home}' and on '{on}'"));
        }
        let here = cores.entry((on.as_str(), core)).or_default();
        if let Some(other) = here.iter().find(clash) {
            return Err(format!("services '{}' and '{name}' cannot share core {core}", other.name));
        }
        here.push(service);
    }
    Ok(())
}
