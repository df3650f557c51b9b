//! Which interface.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An interface that cannot be mistaken: names are used again, a number within a namespace's cookie is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its number in its network namespace.
    pub index: u32,
    /// The namespace, by the cookie that the kernel gave it.
    pub namespace: u64,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interface {} (number {}, namespace {})", self.name, self.index, self.namespace)
    }
}
