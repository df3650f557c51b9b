//! One message to a collector: OTLP over HTTP/1.1, in JSON, each over a connection of its own.

use super::address::OtlpAddress;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a connection may take, and then sending and its answer.
const CONNECT: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const ANSWER: usize = 64 << 10;

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It may be taken later.
    Later(String),
    /// It never is.
    Never(String),
}

/// Sends `message`; returns how many of its spans or points the collector rejected.
pub(super) fn post(to: &OtlpAddress, signal: &str, message: &Value) -> Result<u64, Failed> {
    let later = |why: io::Error| Failed::Later(format!("cannot send to {to}: {why}"));
    let answer = exchange(to, signal, &message.to_string()).map_err(later)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let line = head.lines().next().unwrap_or_default();
    let shown: String = line.chars().take(80).collect();
    match line.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()) {
        Some(200..=299) => Ok(rejected(body, signal)),
        Some(429 | 502..=504) | None => Err(Failed::Later(format!("{to} answers '{shown}'"))),
        Some(_) => Err(Failed::Never(format!("{to} answers '{shown}'"))),
    }
}

fn rejected(body: &str, signal: &str) -> u64 {
    let field = if signal == "traces" { "rejectedSpans" } else { "rejectedDataPoints" };
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let count = &body["partialSuccess"][field];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

fn exchange(to: &OtlpAddress, signal: &str, body: &str) -> io::Result<String> {
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => stream,
            Err(why) => {
                refused = why;
                continue;
            }
        };
        let until = Instant::now() + PATIENCE;
        let (target, host, length) = (to.target(signal), to.authority(), body.len());
        let head = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
        let head = format!("{head}User-Agent: giusto\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        return answer(&mut stream, until);
    }
    Err(refused)
}

/// All that comes until the end, or until its body is whole.
fn answer(stream: &mut TcpStream, until: Instant) -> io::Result<String> {
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    while !is_whole(&read) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || read.len() > ANSWER {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes)? {
            0 => break,
            length => read.extend_from_slice(&bytes[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

fn is_whole(read: &[u8]) -> bool {
    let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| read.len() >= end + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::net::TcpListener;

    /// Answers one request so.
    fn asked(answer: &'static str) -> (Result<u64, Failed>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to: OtlpAddress = format!("http://{}/x", listener.local_addr().unwrap()).parse().unwrap();
        let serves = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut read, mut bytes) = (Vec::new(), [0; 1000]);
            while !is_whole(&read) {
                let length = stream.read(&mut bytes).unwrap();
                read.extend_from_slice(&bytes[..length]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(read).unwrap()
        });
        let done = post(&to, "traces", &json!({"resourceSpans": []}));
        (done, serves.join().unwrap())
    }

    #[test]
    fn a_message_is_taken_refused_for_now_or_for_ever() {
        let (done, request) = asked("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!(done, Ok(0));
        assert!(request.starts_with("POST /x/v1/traces HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
        assert!(request.ends_with("\r\n\r\n{\"resourceSpans\":[]}"), "{request}");
        assert_eq!(asked("HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"3\"}}").0, Ok(3));
        assert!(matches!(asked("HTTP/1.1 503 Busy\r\n\r\n").0, Err(Failed::Later(why)) if why.contains("503 Busy")));
        assert!(matches!(asked("HTTP/1.1 415 No\r\n\r\n").0, Err(Failed::Never(_))));
        assert!(matches!(asked("").0, Err(Failed::Later(_))), "it hung up");
        let nothing: OtlpAddress = "http://127.0.0.1:1".parse().unwrap();
        assert!(matches!(post(&nothing, "traces", &json!({})), Err(Failed::Later(why)) if why.contains("cannot send")));
    }
}
