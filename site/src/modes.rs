//! `modes:` and `mode-changes:` of the site.

use crate::error::Fault;
use crate::fields::{Fields, Grammar};
use crate::suggest::{did_you_mean, shown};
use crate::tree::{Kind, Node, Text};
use crate::value::{choice, duration, name, parsed, scalar};
use giusto_model::{
    About, ChangePolicy, Duration, Listen, LocalNeed, MemberMode, ModeChanges, OnTimeout, Promise, Requests, Service,
    SiteMode, SiteModes, Transition, RUNNING, STOPPED,
};

pub(crate) const CHANGES: Grammar = Grammar {
    what: "mode changes",
    keys: &["policy", "transition", "requests", "on-timeout", "timeout", "spacing", "listen"],
    later: &[],
};
/// The key of a mode that is no service.
pub(crate) const WITHIN: &str = "within";
/// Likewise.
pub(crate) const URGENT: &str = "urgent";

const MODES: &str =
    "expected modes by their names, such as modes: {normal: {flight: cruise}, emergency: {flight: land, within: 5ms}}";
const LISTEN: &str =
    "expected where agents find the manager, such as listen: [unix:/run/giusto/modes, 'tcp:10.0.0.1:7400']";
const TIMEOUT: Duration = Duration::from_ms(50);
const SPACING: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Reads the modes of the site, if it has any, and puts its services into the first.
pub(crate) fn read(site: &Fields<'_>, services: &mut [Service]) -> Result<Option<SiteModes>, Fault> {
    let Some(node) = site.get("modes") else {
        site.forbid("mode-changes", "there are no modes to change", "expected 'modes' too, or leave it out")?;
        return match services.iter().find(|service| !service.modes.is_empty()) {
            Some(service) => Err(missing(site, service)),
            None => Ok(None),
        };
    };
    let entries = node.entries().ok_or_else(|| node.fault(format!("found {} here", node.form()), MODES))?;
    let mut modes = Vec::new();
    for (key, value) in entries {
        modes.push(mode(key, value, services, modes.is_empty())?);
    }
    let mut modes = complete(node, modes, services)?;
    for service in services.iter() {
        let asks = service.agent.iter().flat_map(|agent| &agent.asks);
        if let Some(unknown) = asks.into_iter().find(|name| !modes.iter().any(|mode| mode.name == **name)) {
            let found =
                format!("the agent of '{}' may ask for '{unknown}', which is not a mode of this site", service.name);
            let names: Vec<&str> = modes.iter().map(|mode| mode.name.as_str()).collect();
            return Err(node.fault(found, format!("expected there one of {}", names.join(", "))));
        }
    }
    let Some(first) = modes.first_mut() else { return Err(node.fault("there is no mode", MODES)) };
    for MemberMode { service, local } in &first.locals {
        services.iter_mut().filter(|one| one.name == *service).for_each(|one| begin(one, local));
    }
    let changes = site.get("mode-changes").map_or_else(|| Ok(usual()), changes)?;
    let slow = |service: &&Service| service.agent.as_ref().is_some_and(|agent| agent.cost > changes.timeout);
    if let Some(service) = services.iter().find(slow) {
        let at = site.get("mode-changes").unwrap_or(node);
        let found =
            format!("the agent of '{}' may work for longer than a timeout of {}", service.name, changes.timeout);
        return Err(at.fault(found, "expected a timeout above the cost of every agent"));
    }
    Ok(Some(SiteModes { changes, modes }))
}

/// A service has modes, and the site has none.
fn missing(site: &Fields<'_>, service: &Service) -> Fault {
    let local = service.modes.first().map_or(RUNNING, |mode| mode.name.as_str());
    let found = format!("service '{}' has modes, and it is not said when it is in which", service.name);
    let expected = format!("expected, for example, modes: {{normal: {{{}: {local}}}}}", service.name);
    Fault::new(site.place("services"), found, expected)
}

/// A mode with those that it names.
fn mode(key: &Text, value: &Node, services: &[Service], first: bool) -> Result<SiteMode, Fault> {
    let mode_name = name(key, "a mode")?;
    let entries = match &value.kind {
        Kind::Map(entries) => entries.as_slice(),
        // The same as before: no service is named.
        Kind::Empty if !first => &[],
        _ => return Err(value.fault(format!("found {} here", value.form()), MODES)),
    };
    let mut mode = SiteMode { name: mode_name, within: None, urgent: false, locals: Vec::new() };
    for (key, value) in entries {
        if key.text == WITHIN {
            mode.within = Some(above_nothing(value, HOUR)?);
            continue;
        }
        if key.text == URGENT {
            mode.urgent = urgent(value)?;
            continue;
        }
        let service = member(key, services)?;
        mode.locals.push(MemberMode { service: service.name.clone(), local: local(value, service)? });
    }
    Ok(mode)
}

/// The one key whose value is a yes or no.
fn urgent(value: &Node) -> Result<bool, Fault> {
    match &value.kind {
        Kind::Text(text) if text.text == "yes" => Ok(true),
        Kind::Text(text) if text.text == "no" => Ok(false),
        _ => {
            Err(value.fault("this is neither yes nor no", "expected urgent: yes, for a mode that waits for no spacing"))
        }
    }
}

/// A service that can do different things.
fn member<'a>(key: &Text, services: &'a [Service]) -> Result<&'a Service, Fault> {
    let able = |service: &&Service| !service.modes.is_empty() || service.promise.about() == About::Rest;
    match services.iter().find(|service| service.name == key.text) {
        Some(service) if able(&service) => Ok(service),
        Some(service) => {
            let expected = "expected a service with 'modes' or an 'agent', or one that is promised leftovers";
            Err(Fault::new(key.span, format!("service '{}' always does the same", service.name), expected))
        }
        None => {
            let names: Vec<&str> = services.iter().filter(able).map(|service| service.name.as_str()).collect();
            let all = names.iter().copied().chain([WITHIN, URGENT]);
            let expected = format!("expected one of {}", all.clone().collect::<Vec<_>>().join(", "));
            let found = format!("'{}' is not a service that can change its mode", shown(&key.text));
            Err(Fault::new(key.span, found, expected + &did_you_mean(&key.text, all)))
        }
    }
}

fn local(value: &Node, service: &Service) -> Result<String, Fault> {
    let own = service.modes.iter().map(|mode| mode.name.as_str());
    let names: Vec<&str> = match service.agent {
        Some(_) => own.chain([STOPPED]).collect(),
        None => vec![RUNNING, STOPPED],
    };
    let expected = format!("expected one of {}", names.join(", "));
    let text = &scalar(value, &expected)?.text;
    match names.contains(&text.as_str()) {
        true => Ok(text.clone()),
        false => {
            let found = format!("'{}' is not a mode of {}", shown(text), service.name);
            Err(value.fault(found, expected + &did_you_mean(text, names)))
        }
    }
}

/// The same members in all modes, in the order of the services: who is not named stays as in the first mode, where who
/// has modes is named, and all others run.
fn complete(node: &Node, modes: Vec<SiteMode>, services: &[Service]) -> Result<Vec<SiteMode>, Fault> {
    let named = |mode: &SiteMode, service: &Service| mode.locals.iter().any(|local| local.service == service.name);
    let members: Vec<&Service> = services
        .iter()
        .filter(|service| !service.modes.is_empty() || modes.iter().any(|mode| named(mode, service)))
        .collect();
    let Some(first) = modes.first().filter(|_| !members.is_empty()) else {
        return Err(node.fault("no mode says what any service does", MODES));
    };
    let runs = |service: &Service| service.modes.first().is_none_or(|mode| mode.name == RUNNING);
    if let Some(service) = members.iter().find(|service| !named(first, service) && !runs(service)) {
        let own: Vec<&str> = service.modes.iter().map(|mode| mode.name.as_str()).collect();
        let found = format!("the first mode, '{}', does not say what '{}' does", first.name, service.name);
        let expected = format!("expected there one of {}: the site begins in it", own.join(", "));
        let at = node.entries().and_then(|entries| entries.first()).map_or(node.span, |(key, _)| key.span);
        return Err(Fault::new(at, found, format!("{expected}, such as {}: {}", service.name, own[0])));
    }
    let of = |mode: &SiteMode, service: &Service| {
        let own = mode.locals.iter().find(|local| local.service == service.name);
        let own = own.or_else(|| first.locals.iter().find(|local| local.service == service.name));
        let local = own.map_or(RUNNING.to_string(), |local| local.local.clone());
        MemberMode { service: service.name.clone(), local }
    };
    let whole = |mode: &SiteMode| SiteMode {
        locals: members.iter().map(|service| of(mode, service)).collect(),
        ..mode.clone()
    };
    Ok(modes.iter().map(whole).collect())
}

/// Puts a service into the local mode in which it begins.
fn begin(service: &mut Service, local: &str) {
    let Some(mode) = service.modes.iter().find(|mode| mode.name == local) else { return };
    match (&mode.need, &mut service.promise) {
        (LocalNeed::Tasks { tasks, placed: own }, Promise::EveryDeadline { placed, .. }) => {
            service.tasks.clone_from(tasks);
            placed.clone_from(own);
        }
        (LocalNeed::Supply(own), Promise::Supply(interfaces)) => interfaces.clone_from(own),
        _ => {}
    }
}

fn usual() -> ModeChanges<Option<ChangePolicy>> {
    ModeChanges {
        policy: None,
        transition: Transition::Fast,
        requests: Requests::Reject,
        on_timeout: OnTimeout::RollBack,
        timeout: TIMEOUT,
        spacing: SPACING,
        listen: vec![Listen::usual()],
    }
}

fn changes(node: &Node) -> Result<ModeChanges<Option<ChangePolicy>>, Fault> {
    let fields = CHANGES.read(node, node.span)?;
    let usual = usual();
    Ok(ModeChanges {
        policy: fields.get("policy").map(|node| choice(node, "a policy", ChangePolicy::ALL)).transpose()?,
        transition: fields
            .get("transition")
            .map_or(Ok(usual.transition), |node| choice(node, "a transition", Transition::ALL))?,
        requests: fields
            .get("requests")
            .map_or(Ok(usual.requests), |node| choice(node, "what becomes of requests", Requests::ALL))?,
        on_timeout: fields
            .get("on-timeout")
            .map_or(Ok(usual.on_timeout), |node| choice(node, "what follows a timeout", OnTimeout::ALL))?,
        timeout: fields.get("timeout").map_or(Ok(usual.timeout), |node| above_nothing(node, MINUTE))?,
        spacing: fields.get("spacing").map_or(Ok(usual.spacing), |node| above_nothing(node, HOUR))?,
        listen: fields.get("listen").map_or(Ok(usual.listen), listen)?,
    })
}

fn listen(node: &Node) -> Result<Vec<Listen>, Fault> {
    let items = if let Kind::List(items) = &node.kind { items.as_slice() } else { std::slice::from_ref(node) };
    let mut found = Vec::new();
    for item in items {
        let place: Listen = parsed(item, LISTEN)?;
        if found.contains(&place) {
            return Err(item.fault(format!("'{place}' is named twice"), LISTEN));
        }
        found.push(place);
    }
    match found.is_empty() {
        true => Err(node.fault("agents would find no listener", LISTEN)),
        false => Ok(found),
    }
}

fn above_nothing(node: &Node, most: Duration) -> Result<Duration, Fault> {
    match duration(node)? {
        time if time.is_zero() || time > most => {
            Err(node.fault(format!("{time} is out of range"), format!("expected more than nothing and up to {most}")))
        }
        time => Ok(time),
    }
}
