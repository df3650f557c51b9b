//! What a process serves, by its command line and the ports that it listens on: whether Giusto could load it by itself.

use crate::listener::listening;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A service that Giusto can load, and where it accepts connections on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Redis, or what speaks as Redis does.
    Redis(SocketAddr),
    /// memcached.
    Memcached(SocketAddr),
    /// A web server that keeps connections.
    Http(SocketAddr),
}

/// Programs, by the beginning of their names.
const REDIS: [&str; 3] = ["redis-server", "valkey-server", "keydb-server"];
const MEMCACHED: [&str; 1] = ["memcached"];
const WEB: [&str; 9] =
    ["nginx", "apache2", "httpd", "lighttpd", "caddy", "gunicorn", "uvicorn", "haproxy", "http.server"];
/// Where web servers listen whose names say nothing.
const WEB_PORTS: [u16; 6] = [80, 3000, 8000, 8008, 8080, 8888];

/// What the first of `pids` that listens serves. Connects to nothing.
///
/// # Errors
/// Why it is nothing that Giusto can load, in words.
pub fn serves(pids: &[u32]) -> Result<Served, String> {
    let mut why = "it has no TCP port that may be read; run as root or as the user of the service".to_string();
    for &pid in pids {
        let command = command(pid);
        // Where it may not be looked at, it is taken to be the same.
        if namespace(pid).is_some_and(|its| Some(its) != namespace(std::process::id())) {
            why = "it is in a network namespace of its own, which a load on loopback does not reach".into();
            continue;
        }
        let addresses = listening(pid);
        match judged(&command, &addresses) {
            Ok(served) => return Ok(served),
            Err(Some(reason)) => why = reason,
            Err(None) => {}
        }
    }
    Err(why)
}

/// By the words of its command line and the addresses; `None` where it does not listen.
fn judged(command: &[String], addresses: &[SocketAddr]) -> Result<Served, Option<String>> {
    if addresses.is_empty() {
        return Err(None);
    }
    let near = addresses.iter().filter_map(|address| reachable(*address)).min_by_key(SocketAddr::port);
    let Some(address) = near else {
        let why = format!("it listens on {}, which is not loopback, and Giusto loads only this machine", addresses[0]);
        return Err(Some(why));
    };
    let is = |names: &[&str]| {
        let base = |word: &String| word.rsplit('/').next().unwrap_or_default().to_string();
        command.iter().take(4).map(base).any(|word| names.iter().any(|name| word.starts_with(name)))
    };
    if is(&REDIS) {
        return Ok(Served::Redis(address));
    }
    if is(&MEMCACHED) {
        return Ok(Served::Memcached(address));
    }
    // Python's own web server closes every connection unless it is told otherwise.
    if is(&["http.server"]) && !command.iter().any(|word| word.contains("HTTP/1.1")) {
        let why = "it is Python's http.server, which closes every connection; start it with --protocol HTTP/1.1, then \
                   load: {http: ADDRESS} works";
        return Err(Some(why.replace("ADDRESS", &address.to_string())));
    }
    if is(&WEB) || addresses.iter().any(|one| WEB_PORTS.contains(&one.port())) {
        return Ok(Served::Http(address));
    }
    Err(Some(format!("what listens on {address} is neither Redis, memcached nor a web server by its command line")))
}

/// Where a connection from this machine's loopback arrives at a listening address.
fn reachable(address: SocketAddr) -> Option<SocketAddr> {
    let ip = match address.ip() {
        ip if ip.is_loopback() => ip,
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, address.port()))
}

/// The words of a process's command line; some services write a sentence there.
fn command(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.split_whitespace().map(|word| word.trim_end_matches(':').to_string()).collect()
}

/// The network namespace of a process.
fn namespace(pid: u32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    #[test]
    fn services_are_told_by_their_programs_and_addresses() {
        let at = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        let of = |line: &str, address: &str| judged(&words(line), &at(address));
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(of("/usr/bin/redis-server *:6379", "0.0.0.0:6379"), Ok(Served::Redis(local(6379))));
        assert_eq!(of("/usr/bin/memcached -l 127.0.0.1", "127.0.0.1:11211"), Ok(Served::Memcached(local(11211))));
        assert_eq!(of("nginx master process", "0.0.0.0:8443"), Ok(Served::Http(local(8443))));
        assert_eq!(of("node server.js", "127.0.0.1:3000"), Ok(Served::Http(local(3000))));
        let ipv6 = of("valkey-server", "[::]:7001").unwrap();
        assert_eq!(ipv6, Served::Redis("[::1]:7001".parse().unwrap()));
        let python = "python3 -m http.server 8000";
        assert!(of(python, "0.0.0.0:8000").unwrap_err().unwrap().contains("--protocol HTTP/1.1"));
        let keeps = of(&format!("{python} --protocol HTTP/1.1"), "0.0.0.0:8000");
        assert_eq!(keeps, Ok(Served::Http(local(8000))));
        assert!(of("redis-server", "10.0.0.1:6379").unwrap_err().unwrap().contains("loopback"));
        assert!(of("postgres", "127.0.0.1:5432").unwrap_err().unwrap().contains("neither"));
        assert_eq!(judged(&words("redis-server"), &[]), Err(None));
    }

    #[test]
    fn the_ports_of_this_process_are_seen_and_what_it_is_is_not_guessed() {
        let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = open.local_addr().unwrap();
        assert!(listening(std::process::id()).contains(&address));
        assert!(serves(&[u32::MAX]).unwrap_err().contains("no TCP port"));
    }
}
