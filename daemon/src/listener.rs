//! Which process listens on an address.

use crate::Error;
use std::fs;
use std::net::SocketAddr;

/// The process that listens on the TCP port of `address` on this machine. Needs to read other processes' files: root, or the
/// same user. Errors: nobody listens, or whoever does cannot be seen.
pub fn listener(address: SocketAddr) -> Result<u32, Error> {
    let lacks = |what: String, how: &str| Error::Lacks { what, how: how.into() };
    let table = |path| fs::read_to_string(path).unwrap_or_default();
    let inode = find(&table("/proc/net/tcp"), address.port())
        .or_else(|| find(&table("/proc/net/tcp6"), address.port()))
        .ok_or_else(|| lacks(format!("a server on {address}"), "start the service first"))?;
    let socket = format!("socket:[{inode}]");
    let numbers = |path: &str| {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let has = |pid: &u32| {
        let files = numbers(&format!("/proc/{pid}/fd"));
        files.iter().any(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|to| to.as_os_str() == socket.as_str()))
    };
    let pid = numbers("/proc").into_iter().find(has);
    pid.ok_or_else(|| lacks(format!("permission to see who listens on {address}"), "run as root, or as the service's user"))
}

/// Inode of the socket that listens on `port`, from a table of /proc/net.
fn find(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
        (local == port && *fields.get(3)? == "0A").then(|| fields.get(9)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_is_found_and_nobody_is_an_error() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        assert_eq!(listener(address).unwrap(), std::process::id());
        drop(server);
        assert!(matches!(listener(address), Err(Error::Lacks { .. })));
    }
}
