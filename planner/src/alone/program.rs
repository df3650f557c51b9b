//! Programs that set what a plan says, and take it back.

use super::escape::comment;
use super::AloneFile;

/// Looks first, and has all go back where something fails: `stop` and `begin`. `$cores` have to be there.
pub(super) const BEGIN: &str = include_str!("scripts/begin.sh");

/// One that ends at what fails.
pub(super) fn apply(host: &str, path: &str, why: &[String], body: &str) -> AloneFile {
    program(host, path, format!("{}set -eu\ncd \"$(dirname \"$0\")\"\n{body}", comment("# ", why)))
}

/// `undo.sh`, which goes on as far as it can.
pub(super) fn undo(host: &str, why: &[String], body: &str) -> AloneFile {
    program(host, "undo.sh", format!("{}set -u\ncd \"$(dirname \"$0\")\" || exit 1\n{body}", comment("# ", why)))
}

fn program(host: &str, path: &str, text: String) -> AloneFile {
    AloneFile { executable: true, ..AloneFile::new(host, path, format!("#!/bin/sh\n{text}")) }
}

/// Cores as the engines and systemd list them, each once in their order.
pub(super) fn list(cores: &[u32], between: &str) -> String {
    let cores: std::collections::BTreeSet<u32> = cores.iter().copied().collect();
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(between)
}
