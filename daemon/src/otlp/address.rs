//! Where a collector of OpenTelemetry listens: `http://HOST[:PORT][/PATH]`.

use std::fmt;
use std::str::FromStr;

/// The port of OTLP over HTTP.
const PORT: u16 = 4318;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpAddress {
    /// A name or an address; of IPv6 without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What goes before `/v1/traces`.
    path: String,
}

impl OtlpAddress {
    /// The target of a signal: `traces` or `metrics`.
    pub(super) fn target(&self, signal: &str) -> String {
        format!("{}/v1/{signal}", self.path)
    }

    /// As a request names the host.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for OtlpAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<OtlpAddress, String> {
        let bad = |why: &str| format!("{why}; expected a collector as http://127.0.0.1:{PORT}");
        if text.starts_with("https:") {
            return Err(bad("giusto does not encrypt: send to a collector on this host, which passes it on"));
        }
        let rest = text.strip_prefix("http://").ok_or_else(|| bad("it does not begin with http://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| bad("its port is none"))?;
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains(['@', '?', '#']) || !is_plain(authority) || !is_plain(path) {
            return Err(bad("it names no host"));
        }
        let path = path.trim_end_matches('/');
        Ok(OtlpAddress {
            host: host.into(),
            port,
            path: if path.is_empty() { String::new() } else { format!("/{path}") },
        })
    }
}

impl fmt::Display for OtlpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_a_port_and_a_path() {
        for (text, shown, target) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318", "/v1/traces"),
            ("http://collector", "http://collector:4318", "/v1/traces"),
            ("http://[::1]:1/otlp/", "http://[::1]:1/otlp", "/otlp/v1/traces"),
        ] {
            let address: OtlpAddress = text.parse().unwrap();
            assert_eq!((address.to_string().as_str(), address.target("traces").as_str()), (shown, target));
        }
        for (text, why) in [
            ("https://127.0.0.1:4318", "does not encrypt"),
            ("127.0.0.1:4318", "http://"),
            ("http://", "no host"),
            ("http://a:b", "port"),
            ("http://a@b", "no host"),
            ("http://a/b c", "no host"),
        ] {
            let refused = text.parse::<OtlpAddress>().unwrap_err();
            assert!(refused.contains(why) && refused.contains("expected"), "{text}: {refused}");
        }
    }
}
