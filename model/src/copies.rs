//! Workers of one engine that all do the same.

use serde::{Deserialize, Serialize};

/// As many workers, each of which has the same share of a core of its own [LiH21, § 3.4.3].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copies {
    /// How many; 2 or more.
    pub count: u32,
    /// How their threads are named; `None`: they are the virtual CPUs of a virtual machine. Not written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<String>,
}

impl Copies {
    /// What Linux keeps of the name of a thread, in bytes.
    pub const NAME: usize = 15;

    /// Whether a thread of this name is one of them: the whole name, or, before a `*`, how it begins.
    pub fn has_thread(&self, name: &str) -> bool {
        match self.threads.as_deref() {
            None => false,
            Some(pattern) => match pattern.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == pattern,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_at_the_end_stands_for_any_end_and_nothing_else_does() {
        let has = |pattern: &str, name: &str| Copies { count: 2, threads: Some(pattern.into()) }.has_thread(name);
        assert!(has("worker-*", "worker-") && has("worker-*", "worker-12") && has("*", "x") && has("worker", "worker"));
        assert!(!has("worker-*", "worker") && !has("worker", "worker-1") && !has("w*r", "worker"));
        assert!(!Copies { count: 2, threads: None }.has_thread(""));
    }
}
