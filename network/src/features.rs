//! Offloads of an interface by their names (ETHTOOL_GFEATURES and ETHTOOL_SFEATURES of ioctl SIOCETHTOOL).
//!
//! Packed here: what crates there are for it bring an asynchronous runtime.

use rustix::net::{socket, AddressFamily, SocketType};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const FEATURES: u32 = 4; // ETH_SS_FEATURES
const NAME: usize = 32; // ETH_GSTRING_LEN

/// Generic receive offload: on a veth pair what gives an end a NAPI of its own.
pub(crate) const GRO: &str = "rx-gro";

/// Segmentation of TCP by the interface: on a veth pair the packets of an end that has any of it pass the other end's NAPI by.
pub(crate) fn is_tso(name: &str) -> bool {
    name.starts_with("tx-tcp") && name.ends_with("segmentation")
}

/// Checksums by the interface.
pub(crate) fn is_checksum(name: &str) -> bool {
    name.starts_with("tx-checksum")
}

/// Tags of VLANs by the interface that sends, and by the one that receives: beside the packet, where XDP loses them.
pub(crate) fn is_tag_sent(name: &str) -> bool {
    name.starts_with("tx-vlan") && name.ends_with("insert")
}

pub(crate) fn is_tag_received(name: &str) -> bool {
    name.starts_with("rx-vlan") && name.ends_with("parse")
}

/// One offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    bit: usize,
    /// Whether it is requested (`ethtool -K`).
    pub(crate) wanted: bool,
    pub(crate) active: bool,
    /// Whether it can be changed.
    pub(crate) free: bool,
}

/// Asks and sets, in the network namespace in which it was made.
pub(crate) struct Offloads(OwnedFd);

impl Offloads {
    /// In the namespace of the calling thread.
    pub(crate) fn new() -> io::Result<Offloads> {
        Ok(Offloads(socket(AddressFamily::INET, SocketType::DGRAM, None)?))
    }

    /// All of an interface, by name.
    pub(crate) fn get(&self, name: &str) -> io::Result<BTreeMap<String, Feature>> {
        let mut info = Words::new(&[GET_SET_INFO, 0, 1 << FEATURES, 0, 0]);
        self.call(name, &mut info)?;
        let count = info.at(4) as usize;
        let mut strings = Words::new(&[GET_STRINGS, FEATURES, count as u32]);
        strings.0.resize(3 + count * NAME / 4, 0);
        self.call(name, &mut strings)?;
        let blocks = count.div_ceil(32);
        let mut bits = Words::new(&[GET_FEATURES, blocks as u32]);
        bits.0.resize(2 + blocks * 4, 0);
        self.call(name, &mut bits)?;
        let names: Vec<u8> = strings.0[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let feature = |bit: usize| {
            let block = 2 + bit / 32 * 4;
            let has = |word: usize| bits.at(block + word) >> (bit % 32) & 1 == 1;
            Feature { bit, wanted: has(1), active: has(2), free: has(0) && !has(3) }
        };
        let named = names.chunks_exact(NAME).take(count).enumerate().filter_map(|(bit, name)| {
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
            Some((String::from_utf8(name[..end].to_vec()).ok().filter(|name| !name.is_empty())?, feature(bit)))
        });
        Ok(named.collect())
    }

    /// Asks for some to be on or off. Errors: what the kernel says; a name that it does not know is passed over.
    pub(crate) fn set(&self, name: &str, goal: &BTreeMap<String, bool>) -> io::Result<()> {
        let there = self.get(name)?;
        let blocks = there.values().map(|feature| feature.bit / 32 + 1).max().unwrap_or(0);
        // All blocks that the kernel has: it refuses any other number.
        let mut size = Words::new(&[GET_FEATURES, 0]);
        self.call(name, &mut size)?;
        let blocks = blocks.max(size.at(1) as usize);
        let mut bits = Words::new(&[SET_FEATURES, blocks as u32]);
        bits.0.resize(2 + blocks * 2, 0);
        for (name, on) in goal {
            if let Some(feature) = there.get(name) {
                let block = 2 + feature.bit / 32 * 2;
                bits.0[block] |= 1 << (feature.bit % 32);
                bits.0[block + 1] |= u32::from(*on) << (feature.bit % 32);
            }
        }
        self.call(name, &mut bits)
    }

    fn call(&self, name: &str, words: &mut Words) -> io::Result<()> {
        // struct ifreq: a name and a union of 24 bytes, of which the data's address is one case.
        #[repr(C)]
        struct Request {
            name: [u8; libc::IFNAMSIZ],
            data: *mut u32,
            rest: [usize; 2],
        }
        let mut request = Request { name: [0; libc::IFNAMSIZ], data: words.0.as_mut_ptr(), rest: [0; 2] };
        if name.len() >= request.name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the words are as many as their head tells the kernel.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Memory that the kernel reads and fills; aligned for its 64-bit fields nowhere needed.
struct Words(Vec<u32>);

impl Words {
    fn new(head: &[u32]) -> Words {
        Words(head.to_vec())
    }
    fn at(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }
}
