//! `giusto place`: hosts that come and go, each planned by itself, and whether one service more fits there.
//!
//! For programs that place services on many machines, as schedulers of clusters do: they tell what each machine is and has, and
//! ask. A line of JSON is answered by a line of JSON, as formats/place.md says. Each answer is that of the plan of a site of this
//! one host with these services, in the order of their keys: what `giusto plan` decides, and no other mathematics.

use crate::plan::code;
use giusto_model::{Backend, Bandwidth, Host, Plan, Service, Site};
use giusto_planner::{admit, capacity, Facts, Kept, Refusal, Refused};
use serde::Deserialize;
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, HashMap};

/// So many answers are kept, of hosts in the same state.
const KEPT: usize = 200_000;
/// The cores of the machine that is assumed where no host is named.
const TYPICAL: &str = "0-63";
/// What hosts are called in their sites, of which each has one.
const HOST: &str = "node";

/// A service's keys as in a site file, without where it comes from.
type Keys = Map<String, Value>;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    Facts {
        backend: Option<Backend>,
    },
    Node {
        node: String,
        cores: String,
        #[serde(rename = "keep-free")]
        keep_free: Option<String>,
        facts: Box<Facts>,
    },
    Gone {
        node: String,
    },
    Put {
        node: String,
        name: String,
        keys: Keys,
        /// It runs there already: it counts, whether it would be admitted now or not.
        #[serde(default)]
        runs: bool,
    },
    Remove {
        node: String,
        name: String,
    },
    Fits {
        keys: Keys,
        nodes: Vec<String>,
        #[serde(default)]
        without: Vec<String>,
    },
    Why {
        node: String,
        name: String,
        keys: Keys,
    },
    Needs {
        name: String,
        keys: Keys,
    },
    Plan {
        node: String,
    },
}

/// Why a question has no answer.
enum No {
    Input(String),
    Refused(Box<Refusal>),
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        No::Refused(Box::new(refusal))
    }
}

/// What becomes of a host with certain services.
#[derive(Clone)]
enum Verdict {
    /// What is left of it, in thousandths of a core.
    Fits(u64),
    /// Why not. Services are called as in [`Places::site`].
    No(String),
}

/// A host: which of the classes it is of, and what its services ask, by their names.
struct Node {
    class: usize,
    services: BTreeMap<String, usize>,
}

/// Hosts that are alike.
struct Class {
    host: Host,
    facts: Facts,
    /// In thousandths of a core.
    capacity: u64,
    kept: Kept,
}

/// The hosts, and what was found of them.
pub struct Places<'a> {
    /// What this machine is.
    machine: &'a dyn Fn() -> Facts,
    nodes: BTreeMap<String, Node>,
    classes: Vec<Class>,
    /// What services ask: their keys as text, and as they were read.
    asked: Vec<(String, Service)>,
    numbers: HashMap<String, usize>,
    /// By class and what is asked there, in the order of the keys.
    verdicts: HashMap<(usize, Vec<usize>), Verdict>,
}

impl<'a> Places<'a> {
    /// Without hosts; `machine` probes the one that this runs on.
    pub fn new(machine: &'a dyn Fn() -> Facts) -> Self {
        let (nodes, classes, asked) = (BTreeMap::new(), Vec::new(), Vec::new());
        Places { machine, nodes, classes, asked, numbers: HashMap::new(), verdicts: HashMap::new() }
    }

    /// Answers a line. O(hosts · plan of a host) for hosts in states that were not asked for before, else O(hosts).
    pub fn answer(&mut self, line: &str) -> String {
        let request = serde_json::from_str(line).map_err(|why| No::Input(why.to_string()));
        let answer = request.and_then(|request| self.to(request)).unwrap_or_else(|no| match no {
            No::Input(reason) => json!({"giusto": 1, "error": {"exit": 2, "reason": reason}}),
            No::Refused(refusal) => {
                let exit = code(&refusal);
                json!({"giusto": 1, "refused": Refused::new(&refusal, None, exit)})
            }
        });
        answer.to_string()
    }

    fn to(&mut self, request: Request) -> Result<Value, No> {
        Ok(match request {
            Request::Facts { backend } => {
                let facts = Facts { insist: backend, ..(self.machine)() };
                json!({"giusto": 1, "facts": facts})
            }
            Request::Node { node, cores, keep_free, facts } => {
                let capacity = self.node(node, &cores, keep_free.as_deref(), *facts)?;
                json!({"giusto": 1, "thousandths": capacity})
            }
            Request::Gone { node } => {
                self.nodes.remove(&node);
                json!({"giusto": 1})
            }
            Request::Put { node, name, keys, runs: true } => {
                let number = self.number(&keys)?;
                let own = self.nodes.get_mut(&node).ok_or_else(|| unknown(&node))?;
                own.services.insert(name, number);
                json!({"giusto": 1})
            }
            Request::Put { node, name, keys, runs: false } => self.put(&node, &name, &keys)?,
            Request::Remove { node, name } => {
                self.nodes.get_mut(&node).map(|own| own.services.remove(&name));
                json!({"giusto": 1})
            }
            Request::Fits { keys, nodes, without } => self.fits(&keys, &nodes, &without)?,
            Request::Why { node, name, keys } => {
                let number = self.number(&keys)?;
                let mut services = self.known(&node)?.services.clone();
                services.insert(name, number);
                giusto_planner::plan(&self.named(&node, &services)?, &self.class(&node)?.facts)?;
                json!({"giusto": 1, "refused": null})
            }
            Request::Needs { name, keys } => {
                let site = read(TYPICAL, None, &[(&name, &keys)])?;
                let plan = giusto_planner::plan(&site, &Facts::typical(site.hosts[0].cores.clone()))?;
                json!({"giusto": 1, "thousandths": reserved(&plan)})
            }
            Request::Plan { node } => {
                let services = self.known(&node)?.services.clone();
                let site = self.named(&node, &services)?;
                let class = self.class(&node)?;
                let planned = admit(&site, &class.facts, &Kept::default())?.services;
                json!({"giusto": 1, "thousandths": class.capacity, "services": planned})
            }
        })
    }

    fn known(&self, node: &str) -> Result<&Node, No> {
        self.nodes.get(node).ok_or_else(|| unknown(node))
    }

    fn class(&self, node: &str) -> Result<&Class, No> {
        Ok(&self.classes[self.known(node)?.class])
    }

    /// Tells a host, or what it is from now on: its services stay.
    fn node(&mut self, node: String, cores: &str, keep_free: Option<&str>, facts: Facts) -> Result<u64, No> {
        let host = read(cores, keep_free, &[("any", &leftovers())])?.hosts.remove(0);
        let alike = |class: &Class| class.host == host && class.facts == facts;
        let class = self.classes.iter().position(alike).unwrap_or_else(|| {
            let capacity = most(&host, &facts);
            self.classes.push(Class { host, facts, capacity, kept: Kept::default() });
            self.classes.len() - 1
        });
        self.nodes.entry(node).or_insert_with(|| Node { class, services: BTreeMap::new() }).class = class;
        Ok(self.classes[class].capacity)
    }

    /// What is asked by these keys, which are read once.
    fn number(&mut self, keys: &Keys) -> Result<usize, No> {
        let text = Value::from(keys.clone()).to_string();
        if let Some(&number) = self.numbers.get(&text) {
            return Ok(number);
        }
        let service = read("0", None, &[("any", keys)])?.services.remove(0);
        self.numbers.insert(text.clone(), self.asked.len());
        self.asked.push((text, service));
        Ok(self.asked.len() - 1)
    }

    fn put(&mut self, node: &str, name: &str, keys: &Keys) -> Result<Value, No> {
        let number = self.number(keys)?;
        let own = self.known(node)?;
        let others = own.services.iter().filter(|(own, _)| *own != name).map(|(_, &number)| number);
        let verdict = self.verdict(own.class, others.chain([number]).collect());
        Ok(match verdict {
            Verdict::Fits(left) => {
                self.nodes.get_mut(node).map(|own| own.services.insert(name.into(), number));
                json!({"giusto": 1, "left": left})
            }
            Verdict::No(_) => {
                let mut services = self.known(node)?.services.clone();
                services.insert(name.into(), number);
                // The same with the names of services. What would fit takes many plans, and is asked for with "why".
                let planned = admit(&self.named(node, &services)?, &self.class(node)?.facts, &Kept::default());
                let refused = planned.err().map(|refusal| {
                    let mut refused = Refused::new(&refusal, None, code(&refusal));
                    if let (Some(service), Some(cause)) = (&refused.service, &refused.cause) {
                        refused.text = format!("service '{service}' does not fit: {cause}");
                    }
                    refused
                });
                json!({"giusto": 1, "refused": refused})
            }
        })
    }

    fn fits(&mut self, keys: &Keys, nodes: &[String], without: &[String]) -> Result<Value, No> {
        let number = self.number(keys)?;
        let (mut left, mut refused) = (Map::new(), Map::new());
        for node in nodes {
            let Some(own) = self.nodes.get(node) else {
                refused.insert(node.clone(), "no agent of giusto has told what it is".into());
                continue;
            };
            let (class, names): (usize, Vec<&String>) =
                (own.class, own.services.keys().filter(|name| !without.contains(name)).collect());
            let numbers: Vec<usize> = names.iter().map(|name| own.services[*name]).chain([number]).collect();
            match self.verdict(class, numbers) {
                Verdict::Fits(rest) => left.insert(node.clone(), rest.into()),
                Verdict::No(why) => refused.insert(node.clone(), why.into()),
            };
        }
        Ok(json!({"giusto": 1, "left": left, "refused": refused}))
    }

    /// Whether hosts of a class take services that ask for this.
    fn verdict(&mut self, class: usize, mut numbers: Vec<usize>) -> Verdict {
        numbers.sort_by(|one, other| self.asked[*one].0.cmp(&self.asked[*other].0));
        let key = (class, numbers);
        if let Some(verdict) = self.verdicts.get(&key) {
            return verdict.clone();
        }
        let of = &self.classes[class];
        let site = self.site(class, &key.1);
        let verdict = match admit(&site, &of.facts, &of.kept) {
            Ok(plan) => Verdict::Fits(of.capacity.saturating_sub(reserved(&plan))),
            Err(refusal) => {
                let refused = Refused::new(&refusal, None, code(&refusal));
                Verdict::No(refused.cause.unwrap_or(refused.text))
            }
        };
        if self.verdicts.len() >= KEPT {
            self.verdicts.clear();
        }
        self.verdicts.insert(key, verdict.clone());
        verdict
    }

    /// A site of a host of `class`. Services that ask the same have the same names in all sites, so that what they need is found
    /// once.
    fn site(&self, class: usize, numbers: &[usize]) -> Site {
        let mut copies: HashMap<usize, usize> = HashMap::new();
        let mut service = |&number: &usize| {
            let copy = copies.entry(number).or_default();
            *copy += 1;
            Service { name: format!("like-{number}-{copy}"), ..self.asked[number].1.clone() }
        };
        of(self.classes[class].host.clone(), numbers.iter().map(&mut service).collect())
    }

    /// The same with the names that they have, of a host.
    fn named(&self, node: &str, services: &BTreeMap<String, usize>) -> Result<Site, No> {
        let mut all: Vec<(&String, &usize)> = services.iter().collect();
        all.sort_by(|one, other| self.asked[*one.1].0.cmp(&self.asked[*other.1].0));
        let service =
            |(name, number): (&String, &usize)| Service { name: name.clone(), ..self.asked[*number].1.clone() };
        Ok(of(self.class(node)?.host.clone(), all.into_iter().map(service).collect()))
    }
}

fn unknown(node: &str) -> No {
    No::Input(format!("there is no host '{node}'; tell it with \"do\":\"node\""))
}

fn of(host: Host, services: Vec<Service>) -> Site {
    let hosts = vec![host];
    Site { hosts, services, topics: Vec::new(), coordination: None, paths: Default::default(), modes: None }
}

/// Reads a site of one host, whose services are adopted.
fn read(cores: &str, keep_free: Option<&str>, services: &[(&str, &Keys)]) -> Result<Site, No> {
    let mut host = Map::from_iter([("cores".to_string(), json!(cores))]);
    host.extend(keep_free.map(|share| ("keep-free".to_string(), json!(share))));
    let mut all = Map::new();
    for (name, keys) in services {
        if let Some(key) =
            ["start", "adopt", "on", "network", "modes", "agent"].iter().find(|key| keys.contains_key(**key))
        {
            return Err(No::Input(format!("'{key}' is not a key of a service that is placed")));
        }
        // A planner may have rights that those who ask have not: it reads no file and asks no address for them.
        if let Some(key) =
            ["execution", "arrivals", "observe"].iter().find(|key| keys.get(**key).is_some_and(reaches_out))
        {
            return Err(No::Input(format!("'{key}' of a service that is placed names no file and no address")));
        }
        let mut keys = (*keys).clone();
        keys.insert("adopt".into(), json!({"cgroup": "any"}));
        all.insert((*name).into(), keys.into());
    }
    let site = json!({"giusto": 1, "hosts": {HOST: host}, "services": all});
    giusto_site::parse("place", &site.to_string()).map_err(|why| No::Input(told(&why.to_string())))
}

/// Whether a value has a key that stands for a file, or for an address that is asked or listened at.
fn reaches_out(value: &Value) -> bool {
    match value {
        Value::Object(all) => all.iter().any(|(key, value)| {
            ["histogram", "trace", "measured", "reported"].contains(&key.as_str()) || reaches_out(value)
        }),
        Value::Array(all) => all.iter().any(reaches_out),
        _ => false,
    }
}

/// What is wrong, without the place in a text that was not written by people.
fn told(why: &str) -> String {
    let first = why.lines().next().unwrap_or_default();
    let rest = why.lines().skip(1).filter(|line| line.trim_start().starts_with("expected"));
    let first = first.splitn(4, ':').last().unwrap_or(first).trim();
    [first].into_iter().chain(rest.map(str::trim)).collect::<Vec<_>>().join("; ")
}

fn leftovers() -> Keys {
    Map::from_iter([("promise".to_string(), json!("leftovers"))])
}

/// In thousandths of a core, rounded up.
fn thousandths(share: Bandwidth) -> u64 {
    (u128::from(share.numer()) * 1000).div_ceil(u128::from(share.denom())) as u64
}

/// What the services of a plan have reserved, in thousandths of a core: each rounded up.
fn reserved(plan: &Plan) -> u64 {
    let servers: u64 = plan.services.iter().map(|one| thousandths(one.server.bandwidth())).sum();
    servers + plan.leftovers.iter().map(|one| thousandths(one.at_least)).sum::<u64>()
}

/// What reservations may take of a host, in thousandths of a core, whichever backend keeps them: each core rounded down.
fn most(host: &Host, facts: &Facts) -> u64 {
    let there =
        facts.backends.iter().filter(|fact| fact.available && facts.insist.is_none_or(|own| own == fact.backend));
    let each = there.map(|fact| {
        let (most, _) = capacity(host.keep_free, facts, fact.backend);
        u128::from(most.numer()) * 1000 / u128::from(most.denom())
    });
    each.min().unwrap_or(0) as u64 * host.cores.len() as u64
}
