//! Receives spans as OpenTelemetry's SDKs send them: OTLP over HTTP, `POST /v1/traces`, in JSON or protobuf.

use super::sink::Sink;
use super::spans::{read, read_protobuf};
use crate::listening::{Client, Server};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Bytes of a head, and of a message.
const HEAD: usize = 8 << 10;
const LARGEST: usize = 4 << 20;

/// How a message is written; its answer is written likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Protobuf,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Json, Kind::Protobuf];

    fn name(self) -> &'static str {
        match self {
            Kind::Json => "application/json",
            Kind::Protobuf => "application/x-protobuf",
        }
    }
}

/// Listens until it is dropped.
pub(super) struct Collector {
    _server: Server,
}

impl Collector {
    pub(super) fn listen(at: SocketAddr, sink: Arc<dyn Sink>) -> Result<Collector, String> {
        let cannot = |why: io::Error| format!("cannot listen for spans on {at}: {why}");
        let listener = TcpListener::bind(at).map_err(cannot)?;
        let serve = move |mut client: Client<TcpStream>| {
            let (kind, status, body) = match message(&mut client) {
                Ok((kind, message)) => {
                    let (status, body) = take(&message, kind, &*sink);
                    (kind, status, body)
                }
                Err((status, why)) if !why.is_empty() => {
                    sink.is_wrong(format!("what was sent to {at} was refused: {why}"));
                    (Kind::Json, status, error(Kind::Json, &why))
                }
                Err(_) => return, // it has gone
            };
            client.renew();
            let (name, length) = (kind.name(), body.len());
            let head = format!("HTTP/1.1 {status}\r\nContent-Type: {name}\r\nContent-Length: {length}\r\n");
            let _ = client.write_all(&[format!("{head}Connection: close\r\n\r\n").as_bytes(), &body].concat());
        };
        Ok(Collector { _server: Server::start("giusto-otlp", listener, serve, drop).map_err(cannot)? })
    }
}

/// As `google.rpc.Status`.
fn error(kind: Kind, why: &str) -> Vec<u8> {
    match kind {
        Kind::Json => serde_json::json!({ "message": why }).to_string().into(),
        Kind::Protobuf => texted(2, why),
    }
}

/// A field of protobuf with a text or a message, which is shorter than 16 KiB.
fn texted(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [&[(number << 3) | 2, (value.len() as u8) | 0x80, (value.len() >> 7) as u8 & 0x7f], value].concat()
}

/// What an answer says of spans that were refused.
const REFUSED: &str = "spans without a beginning, or that end before it";

fn take(message: &[u8], kind: Kind, sink: &dyn Sink) -> (&'static str, Vec<u8>) {
    let spans = match kind {
        Kind::Json => read(message),
        Kind::Protobuf => read_protobuf(message),
    };
    match spans {
        Ok(spans) => {
            let refused = sink.take(spans);
            let answer = match (kind, refused) {
                (Kind::Json, 0) => b"{}".to_vec(),
                (Kind::Protobuf, 0) => Vec::new(),
                (Kind::Json, _) => {
                    let partial = serde_json::json!({"rejectedSpans": refused.to_string(), "errorMessage": REFUSED});
                    serde_json::json!({ "partialSuccess": partial }).to_string().into()
                }
                (Kind::Protobuf, _) => {
                    let count = [&[0x08], &varint(refused)[..]].concat();
                    texted(1, [count, texted(2, REFUSED)].concat())
                }
            };
            ("200 OK", answer)
        }
        Err(why) => {
            sink.is_wrong(format!("what was sent is no message of OTLP: {why}"));
            ("400 Bad Request", error(kind, &why))
        }
    }
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// The body of a request for traces, and how it is written. Errors: what it is answered, and why; no reason: it has gone.
fn message(client: &mut impl Read) -> Result<(Kind, Vec<u8>), (&'static str, String)> {
    let gone = |_| ("", String::new());
    let mut read = Vec::new();
    let mut bytes = vec![0; 16 << 10];
    let end = loop {
        if let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            break end;
        }
        if read.len() > HEAD {
            return Err(("431 Request Header Fields Too Large", "its head is longer than 8 KiB".into()));
        }
        match client.read(&mut bytes).map_err(gone)? {
            0 => return Err(("", String::new())),
            length => read.extend_from_slice(&bytes[..length]),
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let mut body = read.split_off(end + 4);
    let header = |name: &str| {
        let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_ascii_lowercase())
    };
    let line = head.lines().next().unwrap_or_default();
    let shown: String = line.chars().take(80).collect();
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["POST", "/v1/traces", "HTTP/1.1" | "HTTP/1.0"] => {}
        [_, "/v1/traces", _] => return Err(("405 Method Not Allowed", format!("'{shown}' is no POST"))),
        [_, _, "HTTP/1.1" | "HTTP/1.0"] => {
            return Err(("404 Not Found", format!("'{shown}' is not for traces: POST /v1/traces")))
        }
        _ => return Err(("400 Bad Request", format!("'{shown}' is no request of HTTP/1"))),
    }
    let told = header("content-type").unwrap_or_default();
    let Some(kind) = Kind::ALL.into_iter().find(|kind| told.starts_with(kind.name())) else {
        let why = format!(
            "it is '{told}', and only JSON and protobuf are understood: OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
        );
        return Err(("415 Unsupported Media Type", why));
    };
    if let Some(coded) = header("content-encoding").filter(|coded| coded != "identity") {
        let why = format!("it is compressed ({coded}), which is not understood: OTEL_EXPORTER_OTLP_COMPRESSION=none");
        return Err(("415 Unsupported Media Type", why));
    }
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    let Some(length) = length else { return Err(("411 Length Required", "it does not say how long it is".into())) };
    if length > LARGEST {
        return Err(("413 Content Too Large", format!("it is longer than {} MiB", LARGEST >> 20)));
    }
    while body.len() < length {
        match client.read(&mut bytes).map_err(gone)? {
            0 => return Err(("", String::new())),
            more => body.extend_from_slice(&bytes[..more]),
        }
    }
    body.truncate(length);
    Ok((kind, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported::spans::OfService;
    use crate::reported::told::Told;

    fn asked(at: SocketAddr, head: &str, body: &[u8]) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        let _ = stream.write_all(format!("{head}\r\n\r\n").as_bytes());
        let _ = stream.write_all(body); // it may have been refused by then
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn spans_are_taken_and_whatever_else_comes_is_refused_and_told() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let told = Arc::new(Told::default());
        let sink = || Arc::new(OfService { span: None, told: told.clone() });
        let collector = Collector::listen(free, sink()).unwrap();
        let post = |kind: &str, body: &[u8]| {
            let head = "POST /v1/traces HTTP/1.1\r\nHost: x";
            asked(free, &format!("{head}\r\nContent-Type: {kind}\r\nContent-Length: {}", body.len()), body)
        };
        let spans = |kind: u32, end: u64| {
            format!(
                r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"name":"a","kind":{kind},"startTimeUnixNano":"1000",
                "endTimeUnixNano":"{end}"}}]}}]}}]}}"#
            )
        };
        let answer = post("application/json; charset=utf-8", spans(2, 6_001_000).as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n{}"), "{answer}");
        let seen = || {
            let sums = told.sums();
            (sums.count, sums.total_ns, sums.problem.clone())
        };
        let problem = || seen().2;
        assert_eq!(seen(), (1, 6_000_000, None));
        let answer = post("application/json", spans(2, 500).as_bytes());
        assert!(answer.contains("200 OK") && answer.contains(r#""rejectedSpans":"1""#), "{answer}");
        assert!(problem().unwrap().contains("1 spans do not say when"));
        post("application/json", spans(3, 5000).as_bytes());
        assert!(problem().unwrap().contains("of other kinds than server and consumer"));
        for (kind, body, status, why) in [
            ("application/grpc", &b"\x0a\x00"[..], "415", "http/protobuf"),
            ("application/json", b"{", "400", "no message of OTLP"),
            ("application/x-protobuf", b"\x0a\x01", "400", "no message of OTLP"),
        ] {
            assert!(post(kind, body).starts_with(&format!("HTTP/1.1 {status}")), "{status}");
            assert!(problem().unwrap().contains(why), "{:?}", problem());
        }
        // In protobuf: a span of a server from 1000 to 1500 ns, and one that says nothing of when.
        let field = |key: u8, message: &[u8]| [&[key, message.len() as u8], message].concat();
        let times = [&[0x39], &1000u64.to_le_bytes()[..], &[0x41], &1500u64.to_le_bytes()].concat();
        let [span, empty] = [[&[0x30, 2], &times[..]].concat(), vec![0x30, 2]].map(|span| field(0x12, &span));
        let message = |spans: &[u8]| field(0x0a, &field(0x12, spans));
        let (one, both) = (message(&span), message(&[span, empty].concat()));
        assert!(post("application/x-protobuf", &both[..20]).starts_with("HTTP/1.1 400"), "cut off");
        let answer = post("application/x-protobuf", &one);
        assert!(answer.contains("Content-Type: application/x-protobuf\r\nContent-Length: 0\r\n"), "{answer}");
        assert_eq!(seen(), (2, 6_000_500, None));
        let answer = post("application/x-protobuf", &both);
        assert!(answer.contains("200 OK") && answer.contains("\x08\x01\x12") && answer.ends_with(REFUSED), "{answer}");
        assert!(problem().unwrap().contains("1 spans do not say when"));
        for (head, status) in [
            ("GET /v1/traces HTTP/1.1", "405"),
            ("POST /v1/metrics HTTP/1.1", "404"),
            ("nonsense", "400"),
            ("POST /v1/traces HTTP/1.1\r\nContent-Type: application/json", "411"),
            ("POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999999", "413"),
            ("POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Encoding: gzip", "415"),
        ] {
            assert!(asked(free, head, b"").starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        }
        assert!(asked(free, &"a".repeat(20_000), b"").is_empty() || problem().unwrap().contains("8 KiB"));
        post("application/json", spans(5, 2000).as_bytes());
        assert_eq!((seen().0, problem()), (4, None), "nothing of it stopped it");
        assert!(Collector::listen(free, sink()).is_err_and(|why| why.contains("cannot listen for spans")));
        drop(collector);
    }
}
