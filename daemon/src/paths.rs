//! What messages of paths take while they run, as their services say, beside what was promised.

use crate::late::LateMessage;
use crate::live::{Live, Second};
use crate::reported::{Come, Messages};
use crate::response_status::PathStatus;
use crate::responses::LATE;
use giusto_model::{Duration, PathObserve, PathPlan, PathStage, Percentile, Plan, Within};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration as Time, Instant};

/// How often what came is looked at.
const EVERY: Time = Time::from_secs(1);

/// All paths of a plan.
#[derive(Default)]
pub(crate) struct Paths {
    collectors: BTreeMap<SocketAddr, Messages>,
    live: BTreeMap<String, Live>,
    status: Vec<PathStatus>,
    last: Option<Instant>,
    begun: Option<Instant>,
    /// Late messages that were not taken yet.
    late: Vec<LateMessage>,
}

impl std::fmt::Debug for Paths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Paths").field("paths", &self.live.keys()).finish_non_exhaustive()
    }
}

impl Paths {
    /// Takes what came, if it is time.
    pub(crate) fn look(&mut self, plan: &Plan) {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < EVERY) {
            return;
        }
        self.last = Some(now);
        let second = (now - *self.begun.get_or_insert(now)).as_secs();
        self.listen(plan);
        self.live.retain(|name, _| plan.paths_here().any(|path| path.name == *name));
        self.status = plan.paths_here().map(|path| self.one(path, now, second)).collect();
    }

    /// Of all paths of the plan, in its order.
    pub(crate) fn status(&self) -> Vec<PathStatus> {
        self.status.clone()
    }

    /// Late messages since the last call.
    pub(crate) fn take_late(&mut self) -> Vec<LateMessage> {
        std::mem::take(&mut self.late)
    }

    /// One collector for each address.
    fn listen(&mut self, plan: &Plan) {
        let mut asked: BTreeMap<SocketAddr, Vec<(String, Vec<PathStage>)>> = BTreeMap::new();
        for path in plan.paths_here() {
            if let Some(PathObserve::Otlp(at)) = path.observe {
                // A broker sends no spans: what a message takes there is told of the service behind it.
                let sends = |(nth, stage): &(usize, &PathStage)| stage.service().is_some() && !path.is_broker(*nth);
                let services = path.through.iter().enumerate().filter(sends).map(|(_, stage)| stage.clone()).collect();
                asked.entry(at).or_default().push((path.name.clone(), services));
            }
        }
        self.collectors.retain(|at, messages| asked.get(at).is_some_and(|paths| messages.is_of(paths)));
        for (at, paths) in asked {
            self.collectors.entry(at).or_insert_with(|| Messages::start(at, paths));
        }
    }

    fn one(&mut self, path: &PathPlan, now: Instant, second: u64) -> PathStatus {
        let through = path.through.iter().map(PathStage::to_string).collect();
        let status = PathStatus { name: path.name.clone(), through, responses: None, problem: None };
        let Some(PathObserve::Otlp(at)) = path.observe else { return status };
        let Some(messages) = self.collectors.get(&at) else { return status };
        let live = self.live.entry(path.name.clone()).or_default();
        let points = points(path);
        live.promise(&points);
        let taken = messages.take(&path.name, now);
        for (nth, point) in points.iter().enumerate() {
            let late = taken.come.iter().filter(|come| come.took_ns > point.within.ns());
            late.for_each(|come| live.late(nth, &format!("at {}", dearest(path, nth, come)), 1));
        }
        if let Some((nth, point)) = points.iter().enumerate().next_back() {
            let late = taken.come.iter().filter(|come| come.took_ns > point.within.ns());
            let waiting = self.late.iter().filter(|late| late.path == path.name).count();
            self.late.extend(late.take(LATE.saturating_sub(waiting)).map(|come| LateMessage {
                path: path.name.clone(),
                trace: come.trace.clone(),
                at: dearest(path, nth, come).to_string(),
                from_unix_ns: come.from_unix_ns,
                took_ns: come.took_ns,
                within_ns: point.within.ns(),
            }));
        }
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        for come in &taken.come {
            *lengths.entry(giusto_measure::passive::rounded(come.took_ns)).or_default() += 1;
        }
        let total_ns = taken.come.iter().map(|come| come.took_ns).fold(0, u64::saturating_add);
        let lengths = lengths.into_iter().map(|(ns, count)| [ns, count]).collect();
        live.add(second, Second { lengths, total_ns, unseen: taken.lost, ..Second::default() });
        let proven = |nth: usize| {
            let every = path.every.as_ref().map(|every| every.at);
            let proven = path.points.get(nth).filter(|_| path.simulated.is_none()).map(|point| point.at);
            proven.or(every).map(Duration::ns)
        };
        let responses = live.status(&[], proven);
        let silent =
            (responses.answered == 0).then(|| format!("no message has come to its end by spans sent to {at} yet"));
        let problem = messages.problem().or(silent);
        PathStatus { responses: Some(responses), problem, ..status }
    }
}

fn points(path: &PathPlan) -> Vec<Within> {
    let points = path.points.iter().map(|point| Within { percentile: point.percentile, within: point.within });
    let every = path.every.iter().map(|every| Within { percentile: Percentile::EVERY, within: every.within });
    points.chain(every).collect()
}

/// The service at which a message took longest beyond what is planned: of a topic and its broker before it, too.
fn dearest<'a>(path: &'a PathPlan, nth: usize, come: &Come) -> &'a str {
    let part = |stage: usize| {
        let of_point = path.points.get(nth).and_then(|point| Some(point.parts.get(stage)?.within));
        let of_every = path.every.as_ref().and_then(|every| every.parts.get(stage).copied());
        of_point.or(of_every).map_or(0, Duration::ns)
    };
    let (mut planned, mut beyond) = (0, Vec::new());
    for (stage, at) in path.through.iter().enumerate() {
        planned += part(stage) + at.link().map_or(0, Duration::ns);
        if let Some(service) = at.service().filter(|_| !path.is_broker(stage)) {
            let took = come.stages_ns.get(beyond.len()).copied().unwrap_or(0);
            beyond.push((i128::from(took) - i128::from(std::mem::take(&mut planned)), service));
        }
    }
    beyond.iter().max_by_key(|(beyond, _)| *beyond).map_or("", |(_, service)| service)
}
