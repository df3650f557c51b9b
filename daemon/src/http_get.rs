//! One answer over HTTP, by its simplest request; called where services tell their metrics and engines their containers.

use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// For all of one answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer.
pub(crate) const LARGEST: usize = 4 << 20;

/// Who is asked.
pub(crate) enum Peer<'a> {
    Tcp(SocketAddr),
    Unix(&'a Path),
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 200 and others.
    pub(crate) code: u16,
    /// The first line.
    pub(crate) status: String,
    pub(crate) body: String,
}

/// Asks for `path`, which is plain ASCII without spaces. Takes [`PATIENCE`] at most to connect, and for the answer again. Errors:
/// no answer, or none of HTTP/1 in UTF-8 and in one piece.
pub(crate) fn get(to: &Peer, path: &str, accept: &str) -> Result<Answer, String> {
    let answer = ask(to, path, accept).map_err(|why| match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("no whole answer came in {PATIENCE:?}"),
        io::ErrorKind::InvalidData => format!("its answer is longer than {} MiB", LARGEST >> 20),
        _ => why.to_string(),
    })?;
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n").ok_or("its answer is not HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status: String = head.lines().next().unwrap_or_default().chars().take(80).collect();
    let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.filter(|_| status.starts_with("HTTP/1.")).ok_or("its answer is not HTTP")?;
    if head.lines().any(|line| line.to_ascii_lowercase().starts_with("transfer-encoding:")) {
        return Err("it answers HTTP/1.0 in chunks".into());
    }
    let body = String::from_utf8(answer[end + 4..].to_vec()).map_err(|_| "it is not UTF-8")?;
    Ok(Answer { code, status, body })
}

/// The whole answer: HTTP/1.0 ends with its connection.
fn ask(to: &Peer, path: &str, accept: &str) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (domain, address, host) = match to {
        Peer::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address), address.to_string()),
        Peer::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?, "localhost".into()),
    };
    let mut socket = Socket::new(domain, Type::STREAM, None)?;
    socket.connect_timeout(&address, PATIENCE)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut bytes = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut bytes) {
            Ok(0) => return Ok(answer),
            Ok(length) => answer.extend_from_slice(&bytes[..length]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
        if answer.len() > LARGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}
