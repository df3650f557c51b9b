//! What several backends look for, and what to do where it is missing.

use crate::Lack;
use std::path::Path;

/// What to do without a privilege.
pub(super) const ROOT: &str = "run as root: sudo giusto run ...";
/// Where version 1 hierarchies are mounted, with the names that distributions give that of cpu.
pub(super) const CPU: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// Whether the groups of a hierarchy can be changed, told by one file of its root.
pub(super) fn writing(file: &Path) -> Vec<Lack> {
    let allowed = [file, file.parent().unwrap_or(file)]
        .into_iter()
        .all(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok());
    if allowed {
        return Vec::new();
    }
    vec![Lack::new(format!("write access to {}", file.display()), "run as root, outside of a container")]
}
