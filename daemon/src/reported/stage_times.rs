//! How long messages that a measurement sent were at each service, from the spans that the services send.

use super::otlp::Collector;
use super::sink::Sink;
use super::traces::Message;
use giusto_measure::PathReport;
use giusto_model::{Path, PathStage, ServiceStage, Steps, Through};
use giusto_traces::Span;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// SDKs send their spans every five seconds.
const SETTLE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

/// Takes the spans of messages that a measurement sends, until it is dropped.
pub struct StageTimes {
    at: SocketAddr,
    open: Arc<Open>,
    _collector: Collector,
}

impl StageTimes {
    /// Listens for spans of messages of `path`, whose traces `begin` so ([`giusto_measure::PathEnds::traces`]).
    ///
    /// # Errors
    /// An address that is in use.
    pub fn listen(at: SocketAddr, path: &Path, begin: String) -> Result<StageTimes, String> {
        let steps = Steps::of(&stages(path));
        let services = path.services().map(String::from).collect();
        let open = Arc::new(Open { begin, services, steps, seen: Mutex::default() });
        let collector = Collector::listen(at, open.clone())?;
        Ok(StageTimes { at, open, _collector: collector })
    }

    /// Waits until the spans of all messages that came back are there, but no longer than 10 s or until it is told to `stop`, and
    /// adds to each report how long they were at each service, as `giusto status` tells it. What is to be said of those that are
    /// missing.
    pub fn tell(&self, reports: &mut [&mut PathReport], stop: &dyn Fn() -> bool) -> Option<String> {
        let end = Instant::now() + SETTLE;
        let came = |report: &PathReport| -> Vec<String> {
            let jobs = report.jobs.iter().zip(&report.traces).filter(|(job, _)| job.finish.is_some());
            jobs.map(|(_, trace)| trace.clone()).collect()
        };
        let all: Vec<String> = reports.iter().flat_map(|report| came(report)).collect();
        while Instant::now() < end && !stop() && !self.open.are_whole(&all) {
            std::thread::sleep(LOOK);
        }
        let (seen, mut told) = (self.open.seen(), 0);
        for report in reports {
            for trace in came(report) {
                let message = seen.messages.get(&trace);
                let Some(come) = message.and_then(|message| message.come(&trace, &self.open.steps)) else { continue };
                told += 1;
                for (service, took) in self.open.services.iter().zip(come.stages_ns) {
                    report.stages.entry(service.clone()).or_default().push(took);
                }
            }
        }
        let count = all.len();
        let missing = || {
            let why = "each service passes 'traceparent' on and sends its spans there with its name of the site as service.name";
            let problem = seen.problem.as_ref().map_or(String::new(), |problem| format!("; {problem}"));
            format!("spans of {told} of {count} messages came to {} within 10 s: see that {why}{problem}", self.at)
        };
        (told < count).then(missing)
    }
}

/// The services of a path as stages, of which spans tell.
fn stages(path: &Path) -> Vec<PathStage> {
    fn of(through: &Through, branch: Option<u32>) -> Vec<PathStage> {
        match through {
            Through::Service(name) => {
                let (service, on) = (name.clone(), String::new());
                vec![PathStage::Service(ServiceStage { service, on, link: None, branch })]
            }
            Through::Topic(_) => Vec::new(),
            Through::All(branches) => {
                let branches = (1..).zip(branches);
                branches.flat_map(|(nth, branch)| branch.iter().flat_map(move |one| of(one, Some(nth)))).collect()
            }
        }
    }
    path.through.iter().flat_map(|one| of(one, None)).collect()
}

struct Open {
    /// Traces that begin otherwise are none of the measurement, so that no more is kept than it sends.
    begin: String,
    services: Vec<String>,
    steps: Steps,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    messages: HashMap<String, Message>,
    problem: Option<String>,
}

impl Open {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_whole(&self, traces: &[String]) -> bool {
        let seen = self.seen();
        traces.iter().all(|trace| seen.messages.get(trace).is_some_and(Message::is_whole))
    }
}

impl Sink for Open {
    fn take(&self, spans: Vec<Span>) -> u64 {
        let mut refused = 0;
        let mut seen = self.seen();
        let ours = spans.into_iter().filter(|span| !span.kind.waits() && span.trace.starts_with(&self.begin));
        for span in ours {
            let Some(nth) = self.services.iter().position(|service| *service == span.service) else {
                seen.problem = Some(format!("spans come from '{}', which is no service of the path", span.service));
                continue;
            };
            match span.length() {
                Some(_) => {
                    let message = seen.messages.entry(span.trace.clone());
                    message.or_insert_with(|| Message::new(self.services.len(), Instant::now())).add(nth, &span);
                }
                None => refused += 1,
            }
        }
        refused
    }

    fn is_wrong(&self, why: String) {
        self.seen().problem = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giusto_model::{Instant as At, JobRecord, PathSource};
    use giusto_traces::SpanKind;
    use std::collections::BTreeMap;
    use std::net::TcpListener;

    fn span(trace: &str, service: &str, start: u64, end: u64) -> Span {
        let (id, parent, pid, name) = (String::new(), None, None, String::new());
        Span { trace: trace.into(), id, parent, service: service.into(), pid, name, kind: SpanKind::Server, start, end }
    }

    #[test]
    fn spans_of_the_measurement_tell_the_time_at_each_service_and_others_are_passed_over() {
        let one = |name: &str| Through::Service(name.into());
        let through = vec![one("shop"), Through::All(vec![vec![one("stock")], vec![one("bill"), one("mail")]])];
        let path = Path::plain("order".into(), PathSource::Poisson("40/s".parse().unwrap()), through);
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let times = StageTimes::listen(at, &path, "aa".into()).unwrap();
        assert!(StageTimes::listen(at, &path, "aa".into()).is_err_and(|why| why.contains("cannot listen for spans")));
        let whole = |trace: &str| {
            let times = [("stock", 10, 50), ("shop", 0, 99), ("bill", 12, 30), ("mail", 31, 90)];
            times.map(|(service, start, end)| span(trace, service, 1000 + start, 1000 + end)).to_vec()
        };
        times.open.take([whole("aa1"), whole("bb1"), whole("aa2")].concat());
        let job = |finish| JobRecord { task: 0, job: 0, due: At::ZERO, release: At::ZERO, finish };
        let report = |traces: [&str; 2], second| PathReport {
            jobs: vec![job(Some(At::ZERO)), job(second)],
            lost: 0,
            failures: BTreeMap::new(),
            stages: BTreeMap::new(),
            traces: traces.map(String::from).to_vec(),
        };
        // The second was lost, and is not waited for.
        let mut all = report(["aa1", "aa2"], None);
        assert_eq!(times.tell(&mut [&mut all], &|| false), None);
        // The last of each branch has the way back.
        let expected = [("bill", 20), ("mail", 69), ("shop", 10), ("stock", 89)];
        let expected: BTreeMap<String, Vec<u64>> = expected.map(|(name, took)| (name.to_string(), vec![took])).into();
        assert_eq!(all.stages, expected);
        // What is missing, and what came instead, is told.
        times.open.take(vec![span("aa3", "another", 1, 2), span("aa3", "shop", 1, 2)]);
        let mut all = report(["aa2", "aa3"], Some(At::ZERO));
        let missing = times.tell(&mut [&mut all], &|| true).unwrap();
        assert!(missing.contains("spans of 1 of 2 messages") && missing.contains("come from 'another'"), "{missing}");
        assert_eq!(all.stages["mail"].len(), 1);
    }
}
