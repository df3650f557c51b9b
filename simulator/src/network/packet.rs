//! A packet on its way.

use giusto_model::PacketClass;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) guest: usize,
    pub(super) class: PacketClass,
    pub(super) bytes: u32,
    /// Whether it is answered.
    pub(super) asks: bool,
    /// When the guest sent it.
    pub(super) born: u64,
    /// When it came where it is.
    pub(super) since: u64,
}
