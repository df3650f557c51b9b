//! `despite:` of a path's promise: failures that it bears.

use crate::error::Fault;
use crate::fields::Grammar;
use crate::suggest::shown;
use crate::tree::{Kind, Node};
use crate::value::{duration, scalar};
use giusto_model::{Despite, Duration, Fails, Restart, Service, Through, Topic};

pub(crate) const DESPITE: Grammar =
    Grammar { what: "a failure that a path bears", keys: &["service", "topic", "gap"], later: &[] };

const EXPECTED: &str =
    "expected what may fail: leader, that of the ensemble, or a service or topic of the path and how long it \
                        stands still then, such as {service: camera, gap: 300ms}, or a list of these";
const GAP: &str = "gap: 300ms";

/// What else is known of the path, and the site.
pub(crate) struct Known<'a> {
    pub(crate) through: &'a [Through],
    pub(crate) services: &'a [Service],
    pub(crate) topics: &'a [Topic],
    pub(crate) has_ensemble: bool,
}

/// One of them, or a list of several, each once.
pub(crate) fn read(node: &Node, known: &Known) -> Result<Vec<Despite>, Fault> {
    let items = match &node.kind {
        Kind::List(items) if items.is_empty() => return Err(node.fault("nothing fails", EXPECTED)),
        Kind::List(items) => items.iter().collect(),
        _ => vec![node],
    };
    let mut found: Vec<Despite> = Vec::new();
    for item in items {
        let one = one(item, known)?;
        if found.iter().any(|other| other.fails == one.fails) {
            return Err(item
                .fault(format!("{} is written twice", one.fails), "expected each once: one of them fails at a time"));
        }
        found.push(one);
    }
    Ok(found)
}

fn one(node: &Node, known: &Known) -> Result<Despite, Fault> {
    if node.entries().is_none() {
        return match scalar(node, EXPECTED)?.text.as_str() {
            "leader" if known.has_ensemble => Ok(Despite { fails: Fails::Leader, gap: None }),
            "leader" => Err(node.fault(
                "the site has no ensemble, so it is not known how soon another one leads",
                "expected coordination: {servers: [...], promise: {recovery: 200ms}} in the site, or a service or topic that \
                 fails",
            )),
            other => Err(node.fault(format!("'{}' is not a failure", shown(other)), EXPECTED)),
        };
    }
    let fields = DESPITE.read(node, node.span)?;
    let (fails, at) = match fields.one_of(&["service", "topic"], EXPECTED)? {
        ("service", node) => (Fails::Service(scalar(node, EXPECTED)?.text.clone()), node),
        (_, node) => (Fails::Topic(scalar(node, EXPECTED)?.text.clone()), node),
    };
    on_path(at, &fails, known)?;
    let gap = fields.need("gap", GAP)?;
    match duration(gap)? {
        Duration::ZERO => {
            Err(gap.fault("what fails stands still for some time", format!("expected more, such as {GAP}")))
        }
        time => Ok(Despite { fails, gap: Some(time) }),
    }
}

/// It is a stage of the path, and comes back.
fn on_path(node: &Node, fails: &Fails, known: &Known) -> Result<(), Fault> {
    fn has(through: &[Through], fails: &Fails) -> bool {
        through.iter().any(|one| match (one, fails) {
            (Through::Service(name), Fails::Service(failing)) => name == failing,
            (Through::Topic(name), Fails::Topic(failing)) => name == failing,
            (Through::All(branches), _) => branches.iter().any(|branch| has(branch, fails)),
            _ => false,
        })
    }
    if !has(known.through, fails) {
        return Err(node.fault(format!("the path does not go through '{}'", scalar(node, EXPECTED)?.text), EXPECTED));
    }
    // Its bucket is empty then, and it stands still itself: what both cost together is not planned.
    let broker = known.topics.iter().find(|topic| match (fails, &topic.service) {
        (Fails::Topic(name), Some(_)) => topic.name == *name,
        (Fails::Service(name), Some(service)) => service == name,
        _ => false,
    });
    if let Some(Topic { name, .. }) = broker {
        return Err(node.fault(
            format!(
                "what a failure of topic '{name}' costs is not planned for a broker that is a service of the paths"
            ),
            "expected 'measured' instead of 'service' of that topic, and despite: {topic: ..., gap: ...}",
        ));
    }
    let Fails::Service(name) = fails else { return Ok(()) };
    let own = known.services.iter().find(|service| service.name == *name);
    match own.filter(|own| own.process.essential || own.process.restart == Restart::Never) {
        None => Ok(()),
        Some(_) => Err(node.fault(
            format!("'{name}' is not started again when it has ended"),
            "expected restart: always, or on-failure, of that service",
        )),
    }
}
