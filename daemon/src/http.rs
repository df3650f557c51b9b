//! As much of HTTP/1 as a reader of a status needs: a head, an answer, the connection's end.
//!
//! The small libraries for it wait for slow clients forever.

use std::io::{self, Read};

/// Longest head of a request.
pub(crate) const HEAD: usize = 8 * 1024;

/// Everything up to the empty line.
pub(crate) fn head(client: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend(&bytes[..length]),
        }
        if head.len() > HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

/// A whole answer; `more` are lines of its head.
pub(crate) fn answer(status: &str, more: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{more}Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Without what follows a `?`.
    pub(crate) path: String,
    /// What follows it, decoded.
    query: Vec<(String, String)>,
    /// The name by which the server was found, without its port.
    pub(crate) host: Option<String>,
}

impl Request {
    /// From a head. Errors: the whole answer to what is no GET.
    pub(crate) fn read(head: &[u8]) -> Result<Request, String> {
        let text = String::from_utf8_lossy(head);
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let target = match (words.next(), words.next(), words.next()) {
            (Some("GET"), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) if target.starts_with('/') => target,
            (Some(_), Some(_), Some("HTTP/1.1" | "HTTP/1.0")) => {
                let says = "only GET is answered\n";
                return Err(answer("405 Method Not Allowed", "Allow: GET\r\n", "text/plain", says));
            }
            _ => return Err(answer("400 Bad Request", "", "text/plain", "expected GET /... HTTP/1.1\n")),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let host = lines.filter_map(header).find(|(name, _)| name.eq_ignore_ascii_case("host"));
        Ok(Request {
            path: path.into(),
            query: query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect(),
            host: host.map(|(_, host)| without_port(&host).into()),
        })
    }

    /// What the query says of `name`.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// `%41` is `A`, `+` a space; what is no code stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 2;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_path_its_query_and_its_host() {
        let head = b"GET /what-if?service=a%20b+c&load=1.5 HTTP/1.1\r\nhost: [::1]:9500\r\n\r\n";
        let request = Request::read(head).unwrap();
        assert_eq!((request.path.as_str(), request.host.as_deref()), ("/what-if", Some("::1")));
        assert_eq!((request.asked("service"), request.asked("load")), (Some("a b c"), Some("1.5")));
        assert_eq!(request.asked("other"), None);
        for (head, status) in [("POST / HTTP/1.1", "405"), ("GET x HTTP/1.1", "405"), ("GET /", "400"), ("", "400")] {
            let refused = Request::read(head.as_bytes()).unwrap_err();
            assert!(refused.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {refused}");
        }
        for text in ["%", "%4", "%zz", "%c3%28", "%ff", "é%C3"] {
            let _ = decoded(text);
        }
    }
}
