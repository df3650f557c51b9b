//! `hypervisor: xen`: hosts whose services are domains.

use crate::cores::cores;
use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::suggest::shown;
use crate::tree::Node;
use crate::value::{choice, parsed, text};
use giusto_model::{Adopt, Cap, Host, Interface, Origin, Promise, Service, Xen};

pub(crate) const DOM0: Grammar = Grammar { what: "dom0", keys: &["cores", "reserve"], later: &[] };
const EXAMPLE: &str = "dom0: {cores: 0, reserve: 2ms/10ms}";
/// Keys of a host that go with Linux only.
const LINUX: [&str; 2] = ["network", "unused"];
/// Keys of a service for which something of Linux has to act.
const FOREIGN: [&str; 8] = ["modes", "agent", "network", "criticality", "adapt", "observe", "at-least", "at-most"];

/// What is Xen's of a host with these cores; `None`: it runs Linux.
pub(crate) fn of_host(fields: &Fields<'_>, own: &[u32]) -> Result<Option<Xen>, Fault> {
    let Some(node) = fields.get("hypervisor") else {
        fields.forbid(
            "dom0",
            "'dom0' is the control domain of Xen",
            "expected hypervisor: xen as well, or leave it out",
        )?;
        return Ok(None);
    };
    choice(node, "a hypervisor that Giusto plans for", &["xen"])?;
    for key in LINUX {
        let found = format!("'{key}' on a host that runs Xen is not built yet");
        fields.forbid(key, &found, "leave it out")?;
    }
    let node = fields.need("dom0", EXAMPLE)?;
    let dom0 = DOM0.read(node, node.span)?;
    let at = dom0.need("cores", EXAMPLE)?;
    let cores = cores(at)?;
    if let Some(core) = cores.iter().find(|core| !own.contains(core)) {
        let expected = "expected some of the host's 'cores', one for each virtual CPU of dom0 (dom0_max_vcpus)";
        return Err(at.fault(format!("core {core} is none of this host's"), expected));
    }
    let reserve = dom0.need("reserve", EXAMPLE)?;
    let expected = "expected a budget in every period for each virtual CPU of dom0, such as 2ms/10ms";
    Ok(Some(Xen { dom0: cores, reserve: parsed::<Interface>(reserve, expected)? }))
}

/// The name of a domain.
pub(crate) fn domain(node: &Node) -> Result<String, Fault> {
    let expected = "expected the name of a domain, as 'xl list' shows it, such as flight-1";
    let name = text(node, expected)?;
    // xl takes a number for the one that a domain has until it ends.
    if name.chars().all(|c| c.is_ascii_digit()) && !name.is_empty() {
        return Err(node.fault(format!("'{name}' is a number, which another domain has the next time"), expected));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:+-".contains(c);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(allowed) {
        let expected = format!("{expected}: letters, digits and . _ : + - only");
        return Err(node.fault(format!("'{}' is not the name of a domain", shown(name)), expected));
    }
    if [Xen::DOM0, "0"].contains(&name) {
        return Err(
            node.fault("the control domain has its reservation by 'dom0' of its host", "expected another domain")
        );
    }
    Ok(name.to_string())
}

/// Whether a service is where it can be: domains on hosts that run Xen, and nothing else there.
pub(crate) fn check(fields: &Fields<'_>, origin: &Origin, on: Option<&str>, hosts: &[Host]) -> Result<(), Fault> {
    let is_domain = matches!(origin, Origin::Adopt(Adopt::Xen(_)));
    let host = match on {
        Some(name) => hosts.iter().find(|host| host.name == name),
        None => hosts.first().filter(|_| hosts.len() == 1),
    };
    let at = fields.place(if is_domain { "adopt" } else { "start" });
    match host {
        None if is_domain => Err(Fault::new(
            at,
            "it is not said on which host the domain runs",
            "expected its host as well, such as on: x1",
        )),
        None if hosts.iter().any(|host| host.xen.is_some()) => {
            let expected = "expected its host, such as on: edge-1: one that runs Linux";
            Err(Fault::new(at, "some of the hosts run Xen, where services are domains", expected))
        }
        Some(Host { name, xen: None, .. }) if is_domain => {
            let expected = format!("expected hypervisor: xen and {EXAMPLE} of this host, or another way to adopt");
            Err(Fault::new(at, format!("host '{name}' does not run Xen"), expected))
        }
        Some(Host { name, xen: Some(_), .. }) if !is_domain => {
            let expected = "expected adopt: {xen: NAME}, a domain as 'xl list' shows it";
            Err(Fault::new(at, format!("host '{name}' runs Xen, and its services are domains"), expected))
        }
        _ if is_domain => FOREIGN.into_iter().try_for_each(|key| {
            fields.forbid(key, &format!("'{key}' of Xen's domains is not built yet"), "leave it out")
        }),
        _ => Ok(()),
    }
}

/// Adds the control domain of each host that runs Xen to the services. Errors: another one has its name; two are one domain.
pub(crate) fn add_dom0(services: &mut Vec<Service>, hosts: &[Host], site: &Fields<'_>) -> Result<(), Fault> {
    for (nth, one) in services.iter().enumerate().filter(|(_, one)| matches!(one.origin, Origin::Adopt(Adopt::Xen(_))))
    {
        if let Some(other) = services[..nth].iter().find(|other| (&other.origin, &other.on) == (&one.origin, &one.on)) {
            let found = format!("'{}' and '{}' are the same domain", other.name, one.name);
            return Err(Fault::new(site.place("services"), found, "expected one service for each domain"));
        }
    }
    for own in hosts.iter().filter_map(dom0) {
        if services.iter().any(|service| service.name == own.name) {
            let found = format!("'{}' is the control domain of a host, which is a service as well", own.name);
            return Err(Fault::new(site.place("services"), found, "expected another name for the service"));
        }
        services.push(own);
    }
    Ok(())
}

/// The control domain of a host, as a service.
fn dom0(host: &Host) -> Option<Service> {
    let xen = host.xen.as_ref()?;
    let (origin, promise) =
        (Origin::Adopt(Adopt::Xen(Xen::DOM0.into())), Promise::Supply(vec![xen.reserve; xen.dom0.len()]));
    let on = Some(host.name.clone());
    Some(Service { on, cap: Cap::Soft, ..Service::plain(Xen::service(&host.name), origin, promise) })
}
