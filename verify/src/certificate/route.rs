//! What a path counts on at each of its stages, and that the rest of the plan gives it.

use super::broken::Broken;
use super::interface;
use giusto_model::{
    BrokerStage, Certificate, Duration, InterfaceStage, LinkStage, PathPlan, PathStage, Plan, Promise, ServicePlan,
    ServiceStage, ServiceTime, Steps, TokensStage, TopicLimit, TopicPlan,
};

/// What is counted on at a stage.
pub(super) enum Stage<'a> {
    Service(Server<'a>),
    Tokens(&'a TokensStage),
    Broker(&'a BrokerStage),
    Interface(&'a InterfaceStage),
    Link(&'a LinkStage),
    /// It is on a host that the plan is not for.
    Elsewhere,
}

impl Stage<'_> {
    /// Of a service.
    pub(super) fn server(&self) -> Option<&Server<'_>> {
        match self {
            Stage::Service(server) => Some(server),
            Stage::Tokens(_) | Stage::Broker(_) | Stage::Interface(_) | Stage::Link(_) | Stage::Elsewhere => None,
        }
    }
}

/// What is counted on of a service's budget.
pub(super) struct Server<'a> {
    pub(super) period: u64,
    pub(super) budget: u64,
    pub(super) latency: u64,
    pub(super) service: &'a ServiceTime,
}

impl<'a> Server<'a> {
    fn of(entry: &'a ServicePlan) -> Result<Self, Broken> {
        let (Promise::Stage { service, .. }, Certificate::Stage { budget, latency }) =
            (&entry.promise, &entry.certificate)
        else {
            return Err(Broken::new("a service without a promise of its own", "a stage", &entry.promise));
        };
        let some = service.bound().iter().all(|(time, p)| !time.is_zero() && *p > 0.0);
        if !some || service.longest().is_zero() {
            return Err(Broken::new("messages that take time", "some", "none"));
        }
        Ok(Server { period: entry.server.period.ns(), budget: budget.ns(), latency: latency.ns(), service })
    }
}

/// All stages of `path`, in order.
pub(super) fn stages<'a>(plan: &'a Plan, path: &'a PathPlan) -> Result<Vec<Stage<'a>>, Broken> {
    let steps = Steps::of(&path.through);
    let mut stages = Vec::new();
    for (nth, stage) in path.through.iter().enumerate() {
        let before: Vec<&str> = steps.before(nth).into_iter().map(|nth| path.through[nth].on()).collect();
        let is_linked = stage.link().is_some() || matches!(stage, PathStage::Link(_));
        if before.iter().any(|before| *before != stage.on()) != is_linked {
            return Err(Broken::new(
                format!("a link to '{stage}' where its host is another"),
                stage.on(),
                if before.is_empty() { "the first stage".into() } else { before.join(", ") },
            ));
        }
        if path.through[..nth].iter().any(|other| is_same(other, stage)) {
            return Err(Broken::new("each service and topic once", 1, stage));
        }
        topic_of_several(plan, path, nth)?;
        let here = plan.hosts.iter().any(|host| host.name == stage.on());
        let next = path.through.get(nth + 1);
        let at_broker = path.through[nth + 1..].iter().find(|one| !matches!(one, PathStage::Interface(_)));
        stages.push(match stage {
            PathStage::Service(stage) => service(plan, stage, here)?,
            PathStage::Tokens(stage) => tokens(plan, (path, nth), stage, (here, at_broker))?,
            PathStage::Broker(stage) => {
                let before = nth.checked_sub(1).map(|nth| &path.through[nth]);
                if !matches!(before, Some(PathStage::Tokens(one)) if one.tokens_of == stage.broker_of) {
                    return Err(Broken::new(
                        format!("the bucket of '{}' before its broker", stage.broker_of),
                        1,
                        "none",
                    ));
                }
                broker(plan, stage, here)?
            }
            PathStage::Link(stage) => {
                one_way(path, nth, &steps)?;
                link(stage, &before, next).map(|()| Stage::Link(stage))?
            }
            PathStage::Interface(stage) => match here {
                true => interface::of(plan, (path, nth), stage).map(|()| Stage::Interface(stage))?,
                false => Stage::Elsewhere,
            },
        });
    }
    interface::all(plan, path, &steps)?;
    forks(path, &steps)?;
    Ok(stages)
}

/// A channel of a topic gets all of its messages, so those of several paths go on to one service; and what goes on from there to
/// another topic is not known.
fn topic_of_several(plan: &Plan, path: &PathPlan, nth: usize) -> Result<(), Broken> {
    let PathStage::Tokens(own) = &path.through[nth] else { return Ok(()) };
    let next = |path: &PathPlan| -> Option<String> {
        let is_topic = |stage: &&PathStage| matches!(stage, PathStage::Tokens(_));
        let place = path
            .through
            .iter()
            .position(|stage| matches!(stage, PathStage::Tokens(one) if one.tokens_of == own.tokens_of))?;
        let broker =
            plan.topics.iter().find(|topic| topic.name == own.tokens_of).and_then(|topic| topic.service.as_deref());
        let behind = |stage: &&PathStage| stage.service().is_some_and(|name| Some(name) != broker);
        let behind = path.through[place..].iter().find(behind)?;
        let alone = path.through.iter().filter(is_topic).count() == 1 && behind.branch().is_none();
        behind.service().filter(|_| alone).map(str::to_string)
    };
    let through = |other: &&PathPlan| {
        let is_it = |stage: &PathStage| matches!(stage, PathStage::Tokens(one) if one.tokens_of == own.tokens_of);
        other.name != path.name && other.through.iter().any(is_it)
    };
    let other = plan.paths.iter().filter(through).find(|other| next(path).is_none() || next(other) != next(path));
    match other {
        None => Ok(()),
        Some(other) => Err(Broken::new(
            format!("one service behind topic '{}' for all paths through it", own.tokens_of),
            next(path).unwrap_or("one".into()),
            format!("another for '{}'", other.name),
        )),
    }
}

/// Branches go on from 1, and no messages of others are on them.
fn forks(path: &PathPlan, steps: &Steps) -> Result<(), Broken> {
    let mut others = false;
    for step in &steps.0 {
        let told: Vec<Option<u32>> = step.iter().map(|branch| path.through[branch.start].branch()).collect();
        let numbered = told.iter().zip(1..).all(|(told, number)| *told == Some(number));
        if told.iter().any(Option::is_some) && (told.len() < 2 || !numbered || others) {
            let name = &path.through[step[0].start];
            return Err(Broken::new(
                format!("two branches or more from '{name}' on, numbered, of the path's messages alone"),
                "1, 2, ...",
                told.iter().flatten().map(u32::to_string).collect::<Vec<_>>().join(", "),
            ));
        }
        let brought = |nth: usize| matches!(&path.through[nth], PathStage::Tokens(one) if one.others.is_some());
        others |= step.iter().cloned().flatten().any(brought);
    }
    Ok(())
}

fn is_same(one: &PathStage, other: &PathStage) -> bool {
    match (one, other) {
        (PathStage::Service(one), PathStage::Service(other)) => one.service == other.service,
        (PathStage::Tokens(one), PathStage::Tokens(other)) => one.tokens_of == other.tokens_of,
        (PathStage::Broker(one), PathStage::Broker(other)) => one.broker_of == other.broker_of,
        (PathStage::Interface(one), PathStage::Interface(other)) => {
            (&one.on, &one.interface, one.way) == (&other.on, &other.interface, other.way)
        }
        _ => false,
    }
}

/// One copy of each message goes over a link with a law.
fn one_way(path: &PathPlan, nth: usize, steps: &Steps) -> Result<(), Broken> {
    let (before, after) = (steps.before(nth), steps.after(nth));
    let beside = before.iter().chain(&after).any(|other| path.through[*other].branch().is_some());
    match before.len() == 1 && after.len() <= 1 && !beside {
        true => Ok(()),
        false => {
            Err(Broken::new(format!("no fork beside '{}'", path.through[nth]), "one stage on both sides", "branches"))
        }
    }
}

/// A link is between two hosts, and what was measured of it makes sense.
fn link(stage: &LinkStage, before: &[&str], next: Option<&PathStage>) -> Result<(), Broken> {
    let name = format!("the link to '{}'", stage.on);
    if before != [stage.link_from.as_str()] || next.is_none_or(|next| next.on() != stage.on) {
        return Err(Broken::new(
            format!("{name} between stages on both of its hosts"),
            &stage.link_from,
            before.join(", "),
        ));
    }
    let times: Vec<Duration> = stage.latency.iter().map(|point| point.within).chain([stage.worst]).collect();
    let longer = !times[0].is_zero() && times.windows(2).all(|pair| pair[0] < pair[1]);
    let more = stage.latency.windows(2).all(|pair| pair[0].percentile < pair[1].percentile);
    match longer && more {
        true => Ok(()),
        false => {
            Err(Broken::new(format!("percentiles of {name} that ascend up to the longest time"), "ascending", "other"))
        }
    }
}

fn service<'a>(plan: &'a Plan, stage: &ServiceStage, here: bool) -> Result<Stage<'a>, Broken> {
    let own = plan.services.iter().find(|entry| entry.name == stage.service);
    if own.is_none() == here || own.is_some_and(|entry| entry.on != stage.on) {
        let found = own.map_or("none", |entry| entry.on.as_str());
        return Err(Broken::new(format!("the service of its stage '{}', there", stage.service), &stage.on, found));
    }
    let Some(entry) = own else { return Ok(Stage::Elsewhere) };
    Server::of(entry).map(Stage::Service).map_err(|broken| broken.of(entry))
}

/// The bucket of the topic, less what may be on its way, for all messages of it; and after it its broker, which may be a
/// service.
fn tokens<'a>(
    plan: &'a Plan,
    (path, nth): (&PathPlan, usize),
    stage: &'a TokensStage,
    (here, next): (bool, Option<&PathStage>),
) -> Result<Stage<'a>, Broken> {
    let name = &stage.tokens_of;
    let topic = plan.topics.iter().find(|topic| topic.name == *name);
    if topic.is_none() == here {
        return Err(Broken::new(format!("the topic of its stage '{name}'"), "one", "none"));
    }
    let is_broker = |next: &PathStage| match (next, topic.map(|topic| &topic.service)) {
        (PathStage::Broker(one), None | Some(None)) => one.broker_of == *name,
        (PathStage::Service(one), Some(Some(service))) => one.service == *service && one.branch.is_none(),
        (PathStage::Service(_), None) => true, // known where the topic is
        _ => false,
    };
    if !next.is_some_and(|next| is_broker(next) && next.on() == stage.on) {
        return Err(Broken::new(format!("the broker of '{name}' after its bucket"), &stage.on, "none"));
    }
    let Some(topic) = topic else { return Ok(Stage::Elsewhere) };
    if topic.brokers != [stage.on.as_str()] || topic.arrivals.batch != 1 {
        return Err(Broken::new(
            format!("'{name}' on one broker, message by message"),
            &stage.on,
            topic.brokers.join(", "),
        ));
    }
    let other = |other: &&TopicPlan| other.name != *name && other.brokers.contains(&stage.on);
    if let Some(other) =
        plan.topics.iter().find(other).filter(|other| topic.service.is_some() || other.service.is_some())
    {
        let what = format!("one topic of the broker on '{}', whose share is for '{name}'", stage.on);
        return Err(Broken::new(what, name, format!("'{}', too", other.name)));
    }
    let on_the_way = if topic.limit == TopicLimit::Delivery { 1.0 } else { 0.0 };
    let (rate, depth) = (topic.bucket.rate, topic.bucket.depth.as_f64() - on_the_way);
    if stage.bucket.rate != rate || stage.bucket.depth.as_f64() > depth {
        return Err(Broken::new(format!("tokens of '{name}' that its messages can count on"), depth, stage.bucket));
    }
    // Of the topics before, too.
    let others = path.through[..=nth].iter().filter_map(|stage| match stage {
        PathStage::Tokens(stage) => stage.others,
        PathStage::Service(_) | PathStage::Broker(_) | PathStage::Interface(_) | PathStage::Link(_) => None,
    });
    let all = path.source.per_ns() + others.map(|others| others.per_ns()).sum::<f64>();
    if all < topic.arrivals.rate.per_ns() * (1.0 - 1e-12) {
        return Err(Broken::new(format!("all messages of '{name}', a second"), topic.arrivals.rate, 1e9 * all));
    }
    Ok(Stage::Tokens(stage))
}

fn broker<'a>(plan: &'a Plan, stage: &'a BrokerStage, here: bool) -> Result<Stage<'a>, Broken> {
    let topic = plan.topics.iter().find(|topic| topic.name == stage.broker_of);
    let Some(topic) = topic.filter(|_| here) else { return Ok(Stage::Elsewhere) };
    let measured = topic.measured.as_ref();
    let same = measured.is_some_and(|one| one.latency == stage.latency && one.worst == Some(stage.worst));
    let ascends = stage.latency.last().is_some_and(|last| last.within <= stage.worst && last.within > Duration::ZERO);
    match same && ascends {
        true => Ok(Stage::Broker(stage)),
        false => {
            Err(Broken::new(format!("what was measured of the broker of '{}'", stage.broker_of), "the same", "other"))
        }
    }
}
