//! Asks a service for its metrics every few seconds, with HTTP's simplest request.

use super::openmetrics::{histogram, Shown};
use super::told::Told;
use crate::http_get::{self, Peer};
use giusto_model::Exporter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

/// How often.
const EVERY: Duration = Duration::from_secs(5);

/// Asks, on a thread of its own, until it is dropped.
pub(super) struct Scraper {
    ended: Arc<AtomicBool>,
    thread: Thread,
}

impl Scraper {
    pub(super) fn start(from: Exporter, name: String, told: Arc<Told>) -> Result<Scraper, String> {
        let ended = Arc::new(AtomicBool::new(false));
        let ends = ended.clone();
        let ask = move || {
            let mut last: Option<Shown> = None;
            while !ends.load(Ordering::Relaxed) {
                match get(&from).and_then(|text| histogram(&text, &name)) {
                    Ok(shown) => {
                        // What was before giusto came is not its own.
                        let new = last.as_ref().map(|last| shown.since(last)).unwrap_or_default();
                        told.add(new.buckets, new.total_ns);
                        told.is_right();
                        last = Some(shown);
                    }
                    Err(why) => told.is_wrong(format!("cannot scrape {from}: {why}")),
                }
                std::thread::park_timeout(EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("giusto-scrape".into()).spawn(ask);
        let thread = thread.map_err(|why| format!("cannot scrape: {why}"))?.thread().clone();
        Ok(Scraper { ended, thread })
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// The body of the answer.
fn get(from: &Exporter) -> Result<String, String> {
    let (to, path) = match from {
        Exporter::Http { address, path } => (Peer::Tcp(*address), path.as_str()),
        Exporter::Unix(socket) => (Peer::Unix(socket), "/metrics"),
    };
    let answer = http_get::get(&to, path, "application/openmetrics-text; version=1.0.0, text/plain; version=0.0.4")?;
    match answer.code {
        200 => Ok(answer.body),
        _ => Err(format!("it answers '{}'", answer.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_get::{LARGEST, PATIENCE};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    /// Answers once.
    fn answers(answer: &'static [u8]) -> Exporter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(answer);
        });
        Exporter::Http { address, path: "/metrics".into() }
    }

    #[test]
    fn an_answer_is_taken_and_all_else_is_told() {
        assert_eq!(get(&answers(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\na 1\n")), Ok("a 1\n".into()));
        for (answer, told) in [
            (&b"HTTP/1.1 404 Not Found\r\n\r\n"[..], "it answers 'HTTP/1.1 404 Not Found'"),
            (b"SSH-2.0\r\n\r\n", "not HTTP"),
            (b"", "not HTTP"),
            (b"HTTP/1.0 200 OK\r\n\r\n\xff", "not UTF-8"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "in chunks"),
        ] {
            assert!(get(&answers(answer)).unwrap_err().contains(told), "{told}");
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(get(&Exporter::Http { address: free, path: "/".into() }).unwrap_err().contains("refused"));
        let endless: &'static [u8] = Box::leak(vec![b'a'; LARGEST + (1 << 20)].into_boxed_slice());
        assert!(get(&answers(endless)).unwrap_err().contains("longer than 4 MiB"));
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let begun = Instant::now();
        let told = get(&Exporter::Http { address: silent.local_addr().unwrap(), path: "/".into() });
        assert!(told.unwrap_err().contains("no whole answer") && begun.elapsed() < 2 * PATIENCE);
    }

    #[test]
    fn a_unix_socket_is_asked_for_its_metrics() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        let listener = UnixListener::bind(&path).unwrap();
        let answered = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; 1000];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nb 2\n").unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        assert_eq!(get(&Exporter::Unix(path)), Ok("b 2\n".into()));
        assert!(answered.join().unwrap().starts_with("GET /metrics HTTP/1.0\r\n"));
    }
}
