//! Paths that share services, as the flows whose messages meet at their stages.

use super::broken::Broken;
use super::route::{self, Stage};
use giusto_model::{Duration, PathSource, PathStage, Plan, Steps};
use std::collections::HashMap;
use std::ops::Range;

/// A stage on the way of a flow.
#[derive(Clone)]
pub(super) struct Place {
    /// Its name; of an interface, with its host.
    pub(super) key: String,
    pub(super) stage: usize,
    pub(super) kind: Kind,
    /// Over the link to it, ns.
    pub(super) link: u128,
}

/// How messages meet there.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// They wait for each other.
    Queue,
    /// Some are dropped, and none takes longer than this, ns.
    Drops(u128),
    /// Each takes its time, as it was measured.
    Measured,
}

/// Branches side by side, mostly one.
pub(super) type Step = Vec<Vec<Place>>;

/// Messages that go one way.
pub(super) struct Flow {
    /// The path; of those that a topic brings, where they come in.
    pub(super) name: String,
    pub(super) route: Vec<Step>,
    /// Messages in a ns.
    pub(super) often: f64,
}

impl Flow {
    /// Where it comes into the net; `None` where that is a fork.
    pub(super) fn first(&self) -> Option<&str> {
        line(self.route.first()?).first().map(|place| place.key.as_str())
    }

    /// The way to a stage, without it, and the stage itself; `None` where it is not on the way.
    pub(super) fn before(&self, key: &str) -> Option<(Vec<Step>, Place)> {
        for (nth, step) in self.route.iter().enumerate() {
            for branch in step {
                let Some(place) = branch.iter().position(|place| place.key == key) else { continue };
                let mut way = self.route[..nth].to_vec();
                if place > 0 {
                    way.push(vec![branch[..place].to_vec()]);
                }
                return Some((way, branch[place].clone()));
            }
        }
        None
    }

    /// Whether it goes from the one stage right to the other; where branches meet it waits, and does not.
    pub(super) fn steps(&self, from: &str, to: &str) -> bool {
        let ends = |branch: &Vec<Place>| branch.last().is_some_and(|place| place.key == from);
        let begins = |branch: &Vec<Place>| branch.first().is_some_and(|place| place.key == to);
        let within = |branch: &Vec<Place>| branch.windows(2).any(|pair| pair[0].key == from && pair[1].key == to);
        let behind = |pair: &[Step]| pair[0].len() == 1 && pair[0].iter().any(ends) && pair[1].iter().any(begins);
        self.route.iter().flatten().any(within) || self.route.windows(2).any(behind)
    }

    /// Whether it goes through these stages, one right after the other: into a branch as well, but not out of one.
    pub(super) fn goes(&self, way: &[String]) -> bool {
        let mut straight: Vec<&str> = Vec::new();
        let is_in = |all: &[&str]| {
            (0..all.len()).any(|from| all[from..].starts_with(&way.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        for step in &self.route {
            let before = straight.clone();
            for branch in step {
                straight.clone_from(&before);
                straight.extend(branch.iter().map(|place| place.key.as_str()));
                if is_in(&straight) {
                    return true;
                }
            }
            if step.len() > 1 {
                straight.clear();
            }
        }
        false
    }
}

/// Of a step without branches; nothing of a fork.
fn line(step: &Step) -> &[Place] {
    match &step[..] {
        [only] => only,
        _ => &[],
    }
}

/// Of paths that share services: their flows in order, then those of others that come to topics, and all stages.
pub(super) fn all<'a>(plan: &'a Plan, group: &[usize]) -> Result<(Vec<Flow>, Vec<Stage<'a>>), Broken> {
    let (mut flows, mut stages, mut brought) = (Vec::new(), Vec::new(), Vec::new());
    let mut ways: HashMap<(String, String), Duration> = HashMap::new();
    for nth in group {
        let path = &plan.paths[*nth];
        let PathSource::Poisson(rate) = path.source else {
            return Err(Broken::new(
                format!("messages at random of path '{}'", path.name),
                "which shares services with others",
                path.source,
            ));
        };
        let (first, steps) = (stages.len(), Steps::of(&path.through));
        stages.extend(route::stages(plan, path)?);
        let place = |nth: usize| Place {
            key: key(&path.through[nth]),
            stage: first + nth,
            kind: match &path.through[nth] {
                PathStage::Interface(one) => Kind::Drops(one.bound.ns().into()),
                PathStage::Broker(_) | PathStage::Link(_) => Kind::Measured,
                PathStage::Service(_) | PathStage::Tokens(_) => Kind::Queue,
            },
            link: path.through[nth].link().unwrap_or_default().ns().into(),
        };
        // What goes the same way stays together, so it has to be one way.
        for (nth, stage) in path.through.iter().enumerate() {
            let link = stage.link().unwrap_or_default();
            // Where branches meet it is the longest of theirs.
            for before in Some(steps.before(nth)).filter(|before| before.len() == 1).into_iter().flatten() {
                let known = *ways.entry((key(&path.through[before]), key(stage))).or_insert(link);
                if known != link {
                    let way = format!("the same link for all paths from '{}' to '{stage}'", path.through[before]);
                    return Err(Broken::new(way, known, link));
                }
            }
            if let PathStage::Tokens(own) = stage {
                let others = own.others.map_or(0.0, |others| others.per_ns());
                brought.push((own.tokens_of.clone(), flows.len(), others + rate.per_ns()));
            }
        }
        let branch = |branch: &Range<usize>| branch.clone().map(place).collect::<Vec<Place>>();
        let route: Vec<Step> = steps.0.iter().map(|step| step.iter().map(branch).collect()).collect();
        flows.push(Flow { name: path.name.clone(), route, often: rate.per_ns() });
    }
    let mut seen: Vec<String> = Vec::new();
    for (topic, ..) in &brought {
        if seen.contains(topic) {
            continue;
        }
        seen.push(topic.clone());
        let by: Vec<&(String, usize, f64)> = brought.iter().filter(|one| one.0 == *topic).collect();
        let all = by.iter().map(|one| one.2).fold(0.0, f64::max);
        // What topics before have brought comes with the one path that goes over several.
        let own: f64 = by.iter().map(|one| flows[one.1].often).sum();
        let often = all - own;
        if often > all * 1e-12 {
            let key = format!("tokens of {topic}");
            let route = behind(&by.iter().map(|one| &flows[one.1]).collect::<Vec<_>>(), &key);
            flows.push(Flow { name: format!("others of {topic}"), route, often });
        }
    }
    Ok((flows, stages))
}

fn key(stage: &PathStage) -> String {
    match stage {
        PathStage::Interface(one) => format!("{stage} of {}", one.on),
        PathStage::Service(_) | PathStage::Tokens(_) | PathStage::Broker(_) | PathStage::Link(_) => stage.to_string(),
    }
}

/// From a stage on the way that all of these go, and where they part a copy each way.
fn behind(paths: &[&Flow], from: &str) -> Vec<Step> {
    let rest = |flow: &&Flow| {
        let mut all = flow.route.iter().flatten().flatten().cloned().collect::<Vec<Place>>();
        let begin = all.iter().position(|place| place.key == from).unwrap_or(all.len());
        all.split_off(begin)
    };
    let rests: Vec<Vec<Place>> = paths.iter().map(rest).collect();
    let mut route: Vec<Place> = Vec::new();
    for place in &rests[0] {
        if rests.iter().any(|rest| rest.get(route.len()).is_none_or(|other| other.key != place.key)) {
            break;
        }
        route.push(place.clone());
    }
    let mut tails: Vec<Vec<Place>> = Vec::new();
    for rest in &rests {
        let tail = &rest[route.len()..];
        let same = |other: &Vec<Place>| other.iter().map(|place| &place.key).eq(tail.iter().map(|place| &place.key));
        if !tail.is_empty() && !tails.iter().any(same) {
            tails.push(tail.to_vec());
        }
    }
    if tails.len() == 1 {
        route.append(&mut tails[0]);
    }
    let mut steps: Vec<Step> = route.into_iter().map(|place| vec![vec![place]]).collect();
    if tails.len() > 1 {
        steps.push(tails);
    }
    steps
}
