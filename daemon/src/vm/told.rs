//! What QEMU or libvirt says of a virtual machine.

/// Ids, not yet checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) pid: u32,
    /// vCPU numbers and the ids of their threads.
    pub(super) vcpus: Vec<(u32, u32)>,
}
