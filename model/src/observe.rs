//! What is observed of a service while it runs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where the response times of a service come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observe {
    /// The requests that it answers over stream sockets.
    Requests,
    /// Its threads: from a wake-up to going back to sleep.
    WakeUps,
    /// None: only what its server gives it.
    Supply,
    /// What it says itself.
    Reported(Reported),
    /// None at all.
    None,
}

/// How a service says what its requests or jobs took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reported {
    /// By a histogram, in the text of Prometheus or OpenMetrics, that is asked for.
    Scrape {
        /// Where.
        from: Exporter,
        /// Its name, without `_bucket`; all its series together.
        histogram: String,
    },
    /// By spans that it sends: OTLP over HTTP, in JSON.
    Otlp {
        /// Where Giusto listens for them, loopback only.
        at: SocketAddr,
        /// The name of those that count; `None`: those of kind server or consumer.
        span: Option<String>,
    },
}

/// Where a service shows its metrics, on this machine: `http://127.0.0.1:9121/metrics`, or `unix:/run/app/metrics`, where
/// `/metrics` is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Exporter {
    /// Over TCP.
    Http {
        /// Loopback only.
        address: SocketAddr,
        /// From its `/` on.
        path: String,
    },
    /// Over a Unix socket.
    Unix(PathBuf),
}

impl Observe {
    /// As the site file calls it.
    pub fn word(&self) -> &'static str {
        match self {
            Observe::Requests => "requests",
            Observe::WakeUps => "wake-ups",
            Observe::Supply => "supply",
            Observe::Reported(_) => "reported",
            Observe::None => "none",
        }
    }
}

/// Linux takes no longer path for a socket (`sun_path` without its final zero).
const LONGEST_SOCKET: usize = 107;
const LONGEST_PATH: usize = 1024;

impl FromStr for Exporter {
    type Err = String;

    fn from_str(text: &str) -> Result<Exporter, String> {
        let bad = |why: &str| {
            Err(format!(
                "'{text}' {why}; expected where it shows its metrics on this machine, such as http://127.0.0.1:9121/metrics \
                 or unix:/run/app/metrics"
            ))
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = path.starts_with('/') && path.len() <= LONGEST_SOCKET && !path.contains(char::is_control);
            return if is_path { Ok(Exporter::Unix(path.into())) } else { bad("is no path of a socket") };
        }
        let Some(rest) = text.strip_prefix("http://") else { return bad("begins with neither http:// nor unix:") };
        let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path.is_empty() { "/metrics" } else { path };
        let is_plain = path.len() <= LONGEST_PATH && path.bytes().all(|byte| byte.is_ascii_graphic());
        match address.parse::<SocketAddr>() {
            Err(_) => bad("has no numeric address and port"),
            Ok(address) if !address.ip().is_loopback() => bad("is not on this machine"),
            Ok(address) if address.port() == 0 => bad("has no port"),
            Ok(_) if !is_plain => bad("has a path with blanks or other letters than ASCII's in it"),
            Ok(address) => Ok(Exporter::Http { address, path: path.into() }),
        }
    }
}

impl fmt::Display for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exporter::Http { address, path } => write!(f, "http://{address}{path}"),
            Exporter::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl TryFrom<String> for Exporter {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Exporter> for String {
    fn from(exporter: Exporter) -> String {
        exporter.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exporters_are_on_this_machine_and_have_one_notation() {
        for good in ["http://127.0.0.1:9121/metrics", "http://[::1]:80/a?b=c", "unix:/run/app/metrics"] {
            assert_eq!(good.parse::<Exporter>().unwrap().to_string(), good);
        }
        assert_eq!("http://127.0.0.1:9121".parse::<Exporter>().unwrap().to_string(), "http://127.0.0.1:9121/metrics");
        let long = format!("unix:/{}", "x".repeat(LONGEST_SOCKET));
        let bad =
            ["https://127.0.0.1:1/", "http://10.0.0.1:9121/metrics", "http://localhost:9121/", "http://127.0.0.1/"];
        for bad in bad.into_iter().chain(["http://127.0.0.1:0/", "http://127.0.0.1:1/a b", "unix:app", &long, ""]) {
            assert!(bad.parse::<Exporter>().unwrap_err().contains("; expected "), "{bad}");
        }
    }
}
