//! Agents of services with modes: who they are, and where they find the host's manager.

use crate::Duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest path of a Unix socket: `sun_path` without its end.
const LONGEST: usize = 107;

/// The agent in a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentKey {
    /// The file with its pre-shared key.
    pub key: PathBuf,
    /// Its worst work for one change, in processor time.
    #[serde(rename = "cost_ns")]
    pub cost: Duration,
    /// The global modes that it may ask for; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
}

/// Where the host's manager waits for agents; in files a text such as `unix:/run/giusto/modes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    /// A Unix socket, by its absolute path.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A port that virtual machines reach without a network.
    Vsock(u32),
}

impl Listen {
    /// The default.
    pub fn usual() -> Self {
        Listen::Unix("/run/giusto/modes".into())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Tcp(address) => write!(f, "tcp:{address}"),
            Listen::Vsock(port) => write!(f, "vsock:{port}"),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected unix:/run/giusto/modes, tcp:10.0.0.1:7400 or vsock:7400";
        let bad = |what: &str| format!("'{text}' {what}; {expected}");
        match text.split_once(':') {
            Some(("unix", path)) if !path.starts_with('/') => Err(bad("names no absolute path")),
            Some(("unix", path)) if path.len() > LONGEST => Err(bad("is too long for a socket")),
            Some(("unix", path)) => Ok(Listen::Unix(path.into())),
            Some(("tcp", address)) => match address.parse() {
                Ok(address) if SocketAddr::port(&address) > 0 => Ok(Listen::Tcp(address)),
                _ => Err(bad("is no address with a port")),
            },
            Some(("vsock", port)) => {
                let digits = !port.starts_with('+') && (port == "0" || !port.starts_with('0'));
                // All ones stands for any port.
                let port = port.parse().ok().filter(|port| digits && *port > 0 && *port < u32::MAX);
                port.map(Listen::Vsock).ok_or_else(|| bad("is no port"))
            }
            _ => Err(bad("is no place to wait for agents")),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_is_written_as_it_is_read() {
        for good in ["unix:/run/giusto/modes", "tcp:10.0.0.1:7400", "tcp:[::1]:7400", "vsock:7400"] {
            assert_eq!(good.parse::<Listen>().unwrap().to_string(), good);
        }
        let long = format!("unix:/{}", "x".repeat(LONGEST));
        for bad in [
            "",
            "unix:",
            "unix:modes",
            &long,
            "tcp:7400",
            "tcp:10.0.0.1",
            "tcp:10.0.0.1:0",
            "vsock:0",
            "vsock:x",
            "udp:1",
        ] {
            assert!(bad.parse::<Listen>().unwrap_err().contains("; expected"), "{bad}");
        }
    }
}
