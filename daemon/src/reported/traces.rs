//! Messages of paths, put together from the spans of the services that they go through.

use super::otlp::Collector;
use super::sink::Sink;
use giusto_model::{PathStage, Steps};
use giusto_traces::Span;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// SDKs send their spans every five seconds: a message is whole so long after its first span.
const SETTLE: Duration = Duration::from_secs(10);
/// One that has begun and not ended by then is lost.
const LONGEST: Duration = Duration::from_secs(60);
/// Characters of what names a trace: 32 in OpenTelemetry.
const LONGEST_TRACE: usize = 64;
/// Messages of a path that are put together at a time.
const OPEN: usize = 100_000;

/// Takes the spans of services of some paths, until it is dropped.
pub(crate) struct Messages {
    paths: Vec<(String, Vec<PathStage>)>,
    open: Arc<Open>,
    collector: Result<Collector, String>,
}

/// A message that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Come {
    /// Its trace, as its spans name it.
    pub(crate) trace: String,
    /// When it began, in ns of Unix time.
    pub(crate) from_unix_ns: u64,
    /// From the beginning of the first service's spans, where a path forks at once of the earliest, to the end of all.
    pub(crate) took_ns: u64,
    /// By service of the path: from when the one before had handed it over, where branches meet the last of those, until it did
    /// so. What spans are missing of counts for the next one.
    pub(crate) stages_ns: Vec<u64>,
}

/// What came of a path since it was asked for last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) come: Vec<Come>,
    /// Messages that began and did not end within a minute, or for which there was no room.
    pub(crate) lost: u64,
}

impl Messages {
    /// Of these paths, each with its services in order.
    pub(crate) fn start(at: SocketAddr, paths: Vec<(String, Vec<PathStage>)>) -> Messages {
        let all = paths.iter().map(|(_, services)| OfPath::new(services)).collect();
        let open = Arc::new(Open(Mutex::new(State { paths: all, problem: None })));
        let collector = Collector::listen(at, open.clone());
        Messages { paths, open, collector }
    }

    /// Whether it listens for just these.
    pub(crate) fn is_of(&self, paths: &[(String, Vec<PathStage>)]) -> bool {
        self.collector.is_ok() && self.paths == paths
    }

    /// What came to its end by `now`.
    pub(crate) fn take(&self, path: &str, now: Instant) -> Taken {
        let Some(nth) = self.paths.iter().position(|(name, _)| name == path) else { return Taken::default() };
        let mut state = self.open.state();
        let taken = state.paths[nth].take(now);
        state.pass_on(nth);
        taken
    }

    /// What is wrong now.
    pub(crate) fn problem(&self) -> Option<String> {
        self.collector.as_ref().err().cloned().or_else(|| self.open.state().problem.clone())
    }
}

/// Messages that are not whole yet.
struct Open(Mutex<State>);

struct State {
    paths: Vec<OfPath>,
    problem: Option<String>,
}

impl State {
    /// Tells the other paths which messages were those of the `nth`: they begin alike where paths share their first services.
    fn pass_on(&mut self, nth: usize) {
        let ended = std::mem::take(&mut self.paths[nth].ended);
        // They are no longer open there.
        for path in &mut self.paths {
            for trace in &ended {
                if let Some(message) = path.open.get_mut(trace) {
                    message.of_another = true;
                }
            }
        }
    }
}

impl Open {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Open {
    fn take(&self, spans: Vec<Span>) -> u64 {
        let (mut state, now) = (self.state(), Instant::now());
        let (mut known, mut refused) = (false, 0);
        let any = !spans.is_empty();
        for span in spans.into_iter().filter(|span| !span.kind.waits()) {
            if span.length().is_none() || span.trace.len() > LONGEST_TRACE {
                refused += 1;
                continue;
            }
            for nth in 0..state.paths.len() {
                known |= state.paths[nth].add(&span, now);
                state.pass_on(nth);
            }
        }
        state.problem = match (refused, known) {
            (1.., _) => {
                Some(format!("{refused} spans do not say when they began and ended, or of which trace they are"))
            }
            (0, false) if any => Some("spans come, and none is of a service of the path (service.name)".into()),
            _ => None,
        };
        refused
    }

    fn is_wrong(&self, why: String) {
        self.state().problem = Some(why);
    }
}

struct OfPath {
    services: Vec<String>,
    steps: Steps,
    open: HashMap<String, Message>,
    /// By when they began: those that may still be settling, and those that are waited for.
    settling: VecDeque<(Instant, String)>,
    waiting: VecDeque<(Instant, String)>,
    taken: Taken,
    /// Messages that came to their end since this was asked for.
    ended: Vec<String>,
}

/// The spans of one message.
pub(super) struct Message {
    since: Instant,
    /// By service: the beginning and the end of its spans.
    spans: Vec<Option<(u64, u64)>>,
    /// It came to the end of another path.
    of_another: bool,
}

impl OfPath {
    fn new(stages: &[PathStage]) -> OfPath {
        let (open, taken) = (HashMap::new(), Taken::default());
        let services = stages.iter().filter_map(PathStage::service).map(String::from).collect();
        let (settling, waiting, ended) = (VecDeque::new(), VecDeque::new(), Vec::new());
        OfPath { services, steps: Steps::of(stages), open, settling, waiting, taken, ended }
    }

    /// Whether it is a span of one of its services.
    fn add(&mut self, span: &Span, now: Instant) -> bool {
        let Some(nth) = self.services.iter().position(|service| *service == span.service) else { return false };
        if !self.open.contains_key(&span.trace) {
            if self.open.len() >= OPEN {
                self.taken.lost += 1;
                return true;
            }
            let message = Message::new(self.services.len(), now);
            self.open.insert(span.trace.clone(), message);
            self.settling.push_back((now, span.trace.clone()));
        }
        let Some(message) = self.open.get_mut(&span.trace) else { return true };
        message.add(nth, span);
        if now - message.since >= SETTLE {
            self.end(&span.trace.clone()); // what was missing has come
        }
        true
    }

    /// Takes it out if it is whole.
    fn end(&mut self, trace: &str) -> bool {
        let Some(come) = self.open.get(trace).and_then(|message| message.come(trace, &self.steps)) else {
            return false;
        };
        self.open.remove(trace);
        self.taken.come.push(come);
        self.ended.push(trace.to_string());
        true
    }

    fn take(&mut self, now: Instant) -> Taken {
        while let Some((since, trace)) = older(&mut self.settling, SETTLE, now) {
            if !self.end(&trace) {
                self.waiting.push_back((since, trace));
            }
        }
        while let Some((_, trace)) = older(&mut self.waiting, LONGEST, now) {
            // One without a beginning is no message of this path, nor is one that was another's.
            let begun = |message: Message| {
                !message.of_another && self.steps.0[0].iter().any(|branch| message.spans[branch.start].is_some())
            };
            self.taken.lost += u64::from(self.open.remove(&trace).is_some_and(begun));
        }
        std::mem::take(&mut self.taken)
    }
}

/// The first, if it is that old.
fn older(queue: &mut VecDeque<(Instant, String)>, age: Duration, now: Instant) -> Option<(Instant, String)> {
    let is_old = queue.front().is_some_and(|(since, _)| now - *since >= age);
    is_old.then(|| queue.pop_front()).flatten()
}

impl Message {
    /// Of so many services, none of which has spans yet.
    pub(super) fn new(services: usize, since: Instant) -> Message {
        Message { since, spans: vec![None; services], of_another: false }
    }

    /// One of the service of this place.
    pub(super) fn add(&mut self, service: usize, span: &Span) {
        let (start, end) = self.spans[service].unwrap_or((u64::MAX, 0));
        self.spans[service] = Some((start.min(span.start), end.max(span.end)));
    }

    /// Whether there are spans of each service.
    pub(super) fn is_whole(&self) -> bool {
        self.spans.iter().all(Option::is_some)
    }

    /// What it took; `None`: it has not come to its end.
    pub(super) fn come(&self, trace: &str, steps: &Steps) -> Option<Come> {
        let begins = steps.0.first()?.iter().map(|branch| Some(self.spans[branch.start]?.0));
        let start = begins.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
        steps.0.last()?.iter().try_for_each(|branch| self.spans[branch.end - 1].map(|_| ()))?;
        let end = self.spans.iter().flatten().map(|(_, end)| *end).max()?;
        let (mut done, mut stages_ns): (Vec<u64>, Vec<u64>) = Default::default();
        for (nth, own) in self.spans.iter().enumerate() {
            let before = steps.before(nth).into_iter().map(|before| done[before]).max().unwrap_or(start);
            // One that waits for what comes after it has handed it over when that begins.
            let own = own.map_or(before, |(_, own)| self.next(steps, nth).map_or(end, |next| own.min(next)));
            stages_ns.push(own.saturating_sub(before));
            done.push(own.max(before));
        }
        Some(Come { trace: trace.into(), from_unix_ns: start, took_ns: end.checked_sub(start)?, stages_ns })
    }

    /// When the first of the services after this one began, of those that have spans; `None`: it is at the end.
    fn next(&self, steps: &Steps, nth: usize) -> Option<u64> {
        let begins = |after: usize| self.spans[after].map(|(start, _)| start).or_else(|| self.next(steps, after));
        steps.after(nth).into_iter().filter_map(begins).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::ServiceStage;
    use giusto_traces::SpanKind;

    fn span(trace: u32, service: &str, start: u64, end: u64) -> Span {
        Span {
            trace: trace.to_string(),
            id: String::new(),
            parent: None,
            service: service.into(),
            pid: None,
            name: String::new(),
            kind: SpanKind::Server,
            start,
            end,
        }
    }

    fn stage(service: &str, branch: Option<u32>) -> PathStage {
        PathStage::Service(ServiceStage { service: service.into(), on: "edge".into(), link: None, branch })
    }

    #[test]
    fn where_branches_meet_a_stage_begins_with_the_last_of_them() {
        let branches = [("camera", None), ("left", Some(1)), ("right", Some(2)), ("far", Some(2)), ("both", None)];
        let mut path = OfPath::new(&branches.map(|(service, branch)| stage(service, branch)));
        let now = Instant::now();
        for (service, start, end) in [("camera", 0, 10), ("right", 12, 30), ("left", 11, 90), ("far", 31, 50)] {
            assert!(path.add(&span(1, service, start, end), now));
        }
        assert_eq!(path.take(now + SETTLE).come, []);
        path.add(&span(1, "both", 95, 100), now + SETTLE);
        // The camera has handed over at 10, to both; the last of its branches at 90.
        let come = path.take(now + SETTLE).come;
        let stages_ns = vec![10, 80, 20, 20, 10];
        assert_eq!(come, [Come { trace: "1".into(), from_unix_ns: 0, took_ns: 100, stages_ns }]);
        // At the end all branches have to be there, at the beginning too.
        let mut ends = OfPath::new(&branches[..4].iter().copied().map(|(s, b)| stage(s, b)).collect::<Vec<_>>());
        let mut begins = OfPath::new(&branches[1..].iter().copied().map(|(s, b)| stage(s, b)).collect::<Vec<_>>());
        for path in [&mut ends, &mut begins] {
            for service in ["camera", "right", "far", "both"] {
                path.add(&span(1, service, 5, 6), now);
            }
            assert_eq!(path.take(now + SETTLE).come, []);
            path.add(&span(1, "left", 3, 8), now + SETTLE);
            assert_eq!(path.take(now + SETTLE).come.len(), 1);
        }
    }

    #[test]
    fn a_message_goes_from_the_first_service_to_the_last_in_whatever_order_its_spans_come() {
        let mut path = OfPath::new(&["camera", "controller", "actuator"].map(|service| stage(service, None)));
        let begin = Instant::now();
        for span in [
            span(1, "actuator", 60, 70),
            span(1, "camera", 10, 30),
            span(1, "controller", 35, 50),
            span(1, "controller", 51, 55),
            span(2, "camera", 100, 120),
            span(3, "controller", 100, 120),
            span(4, "camera", 200, 210),
            span(4, "actuator", 250, 260),
        ] {
            assert!(path.add(&span, begin));
        }
        assert!(!path.add(&span(1, "another", 1, 2), begin));
        assert_eq!(path.take(begin + SETTLE / 2), Taken::default(), "it may not be whole yet");
        let taken = path.take(begin + SETTLE);
        let come = |trace: u32, from_unix_ns, took_ns, stages_ns: [u64; 3]| Come {
            trace: trace.to_string(),
            from_unix_ns,
            took_ns,
            stages_ns: stages_ns.to_vec(),
        };
        assert_eq!(taken.come, [come(1, 10, 60, [20, 25, 15]), come(4, 200, 60, [10, 0, 50])]);
        // The second waits for the third.
        for span in [span(6, "camera", 10, 20), span(6, "controller", 30, 90), span(6, "actuator", 50, 80)] {
            path.add(&span, begin);
        }
        assert_eq!(path.take(begin + SETTLE).come, [come(6, 10, 80, [10, 30, 40])]);
        // One ends late, the others never: one of them has begun.
        assert!(path.add(&span(2, "actuator", 200, 300), begin + 2 * SETTLE));
        assert_eq!(path.take(begin + 2 * SETTLE).come, [come(2, 100, 200, [20, 0, 180])]);
        assert!(path.add(&span(5, "camera", 1, 2), begin));
        let late = path.take(begin + LONGEST);
        assert_eq!((late.come.len(), late.lost), (0, 1), "the third has no beginning, the fifth no end");
        assert!(path.open.is_empty() && path.settling.is_empty() && path.waiting.is_empty());
    }

    #[test]
    fn what_went_another_way_from_a_shared_service_is_not_lost() {
        let path = |services: [&str; 2]| OfPath::new(&services.map(|service| stage(service, None)));
        let mut state = State { paths: vec![path(["gate", "left"]), path(["gate", "right"])], problem: None };
        let begin = Instant::now();
        for span in [span(1, "gate", 0, 10), span(1, "left", 12, 20), span(2, "gate", 30, 40)] {
            state.paths.iter_mut().for_each(|path| _ = path.add(&span, begin));
        }
        let mut take = |nth: usize, now| {
            let taken = state.paths[nth].take(now);
            state.pass_on(nth);
            (taken.come.len(), taken.lost)
        };
        assert_eq!([0, 1].map(|nth| take(nth, begin + SETTLE)), [(1, 0), (0, 0)]);
        // Which way the second was to go is not known.
        assert_eq!([0, 1].map(|nth| take(nth, begin + LONGEST)), [(0, 1), (0, 1)]);
    }

    #[test]
    fn there_is_room_for_so_many_and_the_rest_is_lost() {
        let mut path = OfPath::new(&[stage("camera", None)]);
        let now = Instant::now();
        for trace in 0..OPEN as u32 + 3 {
            path.add(&span(trace, "camera", 1, 2), now);
        }
        let taken = path.take(now + SETTLE);
        assert_eq!((taken.come.len(), taken.lost), (OPEN, 3));
    }
}
