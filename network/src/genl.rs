//! The `netdev` family of generic netlink: which thread polls a device (Linux 6.8 and later).
//!
//! Packed here: no crate has this family (include/uapi/linux/netdev.h).

use crate::route::Asking;
use netlink_packet_core::{parse_u16, parse_u32, DefaultNla, Emitable, Nla, NlasIterator, NLM_F_DUMP};
use std::io;

const CTRL: u16 = 16;
const CTRL_GET_FAMILY: u8 = 3;
const CTRL_FAMILY_ID: u16 = 1;
const CTRL_FAMILY_NAME: u16 = 2;
const NAPI_GET: u8 = 11;
const NAPI_INTERFACE: u16 = 1;
const NAPI_PID: u16 = 4;

/// Asks that family, in one network namespace.
pub(crate) struct Napis {
    asking: Asking,
    family: u16,
}

impl Napis {
    /// In the namespace of the calling thread; `None`: the kernel does not have it.
    pub(crate) fn new() -> io::Result<Option<Napis>> {
        let asking = Asking::generic()?;
        let mut family = None;
        let name = DefaultNla::new(CTRL_FAMILY_NAME, b"netdev\0".to_vec());
        let asked = asking.exchange(CTRL, 0, &packed(CTRL_GET_FAMILY, &name), &mut |_, body| {
            for attribute in attributes(body)? {
                if attribute.kind() == CTRL_FAMILY_ID {
                    family = parse_u16(&value(&attribute)).ok();
                }
            }
            Ok(())
        });
        match (asked, family) {
            (Ok(()), Some(family)) => Ok(Some(Napis { asking, family })),
            (Err(error), _) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(None),
        }
    }

    /// The threads that poll the device; `None`: this kernel does not tell.
    pub(crate) fn threads(&self, index: u32) -> io::Result<Option<Vec<u32>>> {
        let interface = DefaultNla::new(NAPI_INTERFACE, index.to_ne_bytes().to_vec());
        let mut pids = Vec::new();
        let asked = self.asking.exchange(self.family, NLM_F_DUMP, &packed(NAPI_GET, &interface), &mut |_, body| {
            for attribute in attributes(body)? {
                if attribute.kind() == NAPI_PID {
                    pids.extend(parse_u32(&value(&attribute)).ok());
                }
            }
            Ok(())
        });
        match asked {
            Ok(()) => Ok(Some(pids)),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Command, version 1, and an attribute.
fn packed(command: u8, attribute: &DefaultNla) -> Vec<u8> {
    let mut bytes = vec![0; 4 + attribute.buffer_len()];
    (bytes[0], bytes[1]) = (command, 1);
    attribute.emit(&mut bytes[4..]);
    bytes
}

fn attributes(body: &[u8]) -> io::Result<Vec<DefaultNla>> {
    use netlink_packet_core::Parseable;
    let broken =
        |error: netlink_packet_core::DecodeError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    NlasIterator::new(body.get(4..).unwrap_or_default())
        .map(|nla| nla.and_then(|nla| DefaultNla::parse(&nla)).map_err(broken))
        .collect()
}

fn value(attribute: &DefaultNla) -> Vec<u8> {
    let mut bytes = vec![0; attribute.value_len()];
    attribute.emit_value(&mut bytes);
    bytes
}
