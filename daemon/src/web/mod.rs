//! A page to look at (`giusto run --web ADDRESS`): the host live, in a browser. It reads, and changes nothing.
//!
//! `GET /` is the page, `/events` the status once a second (server-sent events), `/timeline` the last second of the cores,
//! `/what-if` a plan for other loads. At a loopback address or a Unix socket all who can connect can read; at another address
//! a token is needed. A name that is not this host's own is refused, so that no page of others can ask.

mod budget;
mod page;
mod recorder;
mod what_if;

use crate::http::{answer, head, Request};
use crate::listening::{Client, Listener, Server, Stream};
use crate::{Error, Host};
pub use page::{plan_page, simulation_page};
use recorder::Timeline;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the status is sent.
const EVERY: Duration = Duration::from_secs(1);
/// How soon a page learns that giusto ends.
const STEP: Duration = Duration::from_millis(100);
/// Shortest token.
const TOKEN: usize = 16;

/// Where the page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebAddress {
    /// `127.0.0.1:9500`
    Tcp(SocketAddr),
    /// A path, with at least one slash.
    Unix(PathBuf),
}

impl FromStr for WebAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<WebAddress, String> {
        match text.parse() {
            Ok(address) => Ok(WebAddress::Tcp(address)),
            Err(_) if text.contains('/') => Ok(WebAddress::Unix(text.into())),
            Err(_) => {
                Err("expected an address as 127.0.0.1:9500, or the path of a Unix socket as /run/giusto/web".into())
            }
        }
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WebAddress::Tcp(address) => write!(f, "http://{address}/"),
            WebAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where the page is, and who may see it.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// Where.
    pub address: WebAddress,
    /// What a reader has to know, where there is one.
    pub token: Option<String>,
}

impl WebSettings {
    /// With the token in `file`. Errors: it cannot be read, is too short, or is missing where the address is no loopback's.
    pub fn new(address: WebAddress, file: Option<&Path>) -> Result<WebSettings, String> {
        let token = match file {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    format!("--web-token {0}: {error}; write one there: openssl rand -hex 16 > {0}", file.display())
                })?;
                Some(text.trim().to_owned())
            }
        };
        if token.as_ref().is_some_and(|token| token.len() < TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(format!(
                "--web-token: expected a line of at least {TOKEN} characters without spaces, as 'openssl rand -hex 16' prints it"
            ));
        }
        match address {
            WebAddress::Tcp(tcp) if !tcp.ip().is_loopback() && token.is_none() => Err(format!(
                "--web {tcp}: every host that reaches it could read names and loads of all services; give it a token by \
                 --web-token FILE, or a loopback address"
            )),
            _ => Ok(WebSettings { address, token }),
        }
    }
}

/// The page, until it is dropped.
#[derive(Debug)]
pub(crate) struct Web {
    ended: Arc<AtomicBool>,
    socket: Option<PathBuf>,
    _server: Server,
}

impl Web {
    /// Answers at the address. Errors: it cannot be listened on.
    pub(crate) fn listen(settings: WebSettings, host: Arc<dyn Host>) -> Result<Web, Error> {
        let WebSettings { address, token } = settings;
        let cannot = |source| Error::Io { doing: format!("listen on {address} for --web"), source };
        let ended = Arc::new(AtomicBool::new(false));
        let at_home = matches!(address, WebAddress::Unix(_)) || token.is_some();
        let site = Arc::new(Site { host, token, at_home, ended: ended.clone(), timeline: Timeline::default() });
        let (server, socket) = match &address {
            WebAddress::Tcp(tcp) => (started(TcpListener::bind(tcp).map_err(cannot)?, site), None),
            WebAddress::Unix(path) => (started(bind(path).map_err(cannot)?, site), Some(path.clone())),
        };
        let server = server.map_err(cannot)?;
        tracing::info!("the page is at {address}");
        Ok(Web { ended, socket, _server: server })
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket for its user and group; in the place of one that a dead giusto left.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

fn started<L: Listener>(listener: L, site: Arc<Site>) -> io::Result<Server> {
    Server::start("giusto-web", listener, move |client| site.serve(client), drop)
}

/// What answers.
struct Site {
    host: Arc<dyn Host>,
    token: Option<String>,
    /// It answers by any name.
    at_home: bool,
    ended: Arc<AtomicBool>,
    timeline: Timeline,
}

impl Site {
    fn serve<S: Stream>(&self, mut client: Client<S>) {
        let Ok(head) = head(&mut client) else { return };
        client.renew();
        let request = match Request::read(&head).and_then(|request| self.admitted(request)) {
            Ok(request) => request,
            Err(refused) => {
                let _ = client.write_all(refused.as_bytes());
                return;
            }
        };
        let number = |name| request.asked(name).and_then(|text| text.parse().ok());
        let answer = match request.path.as_str() {
            "/" => {
                let more = format!("Content-Security-Policy: {}\r\nReferrer-Policy: no-referrer\r\n", page::POLICY);
                answer("200 OK", &more, "text/html; charset=utf-8", &page::live())
            }
            "/events" => {
                let _ = self.send_events(&mut client);
                return;
            }
            "/timeline" => json(&self.timeline.look(self.host.as_ref())),
            "/what-if" => json(&what_if::what_if(self.host.as_ref(), request.asked("service"), number("load"))),
            "/budget" => json(&budget::budget(self.host.as_ref(), request.asked("service"), number("ms"))),
            _ => answer("404 Not Found", "", "text/plain", "the page is at /\n"),
        };
        client.renew();
        let _ = client.write_all(answer.as_bytes());
    }

    /// Errors: the answer to one who may not read. Names of others are refused, as a page of theirs would come by them.
    fn admitted(&self, request: Request) -> Result<Request, String> {
        let own = request.host.as_deref().is_none_or(|host| host == "localhost" || host.parse::<IpAddr>().is_ok());
        if !own && !self.at_home {
            let says = "this page is found by an address or as localhost only\n";
            return Err(answer("421 Misdirected Request", "", "text/plain", says));
        }
        match &self.token {
            Some(token) if !equal(token, request.asked("token").unwrap_or_default()) => {
                Err(answer("401 Unauthorized", "", "text/plain", "add ?token=... to the address\n"))
            }
            _ => Ok(request),
        }
    }

    /// The status once a second, until the client leaves.
    fn send_events<S: Stream>(&self, client: &mut Client<S>) -> io::Result<()> {
        client.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        )?;
        while !self.ended.load(Ordering::Relaxed) {
            let next = Instant::now() + EVERY;
            let status = serde_json::to_string(&self.host.status()).map_err(io::Error::other)?;
            client.renew();
            client.write_all(format!("data: {status}\n\n").as_bytes())?;
            while Instant::now() < next && !self.ended.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
            }
        }
        Ok(())
    }
}

/// In a time that does not tell how much of it is right.
fn equal(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differs == 0
}

fn json(body: &impl Serialize) -> String {
    let text = serde_json::to_string(body).unwrap_or_default(); // numbers and texts
    answer("200 OK", "Cache-Control: no-store\r\n", "application/json", &text)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
