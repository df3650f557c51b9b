//! The control protocol, form only: one JSON object a line, request and answer (formats/control.md).

use crate::{Change, ChangeStatus, RecordWish, Recording, Refused, Status};
use giusto_model::ChangePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Version of the protocol.
const VERSION: u32 = 1;
/// What can be asked.
const VERBS: &str = concat!(
    r#"{"giusto":1,"do":"status"}, {"giusto":1,"do":"metrics"}, {"giusto":1,"do":"reload","site":PATH} (site may be left out), "#,
    r#"{"giusto":1,"do":"mode","mode":NAME} or {"giusto":1,"do":"mode","services":{SERVICE:LOCAL}} ("policy" and "wait" may "#,
    r#"be added), {"giusto":1,"do":"record","record":{"span_ns":NS,"late":COUNT,"service":NAME}} (late and service may be left "#,
    r#"out), or {"giusto":1,"do":"stop"}"#
);

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How it stands.
    Status,
    /// The same for Prometheus.
    Metrics,
    /// Plan anew from this site file, or from the one in force, and apply the difference.
    Reload(Option<PathBuf>),
    /// Another mode.
    Mode(Wish),
    /// What happens, or happened around late jobs.
    Record(RecordWish),
    /// An orderly end.
    Stop,
}

/// Which mode is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// One of the site's.
    pub mode: Option<String>,
    /// Or local modes of services, where all others stay as they are: whether the site names that combination or not.
    pub services: BTreeMap<String, String>,
    /// In which order members change, where that is another one than the plan's.
    pub policy: Option<ChangePolicy>,
    /// Whether to wait for the end.
    pub wait: bool,
}

/// What it gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Metrics`]: OpenMetrics text.
    Metrics(String),
    /// To [`Request::Reload`]: what was changed.
    Change(Change),
    /// To [`Request::Mode`]: how it went; `null`: it has begun.
    Mode(Option<ChangeStatus>),
    /// To [`Request::Record`]: one, or one for each late job.
    Recording(Box<Recording>),
    /// To [`Request::Stop`].
    Stopping(bool),
    /// Refused, and nothing was changed.
    Error(Refused),
}

/// As it stands on the line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    #[serde(default = "version")]
    giusto: u32,
    r#do: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    services: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<ChangePolicy>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wait: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RecordWish>,
}

#[derive(Serialize, Deserialize)]
struct AnswerLine {
    giusto: u32,
    #[serde(flatten)]
    answer: Answer,
}

fn version() -> u32 {
    VERSION
}

/// Reads a request. Errors: what was expected.
pub(crate) fn request(line: &[u8]) -> Result<Request, Refused> {
    let bad = |what: String| Refused { exit: 2, reason: format!("{what}; expected {VERBS}") };
    let RequestLine { giusto, r#do: verb, site, mode, services, policy, wait, record } =
        serde_json::from_slice(line).map_err(|error| bad(format!("this is no request: {error}")))?;
    if giusto != VERSION {
        return Err(bad(format!("version {giusto} of the protocol is not spoken here")));
    }
    if verb == "mode" && site.is_none() {
        return match (mode.is_some(), services.is_empty()) {
            (true, true) | (false, false) => Ok(Request::Mode(Wish { mode, services, policy, wait })),
            _ => Err(bad("'mode' has a 'mode' or 'services'".into())),
        };
    }
    if mode.is_some() || !services.is_empty() || policy.is_some() || wait {
        return Err(bad(format!("'{verb}' has no 'mode', 'services', 'policy' or 'wait'")));
    }
    if (verb == "record") != record.is_some() {
        return Err(bad("'record' has a 'record', and nothing else has".into()));
    }
    match (verb.as_str(), site) {
        ("reload", Some(site)) if !site.is_absolute() => Err(bad(format!("'{}' is no absolute path", site.display()))),
        ("reload", site) => Ok(Request::Reload(site)),
        (_, Some(_)) => Err(bad(format!("'{verb}' has no 'site'"))),
        ("status", None) => Ok(Request::Status),
        ("metrics", None) => Ok(Request::Metrics),
        ("stop", None) => Ok(Request::Stop),
        ("record", None) => record.map(Request::Record).ok_or_else(|| bad("'record' has a 'record'".into())),
        _ => Err(bad(format!("'{verb}' cannot be done"))),
    }
}

impl Request {
    /// Its line, newline included.
    pub(crate) fn line(&self) -> String {
        let (mut site, mut wish, mut record) = (None, Wish::default(), None);
        let verb = match self {
            Request::Status => "status",
            Request::Metrics => "metrics",
            Request::Reload(file) => {
                site.clone_from(file);
                "reload"
            }
            Request::Mode(wanted) => {
                wish.clone_from(wanted);
                "mode"
            }
            Request::Record(wanted) => {
                record = Some(wanted.clone());
                "record"
            }
            Request::Stop => "stop",
        };
        let Wish { mode, services, policy, wait } = wish;
        line(&RequestLine { giusto: VERSION, r#do: verb.into(), site, mode, services, policy, wait, record })
    }
}

impl Answer {
    /// Its line, newline included.
    pub(crate) fn line(self) -> String {
        line(&AnswerLine { giusto: VERSION, answer: self })
    }

    /// Reads it back. Errors: not an answer, or of another release.
    pub(crate) fn read(line: &str) -> Result<Answer, String> {
        let read: AnswerLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
        match read.giusto {
            VERSION => Ok(read.answer),
            other => Err(format!("version {other} of the protocol instead of {VERSION}")),
        }
    }
}

fn line(value: &impl Serialize) -> String {
    // Fails for a path that is not UTF-8 only: no caller passes one, and what comes out is no request.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_read_back_and_what_is_wrong_is_named() {
        for asked in [
            Request::Status,
            Request::Metrics,
            Request::Stop,
            Request::Record(RecordWish { span_ns: 5, late: None, service: None }),
            Request::Record(RecordWish { span_ns: 5, late: Some(2), service: Some("a".into()) }),
            Request::Reload(None),
            Request::Reload(Some("/s".into())),
            Request::Mode(Wish { mode: Some("m".into()), wait: true, ..Wish::default() }),
            Request::Mode(Wish {
                services: BTreeMap::from([("a".into(), "b".into())]),
                policy: Some(ChangePolicy::Greedy),
                ..Wish::default()
            }),
        ] {
            assert_eq!(request(asked.line().as_bytes()), Ok(asked));
        }
        assert_eq!(request(br#"{"do":"status"}"#), Ok(Request::Status));
        for (line, why) in [
            (r#"{"do":"dance"}"#, "'dance' cannot be done"),
            (r#"{"do":"status","now":true}"#, "unknown field `now`"),
            (r#"{"do":"stop","site":"/s"}"#, "'stop' has no 'site'"),
            (r#"{"do":"reload","site":"s"}"#, "no absolute path"),
            (r#"{"do":"mode"}"#, "has a 'mode' or 'services'"),
            (r#"{"do":"status","wait":true}"#, "'status' has no 'mode'"),
            (r#"{"do":"record"}"#, "'record' has a 'record'"),
            (r#"{"do":"stop","record":{"span_ns":1}}"#, "'record' has a 'record'"),
            (r#"{"do":"record","record":{"span_ns":1,"file":"/etc/passwd"}}"#, "unknown field `file`"),
            (r#"{"giusto":2,"do":"status"}"#, "version 2"),
            (r#"{"giusto":1}"#, "missing field `do`"),
            ("", "no request"),
        ] {
            let refused = request(line.as_bytes()).unwrap_err();
            assert!(refused.reason.contains(why) && refused.reason.contains("expected"), "{line}: {refused:?}");
        }
    }

    #[test]
    fn answers_are_read_back() {
        for answer in [
            Answer::Stopping(true),
            Answer::Metrics("a 1\n".into()),
            Answer::Error(Refused { exit: 1, reason: "no".into() }),
        ] {
            let line = answer.clone().line();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(Answer::read(&line), Ok(answer));
        }
        assert!(Answer::read(r#"{"giusto":9,"stopping":true}"#).is_err_and(|why| why.contains("version 9")));
    }

    proptest! {
        #[test]
        fn no_bytes_kill_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(request(&bytes).is_ok() || request(&bytes).is_err_and(|refused| refused.exit == 2));
        }

        #[test]
        fn no_mangled_request_kills_the_parser(at in 0usize..40, byte in any::<u8>(), cut in 0usize..40) {
            let mut line = br#"{"giusto":1,"do":"reload","site":"/a/b"}"#.to_vec();
            line[at] = byte;
            line.truncate(line.len() - cut);
            let _ = request(&line);
        }
    }
}
