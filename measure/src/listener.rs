//! Which process listens on a port.

use crate::Error;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::{fs, io};

/// State LISTEN in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The process that accepts connections to `address`. Of several that share the socket (a server and its children) the
/// lowest id, which is usually the parent. O(open files of the machine).
///
/// # Errors
/// [`Error::Listener`] if no process listens there, or if its process may not be looked at.
pub fn listener(address: SocketAddr) -> Result<u32, Error> {
    let failed = |why: String| Error::Listener { address, why };
    let unserved = || failed("no process does; start the service, or check its address".into());
    let mut best = None;
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_to_string(table) {
            Ok(text) => best = best.max(socket(&text, address)),
            // A kernel without IPv6 has only the first.
            Err(why) if why.kind() == io::ErrorKind::NotFound && table.ends_with('6') => (),
            Err(why) => return Err(failed(format!("{table}: {why}; is /proc mounted?"))),
        }
    }
    let (_, inode) = best.ok_or_else(unserved)?;
    let owner = owner(&format!("socket:[{inode}]")).map_err(|why| failed(format!("/proc: {why}; is it mounted?")))?;
    owner.ok_or_else(|| failed("its process is out of sight; run as root or as the user of the service".into()))
}

/// The listening socket in a table that takes connections to `address`: whether it has just this address (which wins
/// over any), and its inode.
fn socket(table: &str, address: SocketAddr) -> Option<(bool, u64)> {
    let matching = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (ip, port) = fields.get(1)?.split_once(':')?;
        let ip = ip_of(ip)?;
        let any = ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4());
        let same = ip.to_canonical() == address.ip().to_canonical();
        let listens = *fields.get(3)? == LISTEN && u16::from_str_radix(port, 16).ok()? == address.port();
        (listens && (same || any)).then_some((same, fields.get(9)?.parse().ok()?))
    };
    table.lines().skip(1).filter_map(matching).max()
}

/// The addresses on which a process accepts connections; none where its files may not be looked at.
pub fn listening(pid: u32) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = listeners(pid).into_iter().map(|(address, _)| address).collect();
    found.sort_unstable();
    found
}

/// The same with the number of the descriptor.
pub(crate) fn listeners(pid: u32) -> Vec<(SocketAddr, i32)> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links: HashMap<_, _> = files
        .flatten()
        .filter_map(|file| Some((fs::read_link(file.path()).ok()?, file.file_name().to_str()?.parse::<i32>().ok()?)))
        .collect();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let entries = tables.iter().flat_map(|table| table.lines().skip(1).filter_map(entry));
    let held = |(address, inode)| Some((address, *links.get(Path::new(&format!("socket:[{inode}]")))?));
    entries.filter_map(held).collect()
}

/// Address and inode of a line that is about a listening socket.
fn entry(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (ip, port) = fields.get(1)?.split_once(':')?;
    let address = SocketAddr::new(ip_of(ip)?, u16::from_str_radix(port, 16).ok()?);
    (*fields.get(3)? == LISTEN).then_some((address, fields.get(9)?.parse().ok()?))
}

/// An address as the kernel prints it: 32-bit words in hexadecimal, each in the machine's byte order.
fn ip_of(hex: &str) -> Option<IpAddr> {
    let word = |i: usize| Some(u32::from_str_radix(hex.get(8 * i..8 * i + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?)))
        }
        _ => None,
    }
}

/// The lowest process that has `link` open. Those that end meanwhile or may not be looked at are passed over.
fn owner(link: &str) -> io::Result<Option<u32>> {
    let mut lowest = None;
    for process in fs::read_dir("/proc")? {
        let name = process?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let holds = files.flatten().any(|f| fs::read_link(f.path()).is_ok_and(|to| to.as_os_str() == link));
        if holds && lowest.is_none_or(|l| pid < l) {
            lowest = Some(pid);
        }
    }
    Ok(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn this_process_is_found_by_its_port_and_none_by_a_closed_one() {
        for wanted in ["127.0.0.1:0", "0.0.0.0:0"] {
            let open = TcpListener::bind(wanted).unwrap();
            let address = SocketAddr::from(([127, 0, 0, 1], open.local_addr().unwrap().port()));
            assert_eq!(listener(address).unwrap(), std::process::id(), "{wanted}");
            drop(open);
            assert!(matches!(listener(address), Err(Error::Listener { .. })));
        }
    }

    #[test]
    fn only_a_listening_socket_of_that_address_counts_and_the_exact_one_wins() {
        let hex = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        let line = |ip, port: u16, state, inode| {
            format!(" 0: {}:{port:04X} 00000000:0000 {state} 0:0 0:0 0 0 0 {inode} 1 0", hex(ip))
        };
        let table = [
            "  sl  local_address".to_string(),
            line([127, 0, 0, 1], 7001, "01", 1),
            line([127, 0, 0, 1], 7002, "0A", 2),
            line([10, 0, 0, 1], 7001, "0A", 3),
            line([0, 0, 0, 0], 7001, "0A", 40),
            line([127, 0, 0, 1], 7001, "0A", 5),
        ];
        let address = "127.0.0.1:7001".parse().unwrap();
        assert_eq!(socket(&table.join("\n"), address), Some((true, 5)));
        assert_eq!(socket(&table[..5].join("\n"), address), Some((false, 40)));
        assert_eq!(socket(&table[..4].join("\n"), address), None);
        let loopback = [0, 0, 0, u32::from_ne_bytes([0, 0, 0, 1])].map(|w| format!("{w:08X}")).concat();
        assert_eq!(ip_of(&loopback), Some(Ipv6Addr::LOCALHOST.into()));
    }
}
