//! The names of the groups that Giusto makes, and what they say of a group.

use giusto_cgroup::Tree;
use std::path::{Path, PathBuf};

/// How the folders that Giusto makes begin.
pub(crate) const OURS: &str = "giusto.";

/// Whether Giusto made a folder.
pub(crate) fn ours(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OURS))
}

/// No server's group has this name: what follows a service's name there is a number.
pub(crate) fn folder_name(service: &str) -> String {
    format!("giusto.{service}.service")
}

/// Where a group of `service` lies below `root`, if it was started by Giusto.
pub(crate) fn below(root: &Path, service: &str) -> PathBuf {
    root.join(folder_name(service))
}

/// Whether a folder is the group of a started service.
pub(crate) fn is_service(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
        name.strip_prefix("giusto.").and_then(|rest| rest.strip_suffix(".service")).is_some_and(|rest| !rest.is_empty())
    })
}

/// Whether a process is in the group of the service of this name.
pub(crate) fn contains(service: &str, pid: u32) -> bool {
    let Some(tree) = Tree::find() else { return false };
    tree.of_process(pid).is_some_and(|group| {
        group.folder().ancestors().any(|at| at.file_name().is_some_and(|name| *name == *folder_name(service)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_service_is_known_by_its_name() {
        for name in ["cache", "a.b", "7"] {
            assert!(is_service(&below(Path::new("/x"), name)));
        }
        for other in
            ["giusto.cache", "giusto.cache.0", "giusto.core1", "web.service", "giusto.service", "giusto..service"]
        {
            assert!(!is_service(Path::new(other)), "{other}");
        }
    }
}
